"""The whole page: figures and words put into the templates, with a policy that allows nothing from outside."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import orjson
from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.report import templates
from fabric.report.decision import ShownDecision, decision_of, run_exit_code
from fabric.report.figures import inline
from fabric.report.run_figures import pictures
from fabric.report.shown_run import ShownRun
from fabric.report.shown_verdict import shown_verdict
from fabric.report.table import table

MOST_SUSPECTS = 20
MOST_CHANGES = 40
SECTIONS = {
    "hosts": "Hosts and their parts",
    "pairs": "Host by host",
    "time": "Time line",
}
"""Those that are figures and nothing else, in the order of the page."""


def page(run: ShownRun) -> str:
    """report.html of one run."""
    drawn: defaultdict[str, list[tuple[str, Markup, str]]] = defaultdict(list)
    for one in pictures(run):
        drawn[one.section].append((one.title, inline(one.figure), one.words))
    judged, decision = run.judged, decision_of(run)
    content = {
        "run": run,
        "judged": judged,
        "told": shown_verdict(judged),
        "decision": decision,
        "title": _title(run, decision),
        "slot": lambda one: _slot(one, run.inventory.topology),
        "drawn": drawn,
        "sections": SECTIONS.items(),
        "data": embedded(table(run.frames)),
        "outcomes": list(Outcome),
        "exit_code": run_exit_code(run),
        "seed": run.document.get("seed", "") if run.simulated else "",
        "most_suspects": MOST_SUSPECTS,
        "most_changes": MOST_CHANGES,
    }
    return templates.page("report.html.j2", templates.text_of("report.js"), **content)


def embedded(document: Any) -> Markup:
    """JSON that can stand in a script element: nothing in it can end the element or begin a comment."""
    text = orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS).decode()
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _title(run: ShownRun, decision: ShownDecision | None) -> str:
    """Of the window: the decision where there is one, else the outcome."""
    judged = run.judged
    word = decision.decision.value if decision and decision.decision else judged.verdict.outcome.name
    return f"{word} {judged.scenario.name} {judged.run_id}"


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
