"""Pairs of hosts and pairs of RNICs of one host: who meets whom, one way, both ways, and how long a message takes."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.altered_answers import ended, printed
from benchmarks.measured_rack import dgx_platform, rack_topology
from fabric.app.prepare import Given, prepare
from fabric.config.scenario import load_scenario
from fabric.errors import ConfigError
from fabric.judge.normal.kinds import latency_verdicts
from fabric.model.change import ChangeSettings
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, Command, CommandResult, Measurement, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.probes import routes
from fabric.probes.kinds import expand_phase, left_out
from fabric.probes.latency import P99, TYPICAL, LatencySpec
from fabric.probes.pairwise import BidirectionalSpec, PairwiseSpec, planes_of
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.routes import RoutesSpec
from fabric.tools.perftest import command
from fabric.wiring import BACKENDS


def pod(units: int = 2, hosts: int = 4, *, parts: int = 2, slower: frozenset[str] = frozenset()) -> Topology:
    """Units of hosts, a leaf for each rail and unit, two spines; *slower* hosts have 200 Gb/s."""
    fast, slow = dgx_platform(parts=parts), dgx_platform("old", parts=parts, line_rate_gbps=200.0)
    made = {}
    for number in range(units * hosts):
        name, unit = f"gpu{number:03d}", number // hosts
        leaves = tuple(f"u{unit}-leaf{rail}" for rail in range(parts))
        made[name] = Host(name, slow if name in slower else fast, f"{name}.mgmt", None, leaves)
    lower = tuple(f"u{unit}-leaf{rail}" for unit in range(units) for rail in range(parts))
    switches = {name: Switch(name, "leaf") for name in lower}
    switches |= {name: Switch(name, "spine") for name in ("spine0", "spine1")}
    return Topology(made, switches, (Uplinks(lower, ("spine0", "spine1"), 1, 400.0),))


def expanded(topology: Topology, **settings: int) -> list[Probe]:
    """All planned pairs."""
    phase = Phase("p", (PairwiseSpec(**settings),))
    return expand_phase(phase, topology, tuple(topology.hosts))


def test_each_rnic_is_measured_once_a_round() -> None:
    for number in range(3):
        probes = [probe for probe in expanded(pod()) if probe.params["round"] == number]
        ends = Counter(claim for probe in probes for claim in probe.claims if "/mlx5_" in claim)
        assert (set(ends.values()), len(ends)) == ({1}, 8 * 2)


def on_ethernet(topology: Topology) -> Topology:
    """The same hosts with RoCE."""
    hosts = {
        name: replace(host, platform=replace(host.platform, link_layer="ethernet"))
        for name, host in topology.hosts.items()
    }
    return replace(topology, hosts=hosts)


def test_a_round_of_one_queue_pair_has_its_own_flow_label_on_ethernet() -> None:
    """The label decides the way; InfiniBand has none, and several queue pairs would all be on one way."""
    probes = expanded(on_ethernet(pod()), queue_pairs=1)
    assert {(probe.params["round"], probe.params["flow_label"]) for probe in probes} == {(0, 1), (1, 2), (2, 3)}
    commands = PairwiseSpec.commands(probes[0], on_ethernet(pod()))
    assert all("--flow_label=1" in one.argv for one in (*commands.servers, commands.client))
    others = expanded(pod(), queue_pairs=1) + expanded(on_ethernet(pod()), queue_pairs=2)
    assert not any("flow_label" in probe.params for probe in others)


def test_the_first_round_stays_under_the_leaves_and_the_others_leave_them() -> None:
    topology = pod()
    for probe in expanded(topology):
        a, b = (topology.hosts[name].leaves for name in probe.hosts)
        assert (a == b) is (probe.params["round"] == 0)


def test_a_pair_that_leaves_its_leaf_has_the_uplinks_of_both_leaves_alone() -> None:
    """Else two pairs may share an uplink by chance of routing, and look slow."""
    for probe in expanded(pod()):
        uplinks = [claim for claim in probe.claims if claim.endswith(":up") and "leaf" in claim]
        assert len(uplinks) == (2 if probe.params["round"] else 0)


def test_hosts_of_different_line_rates_never_meet() -> None:
    slower = frozenset({"gpu001", "gpu003", "gpu006", "gpu007"})
    topology = pod(slower=slower)
    probes = expanded(topology)
    assert all(len(slower & set(probe.hosts)) in (0, 2) for probe in probes)
    assert {host for probe in probes for host in probe.hosts} == set(topology.hosts)
    assert [plane.name for plane in planes_of(topology.hosts, topology)] == [
        f"rail{rail} {rate}G" for rail in (0, 1) for rate in (400, 200)
    ]


def test_ids_and_ports_are_told_apart() -> None:
    """Repetitions too; no server of one round is in the way of the next one's on the same host."""
    probes = expanded(pod(), repeat=2)
    assert len({probe.probe_id for probe in probes}) == len(probes)
    ports = {(p.hosts[1], p.params["rail"], p.params["round"]): p.params["port"] for p in probes}
    assert len({(host, port) for (host, _, _), port in ports.items()}) == len(ports)
    assert all(18_600 < int(str(port)) < 32_768 for port in ports.values())


