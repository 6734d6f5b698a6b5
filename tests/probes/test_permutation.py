"""Permutations, bisections and entropy: who sends to whom, and what a hash is said to do with many queue pairs."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from benchmarks.entropy import told
from fabric.judge.normal.entropy import LEAST_BALLS, collision_lines, hash_verdict
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import ProbeSpec
from fabric.model.topology import Topology
from fabric.probes.at_once import SHARE_OF_SUM
from fabric.probes.entropy import EntropySpec
from fabric.probes.permutation import BisectionSpec, PermutationSpec
from tests.builders import asked, on_mock
from tests.places import INVENTORY, SCENARIOS

TOPOLOGY = asked(SCENARIOS / "incast.yaml").inventory.topology


def probes(spec: ProbeSpec, topology: Topology = TOPOLOGY, hosts: int | None = None) -> list[Probe]:
    """What an entry expands to on the first rail."""
    names = list(topology.hosts)[:hosts]
    made = spec.expand(phase="p", topology=topology, hosts=names, ports=iter(()))
    return [probe for probe in made if probe.params["rail"] == 0]


def test_a_permutation_has_each_host_send_once_and_receive_once_and_no_pair_twice() -> None:
    """In every round; the rounds have no pair in common, and another seed gives other pairs."""
    rounds = [PermutationSpec.flows(one) for one in probes(PermutationSpec(rounds=5))]
    for flows in rounds:
        senders, receivers = zip(*flows, strict=True)
        assert sorted(senders) == sorted(receivers) == sorted(TOPOLOGY.hosts)
        assert all(sender != receiver for sender, receiver in flows)
    assert len({pair for flows in rounds for pair in flows}) == 5 * 32
    assert set(rounds[0]) != set(PermutationSpec.flows(probes(PermutationSpec(seed=1))[0]))
    assert len(probes(PermutationSpec(rounds=5), hosts=3)) == 2  # three hosts have no more than two partners


def test_a_bisection_crosses_the_middle_both_ways() -> None:
    """Every flow is from one half of the leaves to the other; each host has another partner each round."""
    for flows in (rounds := [BisectionSpec.flows(one) for one in probes(BisectionSpec(rounds=3))]):
        units = [tuple(int(TOPOLOGY.hosts[name].leaves[0][2]) > 1 for name in flow) for flow in flows]
        assert all(a != b for a, b in units)
        assert {(b, a) for a, b in flows} == set(flows)
    assert all(not set(a) & set(b) for a, b in pairwise(rounds))


def test_entropy_leaves_its_leaf_and_asks_the_switches_that_can_tell() -> None:
    """Each flow to another leaf; ports and neighbours of the leaves of its rail and of all spines, by NVUE alone."""
    topology = asked(SCENARIOS / "roce-acceptance.yaml").inventory.topology
    (first, *_) = probes(EntropySpec(), topology)
    leaves = [tuple(topology.hosts[name].leaves[0] for name in flow) for flow in EntropySpec.flows(first)]
    assert all(a != b for a, b in leaves)
    reads = EntropySpec.commands(first, topology).counters[len(first.hosts) :]
    assert [one.host for one in reads[::2]] == [f"su{n}-leaf0" for n in range(4)] + [f"spine{n}" for n in range(8)]
    (mute, *_) = probes(EntropySpec())
    assert len(EntropySpec.commands(mute, TOPOLOGY).counters) == 32  # no login: hosts alone are asked
    assert probes(EntropySpec(), hosts=8) == []  # one leaf


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["permutation", "bisection"])
def test_all_at_once_is_judged_by_all_lines(tmp_path: Path, kind: str) -> None:
    """Hashes leave half and more of them; a limit above that is missed for congestion, which is nobody's fault."""
    for limit, outcome in (("0.35", Outcome.PASS), ("0.95", Outcome.INCONCLUSIVE)):
        folder = tmp_path / limit
        folder.mkdir()
        scenario = folder / "s.yaml"
        entry = f"phases: [{{name: p, probes: [{{{kind}: {{rounds: 1, at_least: {limit}}}}}]}}]\n"
        inventory = INVENTORY / "roce-queues.yaml"
        scenario.write_text(f"name: s\ndescription: x\ninventory: {inventory}\nhosts: all\n{entry}")
        judged = on_mock(asked(scenario), folder).verdict
        assert {one.outcome for one in judged.probes} == {outcome}
        assert judged.suspects == ()
        assert any(f"{kind} of 32 hosts" in line for line in judged.lines)
        if outcome is Outcome.INCONCLUSIVE:
            assert "congested on the way" in judged.probes[0].reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hashing", "outcome", "said"),
    [
        ("ports", Outcome.PASS, ""),
        ("addresses", Outcome.FAIL, "u[0-3]-leaf0: the same shares in every draw"),
        ("polarised", Outcome.FAIL, "p[0-1]-spine[0-7]: polarised: it hashes as the tier below, 3 of its 4 cables"),
    ],
)
def test_a_hash_is_told_by_what_cables_carried(hashing: str, outcome: Outcome, said: str) -> None:
    """On three tiers, by the counters of both ends; ``benchmarks/entropy.py`` does it a hundred times."""
    found, reason = told(hashing, 7)
    assert (found, said in reason) == (outcome, True)


