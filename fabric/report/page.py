"""report.html: figures and text in one page that loads nothing from outside; its figures also go to files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.report import figures, templates
from fabric.report.decision import decision_of, run_exit_code
from fabric.report.figures.configurations import compared_kinds, side_by_side
from fabric.report.figures.maps import MOST_HOSTS, pair_kinds, worst
from fabric.report.shown_run import ShownRun
from fabric.report.shown_verdict import shown_verdict
from fabric.report.table import table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_EVIDENCE = 6
"""The most suspects with a figure of their evidence; others have only text (a choice: a page that opens at once)."""

_MOST_KINDS = 4
_MOST_BAD = 24
_OF_A_SUSPECT = 4


class Picture(NamedTuple):
    """One figure: its *section*, the *name* of its files, its *title*, and how to read it (*words*)."""

    section: str
    name: str
    title: str
    words: str
    figure: Figure


def pictures(run: ShownRun) -> Iterator[Picture]:
    """Yield the figures in the order of the page; a figure with nothing to show is left out."""
    for part in (_suspects, _bandwidth, _hall, _hosts, _pairs, _time):
        yield from part(run)


def _drawn(section: str, name: str, title: str, words: str, figure: Figure | None) -> Iterator[Picture]:
    """Yield the picture; nothing if the figure has nothing to show."""
    if figure is not None:
        yield Picture(section, name, title, words, figure)


def _suspects(run: ShownRun) -> Iterator[Picture]:
    """Yield the evidence of each suspect, and for one inside a host what all its loopbacks reached."""
    hosts: dict[str, None] = {}
    for number, suspect in enumerate(run.judged.verdict.suspects[:MOST_EVIDENCE], start=1):
        section = f"suspect-{number}"
        accused = [one for one in run.judged.verdict.probes if one.probe_id in suspect.probes]
        good = all(one.outcome.is_good for one in accused) and any(one.value_gbps is not None for one in accused)
        words = _GOOD_ALONE if good else "Signs: what did not pass."
        evidence = figures.evidence(run.frames, suspect.component, suspect.probes)
        yield from _drawn(section, section, "", words, evidence)
        light = figures.light(run.frames, suspect.component)
        yield from _drawn(section, f"light-{number}", "", "What each lane receives, by lane number.", light)
        host = Part.of(suspect.component).host
        if suspect.kind in ("rnic", "path", "numa", "gpu_pcie", "pcie_switch") and host not in hosts:
            hosts[host] = None
            matrix = figures.loopback(run.frames, host, below=0.95)
            yield from _drawn(section, f"loopback-{number}", "", "From each RNIC to each memory and GPU.", matrix)


_GOOD_ALONE = "All of these met what is required: the evidence is in the lines above, not in the bandwidth."


def _bandwidth(run: ShownRun) -> Iterator[Picture]:
    """Yield bandwidths with adaptive routing off and on, if a matrix compares them."""
    as_shown = "As figure 12{} of arXiv 2410.21680 shows it" + (", simulated." if run.simulated else ".")
    for kind in compared_kinds(run.frames)[:_MOST_KINDS]:
        if side_by_side(run.frames, kind):
            words = f"Dot: the mean of one ring, sorted. Box: the middle half; line: median. {as_shown.format('b')}"
            title = f"{kind}: rings at the same time, adaptive routing off and on"
            yield from _drawn("bandwidth", f"rings-{kind}", title, words, figures.rings(run.frames, kind))
        else:
            words = f"Bar: mean. Dot: one iteration. Line: standard deviation. {as_shown.format('a')}"
            title = f"{kind}: adaptive routing off and on"
            yield from _drawn("bandwidth", f"bars-{kind}", title, words, figures.bars(run.frames, kind))


def _hall(run: ShownRun) -> Iterator[Picture]:
    import pandas as pd

    hall = run.judged.verdict.hall
    points = [(one.kind, one.hosts, one.gbps, one.bound_gbps) for one in hall.points] if hall is not None else []
    columns = {"kind": object, "hosts": int, "gbps": float, "bound_gbps": float}
    frame = pd.DataFrame(points, columns=list(columns)).astype(columns)
    yield from _drawn("hall", "scaling", "", "", figures.scaling(frame))


def racks_of(topology: Topology, hosts: Sequence[str]) -> dict[str, list[str]]:
    """Return hosts by rack, in inventory order; by their leaves if the inventory gives no rack."""
    named = ((name, topology.hosts[name]) for name in hosts)
    return gathered((host.rack or (host.leaves[0] if host.leaves else "hosts"), name) for name, host in named)


def _hosts(run: ShownRun) -> Iterator[Picture]:
    """Yield all hosts; if they are many, a square each, and rows only for those of suspects and the worst others."""
    found = worst(run.frames)
    hosts = run.judged.scenario.hosts
    only: list[str] | None = None
    if len(hosts) > MOST_HOSTS:
        words = "A block is a rack, a square a host with the colour of its worst measurement."
        squares = figures.hall(run.frames, racks_of(run.past.inventory.topology, hosts), known=found)
        yield from _drawn("hosts", "hall", f"All {len(hosts):,} hosts", words, squares)
        named = [host for one in run.judged.verdict.suspects for host in one.hosts[:_OF_A_SUSPECT]]
        bad = found[~found["outcome"].isin(["pass", "skipped"])].sort_values("share")["host"]
        only = list(islice(dict.fromkeys((*named, *bad)), _MOST_BAD))
    title = "Hosts that did not pass" if only is not None else ""
    words = "The worst of the whole run, over the median of all hosts; of what two measured together the median."
    yield from _drawn("hosts", "hosts", title, words, figures.hosts(run.frames, only, known=found))


def _pairs(run: ShownRun) -> Iterator[Picture]:
    """
    Yield a map for each kind that two hosts measure together; a ring marks what a suspected network part explains.
    """
    network = [one for one in run.judged.verdict.suspects if not one.hosts and one.probes]
    through: Sequence[str] = ()
    if network:
        passed = run.frames.parts
        through = passed.loc[passed["part"].isin([one.component for one in network]), "probe"]
    crossed = {*through, *(probe for one in network for probe in one.probes)}
    ringed = ", ".join(one.component for one in network[:3])
    words = "The least over rails and rounds, over the upper quartile of all pairs of the same rail"
    words += f"; ringed: over {ringed}." if ringed else "."
    for kind in pair_kinds(run.frames)[:_MOST_KINDS]:
        yield from _drawn("pairs", f"pairs-{kind}", kind, words, figures.pairs(run.frames, kind, crossed))


def _time(run: ShownRun) -> Iterator[Picture]:
    clock = "simulated time" if run.simulated else "the run's own clock"
    words = f"100 %: what its peers gave, else the same without a fault, else what is required; {clock}."
    yield from _drawn("time", "timeline", "", words, figures.timeline(run.frames))
    carried = figures.load(run.frames)
    yield from _drawn("time", "load", "Load of cables between switches", "As both of their ends counted it.", carried)
    grew = figures.counters(run.frames, [host for one in run.judged.verdict.suspects for host in one.hosts])
    yield from _drawn("time", "counters", "Counters that grew", "Those of suspects first.", grew)


MOST_SUSPECTS = 20
MOST_CHANGES = 40
SECTIONS = {
    "hosts": "Hosts and their parts",
    "pairs": "Host by host",
    "time": "Time line",
}
"""Sections that consist only of figures, in the order of the page."""


def page(run: ShownRun) -> str:
    """Return report.html of one run."""
    drawn: defaultdict[str, list[tuple[str, Markup, str]]] = defaultdict(list)
    for one in pictures(run):
        drawn[one.section].append((one.title, figures.inline(one.figure), one.words))
    judged, decision = run.judged, decision_of(run)
    word = decision.decision.value if decision and decision.decision else judged.verdict.outcome.name
    return templates.page(
        "report.html.j2",
        templates.text_of("report.js"),
        run=run,
        judged=judged,
        shown=shown_verdict(judged),
        decision=decision,
        title=f"{word} {judged.scenario.name} {judged.run_id}",
        slot=lambda one: _slot(one, run.past.inventory.topology),
        drawn=drawn,
        sections=SECTIONS.items(),
        data=table(run.frames),
        outcomes=list(Outcome),
        exit_code=run_exit_code(run),
        seed=run.past.document.get("seed", "") if run.simulated else "",
        most_suspects=MOST_SUSPECTS,
        most_changes=MOST_CHANGES,
    )


def _slot(suspect: Suspect, topology: Topology) -> str:
    """Return ``NUMA 0, PCIe switch pcie1`` for an RNIC or a GPU."""
    part = Part.of(suspect.component)
    if part.host not in topology.hosts:
        return ""
    platform = topology.hosts[part.host].platform
    found = platform.rnic_by_device.get(part.device) or platform.gpu_by_name.get(part.device)
    if found is None:
        return ""
    return f"NUMA {found.numa}" + (f", PCIe switch {found.pcie_switch}" if found.pcie_switch else "")
