"""Neighbours of a host that is left out, or goes, are measured with the next one in the ring."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.errors import HostUnreachable
from fabric.model.command import Command
from fabric.model.outcome import Outcome
from fabric.model.scenario import Phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.runs.events import history_of, read_events, replanned
from tests.engine.test_run_plan import good, run

PHASES = [Phase("a", (LoopbackSpec(),)), Phase("b", (TorAllReduceSpec(repeat=2),), needs=("a",))]
TOR = Phase("b", (TorAllReduceSpec(),))


def script(command: Command) -> tuple[float, str]:
    """All is well inside hosts; what several hosts say together does not matter here."""
    return good(command) if any(word.startswith("--ib-dev=") for word in command.argv) else (5.0, "no table")


def pair(a: int, b: int, name: str = "tor_all_reduce") -> str:
    """The probe id of two hosts."""
    return f"b/gpu{a:03d}+gpu{b:03d}/{name}"


def test_both_neighbours_of_a_host_that_did_not_pass_are_measured_with_each_other(tmp_path: Path) -> None:
    """Each repetition once, and the lost pairs say so."""
    results, _, _ = run(tmp_path, rack_topology(5), PHASES, script, gate={"gpu003": "slow"})
    assert {results[pair(2, 4, f"tor_all_reduce.r{n}")].attempt for n in (1, 2)} == {1}
    lost = results[pair(2, 3, "tor_all_reduce.r1")]
    assert lost.outcome is Outcome.SKIPPED
    assert lost.reason == "gpu003: did not pass a: slow; re-planned as gpu002+gpu004"
    assert len([name for name in results if name.startswith("b/")]) == 2 * (5 + 1)


def test_a_host_that_is_measured_with_others_anyway_lacks_nothing(tmp_path: Path) -> None:
    """Of three hosts in a ring the other two are each other's neighbours."""
    results, _, _ = run(tmp_path, rack_topology(3), PHASES, script, gate={"gpu002": "slow"})
    lost = results[pair(1, 2, "tor_all_reduce.r1")]
    assert lost.outcome is Outcome.SKIPPED
    assert lost.reason.endswith("gpu001 is measured with others as planned")
    assert results["b/gpu003+gpu001/tor_all_reduce.r1"].attempt == 1


def test_where_no_other_partner_is_left_it_is_inconclusive(tmp_path: Path) -> None:
    """Of three hosts in a ring one is left."""
    results, _, _ = run(tmp_path, rack_topology(3), PHASES, script, gate={"gpu002": "slow", "gpu003": "slow"})
    lost = results[pair(1, 2, "tor_all_reduce.r1")]
    assert lost.outcome is Outcome.INCONCLUSIVE
    assert lost.reason.endswith("no other partner for gpu001 is in the run")


def test_the_history_tells_all_of_a_new_probe(tmp_path: Path) -> None:
    """Enough to judge it from the run's directory alone."""
    run(tmp_path, rack_topology(5), PHASES, script, gate={"gpu003": "slow"})
    events = list(read_events(tmp_path / "t" / "latest" / "events.jsonl"))
    first = replanned(events)[0]
    assert first.hosts == ("gpu002", "gpu004")
    assert set(first.claims) == {
        f"{host}/{part}{n}" for host in first.hosts for part in ("gpu", "mlx5_") for n in range(8)
    }
    assert (first.params["series"], first.params["ranks"]) == ("gpu002+gpu004/tor_all_reduce", 16)
    assert isinstance(first.params["sizes_bytes"], tuple)
    assert {probe.probe_id for probe in replanned(events)} <= set(history_of(events).results)


def gone(command: Command) -> tuple[float, str | HostUnreachable | None]:
    """gpu003 is: what is started there cannot be, and who measures with it waits for ever."""
    if command.host == "gpu003":
        return 3.0, HostUnreachable("gpu003", "connect", "refused")
    return (0.0, None) if any("gpu003" in word for word in command.argv) else (5.0, "no table")


def test_a_host_that_goes_in_the_middle_leaves_its_neighbours_to_each_other(tmp_path: Path) -> None:
    """It is out after one of its probes, blamed alone, and what was lost with it is replaced."""
    results, _, watcher = run(tmp_path, rack_topology(5), [TOR], gone)
    assert watcher.out == ["gpu003"]
    assert results[pair(2, 4)].attempt == 1
    events = read_events(tmp_path / "t" / "latest" / "events.jsonl")
    assert [event["instead_of"] for event in events if event["event"] == "replanned"] == [pair(3, 4)]
    blamed = {result.error_host for result in results.values() if result.error_host is not None}
    assert blamed == {"gpu003"}


def test_a_tool_that_says_nothing_of_use_blames_no_host_that_answers(tmp_path: Path) -> None:
    """All are asked for a word, and all say it: whose the error is, nobody knows."""
    results, _, watcher = run(tmp_path, rack_topology(3), [TOR], script)
    assert watcher.out == []
    assert {(result.outcome, result.error_host) for result in results.values()} == {(Outcome.ERROR, None)}


PAIRS = Phase("b", (PairwiseSpec(size_bytes=8 << 20, rounds=2, repeat=2),), needs=("a",))


@pytest.mark.parametrize("out", [{"gpu003"}, {"gpu001", "gpu003"}, {"gpu003", "gpu004"}])
def test_pairs_of_a_host_that_is_left_out_are_measured_with_hosts_that_are_in(tmp_path: Path, out: set[str]) -> None:
    """Everybody else is measured in each round, on each rail, as often as planned."""
    rack = rack_topology(6)
    results, _, _ = run(tmp_path, rack, [PHASES[0], PAIRS], script, gate=dict.fromkeys(out, "slow"))
    measured: dict[tuple[str, str], set[str]] = {}
    for name, result in results.items():
        phase, hosts, test = name.split("/")
        if phase == "b" and result.attempt:
            assert out.isdisjoint(hosts.split("+"))
            for host in hosts.split("+"):
                measured.setdefault((host, test), set()).add(name)
    tests = {test for _, test in measured}
    assert len(tests) == 8 * 2 * 2
    assert {key for key in measured} == {(host, test) for host in rack.hosts if host not in out for test in tests}


def test_two_hosts_that_lost_their_partners_are_given_each_other(tmp_path: Path) -> None:
    """One test serves both, and each repetition of it is begun once."""
    gate = {"gpu001": "slow", "gpu003": "slow"}
    phases = [PHASES[0], Phase("b", (PairwiseSpec(size_bytes=8 << 20, rounds=1, repeat=2),), needs=("a",))]
    results, _, _ = run(tmp_path, rack_topology(6), phases, script, gate=gate)
    added = {name for name in results if "/gpu002+gpu004/" in name}
    assert len(added) == 8 * 2
    assert all(results[name].attempt == 1 for name in added)
    assert len([name for name in results if name.startswith("b/")]) == 8 * 2 * (3 + 1)
