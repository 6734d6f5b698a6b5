"""The whole page: figures and words put into the templates, with a policy that allows nothing from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.text import NOTE, duration_text, fold
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect, Verdict
from fabric.report import templates
from fabric.report.changes import after_expectation, change_rows, number
from fabric.report.decision import ShownDecision, run_exit_code
from fabric.report.figures import inline
from fabric.report.hall import HEAD, hall_notes, hall_rows
from fabric.report.meaning import evidence, faults_line, impact_line, is_known, kept_line, meaning, part_words, stands
from fabric.report.output import counted
from fabric.report.run_figures import pictures
from fabric.report.shown_run import ShownRun
from fabric.report.table import table
from fabric.report.verdict_json import counts

MOST_SUSPECTS = 20
MOST_CHANGES = 40
SECTIONS = ("expected", "bandwidth", "sizes", "hosts", "pairs", "network", "time", "training")
"""Where figures stand, besides those of suspects."""


def page(run: ShownRun, decision: ShownDecision | None = None) -> str:
    """report.html of one run; *decision*: of a post-repair validation, whether the host may return."""
    drawn: dict[str, list[tuple[str, Markup, str]]] = {name: [] for name in SECTIONS}
    for one in pictures(run):
        drawn.setdefault(one.section, []).append((one.title, inline(one.figure), one.words))
    content = {
        **_words(run),
        "decision": decision,
        "title": _title(run, decision),
        "suspects": _suspects(run),
        "drawn": drawn,
        "data": embedded(table(run.frames)),
    }
    return templates.page("report.html.j2", templates.text_of("report.js"), **content)


def embedded(document: Any) -> Markup:
    """JSON that can stand in a script element: nothing in it can end the element or begin a comment."""
    text = orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS).decode()
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _words(run: ShownRun) -> dict[str, Any]:
    judged, verdict = run.judged, run.judged.verdict
    state = {"complete": judged.complete, "goes_on": judged.goes_on}
    changed = change_rows(verdict.changes, verdict.effects, run=judged.path, **state)
    return {
        "outcome": verdict.outcome,
        "meaning": meaning(judged),
        "faults": faults_line(verdict),
        "answer": kept_line(verdict),
        "on_purpose": _on_purpose(verdict),
        "scenario": judged.scenario,
        "hosts": counted(len(judged.scenario.hosts), "host"),
        "folded": fold(judged.scenario.hosts),
        "took": duration_text(judged.elapsed_s),
        "counts": counts(verdict),
        "probes": f"{len(verdict.probes):,}",
        "reasons": [one for one in verdict.reasons if not one.startswith(NOTE)],
        "notes": [one.removeprefix(NOTE) for one in verdict.reasons if one.startswith(NOTE)],
        "exit_code": run_exit_code(run),
        "training": impact_line(verdict.training) if verdict.training else "",
        "means": impact_line(verdict.training) if verdict.training and is_known(verdict.training) else "",
        "hall": None if verdict.hall is None else (HEAD, list(hall_rows(verdict.hall)), hall_notes(verdict.hall)),
        "judged": judged,
        "run": run,
        "outcomes": list(Outcome),
        "expectations": [
            (one, *number(one), after_expectation(one, judged.path, **state)) for one in verdict.expectations
        ],
        "changes": changed[:MOST_CHANGES],
        "more_changes": max(len(changed) - MOST_CHANGES, 0),
        "open_changes": [one.change.component for one in verdict.changes if one.state == "open"],
        "more_suspects": max(len(verdict.suspects) - MOST_SUSPECTS, 0),
        "inventory": run.inventory,
        "seed": run.document.get("seed", "") if run.simulated else "",
    }


def _title(run: ShownRun, decision: ShownDecision | None) -> str:
    """Of the window: the decision where there is one, else the outcome."""
    judged = run.judged
    word = decision.decision.value if decision and decision.decision else judged.verdict.outcome.name
    return f"{word} {judged.scenario.name} {judged.run_id}"


def _on_purpose(verdict: Verdict) -> str:
    """How much was altered, whether it is back, and what became of the expectations, in one line."""
    said = []
    if verdict.changes:
        back = sum(one.state == "reverted" for one in verdict.changes)
        many = len(verdict.changes)
        said.append(f"{counted(many, 'change')} made on purpose, {'all' if back == many else back} taken back")
    if verdict.expectations:
        met = sum(one.outcome is Outcome.PASS for one in verdict.expectations)
        said.append(f"{met} of {len(verdict.expectations)} expectations met")
    return "; ".join(said)


class ShownSuspect(NamedTuple):
    """A suspect in *words*, *where* it stands, what was *seen* of it, and the *rows* that the table has of it."""

    suspect: Suspect
    evidence: Sequence[str]
    words: str
    where: str
    seen: str
    rows: str


def _suspects(run: ShownRun) -> Sequence[ShownSuspect]:
    shown = run.judged.verdict.suspects[:MOST_SUSPECTS]
    known = {row["part"]: row for row in run.frames.suspects.to_dict("records")} if shown else {}
    return [
        ShownSuspect(
            one,
            evidence(one),
            part_words(one.component, one.kind),
            "; ".join(filter(None, (_slot(one, run.inventory.topology), stands(known.get(one.component, {}))))),
            _seen(known.get(one.component, {})),
            _rows_of(one),
        )
        for one in shown
    ]


def _slot(suspect: Suspect, topology: Topology) -> str:
    """``NUMA 0, PCIe switch pcie1`` of an RNIC or a GPU."""
    part = Part.of(suspect.component)
    if part.host not in topology.hosts:
        return ""
    platform = topology.hosts[part.host].platform
    found = platform.rnic_by_device.get(part.device) or {gpu.name: gpu for gpu in platform.gpus}.get(part.device)
    if found is None:
        return ""
    return f"NUMA {found.numa}" + (f", PCIe switch {found.pcie_switch}" if found.pcie_switch else "")


_INSIDE = ("rnic", "path", "link", "gpu", "gpu_pcie", "numa")


def _rows_of(suspect: Suspect) -> str:
    """What is asked of the table: the host and the device in it."""
    if suspect.kind in _INSIDE and "/" in suspect.component:
        part = Part.of(suspect.component)
        return f"{part.host}/{part.device}"
    return suspect.hosts[0] if suspect.hosts else ""


def _seen(row: Mapping[str, Any]) -> str:
    """``worst 237 of 397 Gb/s (-40 %), in 100 % of the probes through it``, as far as it is known."""
    worst, normal, rate = (row.get(name, float("nan")) for name in ("worst_gbps", "normal_gbps", "rate"))
    said = []
    if worst == worst and normal == normal and normal:
        said.append(f"worst {worst:,.0f} of {normal:,.0f} Gb/s ({100 * (worst / normal - 1):+.0f} %)")
    if rate == rate:
        said.append(f"bad in {rate:.0%} of the probes through it")
    return ", ".join(said)
