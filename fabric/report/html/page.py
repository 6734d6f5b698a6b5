"""The whole page: pictures and words put into the templates, with a policy that allows nothing from outside."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.text import NOTE, duration_text, fold
from fabric.model.verdict import Suspect, Verdict
from fabric.report.changes import after_expectation, change_lines, number
from fabric.report.decision import ShownDecision, run_exit_code
from fabric.report.hall import HEAD, hall_notes, hall_rows
from fabric.report.html import configurations, fabric_map, heat, link_load, pairs, pcie_tree, strip, timeline
from fabric.report.html.columns import table
from fabric.report.html.shares import medians
from fabric.report.html.timeline import levels
from fabric.report.meaning import headline, impact_line, is_known, meaning
from fabric.report.output import visible
from fabric.report.shown_run import ShownRun
from fabric.report.side_by_side import SideBySide
from fabric.report.verdict_json import counts

MOST_SUSPECTS = 20
_MOST_TREES = 6
_MOST_BAD = 24
_OF_A_SUSPECT = 4
_GOOD_ALONE = "All of these met what is required: the evidence is in the lines above, not in the bandwidth."


def page(run: ShownRun, decision: ShownDecision | None = None) -> str:
    """report.html of one run; *decision*: of a post-repair validation, whether the host may return."""
    normal = medians(run)
    script, found, timed = _file("report.js"), heat.heat_map(run, normal), levels(run)
    content = {
        **_words(run),
        "decision": decision,
        "title": _title(run, decision),
        "suspects": _suspects(run, found),
        "trees": _trees(run),
        "heat": _heat(run, found),
        "pairs": [(one, pairs.draw(one)) for one in pairs.pair_matrices(run)[:6]],
        "topology": fabric_map.draw(run),
        "loads": [(one.name or "rings", one.caption, link_load.draw(one)) for one in link_load.link_loads(run)],
        "timeline": timeline.draw(run, timed),
        "timeline_caption": timeline.caption(run, timed),
        "expected": strip.draw(run),
        "data": embedded(table(run, normal)),
        **_charts(run),
    }
    return rendered("report.html.j2", script, content)


def compared_page(found: SideBySide) -> str:
    """Several runs side by side; no script in it."""
    content = {"runs": found.runs, "suspects": found.suspects, "bandwidths": found.bandwidths, "notes": found.notes}
    return rendered("compare.html.j2", "", content)


def rendered(template: str, script: str, content: dict[str, Any]) -> str:
    """A template with the style and a script that its policy names by hash."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=PackageLoader("fabric.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script_policy = f"script-src 'sha256-{digest}'" if script else "script-src 'none'"
    policy = f"default-src 'none'; style-src 'unsafe-inline'; {script_policy}; base-uri 'none'; form-action 'none'"
    return environment.get_template(template).render(
        policy=Markup(policy),
        style=Markup(_file("report.css")),
        script=Markup(script),
        **content,
    )


