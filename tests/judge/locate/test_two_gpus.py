"""Two slow parts of one host are told apart by level; what cannot be told apart is named as such."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fabric.model.outcome import Outcome
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from tests.builders import suspects


def slow_gpus(rack: Topology, levels: Mapping[int, float]) -> tuple[Suspect, ...]:
    """Suspects when these GPUs of gpu001 hold every all-to-all that they take part in to their level (Gb/s)."""
    probes = expand_phase(Phase("p", (AllToAllSpec(),)), rack, tuple(rack.hosts))
    verdicts = {}
    for probe in probes:
        gpus = probe.params["gpus"] if probe.hosts == ("gpu001",) else ()
        assert isinstance(gpus, tuple)
        value = min([levels[gpu] for gpu in gpus if gpu in levels], default=2700.0)
        outcome = Outcome.FAIL if value < 2432 else Outcome.PASS
        verdicts[probe.probe_id] = ProbeVerdict(probe.probe_id, outcome, "", value, 2432)
    return suspects(probes, verdicts, topology=rack, outcome=Outcome.FAIL)


@pytest.mark.parametrize("pair", [(a, b) for a in range(8) for b in range(8) if a < b])
def test_two_gpus_at_different_levels_are_both_named(rack: Topology, pair: tuple[int, int]) -> None:
    """Two slow NVLinks, one slower than the other: one of them or their host is named, and no healthy GPU alone."""
    found = slow_gpus(rack, {pair[0]: 1300.0, pair[1]: 1900.0})
    allowed = {
        "gpu001",
        "gpu001/nvlink",
        *(f"gpu001/gpu{gpu}" for gpu in pair),
    }  # nothing here tells a GPU from its NVLink
    assert found
    assert all(allowed & {one.component, *one.ambiguous_with} for one in found)


def test_two_gpus_at_one_level_stay_ambiguous(rack: Topology) -> None:
    """1 and 2 make the same halves slow as 0 and 3: the verdict names all four and is sure of none."""
    found = slow_gpus(rack, {1: 1300.0, 2: 1300.0})
    named = {name.removesuffix(":nvlink") for suspect in found for name in (suspect.component, *suspect.ambiguous_with)}
    assert named <= {"gpu001", "gpu001/nvlink", *(f"gpu001/gpu{gpu}" for gpu in range(4))}