def thrown(
    balls: int,
    *,
    draws: int = 8,
    seed: int = 1,
    weights: tuple[float, ...] = (1.0,) * 8,
    above_leaves: bool = False,
) -> tuple[Outcome, str]:
    """What is said of so many balls thrown into bins, again and again."""
    draw = Random(seed)
    counts = [
        [hits.count(at) for at in range(8)] for hits in (draw.choices(range(8), weights, k=balls) for _ in range(draws))
    ]
    carried = [{f"swp{at}": 1e9 * n for at, n in enumerate(row)} for row in counts]
    return hash_verdict(carried, float(balls), above_leaves=above_leaves)


def test_what_chance_does_is_no_fault_and_what_it_does_not_is() -> None:
    """Of 300 even hashes none is accused; a cable with half of its share is told, as no hash; spraying is fine."""
    for seed in range(300):
        assert thrown(64, seed=seed) == (Outcome.PASS, "")
    outcome, why = thrown(512, weights=(0.5, *(1.0,) * 7), above_leaves=True)
    assert outcome is Outcome.INCONCLUSIVE
    assert "uneven, not by chance" in why
    sprayed = hash_verdict([{f"swp{at}": 1e9 for at in range(8)}] * 8, 256.0, above_leaves=False)
    assert sprayed[0] is Outcome.PASS
    assert "sprayed" in sprayed[1]
    outcome, why = thrown(8, draws=2)
    assert outcome is Outcome.INCONCLUSIVE
    assert f"{LEAST_BALLS} are needed" in why
    for above_leaves in (False, True):
        assert thrown(64, weights=(0.0, *(1.0,) * 7), above_leaves=above_leaves)[0] is Outcome.FAIL


def elephants(pairs: int, slow: int) -> str:
    """What is said of two draws of 32 flows of so many queue pairs, *slow* of which got half a line."""
    found = []
    for probe in probes(EntropySpec(queue_pairs=pairs))[:2]:
        got = [200.0 if at < slow else 390.0 for at in range(len(probe.hosts))]
        shares = [
            Measurement("p", host, one / sum(got), SHARE_OF_SUM) for host, one in zip(probe.hosts, got, strict=True)
        ]
        total = Measurement("p", "bandwidth", sum(got), "Gb/s")
        found.append((probe, ProbeResult("p", 1, (total, *shares), None, "", 0.0, 1.0)))
    return "; ".join(collision_lines(found, TOPOLOGY))


def test_elephants_that_met_are_counted_beside_chance() -> None:
    """
    With the 95 % interval of Wilson (1927); of many queue pairs a flow is no elephant, and nothing is said.

    Eight of a leaf on eight cables: one of the seven others is on the same cable up, or down, in 1 - (7/8)^14.
    """
    said = "in 2 draws 16 of 64 flows met another one (16% to 37% with 95 %); by chance about 85%"
    assert elephants(1, 8).startswith(f"elephants: {said}")
    assert "0 of 64 flows met another one (0% to 6%" in elephants(1, 0)
    assert "64 of 64 flows met another one (94% to 100%" in elephants(1, 32)
    assert elephants(4, 8) == ""
