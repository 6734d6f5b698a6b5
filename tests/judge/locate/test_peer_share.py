"""A host that is slow as a whole by little is the host, though it meets some of its limits."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from benchmarks.measured_rack import LOW_LIMITS, Factor, judged, measured, probes_of, slow_rnic
from fabric.judge.locate.hosts import by_class, peer_shares
from fabric.judge.locate.localise import suspects
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.verdict import Limit, Suspect
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from tests.conftest import rack_topology

RACK = rack_topology(8)
LIMITS = (*LOW_LIMITS, Limit("all_to_all", 2432.0, "a limit", min_size_bytes=1))
LIMITS = (*LIMITS, Limit("loopback", 390.0, "a limit", min_size_bytes=1, link_class="mem_local"))


def slow(hosts: Collection[str], factor: float) -> Factor:
    """These hosts as a whole."""
    return lambda probe: factor if probe.hosts[0] in hosts else 1.0


def results(factor: Factor, seed: int) -> list[tuple[Probe, ProbeResult]]:
    """Loopback, RNIC pairs and all-to-all of eight hosts."""
    pairs = measured(probes_of(RACK), cv=0.003, seed=seed, factor=factor, host_spread=0.0)
    for probe in expand_phase(Phase("intra-host", (AllToAllSpec(),)), RACK, tuple(RACK.hosts)):
        numbers = (Measurement(probe.probe_id, "busbw", 2720.0 * factor(probe), "Gb/s", 8 << 30),)
        pairs.append((probe, ProbeResult(probe.probe_id, 1, numbers, None, "", 0, 1)))
    return pairs


def named(factor: Factor, seed: int = 1) -> list[Suspect]:
    """Who is to blame."""
    pairs = results(factor, seed)
    verdicts = judged(pairs, RACK, limits=LIMITS)
    return suspects([probe for probe, _ in pairs], verdicts, topology=RACK, outcome=Outcome.FAIL)


@pytest.mark.parametrize("seed", range(1, 4))
def test_two_hosts_that_lost_three_percent_are_two_suspects_and_not_their_parts(seed: int) -> None:
    """Half of their numbers pass; those are as low as the others."""
    found = named(slow(("gpu002", "gpu005"), 0.97), seed)
    assert sorted(one.component for one in found) == ["gpu002", "gpu005"]


def test_good_numbers_of_a_host_that_is_well_still_clear_it() -> None:
    """An RNIC that lost as little is the RNIC."""
    assert [one.component for one in named(slow_rnic("gpu002/mlx5_3", 0.9))] == ["gpu002/mlx5_3"]


def test_a_share_is_of_what_the_same_class_measures() -> None:
    """A path that never carries more than 248 Gb/s is as slow as its host, not as its own number says."""
    pairs = results(slow(("gpu004",), 0.9), seed=1)
    verdicts = judged(pairs, RACK, limits=LIMITS)
    shares = peer_shares(by_class([probe for probe, _ in pairs], verdicts, RACK), {"gpu004"})
    assert len(shares) == sum(probe.hosts == ("gpu004",) for probe, _ in pairs)
    assert all(share == pytest.approx(0.9, abs=0.02) for share in shares.values())
