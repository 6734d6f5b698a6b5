"""Which probes were measured beyond the plan, because something was slow: they say nothing of the fabric as a whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fabric.model.probe import Probe
from fabric.probes.pairwise import PairwiseSpec
from fabric.report.shown_run import ShownRun


class TargetedRounds:
    """The further rounds of a phase that localises: mostly pairs that cross a part under suspicion."""

    def __init__(self, run: ShownRun) -> None:
        self._planned: Mapping[str, Mapping[str, int]] = {
            phase.name: {spec.name: spec.first + spec.rounds for spec in phase.probes if isinstance(spec, PairwiseSpec)}
            for phase in run.judged.scenario.phases
            if phase.localise is not None
        }

    @property
    def phases(self) -> Collection[str]:
        """The phases that may have such rounds."""
        return self._planned.keys()

    def has(self, probe: Probe) -> bool:
        """Whether it is of a round after the planned ones (a probe's rounds count from 0)."""
        rounds = self._planned.get(probe.phase)
        if rounds is None:
            return False
        number, planned = probe.params.get("round"), rounds.get(str(probe.params.get("name")))
        return isinstance(number, int) and planned is not None and number >= planned
