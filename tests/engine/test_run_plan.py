"""The engine keeps its promises whatever the hosts do: bounded, fail-closed, never two probes on a claim."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.errors import HostUnreachable
from fabric.model.outcome import Outcome
from fabric.model.probe import Command, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.plan import PhasePlan, Plan, schedule
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.runs.events import read_events
from fabric.runs.run_directory import RunDirectory
from tests.builders import Watcher
from tests.engine.scripted import Script, ScriptedExecutor, carried_out

PAGE = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : {device}
 Number of qps   : {qp}\t\tTransport type : IB
 Connection type : RC\t\tUsing SRQ      : OFF
 Link type       : {link}
---------------------------------------------------------------------------------------
{addresses} #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 {size}    {iterations}            0.00               391.20   \t\t   {mpps:.6f}
---------------------------------------------------------------------------------------
"""


def good(command: Command) -> tuple[float, str]:
    """Every transfer takes five seconds, is fast, and is what was asked for."""
    asked = dict(word[2:].split("=", 1) for word in command.argv if "=" in word)
    size, seconds, qps = (int(asked[name]) for name in ("size", "duration", "qp"))
    mpps = 391.2e-3 / 8 / size * 1e6
    sides = ("local", "remote") if command.ready_port else ("remote", "local")
    page = PAGE.format(
        device=asked["ib-dev"],
        qp=qps,
        link="Ethernet" if "gid-index" in asked else "IB",
        addresses="".join(f" {side} address: LID 0x0{n}\n" for n, side in enumerate(sides) for _ in range(qps)),
        size=size,
        iterations=round(mpps * 1e6 * seconds),
        mpps=mpps,
    )
    gpu = f"\nPicking device No. {asked['use_cuda']}\n" if "use_cuda" in asked else ""
    return 5.0, gpu + page


def run(
    tmp_path: Path,
    topology: Topology,
    phases: Sequence[Phase],
    script: Script,
    *,
    gate: Mapping[str, str] | None = None,
) -> tuple[dict[str, ProbeResult], ScriptedExecutor, Watcher]:
    """Run phases over all hosts of a topology."""
    plans = tuple(PhasePlan(p, schedule(expand_phase(p, topology, tuple(topology.hosts))), ()) for p in phases)
    executor, watcher = ScriptedExecutor(script), Watcher()
    directory = RunDirectory.create(tmp_path, "t", {})
    failed = gate or {}
    results = carried_out(
        Plan(plans), topology, executor, directory, observer=watcher, gate=lambda _plan, _results: failed
    )
    directory.close()
    by_id = {result.probe_id: result for result in results}
    assert len(by_id) == len(results)
    return by_id, executor, watcher


LOOPBACK = Phase("intra-host", (LoopbackSpec(),))


class Claim(str):
    """Counts how often any claim was put into a set or a dict, or looked up in one."""

    looked_up = 0

    def __hash__(self) -> int:
        """Of its text."""
        Claim.looked_up += 1
        return super().__hash__()


def look_ups_of(hosts: int, folder: Path) -> int:
    """Of a phase in which three probes of each host wait for one claim, and a fourth for none of theirs."""

    def counted(probe: Probe, number: int) -> Probe:
        return replace(probe, claims=(Claim(f"{probe.hosts[0]}/{'rest' if number == 3 else 'all'}"),))

    topology = rack_topology(hosts, parts=2)
    by_host: dict[str, list[Probe]] = {}
    for probe in expand_phase(LOOPBACK, topology, tuple(topology.hosts)):
        by_host.setdefault(probe.hosts[0], []).append(probe)
    plan = PhasePlan(LOOPBACK, schedule([counted(p, n) for own in by_host.values() for n, p in enumerate(own[:4])]), ())
    executor, directory = ScriptedExecutor(good), RunDirectory.create(folder, f"of-{hosts}", {})
    Claim.looked_up = 0
    results = carried_out(Plan((plan,)), topology, executor, directory)
    directory.close()
    assert len(results) == 4 * hosts
    return Claim.looked_up


@pytest.mark.slow
def test_a_dispatch_looks_up_claims_in_proportion_to_the_hosts(tmp_path: Path) -> None:
    """What falls free on one host is looked up once, not once for each of the others."""
    assert look_ups_of(512, tmp_path) <= 5 * look_ups_of(128, tmp_path)


def test_events_tell_the_whole_story(tmp_path: Path) -> None:
    """Every probe is noted as started and as finished, and its raw output is kept."""
    run(tmp_path, rack_topology(1), [LOOPBACK], good)
    directory = tmp_path / "t" / "latest"
    events = list(read_events(directory / "events.jsonl"))
    started = [probe for event in events if event["event"] == "started" for probe in event["probes"]]
    finished = [event["probe"] for event in events if event["event"] == "finished"]
    assert sorted(started) == sorted(finished)
    raw = (directory / "raw" / "intra-host" / "gpu001.out").read_text()
    entry = raw.split("=== intra-host/gpu001/loopback.mlx5_0.numa0 attempt 1\n")[1].split("===")[0]
    assert "--ib-dev=mlx5_0" in entry
    assert entry.count("391.20") == 2


