"""The cables that were found against a plan of all of them, port by port."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.rack_shapes import SHAPES
from benchmarks.shapes import inventory as drawn_up
from fabric.app.check import blueprint_at
from fabric.checks.wiring import wiring
from fabric.config.blueprint import read_blueprint
from fabric.errors import ConfigError
from fabric.model.finding import Finding, Severity
from fabric.model.found import FoundCable, FoundEnd, FoundFabric
from fabric.model.inventory import Inventory
from tests.checks.test_wiring import POD, looked

PLANTS = 40
"""For each seed."""

Pod = tuple[Inventory, FoundFabric]


@pytest.fixture(scope="module")
def pod() -> Pod:
    """64 hosts, 48 switches, 1,024 cables, as the inventory has them."""
    return looked(POD)


def as_planned(found: FoundFabric) -> tuple[FoundCable, ...]:
    """What is there as a blueprint has it: an RNIC is a port of its host."""
    return tuple(FoundCable(written(cable.a), written(cable.b), None) for cable in found.cables)


def written(end: FoundEnd) -> FoundEnd:
    """In the words of a blueprint."""
    return FoundEnd(*end.node.split("/")) if "/" in end.node else end


def findings(pod: Pod, cables: list[FoundCable], plan: tuple[FoundCable, ...]) -> list[Finding]:
    """Of all hosts, where these cables are there."""
    inventory, found = pod
    there = replace(found, cables=tuple(cables))
    return list(wiring(there, inventory.topology, tuple(inventory.topology.hosts), plan))


def dark(found: FoundFabric, end: FoundEnd) -> FoundFabric:
    """The same where an RNIC at this end, if it is one, has no link."""
    name, _, device = end.node.partition("/")
    if not device:
        return found
    rnics = tuple(replace(one, active=one.active and one.device != device) for one in found.hosts[name].rnics)
    return replace(found, hosts={**found.hosts, name: replace(found.hosts[name], rnics=rnics)})


def planted(kind: str, cables: list[FoundCable], draw: random.Random) -> tuple[list[FoundCable], list[FoundEnd]]:
    """One miswiring, and the ends that a finding has to name."""
    one, two = draw.sample(range(len(cables)), 2)
    first, second, free = cables[one], cables[two], FoundEnd(cables[two].b.node, "64")
    made, ends = list(cables), [first.a, first.b]
    if kind == "exchanged":
        made[one], made[two] = replace(first, b=second.b), replace(second, b=first.b)
        ends += [second.a, second.b]
    elif kind == "exchanged ports":  # of one switch: the inventory sees nothing
        other = draw.choice([at for at, cable in enumerate(cables) if cable.b.node == first.b.node and at != one])
        made[one], made[other] = replace(first, b=cables[other].b), replace(cables[other], b=first.b)
        ends += [cables[other].a, cables[other].b]
    elif kind == "moved":
        made[one] = replace(first, b=free)
        ends += [free]
    elif kind == "missing":
        del made[one]
    else:
        made.append(FoundCable(FoundEnd(first.b.node, "63"), free, None))
        ends = [FoundEnd(first.b.node, "63"), free]
    return made, ends


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_planted_miswirings_are_each_named_with_both_ends(pod: Pod, seed: int) -> None:
    """One finding each, about this one and nothing else."""
    plan, cables, draw = as_planned(pod[1]), list(pod[1].cables), random.Random(seed)
    assert findings(pod, cables, plan) == []
    for _ in range(PLANTS):
        kind = draw.choice(["exchanged", "exchanged ports", "moved", "missing", "further"])
        made, ends = planted(kind, cables, draw)
        found = findings((pod[0], dark(pod[1], ends[0])) if kind == "missing" else pod, made, plan)
        said = " ".join(f"{one.what} {one.advice}" for one in found)
        assert (len(found), found[0].severity) == (1, Severity.PROBLEM), (kind, [one.what for one in found])
        assert [str(end) for end in ends if str(end) not in said] == [], (kind, said)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_rack_of_any_shape_that_is_as_planned_has_no_finding(shape: str, tmp_path: Path) -> None:
    """And one exchange in it is one finding."""
    pod = looked(drawn_up(SHAPES[shape], tmp_path, "clean"))
    plan, cables, draw = as_planned(pod[1]), list(pod[1].cables), random.Random(15)
    assert findings(pod, cables, plan) == []
    made, ends = planted("exchanged", cables, draw)
    (found,) = findings(pod, made, plan)
    assert all(str(end) in f"{found.what} {found.advice}" for end in ends)


def test_many_at_once_are_one_finding_each(pod: Pod) -> None:
    """Ten pairs exchanged: none is told twice, none is lost."""
    plan, cables, draw = as_planned(pod[1]), list(pod[1].cables), random.Random(14)
    ways = draw.sample(range(len(cables)), 20)
    for one, two in zip(ways[::2], ways[1::2], strict=True):
        first, second = cables[one], cables[two]
        cables[one], cables[two] = replace(first, b=second.b), replace(second, b=first.b)
    assert sorted("exchanged" in one.what for one in findings(pod, cables, plan)) == [True] * 10


def test_an_rnic_with_two_names_and_two_cables_is_not_believed(pod: Pod) -> None:
    """By its device in one row and by its interface in another one, to another port: told, and nothing else."""
    inventory, found = pod
    name = "gpu001"
    first = found.hosts[name].rnics[0]
    rnics = (replace(first, netdev="ens1f0"), *found.hosts[name].rnics[1:])
    both = replace(found, hosts={**found.hosts, name: replace(found.hosts[name], rnics=rnics)})
    other = FoundCable(FoundEnd(name, "ens1f0"), FoundEnd("su0-leaf7", "63"), None)
    for plan in ((*as_planned(found), other), (other, *as_planned(found))):
        (only,) = findings((inventory, both), list(found.cables), plan)
        assert (only.severity, f"{name}/{first.device} has two cables in the blueprint" in only.what) == (
            Severity.UNKNOWN,
            True,
        )


def test_what_cannot_be_compared_is_told(pod: Pod) -> None:
    """Other labels, unknown nodes, a plan of another hall: never taken for right, never for wrong."""
    found = pod[1]
    plan, cables = as_planned(found), list(found.cables)

    def labelled(end: FoundEnd) -> FoundEnd:
        return replace(end, port=f"1/{end.port}") if end.node == "su0-leaf0" else end

    panel = (replace(plan[0], b=FoundEnd("panel7", "1")), *plan[1:])
    elsewhere = tuple(
        replace(one, a=FoundEnd(f"x{one.a.node}", "1"), b=FoundEnd(f"x{one.b.node}", "1")) for one in plan
    )
    others = tuple(replace(one, a=labelled(one.a), b=labelled(one.b)) for one in plan)
    for tried, words in (
        (others, "no port of su0-leaf0 is called in the blueprint as here"),
        (panel, "1 cables of the blueprint have one end that is not known here"),
        (elsewhere, "no cable of the blueprint is between hosts and switches of the inventory"),
    ):
        (told,) = findings(pod, cables, tried)
        assert (told.severity, words in told.what) == (Severity.UNKNOWN, True)


def test_a_plan_of_another_network_than_the_inventory_is_told(pod: Pod) -> None:
    """Cables as planned, and the inventory believes something else."""
    inventory, found = pod
    host = inventory.topology.hosts["gpu001"]
    believed = replace(host, leaves=(host.leaves[1], host.leaves[0], *host.leaves[2:]))
    topology = replace(inventory.topology, hosts={**inventory.topology.hosts, "gpu001": believed})
    (told,) = wiring(found, topology, tuple(topology.hosts), as_planned(found))
    assert told.what.startswith("the blueprint has gpu001/mlx5_0 in su0-leaf0 port 1, the inventory in su0-leaf1; so 1")


OWN = "a_node,a_port,b_node,b_port\ngpu001,mlx5_0,leaf1,3\n"
NETBOX = (
    "\ufeffID;Label;Termination A;Termination B;Device A;Device B;Status;Type\r\n"
    "1;;mlx5_0;3;gpu001;leaf1;Connected;AOC\r\n2;;mlx5_1;4;gpu001;leaf1;Planned;AOC\r\n"
    '3;;swp1;"eth0,eth1";leaf2;gpu002;Connected;AOC\r\n'
)
IMPORT = (
    "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name,status\n"
    "gpu001,dcim.interface,mlx5_0,leaf1,dcim.interface,3,connected\n"
    "gpu001,dcim.powerport,psu1,pdu1,dcim.poweroutlet,7,connected\n"
)


@pytest.mark.parametrize(("text", "left_out"), [(OWN, 0), (NETBOX, 1), (IMPORT, 0)])
def test_each_form_of_a_blueprint_is_read(text: str, left_out: int) -> None:
    """Ours; NetBox's export with the separator of its user; what NetBox imports. Power is no cable of the network."""
    found = read_blueprint(Path("plan.csv"), text.encode())
    assert found.cables == (FoundCable(FoundEnd("gpu001", "mlx5_0"), FoundEnd("leaf1", "3"), None),)
    assert len(found.left_out) == left_out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "plan.csv:1: expected the columns a_node"),
        ("a,b\n1,2\n", "plan.csv:1: expected the columns a_node"),
        ("a_node,a_port,b_node,b_port\n", "no cable of two network interfaces"),
        (OWN + "gpu002,mlx5_0,leaf1\n", "plan.csv:3: expected 4 cells"),
        (OWN + "gpu002,mlx5_0,leaf1,\n", "plan.csv:3: expected a node and a port"),
        (OWN + "gpu002,mlx5_0,leaf1,3\n", "plan.csv:3: leaf1 3 has a cable already, in line 2"),
        (OWN + '"gpu002,mlx5_0,leaf1,3\n', "not comma-separated values"),
        (OWN + "gpu002,mlx5_0,leaf1,\x1b3\n", "plan.csv:3: expected a node and a port"),
        (OWN + 'gpu002,mlx5_0,leaf1,"1\n2"\n', "plan.csv:4: expected a node and a port"),
        ("a_node,a_port,b_node,b_port,a_node\n", "a column is there twice"),
        ("x" * 200_000, "plan.csv:1: expected the columns a_node"),
        ("\ud800", "not UTF-8"),
    ],
)
def test_what_is_wrong_with_a_blueprint_is_told_with_its_line(text: str, words: str) -> None:
    """Nothing is skipped in silence."""
    with pytest.raises(ConfigError, match=words):
        read_blueprint(Path("plan.csv"), text.encode("utf-8", "surrogatepass"))


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    """Before any host is asked."""
    with pytest.raises(ConfigError, match="cannot read: No such file"):
        blueprint_at(tmp_path / "none.csv")


