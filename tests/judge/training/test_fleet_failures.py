"""Failures counted over rounds: what is one, what is none, and for how long hosts were watched."""

from __future__ import annotations

import pytest

from fabric.config.inventory import load_inventory
from fabric.judge.ports.verdict import PortFindings, SeenCounters
from fabric.judge.training import Observed, downs, impact_of, watched
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, Measurement, NamedPart, Probe, ProbeResult
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.scenario import Phase
from fabric.model.verdict import LinkCoverage, TrainingImpact
from fabric.runs.samples import LinkSamples
from tests.places import INVENTORY

HOUR = 3600.0
ROUNDS = 10
GAVE_UP = "status=12 vendor err 129"


def result(name: str, round_: int, outcome: Outcome | None = None, reason: str = "", **more: object) -> ProbeResult:
    """A probe of ten minutes at the beginning of the hour."""
    measured = (Measurement(name, "bandwidth", 390.0, "Gb/s"),) if outcome is None else ()
    more.setdefault("failure", FailureKind.RETRIES_EXCEEDED if reason == GAVE_UP else None)
    return ProbeResult(name, 1, measured, outcome, reason, round_ * HOUR, round_ * HOUR + 600.0, **more)  # type: ignore[arg-type]


def seen(
    bad: dict[tuple[int, str], tuple[Outcome, dict[str, object]]],
    rounds: int = ROUNDS,
    shared: dict[str, tuple[str, ...]] | None = None,
) -> Observed | None:
    """Rounds of an hour in which a+b, c+d and each host alone are measured; *bad* says which went badly, and how."""
    phases, probes, results = [], [], {}
    for number in range(rounds):
        phases.append(Phase(f"soak-r{number + 1}", (), label="soak", round=number + 1))
        for who in ("a", "b", "c", "d", "a+b", "c+d"):
            name = f"soak-r{number + 1}/{who}"
            probes.append(Probe(name, "pairwise", phases[-1].name, tuple(who.split("+")), (), 600.0, {}))
            outcome, more = bad.get((number, who), (None, {}))
            results[name] = result(name, number, outcome, **more)  # type: ignore[arg-type]
    return watched(probes, results, phases, shared or {})


def fail(reason: str = GAVE_UP, **more: object) -> tuple[Outcome, dict[str, object]]:
    """The tool itself says that the fabric is bad."""
    return Outcome.FAIL, {"reason": reason, **more}


def lost(host: str) -> tuple[Outcome, dict[str, object]]:
    """We could not measure because of this host."""
    return Outcome.ERROR, {"reason": "no answer", "error_host": host}


def count(found: Observed | None) -> int:
    """Failures; there must be an answer."""
    assert found is not None
    return found.count


def test_healthy_rounds_are_time_without_a_failure() -> None:
    found = seen({})
    assert count(found) == 0
    assert found is not None
    assert found.host_days == pytest.approx(4 * (ROUNDS - 1) / 24)  # from the end of the first to the last
    assert found.is_bound


def test_a_pair_that_gave_up_is_one_failure() -> None:
    assert count(seen({(4, "a+b"): fail()})) == 1


def test_a_failure_that_lasts_for_rounds_is_one() -> None:
    assert count(seen({(n, "a+b"): fail() for n in (4, 5, 6)})) == 1


def test_a_failure_that_comes_back_counts_again() -> None:
    assert count(seen({(n, "a+b"): fail() for n in (3, 7)})) == 2


def test_a_leaf_that_fails_is_one_failure_of_all_its_hosts() -> None:
    """Other hosts of it show it in each round: none of that is a failure of its own."""
    down = {
        (n, who): fail(named=NamedPart(f"{who}/mlx5_3", "down")) for n in range(4, ROUNDS) for who in "abcd"[n % 3 :]
    }
    assert count(seen(down)) > 1
    assert count(seen(down, shared={"leaf3": ("a", "b", "c", "d")})) == 1


def test_beside_a_leaf_a_host_may_fail_by_itself() -> None:
    down = {(4, who): fail(named=NamedPart(f"{who}/mlx5_3", "down")) for who in "abc"}
    assert count(seen(down, shared={"leaf3": ("a", "b")})) == 2


def test_what_was_bad_from_the_beginning_is_no_failure() -> None:
    assert count(seen({(n, who): fail() for n in range(ROUNDS) for who in ("a", "a+b")})) == 0


def test_one_host_explains_all_its_probes() -> None:
    part = NamedPart("a/mlx5_0", "down")
    assert count(seen({(4, "a"): fail(named=part), (4, "a+b"): fail()})) == 1