LINKS = """\
0x0000000000000001 "                      u0-leaf0"      1    1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==>  \
0x0000000000000011     21    1[  ] "gpu000 mlx5_0" ( )
0x0000000000000001 "                      u0-leaf0"      1    5[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==>  \
0x0000000000000005      9    1[  ] "MF0;spine0:MQM8700/U1" ( )
0x0000000000000001 "                      u0-leaf0"      1    6[  ] ==(                Down/ Polling)==>             \
[  ] "" ( )
0x0000000000000011 "                 gpu000 mlx5_0"     21    1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==>  \
0x0000000000000001      1    1[  ] "u0-leaf0" ( )
"""
TABLE = (
    "Unicast lids [0x0-0x17] of switch Lid 1 guid 0x1 (u0-leaf0):\n  Lid  Out   Destination\n       Port     Info \n"
)


def answer(probe: Probe, topology: Topology, stdout: str, status: int = 0) -> Answered:
    """What the client of a probe said."""
    command: Command = RoutesSpec.commands(probe, topology).client
    return Answered((), CommandResult(command, status, stdout, "", 0.0, 1.0))


def test_routes_are_read_as_numbers() -> None:
    """LIDs of leaf and RNIC, the switch behind a port, and the port by LID; ports that are down have no peer."""
    topology = pod()
    plane = planes_of(topology.hosts, topology)[0]
    links = routes.links_probe(routes.RouteAsker(plane, "p", "gpu000", topology, ChangeSettings(sudo=True)))
    assert RoutesSpec.commands(links, topology).client.argv == (
        "sudo",
        "-n",
        "iblinkinfo",
        "-C",
        "mlx5_0",
        "-P",
        "1",
        "-l",
    )
    found = RoutesSpec.read(links, topology, answer(links, topology, LINKS))
    assert found.outcome is Outcome.PASS
    assert {m.metric: m.value for m in found.measurements} == {
        "lid u0-leaf0": 1,
        "lid gpu000/mlx5_0": 21,
        "peer u0-leaf0:5 spine0": 5,
    }
    by = routes.RouteAsker(plane, "p", "gpu000", topology, ChangeSettings())
    table = routes.table_probe(by, "u0-leaf0", 1, (21, 22, 23))
    assert RoutesSpec.commands(table, topology).client.argv == ("ibroute", "-C", "mlx5_0", "-P", "1", "-n", "1")
    text = f"{TABLE}0x0015 001\n0x0016 005\n2 valid lids dumped \n"
    assert {
        m.metric: m.value for m in RoutesSpec.read(table, topology, answer(table, topology, text)).measurements
    } == {"route 21": 1, "route 22": 5}


@pytest.mark.parametrize(("stdout", "status"), [("", 1), (TABLE, 0), (f"{TABLE}0x0015 001\n2 valid lids dumped \n", 0)])
def test_routes_that_cannot_be_read_are_inconclusive(stdout: str, status: int) -> None:
    """The tool failed, its output was cut, or rows are missing."""
    topology = pod()
    plane = planes_of(topology.hosts, topology)[0]
    by = routes.RouteAsker(plane, "p", "gpu000", topology, ChangeSettings())
    table = routes.table_probe(by, "u0-leaf0", 1, (21,))
    found = RoutesSpec.read(table, topology, answer(table, topology, stdout, status))
    assert (found.outcome, found.measurements) == (Outcome.INCONCLUSIVE, ())


RACK = Path(__file__).parents[2] / "inventory" / "demo-rack-healthy.yaml"


def measured(folder: Path, *faults: str) -> list[tuple[str, float]]:
    """Id and Gb/s of a round of both kinds of pair on two hosts of the simulated rack."""
    probes = "[{bidirectional: {rounds: 1}}, {pairwise: {rounds: 1}}]"
    (folder / "s.yaml").write_text(f"name: both\ninventory: {RACK}\nphases: [{{name: p, probes: {probes}}}]\n")
    asked = prepare(Given(folder / "s.yaml", hosts="gpu[001-002]", faults=faults))
    found: list[ProbeResult] = [
        ended(probe, asked.inventory.topology, BACKENDS["mock"](asked.inventory, 0)).result()
        for probe in expand_phase(asked.scenario.phases[0], asked.inventory.topology, asked.scenario.hosts)
        if probe.params["rnic"] == "mlx5_3"
    ]
    assert [one.reason for one in found] == ["", ""]
    return [(one.probe_id, one.measurements[0].value) for one in found]


