"""The kinds expand to probes with stable unique ids: who is measured with whom, and what each holds alone."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measured_rack import rack_topology
from fabric.config.inventory import load_inventory
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, CommandResult, NamedPart, Probe
from fabric.model.scenario import Phase, ProbeSpec
from fabric.model.topology import Topology
from fabric.plan import schedule
from fabric.probes.all_to_all import AllToAllSpec, groups
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec, GroupAllToAllSpec
from fabric.probes.kinds import KINDS, expand_phase, left_out
from fabric.probes.link_burn import BurnFlow, LinkBurnSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec, other_pairs


@pytest.mark.parametrize(
    ("spec", "count"),
    [(LoopbackSpec(), 80), (RnicToRnicSpec(), 56), (AllToAllSpec(), 7), (AllToAllSpec(halves=False), 1)],
)
def test_probes_per_host(spec: ProbeSpec, count: int) -> None:
    """8 x (8 + 2) = 80 loopback pairs, 8 x 7 = 56 ordered RNIC pairs, all-to-all whole and in 6 halves."""
    topology = rack_topology(1)
    assert len(expand_phase(Phase("p", (spec,)), topology, tuple(topology.hosts))) == count


def test_commands_name_both_ends(rack: Topology) -> None:
    """A GPU loopback has its server and client on the same RNIC and GPU, the server first."""
    probes = expand_phase(Phase("p", (LoopbackSpec(),)), rack, ("gpu001",))
    probe = next(p for p in probes if p.params["rnic"] == "mlx5_3" and p.params["endpoint"] == "gpu5")
    commands = KINDS["loopback"].commands(probe, rack)
    server, client = commands.servers[0], commands.client
    assert server.ready_port == probe.params["port"]
    assert client.argv[-1] == "127.0.0.1"
    for side in (server, client):
        assert any("mlx5_3" in word for word in side.argv)
        assert "--use_cuda=5" in side.argv


@pytest.mark.parametrize("gpu", range(8))
def test_halves_name_each_gpu(gpu: int) -> None:
    """Every GPU has a signature of its own among the halves."""
    halves = [members for label, members in groups(range(8), halves=True) if label != "all"]
    signatures = {g: tuple(g in half for half in halves) for g in range(8)}
    assert list(signatures.values()).count(signatures[gpu]) == 1


@pytest.mark.parametrize(("hosts", "pairs"), [(1, 0), (2, 1), (3, 3), (8, 8)])
def test_tor_ring(hosts: int, pairs: int) -> None:
    """n > 2 hosts form a ring of n pairs; two form one; one has no neighbour, and that is said."""
    topology = rack_topology(hosts)
    phase = Phase("p", (TorAllReduceSpec(),))
    probes = expand_phase(phase, topology, tuple(topology.hosts))
    assert len(probes) == pairs
    notes = left_out(phase, tuple(topology.hosts), probes, topology)
    assert [note.text.split(":")[0] for note in notes] == (["no tor_all_reduce on gpu001"] if hosts == 1 else [])


def test_tor_forces_ring_and_exact_devices(rack: Topology) -> None:
    """NCCL_ALGO=RING and exact device names reach the launched processes."""
    probe = expand_phase(Phase("p", (TorAllReduceSpec(),)), rack, tuple(rack.hosts))[0]
    argv = KINDS["tor_all_reduce"].commands(probe, rack).client.argv
    assert "NCCL_ALGO=RING" in argv
    assert any(word.startswith("NCCL_IB_HCA==mlx5_0:1,") for word in argv)


def test_rnics_that_nothing_joins_are_not_measured_and_that_is_said() -> None:
    """Rails by themselves: no pair of RNICs has a way; nothing is missed, and a note says why."""
    listed = rack_topology(2)
    rails = replace(listed, switches={name: one for name, one in listed.switches.items() if one.tier == "leaf"})
    phase = Phase("p", (RnicToRnicSpec(),))
    probes = expand_phase(phase, rails, tuple(rails.hosts))
    assert probes == []
    said = left_out(phase, tuple(rails.hosts), probes, rails)
    assert list(map(str, said)) == [
        "note: rnic_to_rnic on gpu[001-002]: 56 of 56 pairs are not measured: nothing joins their leaves"
    ]


@pytest.mark.parametrize(("routing", "at_once"), [("ftree", 16), (None, 16), ("ecmp", 1), ("lft_random", 1)])
def test_where_ways_are_drawn_a_leaf_sends_one_pair_of_rnics_at_a_time(routing: str | None, at_once: int) -> None:
    """Two that begin together may be laid on one cable by a hash, and look slow; a static way is known to be apart."""
    listed = load_inventory(Path(__file__).parents[2] / "inventory" / "pod-64.yaml").topology
    topology = replace(listed, routing=routing)
    probes = expand_phase(Phase("p", (RnicToRnicSpec(),)), topology, tuple(topology.hosts))
    assert probes
    begun = [slot.probe for slot in schedule(probes).slots if slot.start_s == 0]
    up = Counter(claim.partition(".")[0] for probe in begun for claim in probe.claims if ":up." in claim)
    assert max(up.values()) == at_once


RACK = rack_topology(3)
RING = tuple(
    BurnFlow(f"gpu00{a}", f"mlx5_{rail}", f"gpu00{b}", f"mlx5_{rail}")
    for a, b in ((1, 2), (2, 3), (3, 1))
    for rail in range(8)
)
BACK = tuple(BurnFlow(flow.peer, flow.peer_device, flow.host, flow.device) for flow in RING)


def expanded(spec: LinkBurnSpec, hosts: tuple[str, ...] = tuple(RACK.hosts)) -> list[Probe]:
    """Its probes."""
    return expand_phase(Phase("burn", (spec,)), RACK, hosts)


def test_an_rnic_sends_and_receives_at_once_but_each_only_once() -> None:
    claims = [claim for probe in expanded(LinkBurnSpec(stages=(RING,))) for claim in probe.claims]
    assert len(set(claims)) == len(claims) == 2 * 24
    assert {"gpu001/mlx5_0:out", "gpu001/mlx5_0:in"} <= set(claims)


def test_servers_on_one_host_listen_on_ports_of_their_own() -> None:
    probes = expanded(LinkBurnSpec(stages=(RING,)))
    ports = [(probe.hosts[-1], probe.params["port"]) for probe in probes]
    assert len(set(ports)) == len(ports)


def test_stages_have_ids_of_their_own_and_keep_their_numbers_when_split() -> None:
    spec = LinkBurnSpec(stages=(RING, BACK))
    together = expanded(spec)
    apart = [probe for one in spec.one_by_one() for probe in expanded(one)]
    assert together == apart
    assert len({probe.probe_id for probe in together}) == 48
    assert [probe.params["stage"] for probe in together] == [0] * 24 + [1] * 24


@pytest.mark.parametrize(("memory", "gpu"), [("gpu", True), ("host", False)])
def test_buffers_are_on_the_nearest_gpu_or_next_to_the_rnic(memory: str, gpu: bool) -> None:
    probe = expanded(LinkBurnSpec(stages=(RING[3:4],), memory=memory))[0]
    made = LinkBurnSpec.commands(probe, RACK)
    for command in (made.client, *made.servers):
        assert ("--use_cuda=3" in command.argv) is gpu
        assert "--ib-dev=mlx5_3" in command.argv
        assert "--report_gbits" in command.argv
        assert "--duration=1800" in command.argv
    assert (made.servers[0].host, made.client.host, made.client.argv[-1]) == ("gpu002", "gpu001", "gpu002")


@pytest.mark.parametrize(
    ("said", "outcome", "condition"),
    [
        ("Port number 1 state is Down\n Couldn't set the link layer\n", Outcome.FAIL, "down"),
        ("Failed to modify QP 18 to RTR\n Unable to Connect the HCA's through the link\n", Outcome.ERROR, "unreached"),
    ],
)
def test_an_rnic_that_cannot_begin_is_named(said: str, outcome: Outcome, condition: str) -> None:
    probe = expanded(LinkBurnSpec(stages=(RING[:1],)))[0]
    made = LinkBurnSpec.commands(probe, RACK)
    server = CommandResult(replace(made.servers[0]), 1, "", said, 0.0, 1.0)
    found = LinkBurnSpec.read(probe, RACK, Answered([server], None))
    assert found.outcome is outcome
    assert found.named is not None
    assert (found.named.component, found.named.condition) == ("gpu002/mlx5_0", condition)


@pytest.mark.parametrize(
    ("status", "said", "condition"),
    [
        (127, "ib_write_bw: No such file or directory\n", "lacking"),
        (127, "ib_write_bw: error while loading shared libraries: libibverbs.so.1: cannot open\n", "lacking"),
        (1, "ib_write_bw: unrecognized option '--use_cuda=3'\n Invalid Command or flag.\n", "unbuilt"),
        (1, " Unsupported memory type\n Parser function exited with Error\n", "unbuilt"),
        (1, "ib_write_bw: unrecognized option '--flow_label'\n Invalid Command or flag.\n", "outdated"),
    ],
)
def test_a_host_whose_perftest_is_not_what_is_needed_is_named(status: int, said: str, condition: str) -> None:
    probe = expanded(LinkBurnSpec(stages=(RING[:1],)))[0]
    server = CommandResult(LinkBurnSpec.commands(probe, RACK).servers[0], status, "", said, 0.0, 1.0)
    found = LinkBurnSpec.read(probe, RACK, Answered([server], None))
    assert (found.outcome, found.named) == (Outcome.ERROR, NamedPart("gpu002", condition))


RETRIES = " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n"


@pytest.mark.parametrize(
    ("status", "said", "outcome"),
    [
        (137, "", Outcome.ERROR),
        (139, "bash: line 1: 4711 Segmentation fault (core dumped) ib_write_bw\n", Outcome.ERROR),
        (139, " Couldn't read remote address\n", Outcome.FAIL),
        (255, "", Outcome.FAIL),
    ],
)
def test_a_server_that_was_killed_says_nothing_of_the_fabric(status: int, said: str, outcome: Outcome) -> None:
    """Its queue pairs went with it, so the retries of its client run out; one that crashed afterwards is no cause."""
    probe = expanded(LinkBurnSpec(stages=(RING[:1],)))[0]
    made = LinkBurnSpec.commands(probe, RACK)
    server = CommandResult(made.servers[0], status, "", said, 0.0, 1.0)
    client = CommandResult(made.client, 1, "", RETRIES, 0.0, 2.0)
    found = LinkBurnSpec.read(probe, RACK, Answered([server], client))
    assert found.outcome is outcome
    assert (found.named == NamedPart("gpu002", "killed")) is (outcome is Outcome.ERROR)
    if outcome is Outcome.ERROR:
        assert "gpu002: ib_write_bw on mlx5_0 was ended by SIG" in found.reason


@pytest.mark.parametrize("said", ["alltoall_perf: No such file or directory\n", ""])
def test_a_host_without_nccl_tests_is_named_and_not_its_gpus(said: str) -> None:
    probe = expanded(AllToAllSpec())[0]
    client = CommandResult(AllToAllSpec.commands(probe, RACK).client, 127, "", said, 0.0, 1.0)
    found = AllToAllSpec.read(probe, RACK, Answered((), client))
    assert (found.outcome, found.named) == (Outcome.ERROR, NamedPart(probe.hosts[0], "lacking"))


def grouped(spec: ProbeSpec, hosts: int) -> tuple[list[tuple[str, ...]], list[str]]:
    """The hosts of each probe on a rack of so many, and the notes on what is left out."""
    topology = rack_topology(hosts)
    phase = Phase("p", (spec,))
    probes = expand_phase(phase, topology, tuple(topology.hosts))
    notes = left_out(phase, tuple(topology.hosts), probes, topology)
    return [probe.hosts for probe in probes], [note.text for note in notes]


@pytest.mark.parametrize(
    ("spec", "hosts"),
    [
        (GroupAllReduceSpec(), 8),
        (GroupAllReduceSpec(hosts=4), 4),
        (GroupAllReduceSpec(gpus=24), 3),
        (GroupAllReduceSpec(hosts=9), 0),
        (GroupAllReduceSpec(gpus=20), 0),
        (GroupAllReduceSpec(gpus=8), 0),
    ],
)
def test_a_group_is_the_first_hosts(spec: GroupAllReduceSpec, hosts: int) -> None:
    """As many as asked for, in the order of the run; too few, half a host or one host are noted, the rest is not."""
    groups, notes = grouped(spec, 8)
    assert groups == ([tuple(f"gpu{number:03d}" for number in range(1, hosts + 1))] if hosts else [])
    assert [note.split(":")[0] for note in notes] == ([] if hosts else ["no group_all_reduce on gpu[001-008]"])


@pytest.mark.parametrize(
    ("pairing", "groups_of", "groups"),
    [
        ("across", 2, ["14", "25", "36"]),
        ("neighbours", 2, ["12", "34", "56"]),
        ("across", 3, ["135", "246"]),
        ("neighbours", 3, ["123", "456"]),
    ],
)
def test_pairings(pairing: str, groups_of: int, groups: list[str]) -> None:
    """Across: as far apart in the list as it goes; neighbours: one after the other."""
    found, _ = grouped(ConcurrentRingsSpec(pairing=pairing, groups_of=groups_of), 6)
    assert ["".join(host[-1] for host in group) for group in found] == groups


@given(
    hosts=st.integers(1, 40),
    groups_of=st.integers(2, 9),
    pairing=st.sampled_from(["across", "neighbours", "random"]),
    seed=st.integers(0, 5),
    repeat=st.integers(1, 3),
)
def test_groups_are_disjoint_and_start_together(
    hosts: int, groups_of: int, pairing: str, seed: int, repeat: int
) -> None:
    """No host is in two groups, only what fills no group is left over, and the first of every group starts at once."""
    topology = rack_topology(hosts)
    spec = ConcurrentRingsSpec(groups_of=groups_of, pairing=pairing, seed=seed, repeat=repeat)
    phase = Phase("p", (spec,))
    probes = expand_phase(phase, topology, tuple(topology.hosts))
    groups = {probe.hosts for probe in probes}
    names = [name for group in groups for name in group]
    assert len(names) == len(set(names)) == hosts - hosts % groups_of
    assert len(probes) == len(groups) * repeat == len({probe.probe_id for probe in probes})
    assert {probe.params["group"] for probe in probes} == set(range(len(groups)))
    starts = [slot.start_s for slot in schedule(probes).slots]
    assert starts.count(0.0) == len(groups)
    assert bool(left_out(phase, tuple(topology.hosts), probes, topology)) == (hosts % groups_of > 0)


@pytest.mark.parametrize("launcher", ["mpirun", "srun"])
def test_one_command_starts_all_ranks(rack: Topology, launcher: str) -> None:
    """Every host of the group is named in order, eight ranks each, with RING forced; the first host launches."""
    phase = Phase("p", (GroupAllReduceSpec(launcher=launcher),))
    probe = expand_phase(phase, rack, tuple(rack.hosts))[0]
    command = KINDS[probe.kind].commands(probe, rack).client
    assert command.host == probe.hosts[0] == "gpu001"
    text = " ".join(command.argv)
    named = ",".join(f"{host}:8" for host in rack.hosts) if launcher == "mpirun" else ",".join(rack.hosts)
    assert named in text or "gpu[001-" in text
    assert f"{8 * len(rack.hosts)}" in command.argv or f"--ntasks={8 * len(rack.hosts)}" in text
    assert "NCCL_ALGO=RING" in text
    assert set(probe.claims) == {
        f"{host}/{part}{n}" for host in rack.hosts for part in ("gpu", "mlx5_") for n in range(8)
    }


@pytest.mark.parametrize(("hosts", "counts"), [(1, []), (2, [2]), (6, [2, 4, 6]), (8, [2, 4, 8])])
def test_a_curve_doubles_until_it_has_all(hosts: int, counts: list[int]) -> None:
    """The first 2, 4, 8 and so on, and all; each has the first host, so no two run at once."""
    for spec in (GroupAllReduceSpec(scaling=True), GroupAllToAllSpec(scaling=True)):
        assert [len(group) for group in grouped(spec, hosts)[0]] == counts


def test_all_to_all_over_hosts_is_nccls(rack: Topology) -> None:
    """alltoall_perf over all ranks, without an algorithm."""
    probe = expand_phase(Phase("p", (GroupAllToAllSpec(),)), rack, tuple(rack.hosts))[0]
    argv = KINDS[probe.kind].commands(probe, rack).client.argv
    assert "alltoall_perf" in argv
    assert not any("NCCL_ALGO" in word for word in argv)
    assert argv[argv.index("-np") + 1] == "32"


TOPOLOGY = rack_topology(6)
PLANNED = list(TorAllReduceSpec().expand(phase="tor", topology=TOPOLOGY, hosts=tuple(TOPOLOGY.hosts), ports=iter(())))


def planned(a: int, b: int) -> Probe:
    """The probe of two neighbours."""
    return next(probe for probe in PLANNED if probe.hosts == (f"gpu{a:03d}", f"gpu{b:03d}"))


def pairs(probe: Probe, left: int) -> list[tuple[int, ...]]:
    """The numbers of the hosts of each other pair, nearest first."""
    found = other_pairs(probe, f"gpu{left:03d}", PLANNED, TOPOLOGY)
    return [tuple(int(host[-3:]) for host in other.hosts) for other in found]


@pytest.mark.parametrize(
    ("lost", "left", "expected"),
    [
        ((2, 3), 2, [(2, 4), (2, 5), (2, 6)]),
        ((2, 3), 3, [(1, 3), (6, 3), (5, 3)]),
        ((6, 1), 6, [(6, 2), (6, 3), (6, 4)]),
        ((6, 1), 1, [(5, 1), (4, 1), (3, 1)]),
    ],
)
def test_the_ring_is_gone_along_beyond_the_lost_neighbour(
    lost: tuple[int, int], left: int, expected: list[tuple[int, ...]]
) -> None:
    """Pairs that are planned anyway are none."""
    assert pairs(planned(*lost), left) == expected


def test_two_that_lost_the_host_between_them_come_to_the_same_pair() -> None:
    """One probe serves both: its id is the same."""
    one = next(other_pairs(planned(2, 3), "gpu002", PLANNED, TOPOLOGY))
    two = next(other_pairs(planned(3, 4), "gpu004", PLANNED, TOPOLOGY))
    assert one == two
    assert one.probe_id == "tor/gpu002+gpu004/tor_all_reduce"


def test_another_pair_holds_and_runs_on_its_own_hosts_only() -> None:
    """Claims are those that a planned probe of these hosts would have; all else is as it was planned."""
    lost = planned(2, 3)
    other = next(other_pairs(lost, "gpu002", PLANNED, TOPOLOGY))
    assert {claim.split("/")[0] for claim in other.claims} == {"gpu002", "gpu004"}
    assert len(other.claims) == len(lost.claims)
    assert other.params == {**lost.params, "series": "gpu002+gpu004/tor_all_reduce"}
    assert (other.kind, other.duration_s) == (lost.kind, lost.duration_s)
