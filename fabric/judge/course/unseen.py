"""Cables between switches that nothing looked at any more while the rounds went on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fabric.judge.locate.candidates import crosses_leaves
from fabric.judge.normal.keys import SAME_LEAF, link_class
from fabric.judge.ports.links import UNSEEN
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.probes import routes


def unseen_uplinks(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], phases: Sequence[Phase], topology: Topology
) -> list[str]:
    """
    In words, from which hour of a run with several rounds on nobody looked whether the cables between switches are up.

    Only the state of ports shows a cable or a switch above the leaves that died (iblinkinfo, which ``localise`` reads
    where paths are static): routes go around it, so that probes across leaves are as fast as before, or nearly.
    Nothing is said when it was read in the last round, where the inventory lists no such cables, or of rounds that do
    not fill a time: they compare something, and watch over nothing.
    """
    rounds = Counter((phase.written, phase.where) for phase in phases)
    repeated = {phase.name for phase in phases if phase.fills and rounds[phase.written, phase.where] > 1}
    upper = {name for uplinks in topology.uplinks for name in uplinks.upper}
    if not upper or not repeated:
        return []
    ran = [(probe, results[probe.probe_id]) for probe in probes if probe.probe_id in results]
    ends = [result.ended_s for probe, result in ran if probe.phase in repeated]
    if not ends:
        return []
    last = max((result.started_s, probe.phase) for probe, result in ran if probe.phase in repeated)[1]
    if any(probe.kind == routes.KIND and probe.phase == last for probe, _ in ran):
        return []
    read_s = max((result.ended_s for probe, result in ran if probe.kind == routes.KIND), default=None)
    sent_s = max((result.ended_s for probe, result in ran if _crosses(probe, topology)), default=None)
    count = sum(uplinks.count * len(uplinks.lower) * len(uplinks.upper) for uplinks in topology.uplinks)
    end = _hours(max(ends))
    looked = f"was never looked at in the {end} of the run"
    if read_s is not None:
        looked = f"was not looked at between {_hours(read_s)} and {end} of the run"
    crossed = (
        "nothing was sent across them" if sent_s is None else f"the last that crossed them ended at {_hours(sent_s)}"
    )
    return [
        f"{UNSEEN}{count:,} cables between switches (to {fold(sorted(upper))}) are up {looked}, "
        f"and {crossed}; routes go around a dead switch or cable, so no probe shows it: "
        "read the state of their ports (InfiniBand: iblinkinfo); where routes are static, `localise: {paths: static}` "
        "on the repeated phase does"
    ]


def _crosses(probe: Probe, topology: Topology) -> bool:
    """Whether its bytes leave the leaf; one of which that is not known does not count."""
    between = crosses_leaves(probe) or len(probe.hosts) > 1
    return between and link_class(probe, topology) not in (SAME_LEAF, None)


def _hours(at_s: float) -> str:
    return f"{at_s / 3600.0:.1f} h"