def test_a_healthy_pair_has_the_same_each_way_as_one_way(tmp_path: Path) -> None:
    (_, both), (_, one_way) = measured(tmp_path)
    assert both == pytest.approx(one_way, rel=0.02)


def test_each_side_is_told_that_both_send_and_claims_both_ways(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(f"name: b\ninventory: {RACK}\nphases: [{{name: p, probes: [bidirectional]}}]\n")
    asked = prepare(Given(tmp_path / "s.yaml"))
    probe = expand_phase(asked.scenario.phases[0], asked.inventory.topology, asked.scenario.hosts)[0]
    made = BidirectionalSpec.commands(probe, asked.inventory.topology)
    assert all("--bidirectional" in side.argv for side in (*made.servers, made.client))
    assert made.client.argv[-1] == probe.hosts[1]
    ways = [claim.rpartition(":")[2] for claim in probe.claims if "/pcie" in claim]
    assert ways == ["down", "up", "down", "up"]
    assert command.asked(made.client.argv, "IB").both_ways


def test_a_slow_rnic_slows_both_directions(tmp_path: Path) -> None:
    (_, both), (_, one_way) = measured(tmp_path, "gpu001/mlx5_3:slow=0.5")
    assert both == pytest.approx(one_way, rel=0.05)
    assert both < 250


TOPOLOGY = pod()
TEXT = "name: lat\ninventory: {rack}\nphases: [{{name: p, probes: [{probe}]}}]\n"


def probes_of(spec: LatencySpec) -> list[Probe]:
    return expand_phase(Phase("p", (spec,)), TOPOLOGY, tuple(TOPOLOGY.hosts))


def verdicts(probes: list[Probe], slow_rnic: str = "", *, p99_us: float = 2.1) -> dict[str, tuple[Outcome, str]]:
    """Every latency is 2 us, but for those of one RNIC."""
    listed = []
    for probe in probes:
        ends = [f"{host}/{probe.params[end]}" for host, end in zip(probe.hosts, ("rnic", "peer_rnic"), strict=True)]
        typical = 5.0 if slow_rnic in ends else 2.0
        numbers = [Measurement(probe.probe_id, name, us, "us", 2) for name, us in ((TYPICAL, typical), (P99, p99_us))]
        listed.append((probe, ProbeResult(probe.probe_id, 1, tuple(numbers), None, "", 0.0, 1.0)))
    return {name: (one.outcome, one.reason) for name, one in latency_verdicts(listed, TOPOLOGY).items()}


def test_client_and_server_ask_for_the_same_on_their_own_rnics() -> None:
    probe = probes_of(LatencySpec(iterations=500))[0]
    commands = LatencySpec.commands(probe, TOPOLOGY)
    server, client = commands.servers[0], commands.client
    assert (server.host, client.host) == (probe.hosts[1], probe.hosts[0])
    assert "--iters=500" in client.argv
    assert client.argv == (*(word.replace(server.host, client.host) for word in server.argv), server.host)
    assert not any(word.startswith("--duration") for word in client.argv)  # of such a run there are no percentiles


def test_an_rnic_that_is_slow_with_every_partner_is_bad_and_its_partners_are_not() -> None:
    found = verdicts(probes_of(LatencySpec(at_most_us=9.0)), "gpu002/mlx5_1")
    failed = {name for name, (outcome, _) in found.items() if outcome is Outcome.FAIL}
    assert len(failed) == 3
    assert all("so is every latency of gpu002/mlx5_1" in found[name][1] for name in failed)
    assert {outcome for name, (outcome, _) in found.items() if name not in failed} == {Outcome.PASS}


def test_slow_once_is_measured_again() -> None:
    found = verdicts(probes_of(LatencySpec(at_most_us=9.0, rounds=1)), "gpu002/mlx5_1")
    assert Outcome.worst([outcome for outcome, _ in found.values()]) is Outcome.MARGINAL
    assert any("2.5 times the median of" in reason for _, reason in found.values())


def test_limits_are_of_the_median_and_of_the_tail() -> None:
    assert {one for one, _ in verdicts(probes_of(LatencySpec(at_most_us=1.5))).values()} == {Outcome.FAIL}
    found = verdicts(probes_of(LatencySpec(p99_at_most_us=4.0)), p99_us=4.5)
    assert set(found.values()) == {(Outcome.FAIL, "4.50 us of 99 of 100, at most 4 allowed")}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Latency Test", "BW Test", "asked RDMA_Write Latency, saw RDMA_Write BW"),
        (" mlx5_", " mlx5_9", "asked Device"),
        ("10000", "1000", "asked iterations 10000, saw 1000"),
    ],
)
def test_what_is_no_answer_is_an_error(tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "s.yaml").write_text(TEXT.format(rack=RACK, probe="latency: {rounds: 1}"))
    asked = prepare(Given(tmp_path / "s.yaml", hosts="gpu[001-002]"))
    topology = asked.inventory.topology
    probe = expand_phase(asked.scenario.phases[0], topology, asked.scenario.hosts)[0]
    client, *servers = printed(asked.inventory, probe, 0)
    commands = LatencySpec.commands(probe, topology)

    def answered(text: str) -> Answered:
        sides = zip(commands.servers, servers, strict=True)
        return Answered(
            [CommandResult(one, 0, said, "", 0.0, 1.0) for one, said in sides],
            CommandResult(commands.client, 0, text, "", 0.0, 1.0),
        )

    good = LatencySpec.read(probe, topology, answered(client))
    assert (good.outcome, [one.unit for one in good.measurements]) == (None, ["us"] * 3)
    found = LatencySpec.read(probe, topology, answered(client.replace(old, new)))
    assert found.outcome is Outcome.ERROR
    assert said in found.reason