def test_a_host_that_is_lost_for_good_is_a_failure_and_watched_no_longer() -> None:
    bad = {(n, who): lost("a") for n in range(4, ROUNDS) for who in ("a", "a+b")}
    found = seen(bad)
    assert count(found) == 1
    assert found is not None
    assert found.host_days < (4 * (ROUNDS - 1) - 5) / 24


def test_a_host_that_measures_well_later_was_not_lost() -> None:
    """One probe that we could not measure is our trouble, not the fleet's."""
    assert count(seen({(4, "a"): lost("a")})) == 0


def test_a_phase_that_ran_a_few_times_says_nothing() -> None:
    assert seen({}, rounds=3) is None


@pytest.mark.parametrize(("where", "count"), [("a", 9), ("leaf1--spine2", 9), ("a--leaf1", 9)])
def test_a_cable_whose_both_ends_count_went_down_once(where: str, count: int) -> None:
    """Ports of hosts, cables between switches, and those of which a host and its leaf count."""
    course = CounterCourse([0.0, 100.0, 5 * HOUR, 100 * HOUR], [0, 1, 3, 9], 100 * HOUR)
    ends = tuple((name, "1") for name in where.split("--"))
    read = {CounterReading(*end, "link_downed"): course for end in ends}
    own = {at: one for at, one in read.items() if at.host == "a"}
    others = {at: one for at, one in read.items() if at.host != "a"}
    cables = ((ends[0], ends[1]),) if len(ends) > 1 else ()
    assert list(downs(Samples(60.0, own), LinkSamples(Samples(60.0, others), cables)).values()) == [count]


def told(down: int, coverage: LinkCoverage | None = None, *, fails: bool = False) -> TrainingImpact:
    """Of four hosts measured in ten rounds, one of which fails once; a port of it goes down so many times."""
    topology = load_inventory(INVENTORY / "demo-rack-healthy.yaml").topology
    hosts = tuple(topology.hosts)[:4]
    phases, probes, results = [], [], {}
    for number in range(ROUNDS):
        phases.append(Phase(f"soak-r{number + 1}", (), label="soak", round=number + 1))
        for who in hosts:
            name = f"{phases[-1].name}/{who}"
            probes.append(Probe(name, "pairwise", phases[-1].name, (who,), (), 600.0, {}))
            bad = fails and (number, who) == (4, hosts[0])
            results[name] = result(name, number, Outcome.FAIL if bad else None, GAVE_UP if bad else "")
    course = CounterCourse([0.0, 4 * HOUR + 60.0], [0, down], 5 * HOUR)  # seen while the probe that died of it ran
    samples = Samples(60.0, {CounterReading(hosts[0], "mlx5_0", "link_downed"): course})
    ports = PortFindings((), {}, links=coverage)
    impact = impact_of(SeenCounters(samples, hosts), probes, results, phases, topology, ports, (), ())
    assert impact is not None
    return impact


@pytest.mark.parametrize(
    ("coverage", "words"),
    [
        (LinkCoverage(96, 96, 60, 192, 0), "no link went down meanwhile"),
        (LinkCoverage(96, 32, 60, 192, 0), "no link that was looked at went down meanwhile"),
        (None, "no link that was looked at went down meanwhile"),
    ],
)
def test_of_links_that_nobody_looked_at_nothing_is_said(coverage: LinkCoverage | None, words: str) -> None:
    assert told(0, coverage).notes[-1] == words


@pytest.mark.parametrize(
    ("fails", "flaps", "words"),
    [(True, 0, "links went down on hosts that failed alone"), (False, 3, "links went down 3 times besides")],
)
def test_a_link_of_a_host_that_failed_went_down_with_it(fails: bool, flaps: int, words: str) -> None:
    """It is not denied, and only of others it is said that no probe died of them."""
    impact = told(3, fails=fails)
    assert impact.flaps == flaps
    assert impact.notes[-1].startswith(words)


def test_a_run_without_rounds_says_why_it_knows_nothing() -> None:
    topology = load_inventory(INVENTORY / "demo-rack-healthy.yaml").topology
    seen = SeenCounters(hosts=tuple(topology.hosts)[:2])
    found = impact_of(seen, [], {}, (), topology, PortFindings((), {}), (), ())
    assert found is not None
    assert (found.gpus, found.mttf_s, found.ettr, found.failures) == (16, None, None, None)
    assert found.notes == ("no failure rate was measured: mean time to failure and ETTR are not known",)
