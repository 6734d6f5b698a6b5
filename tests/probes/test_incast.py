"""Incasts and victims on simulated hosts with queues: congested is told from bad, and neither is blamed on a host."""

from pathlib import Path

import pytest

from fabric.judge.normal.kinds import counts_of
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, CommandResult, Measurement, Probe, ProbeResult
from fabric.model.topology import Topology
from fabric.model.verdict import JudgedRun
from fabric.probes.at_once import COUNT
from fabric.probes.incast import IncastSpec
from fabric.probes.victim import VictimSpec
from tests.builders import asked, on_mock
from tests.places import INVENTORY, SCENARIOS

SCENARIO = SCENARIOS / "incast.yaml"


def run(
    folder: Path,
    entry: str,
    *faults: str,
    mock: str = "",
    hosts: str = "gpu[01-20]",
    then: str = "",
    changes: str = "[]",
) -> JudgedRun:
    """It was run on simulated hosts whose network has queues; *mock* are settings that replace or add to those."""
    (folder / "baselines").symlink_to(INVENTORY / "baselines")
    text = (INVENTORY / "roce-queues.yaml").read_text().replace("congestion: dcqcn}", f"congestion: dcqcn{mock}}}")
    (folder / "roce.yaml").write_text(text)
    scenario = folder / "incast.yaml"
    phases = f"phases: [{{name: p, changes: {changes}, probes: [{entry}]}}{then}]\n"
    scenario.write_text(f"name: incast\ndescription: x\ninventory: roce.yaml\nhosts: all\n{phases}")
    return on_mock(asked(scenario, hosts=hosts, faults=faults), folder)


def test_one_server_port_for_each_sender_and_counters_of_all() -> None:
    """As perftest needs it: a server serves one client; what ports count is read on every host."""
    topology = asked(SCENARIO).inventory.topology
    probe = first(IncastSpec(senders=(3,)), topology)
    made = IncastSpec.commands(probe, topology)
    receiver = probe.hosts[-1]
    clients = (made.client, *made.beside)
    assert [one.host for one in clients] == list(probe.hosts[:-1])
    assert {one.host for one in made.servers} == {receiver}
    ports = [next(word for word in one.argv if word.startswith("--port=")) for one in made.servers]
    assert len(set(ports)) == 3
    assert [next(word for word in one.argv if word.startswith("--port=")) for one in clients] == ports
    assert [one.host for one in made.counters] == list(probe.hosts)
    assert len({topology.hosts[name].leaves for name in probe.hosts[:-1]}) == 3  # leaf after leaf


def first(spec: IncastSpec, topology: Topology) -> Probe:
    """The first probe of an entry on all hosts."""
    return next(iter(spec.expand(phase="p", topology=topology, hosts=list(topology.hosts), ports=iter(()))))


def test_a_victim_shares_no_destination_with_the_incast() -> None:
    """Its sender is on the leaf of the first senders, its receiver on that of the incast's."""
    topology = asked(SCENARIO).inventory.topology
    spec = VictimSpec(senders=(4,))
    alone, beside = list(spec.expand(phase="p", topology=topology, hosts=list(topology.hosts), ports=iter(())))[:2]
    victim, *others = VictimSpec.flows(beside)
    assert VictimSpec.flows(alone) == [victim]
    assert len(others) == 4
    assert {receiver for _, receiver in others} == {beside.hosts[-1]}
    assert beside.hosts[-1] not in victim
    leaves = {name: topology.hosts[name].leaves[0] for name in beside.hosts}
    assert leaves[victim[0]] == leaves[others[0][0]]
    assert leaves[victim[1]] == leaves[beside.hosts[-1]] != leaves[victim[0]]