def test_a_topology_file_is_a_plan() -> None:
    """As ibdiagnet writes it and UFM compares with it: a section a system, each cable in both, or in one."""
    text = """# written by hand
MQM9700 su0-leaf0
    P1 -4x-100G-> HCA_1 gpu001 mlx5_0/P1
    P33 -4x-100G-> MQM9700 spine01 P1

MQM9700 spine01 CFG: x=y
    P1 -4x-100G-> MQM9700 su0-leaf0 P33
    P2 -> MQM9700 su0-leaf1 P33
"""
    cables = read_blueprint(Path("fabric.topo"), text.encode()).cables
    assert [(one.a.node, one.a.port, one.b.node, one.b.port) for one in cables] == [
        ("su0-leaf0", "1", "gpu001", "mlx5_0"),
        ("su0-leaf0", "33", "spine01", "1"),
        ("spine01", "2", "su0-leaf1", "33"),
    ]
    wrong = text + "    P1 -> MQM9700 su0-leaf9 P1\n    what is this\n"
    with pytest.raises(ConfigError) as raised:
        read_blueprint(Path("fabric.topo"), wrong.encode())
    assert [(one.line, one.text.split(",")[0]) for one in raised.value.problems] == [
        (9, "spine01 1 has a cable already"),
        (10, "expected a system"),
    ]


def test_a_pod_as_its_topology_file_has_no_finding(pod: tuple[Inventory, FoundFabric]) -> None:
    """Every cable of hosts and switches is compared."""
    inventory, found = pod
    cables = as_planned(found)
    ends: dict[str, list[str]] = {}
    for a, b in ((c.a, c.b) for c in cables):
        one, other = (f"{e.port}/P1" if e.port.startswith("mlx5") else f"P{e.port}" for e in (a, b))
        ends.setdefault(a.node, []).append(f"  {one} -4x-100G-> T {b.node} {other}")
    text = "\n".join(line for node, lines in ends.items() for line in (f"T {node}", *lines, ""))
    plan = read_blueprint(Path("pod.topo"), text.encode())
    assert len(plan.cables) == len(cables)
    assert list(wiring(found, inventory.topology, tuple(inventory.topology.hosts), plan.cables)) == []
