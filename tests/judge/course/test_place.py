"""A host that is slow: which of its probes are low says where in the host it is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.judge.course.located import over_time
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.sampling import Samples
from fabric.model.scenario import Phase
from fabric.model.verdict import Suspect
from fabric.probes.all_to_all import AllToAllSpec
from tests.builders import failure_in

HOSTS = 16
RACK = rack_topology(HOSTS, parts=2)
NAMES = tuple(RACK.hosts)
ROUNDS = 32
Share = Callable[[str, str, int], float | None]
"""What a host leaves of a kind of probe (or of one RNIC) in a round; None: the transport gives up."""


def found(
    share: Share, *, silent: Callable[[tuple[str, ...], int], bool] = lambda hosts, number: False
) -> list[Suspect]:
    """All-to-alls, rings of neighbours and pairs on each RNIC; *silent*: which collectives get no answer."""
    random = Random(1)
    phases = [Phase(f"soak-r{n}", (AllToAllSpec(),), label="soak", round=n) for n in range(ROUNDS)]
    probes, results = [], {}

    def add(number: int, kind: str, hosts: tuple[str, ...], what: str) -> None:
        phase = phases[number].name
        params: dict[str, object] = {"name": kind, "ranks": 2}
        if kind == "all_to_all":
            params |= {"gpus": (0, 1), "series": "all"}
        if kind == "pairwise":
            params |= {"rnic": what, "peer_rnic": what, "link_class": "same_leaf"}
        probe = Probe(f"{phase}/{'+'.join(hosts)}/{what}", kind, phase, hosts, (), 10.0, params)
        probes.append(probe)
        outcome = Outcome.ERROR if kind != "pairwise" and silent(hosts, number) else None
        left = [share(host, what, number) for host in hosts]
        results[probe.probe_id] = _result(probe.probe_id, number, left, random.gauss(1.0, 0.01), outcome)

    for number in range(ROUNDS):
        for place, host in enumerate(NAMES):
            add(number, "all_to_all", (host,), "all_to_all")
            add(number, "tor_all_reduce", (host, NAMES[(place + 1) % HOSTS]), "tor_all_reduce")
        for device in ("mlx5_0", "mlx5_1"):
            order = random.sample(NAMES, HOSTS)
            for pair in zip(order[::2], order[1::2], strict=True):
                add(number, "pairwise", pair, device)
    return list(over_time(probes, results, phases, RACK, Samples(300.0, {})).located({}).suspects)


def _result(name: str, number: int, left: list[float | None], noise: float, outcome: Outcome | None) -> ProbeResult:
    began_s = number * 1800.0
    if outcome is not None:
        return ProbeResult(name, 1, (), outcome, "no answer within 60 s", began_s, began_s + 10.0)
    if None in left:
        reason = "Completion with error: status 12: transport retry counter exceeded"
        return ProbeResult(name, 1, (), Outcome.FAIL, reason, began_s, began_s + 10.0, failure=failure_in(reason))
    value = 390.0 * min(one for one in left if one is not None) * noise
    return ProbeResult(name, 1, (Measurement(name, "x", value, "Gb/s", 65536),), None, "", began_s, began_s + 10.0)


def test_a_low_all_to_all_is_nvlink_and_no_cable() -> None:
    slow = ("all_to_all", "tor_all_reduce")
    (one,) = found(lambda host, what, n: 0.6 if host == "gpu003" and what in slow and n > 9 else 1.0)
    assert (one.component, one.kind, one.hosts) == ("gpu003/nvlink", "nvlink", ("gpu003",))
    assert "nvidia-smi nvlink" in one.next_step


def test_a_low_ring_of_a_host_whose_rnics_are_well_is_no_cable() -> None:
    (one,) = found(lambda host, what, n: 0.6 if host == "gpu003" and what == "tor_all_reduce" and n > 9 else 1.0)
    assert (one.component, one.kind) == ("gpu003", "host")
    assert "leave the cables" in one.next_step


def test_a_slow_rnic_is_still_a_cable() -> None:
    slow = ("mlx5_1", "tor_all_reduce")
    (one,) = found(lambda host, what, n: 0.6 if host == "gpu003" and what in slow and n > 9 else 1.0)
    assert (one.component, one.kind) == ("gpu003/mlx5_1", "rnic")
    assert "cable" in one.next_step
    assert "leave the cables" not in one.next_step


@pytest.mark.parametrize("answers", [False, True])
def test_a_neighbour_is_not_blamed_for_what_failed_with_a_host_that_does_not_answer(answers: bool) -> None:
    """The ring of gpu002 and gpu003 gives up in round 20; then no ring of gpu003 answers, or not even itself."""

    def share(host: str, what: str, number: int) -> float | None:
        return None if (host, what, number) == ("gpu003", "tor_all_reduce", 20) else 1.0

    def silent(hosts: tuple[str, ...], number: int) -> bool:
        ring_of_gpu003 = len(hosts) > 1 and "gpu003" in hosts and number >= 20
        hangs = not answers and hosts == ("gpu003",) and number >= 20
        return hangs or (ring_of_gpu003 and (hosts[0] == "gpu003" or number > 20))

    assert found(share, silent=silent) == []


def test_one_failure_between_two_hosts_is_no_certainty_of_either() -> None:
    def share(host: str, what: str, number: int) -> float | None:
        return None if host == "gpu003" and what == "mlx5_1" and number == 20 else 1.0

    (one,) = found(share)
    assert one.confidence <= 0.33
    assert {name.partition("/")[0] for name in (one.component, *one.ambiguous_with)} == {"gpu003", "gpu007"}


def test_a_host_that_is_slow_in_all_it_does_is_the_host() -> None:
    """Its pair tests need no GPU: so it is not NVLink that is slow, and no RNIC by itself."""
    named = found(lambda host, what, n: 0.85 if host == "gpu003" and n > 9 else 1.0)
    assert [one.component for one in named] == ["gpu003"]


@pytest.mark.parametrize("gone", [0.5, 0.3])
def test_the_way_from_the_gpus_that_becomes_slow_beside_an_rnic_that_fades_is_named_too(gone: float) -> None:
    """One loss of the RNIC, spread widely enough for both, would describe all rings, too; its pair tests lose less."""

    def share(host: str, what: str, number: int) -> float:
        faded = 1.0 - 0.25 * number / ROUNDS if host == "gpu003" and what in ("mlx5_1", "tor_all_reduce") else 1.0
        slow = host == "gpu003" and what == "tor_all_reduce" and number > gone * ROUNDS
        return min(faded, 0.6) if slow else faded

    named = found(share)
    assert {(one.component, one.course) for one in named} == {("gpu003/mlx5_1", "drift"), ("gpu003", "step")}
