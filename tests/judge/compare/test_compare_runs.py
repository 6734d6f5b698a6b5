"""Two runs: what became worse is named, what did not is not, and too little is no answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measured_rack import Factor, healthy, measured, probes_of, rack_topology, slow_rnic
from fabric.judge.compare import compare_runs
from fabric.model.comparison import WHOLE, Comparison, Difference
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Topology

Run = tuple[list[Probe], dict[str, ProbeResult]]

RACK = rack_topology(4)
SMALL = rack_topology(2, parts=4)
"""Where it is not counted what is in a run."""


def compare(first: Run, second: Run, *, topology: Topology = RACK) -> Comparison:
    """The comparison of two runs of a rack."""
    return compare_runs(first, second, topology=topology)


def run(topology: Topology, *, seed: int, factor: Factor = healthy, repeat: int = 1, cv: float = 0.004) -> Run:
    """A measured run."""
    pairs = measured(probes_of(topology, repeat=repeat), cv=cv, seed=seed, factor=factor, host_spread=0.0)
    return [probe for probe, _ in pairs], {probe.probe_id: result for probe, result in pairs}


def with_change(found: Comparison, change: Difference) -> list[str]:
    """The components of which that became."""
    return [row.component for row in found.rows if row.change is change]


def test_two_healthy_runs_are_the_same() -> None:
    """Noise is no change, and every component has its interval."""
    found = compare(run(SMALL, seed=1), run(SMALL, seed=2))
    assert found.change is Difference.SAME
    assert all(
        row.low is not None and row.low < 1.0 < (row.high or 0.0) for row in found.rows if row.component == WHOLE
    )


@pytest.mark.parametrize(("before", "after", "change"), [(1.0, 0.9, Difference.WORSE), (0.9, 1.0, Difference.BETTER)])
def test_an_rnic_that_changed_is_named(rack: Topology, before: float, after: float, change: Difference) -> None:
    """Before and after a repair, or the reverse: that RNIC and no host, no partner, not the whole."""
    runs = [
        run(rack, seed=seed, factor=slow_rnic("gpu002/mlx5_3", factor)) for seed, factor in ((1, before), (2, after))
    ]
    found = compare(*runs)
    assert set(with_change(found, change)) == {"gpu002/mlx5_3"}
    assert found.change is change
    [row] = [row for row in found.rows if row.change is change and row.kind == "rnic_to_rnic"]
    assert row.ratio == pytest.approx(after / before, rel=0.02)
    assert (row.low or 0.0) < (row.ratio or 0.0) < (row.high or 0.0)


def test_how_much_of_each_run_is_in_both_is_counted(rack: Topology) -> None:
    """A short run after a long one: the whole of the second, a part of the first."""
    probes, results = run(rack, seed=2)
    some = [probe for probe in probes if probe.kind == "loopback" and probe.hosts == (probes[0].hosts[0],)]
    short = (some, {probe.probe_id: results[probe.probe_id] for probe in some})
    found = compare(run(rack, seed=1), short)
    assert found.common == found.measured_second == len(some)
    assert found.measured_first == len(probes)


def test_all_of_it_slower_is_worse_everywhere() -> None:
    """A firmware that costs 8 %: the whole is worse, and stands first."""
    found = compare(run(SMALL, seed=1), run(SMALL, seed=2, factor=lambda probe: 0.92))
    assert found.change is Difference.WORSE
    assert {row.change for row in found.rows} == {Difference.WORSE}


def test_a_path_seen_once_is_inconclusive_and_repeated_worse() -> None:
    """One sample of one path proves nothing; three do."""

    def one_path(probe: Probe) -> float:
        return 0.85 if probe.params["series"] == "mlx5_3.gpu1" and probe.hosts == ("gpu002",) else 1.0

    once = compare(run(SMALL, seed=1), run(SMALL, seed=2, factor=one_path))
    assert "gpu002/mlx5_3.gpu1" in with_change(once, Difference.INCONCLUSIVE)
    assert once.change is Difference.INCONCLUSIVE
    thrice = compare(run(SMALL, seed=1, repeat=3), run(SMALL, seed=2, repeat=3, factor=one_path))
    assert "gpu002/mlx5_3->gpu1" in with_change(thrice, Difference.WORSE)


def test_what_the_fabric_failed_afterwards_is_worse_without_a_number() -> None:
    """A port that went down carries nothing: worse, and better when it comes back."""
    probes, results = run(SMALL, seed=1)
    down = {
        probe.probe_id: replace(results[probe.probe_id], measurements=(), outcome=Outcome.FAIL, reason="port down")
        if probe.hosts == ("gpu002",) and "mlx5_3" in (probe.params.get("rnic"), probe.params.get("peer_rnic"))
        else results[probe.probe_id]
        for probe in probes
    }
    found = compare((probes, results), (probes, down))
    assert set(with_change(found, Difference.WORSE)) == {"gpu002/mlx5_3"}
    assert compare((probes, down), (probes, results)).change is Difference.BETTER


def test_what_could_not_be_measured_again_is_no_proof(rack: Topology) -> None:
    """ERROR or not reached in the second run: INCONCLUSIVE, and said; planned only in one: said."""
    probes, results = run(rack, seed=1)
    again = dict(results)
    gone = [probe.probe_id for probe in probes if probe.hosts == ("gpu004",)]
    for name in gone:
        again[name] = replace(results[name], measurements=(), outcome=Outcome.ERROR, reason="timeout")
    found = compare((probes, results), (probes, again))
    assert (found.change, found.unmeasured) == (Difference.INCONCLUSIVE, len(gone))
    assert found.only_first == (
        "80 loopback of intra-host on gpu004, asked of the second run, too, and not measured there: timeout",
        "56 rnic_to_rnic of intra-host on gpu004, asked of the second run, too, and not measured there: timeout",
    )
    fewer = [probe for probe in probes if probe.hosts != ("gpu004",)]
    found = compare((probes, results), (fewer, results))
    assert found.change is Difference.INCONCLUSIVE
    assert found.only_first == ("80 loopback of intra-host on gpu004", "56 rnic_to_rnic of intra-host on gpu004")


def ended(of: Run, host: str, outcome: Outcome) -> Run:
    """The same run, in which all of a host ended like that."""
    probes, results = of
    mine = {probe.probe_id for probe in probes if probe.hosts == (host,)}
    return probes, {
        name: replace(one, measurements=(), outcome=outcome, reason="as said") if name in mine else one
        for name, one in results.items()
    }


def test_what_only_one_run_measured_leaves_it_open_in_either_direction() -> None:
    """Interrupted, on fewer hosts, not measured where the fabric failed before, or in neither run."""
    probes, results = whole = run(SMALL, seed=1)
    few = [probe for probe in probes if probe.hosts == ("gpu001",)]
    dead, unread = (ended(whole, "gpu002", outcome) for outcome in (Outcome.FAIL, Outcome.ERROR))
    for other in ((probes, dict(list(results.items())[:30])), (few, results), unread):
        for pair in ((whole, other), (other, whole)):
            found = compare(*pair)
            assert (found.change, found.unmeasured > 0) == (Difference.INCONCLUSIVE, True)
    for pair in ((dead, unread), (unread, dead), (unread, unread)):
        assert compare(*pair).change is Difference.INCONCLUSIVE
    assert compare(unread, unread).in_neither
    assert compare(dead, dead).change is Difference.SAME


def test_what_a_run_added_or_left_out_because_of_a_bad_host_is_no_gap() -> None:
    """Follow-ups and pairs that were planned again belong to one run; a repaired host does more than before."""
    probes, results = whole = run(SMALL, seed=1)
    few = [probe for probe in probes if probe.hosts == ("gpu001",)]
    beyond = {probe.probe_id for probe in probes} - {probe.probe_id for probe in few}
    found = compare_runs(whole, (few, results), topology=SMALL, added=(beyond, ()))
    assert (found.change, bool(found.only_first)) == (Difference.SAME, True)
    skipped = ended(whole, "gpu002", Outcome.SKIPPED)
    assert compare(skipped, whole).change is Difference.SAME
    assert compare(whole, skipped).change is Difference.INCONCLUSIVE


def test_nothing_in_common_is_no_answer(rack: Topology) -> None:
    """No row, no verdict."""
    assert compare(([], {}), ([], {})).change is Difference.INCONCLUSIVE


def test_too_few_to_know_the_spread_is_no_answer(rack: Topology) -> None:
    """Two probes, once each: what healthy noise would be is not known."""
    probes, results = run(rack, seed=1)
    found = compare((probes[:2], results), (probes[:2], run(rack, seed=2)[1]))
    assert found.change is Difference.INCONCLUSIVE
    assert {row.note for row in found.rows} == {"too few to know the spread"}


def test_latencies_are_no_bandwidths(rack: Topology) -> None:
    """Twice the latency is not BETTER: it is not compared."""

    def latencies(of: Run) -> Run:
        probes, results = of
        return probes, {
            name: replace(one, measurements=tuple(replace(m, metric="typical", unit="us") for m in one.measurements))
            for name, one in results.items()
        }

    found = compare(latencies(run(rack, seed=1)), latencies(run(rack, seed=2, factor=lambda _: 2.0)))
    assert found.change is Difference.INCONCLUSIVE
    assert not with_change(found, Difference.BETTER)
