"""Of all-to-alls inside hosts the GPU is named that the slower ones have in common, or the host."""

from __future__ import annotations

import random

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.judge.compare import compare_runs
from fabric.model.comparison import Difference
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from tests.judge.compare.test_changed import compared, named, run

HALVES = AllToAllSpec(sizes_bytes=(1 << 30,))
BAD = "gpu003/gpu5"


def slow_gpu(probe: Probe) -> float:
    """Every set of GPUs that gpu5 of gpu003 is in has lost a fifth."""
    gpus = probe.params["gpus"]
    assert isinstance(gpus, tuple)
    return 0.8 if probe.hosts == ("gpu003",) and 5 in gpus else 1.0


@pytest.mark.parametrize(("healed", "change"), [(False, Difference.WORSE), (True, Difference.BETTER)])
def test_a_gpu_whose_nvlink_changed_is_named_and_no_other(healed: bool, change: Difference) -> None:
    """It is in four of the seven sets of its host, and any two GPUs share half of those."""
    found = compared(HALVES, bad=slow_gpu, healed=healed)
    assert named(found, change) == [BAD]
    assert named(found, Difference.INCONCLUSIVE) == []


def test_all_gpus_of_a_host_slower_are_the_host() -> None:
    """Two GPUs that complete each other would explain the halves as well, and are two."""
    found = compared(HALVES, bad=lambda probe: 0.8 if probe.hosts == ("gpu003",) else 1.0)
    assert named(found, Difference.WORSE) == ["gpu003"]


def test_one_set_that_was_slow_once_is_to_be_measured_again() -> None:
    """Every GPU of it is well in other sets."""
    found = compared(HALVES, bad=lambda probe: 0.8 if probe.probe_id.endswith("gpu003/all_to_all.bit1-0") else 1.0)
    assert named(found, Difference.WORSE) == []
    assert named(found, Difference.INCONCLUSIVE) == ["gpu003/bit1-0"]


def test_a_gpu_that_is_gone_is_named_without_a_number() -> None:
    """The fabric failed every set that it is in."""
    found = compared(HALVES, bad=lambda probe: float(slow_gpu(probe) == 1.0))
    assert named(found, Difference.WORSE) == [BAD]


def test_the_sets_are_as_the_probes_have_them() -> None:
    """Seven of each host, and the bad GPU in four."""
    probes, _ = run(HALVES, factor=lambda probe: 1.0, seed=1)
    mine = [probe for probe in probes if probe.hosts == ("gpu003",)]
    assert (len(mine), sum(slow_gpu(probe) < 1.0 for probe in mine)) == (7, 4)


def noisy(seed: int) -> tuple[list[Probe], dict[str, ProbeResult]]:
    """Eight healthy hosts with a CV of 3 %, and one number in fifty a dip of 5 to 30 %."""
    spec, draw = AllToAllSpec(), random.Random(seed)
    topology = rack_topology(8)
    probes = list(expand_phase(Phase("p", (spec,)), topology, tuple(topology.hosts)))
    results = {}
    for probe in probes:
        rows = []
        for size in spec.sizes_bytes:
            dip = draw.uniform(0.05, 0.3) if draw.random() < 0.02 else 0.0
            value = 480.0 * draw.gauss(1.0, 0.03) * (1 - dip)
            rows += [
                Measurement(probe.probe_id, f"busbw_{place}", value, "Gb/s", size)
                for place in ("out_of_place", "in_place")
            ]
        results[probe.probe_id] = ProbeResult(probe.probe_id, 1, tuple(rows), None, "", 0, 1)
    return probes, results


@pytest.mark.parametrize("seed", [11, 23])
def test_two_dips_in_noisy_numbers_make_no_gpu_worse(seed: int) -> None:
    """A GPU is in four sets only: two of them that dipped are as far out as the noise of all allows."""
    found = compare_runs(noisy(2 * seed), noisy(2 * seed + 1), topology=rack_topology(8))
    assert named(found, Difference.WORSE) == []
