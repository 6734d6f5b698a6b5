"""The answer of ``fabric simulate`` as text and as a JSON document; both say that it is simulated."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from fabric.model.text import fold, some
from fabric.report import templates
from fabric.report.output import columns, jsonable
from fabric.sim.faults import LinkFault
from fabric.sim.net.named_clos import NamedClos
from fabric.sim.net.route import AR_ALPHA, AR_ETA
from fabric.sim.phy.quality import LinkQuality
from fabric.sim.what_if import PER_JOB, EngineResult, Question, Shares, WhatIf

_NAMES_MOST = 8


def what_if_text(answer: WhatIf) -> str:
    """Return what was asked, a table of shares by routing engine, the busiest links, and what the model assumes."""
    question = answer.question
    rows = [_row(result) for result in answer.engines]
    heads = [name for name in _HEADS if any(row.get(name) for row in rows)]
    shares = [heads, *([row.get(name, "") for name in heads] for row in rows)]
    return templates.text(
        "what_if.txt.j2",
        answer=answer,
        question=question,
        per="job" if question.pattern in PER_JOB else "flow",
        hosts=_host_names(question),
        fill=_fill(question),
        faults=[(one, _quality(one, answer), _links(one, question.net)) for one in question.faults],
        shares=columns(shares, range(1, len(heads)), gap="    "),
        assumptions=_assumptions(question),
    )


def what_if_document(answer: WhatIf) -> dict[str, Any]:
    """Return the same as plain JSON values, with every faulty link by name."""
    question, (emptiest, fullest) = answer.question, _fill(answer.question)
    spec = question.net.clos.spec
    return {
        "simulated": True,
        "inventory": question.inventory,
        "traffic": question.pattern,
        "hosts": fold(_host_names(question)),
        "host_count": len(question.hosts),
        **jsonable(question, ("order", "qps", "seeds", "seed")),
        "network": {
            "levels": spec.levels,
            "leaves": question.net.clos.leaves,
            "rnics_per_leaf": spec.down,
            "uplinks_per_leaf": spec.up,
            **jsonable(spec, ("rails", "line_rate_gbps", "uplink_gbps")),
            "link_layer": question.link_layer,
            "fullest_leaf_rnics": fullest,
            "emptiest_leaf_rnics": emptiest,
        },
        "faults": [_fault_document(fault, answer) for fault in question.faults],
        "per": "job" if question.pattern in PER_JOB else "flow",
        "engines": [_engine_document(result) for result in answer.engines],
        "model": list(_assumptions(question)),
    }


def _engine_document(result: EngineResult) -> dict[str, Any]:
    return {
        "routing": result.engine,
        "share_of_line_rate": _shares_document(result.shares),
        "healthy": result.healthy and _shares_document(result.healthy),
        "busiest": [{**asdict(busy), "ratio": busy.ratio} for busy in result.busiest],
    }


def _shares_document(shares: Shares) -> dict[str, Any]:
    return {"min" if key == "least" else key: value for key, value in asdict(shares).items()}


def _fault_document(fault: LinkFault, answer: WhatIf) -> dict[str, Any]:
    found = _quality(fault, answer)
    return {
        "fault": fault.text,
        "kind": fault.kind,
        "value": fault.value if fault.kind != "down" else None,
        "links": [answer.question.net.link_names[link] for link in fault.links],
        **({"capacity_factor": None, "loss": None} if found is None else jsonable(found, ("capacity_factor", "loss"))),
    }


def _links(fault: LinkFault, net: NamedClos) -> str:
    """Return the links of a fault; a cable with both directions at fault is written once, with ``--``."""
    names = dict.fromkeys(net.link_names[link] for link in fault.links)
    shown: dict[str, None] = {}
    for name in names:
        one, _, other = name.partition("->")
        if f"{other}->{one}" not in names:
            shown[name] = None
        elif f"{other}--{one}" not in shown:
            shown[f"{one}--{other}"] = None
    return some(list(shown), _NAMES_MOST)


def _quality(fault: LinkFault, answer: WhatIf) -> LinkQuality | None:
    return next((found for one, found in answer.state.quality if one is fault), None)


_HEADS = ("routing", "mean", "median", "p5", "min", "CV", "healthy mean", "kept", "got nothing")


def _row(result: EngineResult) -> dict[str, str]:
    """Return the cells of a row by column head; a column that is empty in all rows is left out."""
    shares, healthy = result.shares, result.healthy
    numbers = {"mean": shares.mean, "median": shares.median, "p5": shares.p5, "min": shares.least}
    row = {"routing": result.engine, **{name: f"{value:.3f}" for name, value in numbers.items()}}
    row["CV"] = "-" if shares.cv is None else f"{shares.cv:.2f}"
    if healthy is not None:
        row["healthy mean"] = f"{healthy.mean:.3f}"
        row["kept"] = f"{shares.mean / healthy.mean:.0%}" if healthy.mean else "-"
    return row | ({"got nothing": f"{shares.stalled:,}"} if shares.stalled else {})


def _assumptions(question: Question) -> Iterator[str]:
    """Yield what a reader has to know before using a number."""
    yield "steady flows that share links max-min fairly; no latency, start-up or small messages"
    yield "flows that collide do 16 to 20 % worse still in packet-level simulators (head-of-line blocking, PFC)"
    if question.pattern in PER_JOB:
        yield "a job runs at the rate of its slowest edge"
    if "ar" in question.engines:
        knows = AR_ALPHA[question.link_layer] > 0
        far = (
            "knows how full the far side is" if knows else "does not know the far side: a slow link to a leaf slows all"
        )
        yield f"ar: reaches {AR_ETA:g} of a trunk; a switch on {question.link_layer} {far}"
    if any(fault.kind == "down" for fault in question.faults):
        yield "links that are down: after the routes around them are in place, not while they are missing"
    yield "docs/simulate.md: how to read this, and where it does not apply"


def _host_names(question: Question) -> list[str]:
    return [name for host in question.hosts if (name := question.net.hosts[host]) is not None]


def _fill(question: Question) -> tuple[int, int]:
    """Return the fewest and the most RNICs that take part under a leaf that has any."""
    clos = question.net.clos
    rails = range(clos.spec.rails)
    counts = Counter(int(clos.leaf_at[clos.nic_at[host, rail]]) for host in question.hosts for rail in rails)
    return min(counts.values()), max(counts.values())
