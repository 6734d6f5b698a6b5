"""Ways through the fabric that each connection draws anew, as measured in the box of six hosts (docs/lab.md)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measured_rack import dgx_platform, one_number
from fabric.judge.verdict.conclude import conclude
from fabric.judge.verdict.probes import Judge
from fabric.model.diagnosis import PairTest
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, ProbeResult
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.model.verdict import Baseline, Limit, Verdict
from fabric.probes.pairs import planes_of
from fabric.probes.pairwise import PairwiseSpec

GOOD_GBPS, DEAD = 0.0956, 0.0
LIMITS = (Limit("pairwise", 0.085, "the box shapes every port"),)


def box(hosts: int = 6) -> Topology:
    """Half of the hosts under each of two leaves, two spines, RoCE."""
    platform = dgx_platform(parts=2, line_rate_gbps=0.1)
    platform = replace(platform, rnics=platform.rnics[:1])
    leaf_of = {f"h{n}": "l1" if n <= hosts // 2 else "l2" for n in range(1, hosts + 1)}
    made = {name: Host(name, platform, name, None, (leaf,)) for name, leaf in leaf_of.items()}
    switches = {name: Switch(name, "leaf") for name in ("l1", "l2")}
    switches |= {name: Switch(name, "spine") for name in ("s1", "s2")}
    return Topology(made, switches, (Uplinks(("l1", "l2"), ("s1", "s2"), 1, 0.1),))


def concluded(pairs: str, topology: Topology | None = None) -> Verdict:
    """The verdict on pairs such as ``h1>h2``, in their order, each ``=`` what it measured (Gb/s; 0: status 12)."""
    topology = topology or box()
    (plane,) = planes_of(topology.hosts, topology)
    probes, results = [], {}
    for number, text in enumerate(pairs.split()):
        pair, _, gbps = text.partition("=")
        a, b = pair.split(">")
        test = PairTest(a, b)
        (probe,) = PairwiseSpec().probes_of(
            test, plane, phase="pairs", topology=topology, number=number // 3, reverse=False
        )
        value = float(gbps or GOOD_GBPS) * (1 + 0.001 * (number % 3 - 1))
        name = probe.probe_id
        results[name] = one_number(name, value, at_s=float(number))
        if value == DEAD:
            reason = "status 12: retries exceeded"
            results[name] = ProbeResult(
                name, 1, (), Outcome.FAIL, reason, number, number + 1.0, failure=FailureKind.RETRIES_EXCEEDED
            )
        probes.append(probe)
    judge = Judge({"h100-ndr": Baseline("h100-ndr", "box", LIMITS)}, topology=topology, marginal=0.0)
    return conclude(probes, results, topology=topology, judge=judge)


GREY_TWO_QUEUE_PAIRS = "h1>h2 h4>h5 h3>h6=0 h5>h1=0 h6>h2 h4>h3=0 h1>h6 h2>h4 h3>h5=0 h5>h1"
GREY_ONE_QUEUE_PAIR = "h1>h2 h4>h5 h3>h6 h5>h1=0 h6>h2=0 h4>h3 h1>h6 h2>h4 h3>h5=0 h5>h1 h6>h4"
SLOW_UPLINK = (
    "h1>h2 h4>h5 h3>h6 h5>h1=0.0191 h6>h2=0.0191 h4>h3 h1>h6 h2>h4=0.0191 h3>h5=0.0191 h1>h4 h1>h3 h5>h6 h2>h3 h4>h6"
)
LOSSY_HOST = "h1>h2=0.0169 h4>h5 h3>h6 h5>h1 h6>h2 h4>h3 h1>h6=0.0084 h2>h4 h3>h5 h1>h3=0.0143 h2>h3 h4>h6 h3>h1"
TWO_SLOW_HOSTS = "h1>h2=0.0287 h4>h5 h3>h6 h5>h1 h6>h2 h4>h3=0.0383 h1>h6=0.0287 h2>h4 h3>h5 h2>h3=0.0382 h4>h6"
EVERY_DRAW_LOST = "h3>h2 h5>h6 h5>h1=0 h2>h6=0 h3>h4=0 h4>h2=0 h6>h5 h1>h3 h2>h1 h1>h2 h3>h2 h3>h5=0 h4>h3=0 h5>h2=0"


@pytest.mark.parametrize(
    "pairs",
    [GREY_TWO_QUEUE_PAIRS, GREY_ONE_QUEUE_PAIR, SLOW_UPLINK, EVERY_DRAW_LOST],
    ids=["2qp", "1qp", "slow", "all"],
)
def test_what_some_pairs_across_leaves_draw_is_above_the_leaves(pairs: str) -> None:
    """With two leaves the uplinks of either explain as much as a spine; no host and no leaf is blamed."""
    (suspect,) = concluded(pairs).suspects
    assert (suspect.component, suspect.outcome) == ("spines", Outcome.FAIL)
    assert {"l1:uplinks", "l2:uplinks"} <= set(suspect.ambiguous_with)


@pytest.mark.parametrize(
    ("pairs", "bad"),
    [(LOSSY_HOST, ["h1/mlx5_0:tx"]), (TWO_SLOW_HOSTS, ["h1/mlx5_0:tx", "h3/mlx5_0:rx"])],
    ids=["losses of different depth", "two faults"],
)
def test_a_host_that_is_slow_under_its_leaf_too_is_named(pairs: str, bad: list[str]) -> None:
    verdict = concluded(pairs)
    assert sorted(suspect.component for suspect in verdict.suspects if suspect.outcome is Outcome.FAIL) == bad
    assert len(verdict.suspects) == len(bad)


@pytest.mark.parametrize("lost", ["0", "0.0191"])
def test_a_host_that_only_drew_badly_is_no_fault_yet(lost: str) -> None:
    """All its pairs across leaves are bad, and under its leaf it is not measured."""
    pairs = "h1>h3 h6>h5 h4>h2=X h5>h4 h2>h6=X h2>h4=X h1>h6 h6>h3 h5>h6 h3>h1".replace("X", lost)
    verdict = concluded(pairs)
    assert not [suspect for suspect in verdict.suspects if suspect.outcome is Outcome.FAIL and suspect.hosts]
    assert verdict.outcome is not Outcome.PASS
