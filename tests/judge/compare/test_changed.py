"""What changed pairs have in common is named, and no RNIC that is well with others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.measured_rack import rack_topology
from fabric.judge.compare import compare_runs
from fabric.model.comparison import Comparison, Difference
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import Phase, ProbeSpec
from fabric.model.topology import Topology
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec

Factor = Callable[[Probe], float]
UNIT = 8


def two_units() -> Topology:
    """Sixteen hosts, eight under leaf0..7 and eight under other0..7."""
    rack = rack_topology(2 * UNIT)
    other = {
        name: replace(host, leaves=tuple(f"other{rail}" for rail in range(8))) for name, host in rack.hosts.items()
    }
    return replace(rack, hosts={name: (other if int(name[3:]) > UNIT else rack.hosts)[name] for name in rack.hosts})


PODS = two_units()
PAIRS = (PairwiseSpec(rounds=4),)


def run(*specs: ProbeSpec, factor: Factor, seed: int) -> tuple[list[Probe], dict[str, ProbeResult]]:
    """A run at 0.4 % of noise; a factor of 0 is a probe that the fabric failed."""
    draw = np.random.default_rng(seed)
    probes = list(expand_phase(Phase("p", specs), PODS, tuple(PODS.hosts)))
    results = {}
    for probe in probes:
        share, name = factor(probe), probe.probe_id
        value = 390.0 * share * (1 + 0.004 * draw.normal())
        rows = (Measurement(name, "bandwidth", value, "Gb/s", int(str(probe.params.get("size_bytes") or 1 << 30))),)
        good = ProbeResult(name, 1, rows, None, "", 0, 1)
        results[name] = good if share else replace(good, measurements=(), outcome=Outcome.FAIL, reason="port down")
    return probes, results


def compared(*specs: ProbeSpec, bad: Factor, healed: bool = False) -> Comparison:
    """A healthy run and one with something bad; *healed*: the other way round."""
    good = run(*specs, factor=lambda probe: 1.0, seed=1)
    other = run(*specs, factor=bad, seed=2)
    return compare_runs(*((other, good) if healed else (good, other)), topology=PODS)


def named(found: Comparison, change: Difference) -> list[str]:
    """The components of which that became."""
    return [row.component for row in found.rows if row.change is change]


def ends(probe: Probe) -> tuple[str, str]:
    """The two RNICs of a pair."""
    return f"{probe.hosts[0]}/{probe.params['rnic']}", f"{probe.hosts[-1]}/{probe.params['peer_rnic']}"


def a_pair(spec: PairwiseSpec) -> set[str]:
    """Two RNICs under different leaves that are measured together in one test only, and well with others."""
    probes, _ = run(spec, factor=lambda probe: 1.0, seed=1)
    pairs = [frozenset(ends(probe)) for probe in probes if ends(probe)[0] < "gpu009" <= ends(probe)[1]]
    return set(next(pair for pair in pairs if pairs.count(pair) == spec.repeat))


@pytest.mark.parametrize(("healed", "change"), [(False, Difference.WORSE), (True, Difference.BETTER)])
def test_pairs_that_share_a_leaf_name_the_leaf(healed: bool, change: Difference) -> None:
    """Each of its RNICs is slow in all its pairs, and none of them is to blame."""
    on_leaf = {f"{name}/mlx5_3" for name in list(PODS.hosts)[:UNIT]}
    found = compared(*PAIRS, bad=lambda probe: 1.0 if on_leaf.isdisjoint(ends(probe)) else 0.6, healed=healed)
    assert named(found, change) == ["leaf3"]
    assert found.change is change


def test_an_rnic_that_is_slow_in_all_its_pairs_is_named_and_no_partner() -> None:
    """Its partners have few pairs, of which the one with it is slow."""
    found = compared(*PAIRS, bad=lambda probe: 0.8 if "gpu002/mlx5_3" in ends(probe) else 1.0)
    assert named(found, Difference.WORSE) == ["gpu002/mlx5_3"]
    assert named(found, Difference.INCONCLUSIVE) == []


def test_a_pair_between_good_rnics_is_a_pair() -> None:
    """One repeated pair over a bad uplink: both RNICs are well with others."""
    spec = PairwiseSpec(rounds=6, repeat=3)
    pair = a_pair(spec)
    found = compared(spec, bad=lambda probe: 0.5 if pair == set(ends(probe)) else 1.0)
    assert named(found, Difference.WORSE) == ["+".join(sorted(pair))]


def test_a_pair_that_was_slow_once_is_to_be_measured_again() -> None:
    """A single sample proves nothing of a pair, and nothing at all of its RNICs."""
    spec = PairwiseSpec(rounds=6)
    pair = a_pair(spec)
    found = compared(spec, bad=lambda probe: 0.5 if pair == set(ends(probe)) else 1.0)
    assert named(found, Difference.WORSE) == []
    assert named(found, Difference.INCONCLUSIVE) == ["+".join(sorted(pair))]


def test_pairs_that_carry_nothing_any_more_name_what_they_share() -> None:
    """A dead port has no ratio, and its partners are not dead."""
    found = compared(*PAIRS, bad=lambda probe: 0.0 if "gpu002/mlx5_3" in ends(probe) else 1.0)
    [row] = [row for row in found.rows if row.change is Difference.WORSE]
    assert row.component == "gpu002/mlx5_3"
    assert "carry nothing any more" in row.note


def test_of_two_ends_loopback_tells_which() -> None:
    """An RNIC that is slow within its host too is the one of a pair."""
    specs = (LoopbackSpec(), PairwiseSpec(rounds=1, repeat=2))

    def bad(probe: Probe) -> float:
        mine = probe.hosts == ("gpu002",) and probe.params["rnic"] == "mlx5_3"
        return 0.7 if mine or (probe.kind == "pairwise" and "gpu002/mlx5_3" in ends(probe)) else 1.0

    assert set(named(compared(*specs, bad=bad), Difference.WORSE)) == {"gpu002/mlx5_3"}
    alone = compared(PairwiseSpec(rounds=1, repeat=2), bad=bad)
    [pair] = named(alone, Difference.WORSE)
    assert "+" in pair


def test_the_host_of_slow_collectives_is_named_and_no_neighbour() -> None:
    """Around a ring of hosts each is in two pairs."""
    found = compared(TorAllReduceSpec(repeat=3), bad=lambda probe: 0.7 if "gpu002" in probe.hosts else 1.0)
    assert named(found, Difference.WORSE) == ["gpu002"]
    assert named(found, Difference.INCONCLUSIVE) == []


def test_all_pairs_slower_are_everything() -> None:
    """What all of it shares is no leaf."""
    found = compared(*PAIRS, bad=lambda probe: 0.9)
    assert {row.change for row in found.rows} == {Difference.WORSE}
    assert "everything" in named(found, Difference.WORSE)
