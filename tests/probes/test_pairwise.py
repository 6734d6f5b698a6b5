"""Pairs of hosts, rail by rail: who meets whom, what they hold alone, and what is run."""

from __future__ import annotations

from collections import Counter

import pytest

from fabric.model.change import ChangeSettings
from fabric.model.command import Command, CommandResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, Probe
from fabric.model.scenario import Phase
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.probes import routes
from fabric.probes.kinds import expand_phase
from fabric.probes.pairs import planes_of
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.routes import RoutesSpec
from tests.conftest import dgx_platform


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
    links = routes.links_probe(plane, phase="p", asker="gpu000", topology=topology, settings=ChangeSettings(sudo=True))
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
    asked = {"phase": "p", "asker": "gpu000", "topology": topology, "settings": ChangeSettings()}
    table = routes.table_probe(plane, "u0-leaf0", 1, (21, 22, 23), **asked)  # type: ignore[arg-type]
    assert RoutesSpec.commands(table, topology).client.argv == ("ibroute", "-C", "mlx5_0", "-P", "1", "-n", "1")
    text = f"{TABLE}0x0015 001\n0x0016 005\n2 valid lids dumped \n"
    assert {
        m.metric: m.value for m in RoutesSpec.read(table, topology, answer(table, topology, text)).measurements
    } == {
        "route 21": 1,
        "route 22": 5,
    }


@pytest.mark.parametrize(("stdout", "status"), [("", 1), (TABLE, 0), (f"{TABLE}0x0015 001\n2 valid lids dumped \n", 0)])
def test_routes_that_cannot_be_read_are_inconclusive(stdout: str, status: int) -> None:
    """The tool failed, its output was cut, or rows are missing."""
    topology = pod()
    plane = planes_of(topology.hosts, topology)[0]
    table = routes.table_probe(
        plane, "u0-leaf0", 1, (21,), phase="p", asker="gpu000", topology=topology, settings=ChangeSettings()
    )
    found = RoutesSpec.read(table, topology, answer(table, topology, stdout, status))
    assert (found.outcome, found.measurements) == (Outcome.INCONCLUSIVE, ())