def test_unreachable_host_is_an_error_and_others_finish(tmp_path: Path) -> None:
    """A dead host is out at once; all its probes are errors of that host; the other host is measured."""

    def script(command: Command) -> tuple[float, str | HostUnreachable]:
        return (3.0, HostUnreachable("gpu002", "connect", "refused")) if command.host == "gpu002" else good(command)

    results, _, watcher = run(tmp_path, rack_topology(2), [LOOPBACK], script)
    assert watcher.out == ["gpu002"]
    dead = [r for r in results.values() if "gpu002" in r.probe_id]
    assert {(r.outcome, r.error_host) for r in dead} == {(Outcome.ERROR, "gpu002")}
    assert all(r.outcome is None for r in results.values() if "gpu001" in r.probe_id)


def test_hung_host_is_bounded(tmp_path: Path) -> None:
    """A host on which nothing ever ends is out after a few deadlines, not after one deadline a probe."""

    def script(command: Command) -> tuple[float, str | None]:
        return (0.0, None) if command.host == "gpu002" else good(command)

    results, executor, watcher = run(tmp_path, rack_topology(2), [LOOPBACK], script)
    assert watcher.out == ["gpu002"]
    assert sum(command.host == "gpu002" for command in executor.commands) <= 24
    assert all(r.outcome is None for r in results.values() if "gpu001" in r.probe_id)


def test_what_runs_on_a_host_that_went_out_is_given_up(tmp_path: Path) -> None:
    """A collective with a long deadline does not hold up the run when its host is out already."""

    def script(command: Command) -> tuple[float, str | None]:
        return 0.0, None

    topology = rack_topology(1)
    phase = Phase("intra-host", (AllToAllSpec(), LoopbackSpec()))
    results, executor, watcher = run(tmp_path, topology, [phase], script)
    assert watcher.out == ["gpu001"]
    assert {result.outcome for result in results.values()} == {Outcome.ERROR}
    (collective,) = (command for command in executor.commands if "alltoall_perf" in command.argv)
    assert executor.now() <= collective.timeout_s / 2
    (why,) = {result.reason for result in results.values() if "given up" in result.reason}
    assert re.fullmatch(r"gpu001: given up: [0-9]+ errors in a row, the last: no answer within [0-9]+ s", why)


def test_a_host_that_went_out_is_named_once_in_each_reason(tmp_path: Path) -> None:
    """Whether a probe of it was under way or not begun."""

    def script(command: Command) -> tuple[float, HostUnreachable]:
        return 3.0, HostUnreachable("gpu001", "connect", "refused")

    results, _, _ = run(tmp_path, rack_topology(1), [LOOPBACK], script)
    reasons = {result.reason for result in results.values()}
    assert reasons >= {"gpu001: connect: refused", "not run: gpu001 is out of the run: connect: refused"}
    assert all(reason.count("gpu001") == 1 for reason in reasons)


def test_one_hung_part_does_not_take_the_host_out(tmp_path: Path) -> None:
    """When only one RNIC hangs, it alone is given up, after a few deadlines; the rest of its host is measured."""

    def script(command: Command) -> tuple[float, str | None]:
        return (0.0, None) if any("mlx5_3" in word for word in command.argv) else good(command)

    results, executor, watcher = run(tmp_path, rack_topology(1), [LOOPBACK], script)
    assert watcher.out == ["gpu001/mlx5_3"]
    assert sum("--ib-dev=mlx5_3" in command.argv for command in executor.commands) <= 8
    assert {r.outcome for p, r in results.items() if "mlx5_3" in p} == {Outcome.ERROR}
    assert {r.outcome for p, r in results.items() if "mlx5_3" not in p} == {None}


def test_a_server_that_never_ends_did_not_answer_its_client(tmp_path: Path) -> None:
    """A name that leads elsewhere, or a server of yesterday on the same port: what was measured is not known."""

    def script(command: Command) -> tuple[float, str | None]:
        return (0.0, None) if command.ready_port else good(command)

    results, _, _ = run(tmp_path, rack_topology(1), [LOOPBACK], script)
    first = next(iter(results.values()))
    assert first.outcome is Outcome.ERROR
    assert first.reason == "gpu001: the server did not end within 10 s of its client: another may have answered"


def test_garbage_is_an_error_not_a_number(tmp_path: Path) -> None:
    """Output that is no table is an ERROR that quotes what was seen."""
    results, _, _ = run(tmp_path, rack_topology(1), [LOOPBACK], lambda command: (5.0, "\x00\ufffdgarbage"))
    assert {r.outcome for r in results.values()} == {Outcome.ERROR}


def test_gate_skips_with_the_reason(tmp_path: Path) -> None:
    """A host that did not pass is skipped in the phase that needs it, pairs with it included; others run."""
    topology = rack_topology(4)
    phases = [Phase("a", (RnicToRnicSpec(),)), Phase("b", (TorAllReduceSpec(),), needs=("a",))]

    def script(command: Command) -> tuple[float, str]:
        return good(command) if command.ready_port or "--size=65536" in command.argv else (5.0, "no table")

    results, _, _ = run(tmp_path, topology, phases, script, gate={"gpu002": "1 loopback fail"})
    skipped = {p for p, r in results.items() if r.outcome is Outcome.SKIPPED}
    assert skipped == {"b/gpu001+gpu002/tor_all_reduce", "b/gpu002+gpu003/tor_all_reduce"}
    assert "gpu002: did not pass a: 1 loopback fail" in results["b/gpu001+gpu002/tor_all_reduce"].reason