def embedded(document: Any) -> Markup:
    """JSON that can stand in a script element: nothing in it can end the element or begin a comment."""
    text = orjson.dumps(document).decode()
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _harmless(value: Any) -> Any:
    """What a template prints: escaped by autoescape, and before that without what hides or reverses letters."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _file(name: str) -> str:
    return files("fabric.report.html").joinpath("templates", name).read_text("utf-8")


def _words(run: ShownRun) -> dict[str, Any]:
    judged, verdict = run.judged, run.judged.verdict
    state = {"complete": judged.complete, "goes_on": judged.goes_on}
    return {
        "outcome": verdict.outcome,
        "meaning": meaning(judged),
        "headline": headline(verdict),
        "on_purpose": _on_purpose(verdict),
        "scenario": judged.scenario,
        "hosts": f"{len(judged.scenario.hosts):,} host{'s' if len(judged.scenario.hosts) != 1 else ''}",
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
        "change_lines": list(change_lines(verdict.changes, verdict.effects, run=judged.path, **state)),
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
        said.append(
            f"{many} change{'s' if many != 1 else ''} made on purpose, {'all' if back == many else back} taken back"
        )
    if verdict.expectations:
        met = sum(one.outcome is Outcome.PASS for one in verdict.expectations)
        said.append(f"{met} of {len(verdict.expectations)} expectations met")
    return "; ".join(said)


def _suspects(run: ShownRun, found: heat.HeatMap) -> list[tuple[Suspect, Markup | None, str]]:
    """Each with its evidence: numbers against peers, or, where nothing was measured, the map of its hosts."""
    shown = run.judged.verdict.suspects[:MOST_SUSPECTS]
    rows = [row for one in shown for probe in one.probes if (row := run.row_of.get(probe)) is not None]
    measured = strip.elsewhere(rows, run) if rows else {}
    evidence = [(one, strip.evidence(one, run, measured)) for one in shown]
    return [
        (one, picture, _GOOD_ALONE if strip.good_alone(one, run) else "") if picture else (one, *_map_of(one, found))
        for one, picture in evidence
    ]


def _map_of(suspect: Suspect, found: heat.HeatMap) -> tuple[Markup | None, str]:
    """The picture, and what it is: colours alone would look like evidence where nothing was slow."""
    hosts = [host for host in suspect.hosts[:4] if host in found.cells]
    if not hosts:
        return None, ""
    said = f"What {fold(hosts)} measured alone, in the colours of Hosts and their parts"
    clean = all(cell.outcome is Outcome.PASS for host in hosts for cell in found.cells[host].values())
    words = f"{said}: all of it passed. The evidence is in the lines above." if clean else f"{said}."
    return heat.draw(found, hosts, f"what {fold(hosts)} measured"), words


def _trees(run: ShownRun) -> dict[str, Markup]:
    """By host, for the first hosts with a suspect inside."""
    found: dict[str, list[Suspect]] = {}
    for suspect in run.judged.verdict.suspects[:MOST_SUSPECTS]:
        host = Part.of(suspect.component).host
        if suspect.kind in pcie_tree.INSIDE and host in run.inventory.topology.hosts:
            found.setdefault(host, []).append(suspect)
    return {
        host: pcie_tree.draw(host, run.inventory.topology.hosts[host].platform, members, run)
        for host, members in list(found.items())[:_MOST_TREES]
    }


def _heat(run: ShownRun, found: heat.HeatMap) -> dict[str, Any] | None:
    """All hosts, or of many the racks and the first hosts that did not pass."""
    if not found.columns:
        return None
    hosts = run.judged.scenario.hosts
    by_median = len(hosts) >= 3
    if len(hosts) <= heat.MOST_HOSTS:
        return {"racks": None, "map": heat.draw(found, hosts, "all hosts"), "unfold": [], "by_median": by_median}
    worst = {host: heat.worst_share(own.values()) for host, own in found.cells.items()}
    racks = heat.racks_of(run.inventory.topology, hosts)
    bad = _worst_first(run, worst)
    return {
        "racks": heat.draw_racks(racks, worst),
        "map": heat.draw(found, bad, "hosts that did not pass") if bad else None,
        "unfold": embedded([[visible(rack), list(members)] for rack, members in racks.items()]),
        "by_median": by_median,
    }


def _worst_first(run: ShownRun, worst: dict[str, tuple[float | None, Outcome]]) -> list[str]:
    """The first hosts of every suspect, then the worst of the rest."""
    named = [host for suspect in run.judged.verdict.suspects for host in suspect.hosts[:_OF_A_SUSPECT] if host in worst]
    bad = [host for host, (_, outcome) in worst.items() if outcome.rank > Outcome.SKIPPED.rank]
    bad.sort(key=lambda host: (-worst[host][1].rank, worst[host][0] or 0.0))
    return list(dict.fromkeys([*named[:_MOST_BAD], *bad]))[:_MOST_BAD]


def _charts(run: ShownRun) -> dict[str, Any]:
    collected = configurations.collected(run)
    kinds = dict.fromkeys(one.kind for one in collected)
    by_kind = {kind: [one for one in collected if one.kind == kind] for kind in kinds}
    sizes = [
        (kind, chart) for kind, members in by_kind.items() if (chart := configurations.draw(kind, members)) is not None
    ]
    routed = {kind: members for kind, members in by_kind.items() if configurations.asked_for(members)}
    return {
        "sizes": sizes,
        "bars": [(kind, configurations.bars(members, simulated=run.simulated)) for kind, members in routed.items()],
        "rings": [
            (kind, configurations.rings(members, simulated=run.simulated))
            for kind, members in routed.items()
            if all(len(one.by_group) > 1 for one in members)
        ],
    }
