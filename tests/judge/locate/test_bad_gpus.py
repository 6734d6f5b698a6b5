"""When an ERROR of a GPU is the GPU, and when it may be the driver, the inventory or us."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.judge.locate.gpus import with_bad_gpus
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, Probe
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from tests.builders import failure_in, suspects

INTRA = Phase("intra-host", (LoopbackSpec(), RnicToRnicSpec(), AllToAllSpec()))
UNHANDLED = "gpu002: Test NCCL failure common.cu:1279 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '"
OUT_OF_MEMORY = "gpu002: Test CUDA failure common.cu:1030 'out of memory'"
Says = Callable[[Probe], str | float | None]


def judged(
    says: Says, hosts: int = 3, phases: tuple[Phase, ...] = (INTRA,)
) -> tuple[list[Probe], dict[str, ProbeVerdict], Topology]:
    """What each probe *says*: an ERROR in words, a number below its limit, or None where all is well."""
    rack = rack_topology(hosts)
    probes = [probe for phase in phases for probe in expand_phase(phase, rack, tuple(rack.hosts))]
    verdicts = {}
    for probe in probes:
        said = says(probe)
        name = probe.probe_id
        if isinstance(said, str):
            verdicts[name] = ProbeVerdict(name, Outcome.ERROR, said, failure=failure_in(said))
        elif said is not None:
            verdicts[name] = ProbeVerdict(name, Outcome.FAIL, "slow", said, 380.0)
        else:
            verdicts[name] = ProbeVerdict(name, Outcome.PASS, "", 390.0, 380.0)
    return list(probes), with_bad_gpus(probes, verdicts, rack), rack


def named(says: Says, hosts: int = 3, outcome: Outcome = Outcome.FAIL) -> list[str]:
    """The suspects of one outcome."""
    probes, verdicts, rack = judged(says, hosts)
    return [one.component for one in suspects(probes, verdicts, topology=rack, outcome=outcome)]


def gpus_of(probe: Probe) -> frozenset[int]:
    """The numbers of the GPUs that its command names."""
    gpus = probe.params.get("gpus")
    if isinstance(gpus, tuple):
        return frozenset(gpus)
    endpoint = str(probe.params.get("endpoint", ""))
    return frozenset([int(endpoint[3:])]) if endpoint.startswith("gpu") else frozenset()


def lacks(*hosts: str, gpus: frozenset[int] = frozenset([7])) -> Says:
    """These hosts have no such GPUs, in the words of the tools."""

    def says(probe: Probe) -> str | None:
        if probe.hosts[0] not in hosts or not gpus & gpus_of(probe):
            return None
        if probe.kind == "all_to_all":
            asked = len(gpus_of(probe))
            return f"{probe.hosts[0]}: Invalid number of GPUs: {asked} requested but only {asked - 1} were found."
        return f"{probe.hosts[0]}: ib_write_bw on mlx5_0: No such device ID (7) exists in system"

    return says


def nvlink(text: str, gpu: int = 5) -> Says:
    """Every group of gpu002 with this GPU in it ends in these words."""
    return lambda probe: text if probe.kind == "all_to_all" and gpu in gpus_of(probe) and _second(probe) else None


def _second(probe: Probe) -> bool:
    return probe.hosts == ("gpu002",)


def test_a_gpu_that_only_one_host_lacks_is_a_missing_part() -> None:
    probes, verdicts, _ = judged(lacks("gpu002"))
    assert named(lacks("gpu002")) == ["gpu002/gpus"]
    assert {verdicts[probe.probe_id].outcome for probe in probes} == {Outcome.PASS, Outcome.FAIL}
    said = next(one.reason for one in verdicts.values() if one.outcome is Outcome.FAIL)
    assert "its other GPUs work; gpu[001,003] with as many in the inventory show all" in said


def test_a_gpu_that_every_host_lacks_may_be_a_wrong_inventory() -> None:
    everybody = lacks("gpu001", "gpu002", "gpu003")
    assert named(everybody) == []
    assert named(everybody, outcome=Outcome.ERROR) != []


def test_a_single_host_that_lacks_a_gpu_lacks_a_part() -> None:
    assert named(lacks("gpu001"), hosts=1) == ["gpu001/gpus"]


def test_a_host_on_which_no_gpu_works_may_have_a_bad_driver() -> None:
    assert named(lacks("gpu002", gpus=frozenset(range(8)))) == []


def test_slow_transfers_of_a_host_that_lacks_a_gpu_accuse_no_path() -> None:
    """CUDA numbers the other GPUs anew: gpu5 of the command is another GPU, farther away."""
    missing = lacks("gpu002")

    def says(probe: Probe) -> str | float | None:
        slow = probe.kind == "loopback" and _second(probe) and probe.params["endpoint"] == "gpu5"
        return missing(probe) or (250.0 if slow and probe.params["rnic"] == "mlx5_5" else None)

    assert named(says) == ["gpu002/gpus"]


def test_a_slow_rnic_of_a_host_that_lacks_a_gpu_is_named_too() -> None:
    missing = lacks("gpu002")

    def says(probe: Probe) -> str | float | None:
        slow = _second(probe) and "mlx5_3" in (probe.params.get("rnic"), probe.params.get("peer_rnic"))
        return missing(probe) or (190.0 if slow else None)

    assert named(says) == ["gpu002/gpus", "gpu002/mlx5_3"]


def test_a_gpu_with_which_every_group_fails_and_without_which_all_work_is_bad() -> None:
    assert named(nvlink(UNHANDLED)) == ["gpu002/gpu5:nvlink"]
    _, verdicts, _ = judged(nvlink(UNHANDLED))
    said = [one.reason for one in verdicts.values() if one.outcome is Outcome.FAIL]
    assert len(said) == 4
    assert said[0].endswith("(so with each of 4 groups of GPUs that gpu5 is in, 3 without it work)")


@pytest.mark.parametrize("text", [OUT_OF_MEMORY, "gpu002: all CUDA-capable devices are busy or unavailable"])
def test_memory_and_a_gpu_in_use_are_no_broken_parts(text: str) -> None:
    assert named(nvlink(text)) == []
    assert named(nvlink(text), outcome=Outcome.ERROR) == ["gpu002/gpu5:nvlink"]


def test_groups_that_fail_without_a_gpu_in_common_are_no_part() -> None:
    def says(probe: Probe) -> str | None:
        return UNHANDLED if probe.kind == "all_to_all" and _second(probe) else None

    assert named(says) == []


def test_one_group_alone_tells_nothing() -> None:
    def says(probe: Probe) -> str | None:
        return UNHANDLED if gpus_of(probe) == frozenset(range(8)) and _second(probe) else None

    assert named(says) == []


def test_a_probe_that_was_not_run_stays_an_error() -> None:
    """Its reason quotes what another one said."""
    rack = rack_topology(2)
    probes = expand_phase(INTRA, rack, tuple(rack.hosts))
    verdicts = {probe.probe_id: ProbeVerdict(probe.probe_id, Outcome.PASS, "", 390.0, 380.0) for probe in probes}
    one = next(probe.probe_id for probe in probes if probe.params.get("endpoint") == "gpu7")
    verdicts[one] = ProbeVerdict(
        one, Outcome.ERROR, "not run: No such device ID (7) exists", ran=False, failure=FailureKind.NO_SUCH_GPU
    )
    assert with_bad_gpus(probes, verdicts, rack) == verdicts


ROUNDS = tuple(replace(INTRA, name=f"soak-r{number}") for number in (1, 2))


def in_second(says: Says) -> Says:
    """Only in the second round."""
    return lambda probe: says(probe) if probe.phase == "soak-r2" else None


def outcomes(says: Says, phases: tuple[Phase, ...] = ROUNDS) -> set[Outcome]:
    """Of all that ended badly."""
    _, verdicts, _ = judged(says, phases=phases)
    return {one.outcome for one in verdicts.values()} - {Outcome.PASS}


def test_a_gpu_that_vanishes_in_a_later_round_is_a_missing_part() -> None:
    assert outcomes(in_second(lacks("gpu002"))) == {Outcome.FAIL}


def test_a_driver_that_ends_in_a_later_round_is_no_missing_part() -> None:
    """All GPUs are gone, and what they did a round before says nothing."""

    def says(probe: Probe) -> str | None:
        if probe.hosts != ("gpu002",) or not gpus_of(probe):
            return None
        number = min(gpus_of(probe))
        return f"gpu002: ib_write_bw on mlx5_0: No such device ID ({number}) exists in system"

    assert outcomes(in_second(says)) == {Outcome.ERROR}


def test_a_tool_that_counts_the_other_gpus_is_enough_in_a_round() -> None:
    """A soak may run one group of all GPUs and nothing else on them."""
    soak = replace(INTRA, name="soak-r2", probes=(AllToAllSpec(halves=False),))
    phases = (INTRA, soak)
    _, verdicts, _ = judged(in_second(lacks("gpu002")), phases=phases)
    assert [one.outcome for one in verdicts.values() if one.outcome is not Outcome.PASS] == [Outcome.FAIL]
    assert [one.named.component for one in verdicts.values() if one.named] == ["gpu002/gpus"]


EVIDENCE = Phase("evidence", (LoopbackSpec(),))


def _not_again(probe: Probe) -> bool:
    """Whether it is beside the evidence: only transfers to gpu7 are repeated there."""
    return probe.phase == "evidence" and gpus_of(probe) != frozenset([7])


@pytest.mark.parametrize("again", [(EVIDENCE, INTRA), (INTRA, EVIDENCE)])
def test_other_gpus_that_work_in_a_later_phase_show_that_the_driver_was_well(again: tuple[Phase, ...]) -> None:
    rack = rack_topology(3)
    every = [probe for phase in again for probe in expand_phase(phase, rack, tuple(rack.hosts))]
    probes = [one for one in every if not _not_again(one) and not (one.phase != "evidence" and 7 in gpus_of(one))]
    verdicts = {one.probe_id: ProbeVerdict(one.probe_id, Outcome.PASS, "", 390.0, 380.0) for one in probes}
    missing = [one for one in probes if one.phase == "evidence" and _second(one)]
    for one in missing:
        text = "gpu002: ib_write_bw on mlx5_0: No such device ID (7) exists in system"
        verdicts[one.probe_id] = ProbeVerdict(one.probe_id, Outcome.ERROR, text, failure=failure_in(text))
    (slow,) = (
        one.probe_id
        for one in probes
        if one.phase == "intra-host" and _second(one) and one.probe_id.endswith("loopback.mlx5_5.gpu5")
    )
    verdicts[slow] = ProbeVerdict(slow, Outcome.FAIL, "slow", 250.0, 380.0)
    found = with_bad_gpus(probes, verdicts, rack)
    is_first = again[0] is EVIDENCE
    named_part = {found[one.probe_id].named for one in missing}
    assert (named_part == {None}) is not is_first
    assert (found[slow].named is None) is not is_first


def test_a_path_that_was_slow_before_the_gpu_was_gone_is_not_the_gpu() -> None:
    def says(probe: Probe) -> str | float | None:
        slow = probe.kind == "loopback" and _second(probe) and probe.params["endpoint"] == "gpu5"
        first = 250.0 if slow and probe.params["rnic"] == "mlx5_5" and probe.phase == "soak-r1" else None
        return in_second(lacks("gpu002"))(probe) or first

    _, verdicts, _ = judged(says, phases=ROUNDS)
    slow = [one for one in verdicts.values() if one.value_gbps == 250.0]
    assert len(slow) == 1
    assert slow[0].named is None


def test_a_group_without_the_gpu_that_was_not_measured_leaves_it_open() -> None:
    """Its words are others, but it fails as well: it may be the driver."""

    def says(probe: Probe) -> str | None:
        if probe.kind != "all_to_all" or not _second(probe):
            return None
        if 5 in gpus_of(probe):
            return UNHANDLED
        return OUT_OF_MEMORY if gpus_of(probe) == frozenset(range(4)) else None

    _, verdicts, _ = judged(says)
    assert {one.outcome for one in verdicts.values()} == {Outcome.PASS, Outcome.ERROR}