def test_a_mistake_in_a_key_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(TEXT.format(rack=RACK, probe="latency: {at_most: 5us, duration: 3s, only: [a]}"))
    with pytest.raises(ConfigError) as raised:
        load_scenario(tmp_path / "s.yaml")
    assert [str(one).partition("s.yaml:")[2] for one in raised.value.problems] == [
        "3: unknown key 'at_most'; did you mean 'at_most_us'?",
        "3: unknown key 'duration'; did you mean 'iterations'?",
        "3: unknown key 'only'",
    ]


PHASE = Phase("p", (RnicToRnicSpec(),))


def rack(*, spines: int = 4, hosts: int = 3, shared: bool = True, **platform: object) -> Topology:
    """Hosts on eight leaves of a rail each, under spines that all leaves share, or each leaf has of its own."""
    plain = rack_topology(hosts)
    leaves = plain.hosts["gpu001"].leaves
    if shared:
        uplinks: tuple[Uplinks, ...] = (Uplinks(leaves, tuple(f"spine{n}" for n in range(spines)), 1, 400.0),)
    else:
        uplinks = tuple(Uplinks((leaf,), (f"{leaf}-spine",), 1, 400.0) for leaf in leaves)
    made = {name: replace(host, platform=replace(host.platform, **platform)) for name, host in plain.hosts.items()}  # type: ignore[arg-type]
    return replace(plain, hosts=made, uplinks=uplinks)


def probes(topology: Topology) -> list[Probe]:
    """All of them."""
    return expand_phase(PHASE, topology, tuple(topology.hosts))


def test_a_pair_that_leaves_its_leaf_holds_a_cable_up_and_one_down() -> None:
    """Of two hosts each another one, so that both may run at once; limits know it by its class."""
    topology = rack()
    leaves = topology.hosts["gpu001"].leaves
    found = {one.probe_id: one for one in probes(topology)}
    for place, host in enumerate(("gpu001", "gpu002")):
        one = found[f"p/{host}/rnic_to_rnic.mlx5_0.mlx5_3"]
        assert one.claims[-2:] == (f"{leaves[0]}:up.{place}", f"{leaves[3]}:down.{place}")
        assert one.params["link_class"] == "cross_leaf"


@pytest.mark.parametrize("spines", [0, 1])
def test_what_is_not_described_is_as_if_below_one_leaf(spines: int) -> None:
    """No uplinks, or none that meet."""
    topology = rack(shared=False) if spines else replace(rack(), uplinks=())
    assert not [one for one in probes(topology) if "link_class" in one.params or len(one.claims) > 4]


def test_on_ethernet_they_are_left_out_and_that_is_said() -> None:
    """Unless the site has made a way for them; InfiniBand needs none."""
    cut, made = rack(link_layer="ethernet"), rack(link_layer="ethernet", cross_rail=True)
    assert probes(cut) == []
    (told,) = left_out(PHASE, tuple(cut.hosts), [], cut)
    assert str(told).startswith(
        "note: rnic_to_rnic on gpu[001-003]: no pair from leaf to leaf: on Ethernet a host reaches"
    )
    assert len(probes(made)) == len(probes(rack())) == 3 * 56
    assert left_out(PHASE, tuple(made.hosts), probes(made), made) == []
    assert left_out(PHASE, ("gpu001",), probes(rack()), rack()) == []