BOTH_SLOW = ("gpu09/mlx5_0:slow=0.3", "gpu17/mlx5_0:slow=0.3")
NOTHING = ", ecn: false, pfc: false"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("senders", "mock", "faults", "outcome", "said"),
    [
        (4, "", (), Outcome.PASS, ""),
        (4, ", pfc: false", (), Outcome.MARGINAL, "at line rate, but not lossless"),
        (4, NOTHING, (), Outcome.FAIL, "packets are lost"),
        (4, f"{NOTHING}, retransmission: selective_repeat", (), Outcome.MARGINAL, "not lossless"),
        (19, ", ecn: false", (), Outcome.MARGINAL, "unevenly"),
        (4, "", ("gpu01/mlx5_0:slow=0.5",), Outcome.FAIL, "the receiver pauses its switch"),
        (2, "", BOTH_SLOW, Outcome.FAIL, "nobody was told to slow down"),
    ],
)
def test_congested_is_told_from_bad(
    tmp_path: Path, senders: int, mock: str, faults: tuple[str, ...], outcome: Outcome, said: str
) -> None:
    """By the sum at the receiver, what ports counted meanwhile, and how even the senders are; nobody is accused."""
    judged = run(tmp_path, f"incast: {{senders: [{senders}]}}", *faults, mock=mock).verdict
    found = judged.probes[0]
    assert (found.outcome, found.limit_gbps) == (outcome, 360.0)
    assert said in found.reason
    assert judged.suspects == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("senders", "changes", "outcome", "said"),
    [
        (19, "[{dcqcn: {priority: 3, rp: off}}]", Outcome.MARGINAL, "unevenly"),
        (19, "[{dcqcn: {priority: 3, np: off}}]", Outcome.MARGINAL, "unevenly"),
        (4, "[{pfc: off, priority: 3, scope: fabric}]", Outcome.MARGINAL, "at line rate, but not lossless"),
        (4, "[{dcqcn: {priority: 3, np: off}}, {pfc: off, priority: 3, scope: fabric}]", Outcome.FAIL, "are lost"),
        (4, "[{dcqcn: {priority: 4, rp: off}}, {pfc: off, priority: 4, scope: fabric}]", Outcome.PASS, ""),
    ],
)
def test_what_is_set_at_rnics_is_felt(tmp_path: Path, senders: int, changes: str, outcome: Outcome, said: str) -> None:
    """PFC, NP and RP of the class, as the mock's own settings are; those of another class are not, nor what is over."""
    then = ", {name: q, probes: [{incast: {senders: [4]}}]}"
    judged = run(tmp_path, f"incast: {{senders: [{senders}]}}", then=then, changes=changes).verdict
    found, *_ = (one for one in judged.probes if one.probe_id.startswith("p/"))
    assert (found.outcome, said in found.reason) == (outcome, True), found.reason
    assert {one.outcome for one in judged.probes if one.probe_id.startswith("q/")} == {Outcome.PASS}


@pytest.mark.slow
def test_only_marks_keep_a_victim_out_of_an_incast(tmp_path: Path) -> None:
    """With ECN it loses what the few flows on its cable have by right; with PFC alone it waits with all of them."""
    least = {}
    for ecn in ("true", "false"):
        (tmp_path / ecn).mkdir()
        entry = "victim: {senders: [16], repeat: 3}"  # each time by other ways: some share a cable with the incast
        judged = run(tmp_path / ecn, entry, mock=f", ecn: {ecn}", hosts="gpu[01-32]").verdict
        assert judged.outcome is (Outcome.PASS if ecn == "true" else Outcome.FAIL)
        least[ecn] = min(one.value_gbps or 0.0 for one in judged.probes)
    assert least["true"] > 0.6 * 400
    assert least["false"] < 0.2 * 400


def test_a_bad_incast_keeps_nobody_out(tmp_path: Path) -> None:
    """All hosts share what it measures: it accuses none of them, and the next phase has them all."""
    then = ", {name: q, needs: [p], probes: [{pairwise: {rounds: 1}}]}"
    judged = run(tmp_path, "incast: {senders: [4]}", mock=NOTHING, then=then).verdict
    assert {one.outcome for one in judged.probes if one.probe_id.startswith("p/")} == {Outcome.FAIL}
    assert {one.outcome for one in judged.probes if one.probe_id.startswith("q/")} == {Outcome.PASS}


def test_a_sender_whose_port_is_down_is_named(tmp_path: Path) -> None:
    """One of several clients fails: what it says is the reading, and nothing hangs."""
    judged = run(tmp_path, "incast: {senders: [4]}", "gpu17/mlx5_0:broken").verdict
    assert judged.probes[0].outcome is Outcome.FAIL
    assert "gpu17" in judged.probes[0].reason


def result(**counts: float) -> ProbeResult:
    """A probe whose counters grew so; ``receivers_x`` is of the receivers."""
    named = {f"{name.partition('_')[0]} {name.partition('_')[2]}": value for name, value in counts.items()}
    measured = [Measurement("p", name, value, COUNT) for name, value in named.items()]
    return ProbeResult("p", 1, (Measurement("p", "bandwidth", 100.0, "Gb/s", 65536), *measured), None, "", 0.0, 1.0)


def test_what_is_not_counted_is_not_zero() -> None:
    """PFC's counters are there only where PFC is on (linux: mlx5 counters.rst)."""
    nothing, quiet = counts_of(result()), counts_of(result(receivers_np_cnp_sent=0.0, receivers_out_of_sequence=0.0))
    assert (nothing.held_back, nothing.lost) == (None, None)
    assert (quiet.held_back, quiet.lost) == (False, False)
    assert "us of pauses not counted" in quiet.text


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        (1, "Couldn't listen to port 18515", "ib_write_bw on mlx5_0: Couldn't listen to port 18515"),
        (0, "Version: 6.0", "ib_write_bw ended at once, exit 0: 'Version: 6.0'"),
    ],
)
def test_a_server_that_ends_at_once_is_what_is_told(status: int, text: str, said: str) -> None:
    """Not that the client of another flow, whose own server was well, was never started."""
    topology = asked(SCENARIO).inventory.topology
    probe = first(IncastSpec(senders=(3,)), topology)
    server = IncastSpec.commands(probe, topology).servers[-1]
    answered = Answered([CommandResult(server, status, "", f"{text}\n", 0.0, 0.1)], None)
    assert IncastSpec.read(probe, topology, answered).reason.endswith(said)
