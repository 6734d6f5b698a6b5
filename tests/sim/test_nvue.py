"""Managers' files and switches with NVUE: what is set, staged and undone; RoCE with one lossless class."""

import pytest

from fabric.model.change import ChangeSettings, SubnetManager
from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Host, Login, Switch, Topology, Uplinks
from fabric.sim.net.managers import forwarding_of
from fabric.sim.world import World
from fabric.tools import nvue
from fabric.tools.nvue import Configured, Setting
from tests.changes.played import Played
from tests.changes.roce import of, roce
from tests.sim.test_collective import line, measured
from tests.sim.test_world import roce_platform

AR = ("router", "adaptive-routing", "enable")


@pytest.fixture
def rack() -> Played:
    """Three switches, adaptive routing off."""
    return Played(ChangeSettings(), world=roce())


def nv(rack: Played, *words: str, switch: str = "leaf0") -> tuple[str, str, int]:
    """What it says to one command."""
    answer = rack.ask(switch, ("nv", *words))
    return answer.stdout, answer.stderr, answer.exit_status


def test_it_is_read_as_a_real_switch_is(rack: Played) -> None:
    assert nvue.read(*nv(rack, *nvue.show()[1:])) == Setting("enable", "off")
    assert nvue.read(*nv(rack, *nvue.show("swp4")[1:])).on
    assert nvue.read_commands(*nv(rack, *nvue.COMMANDS[1:])) == Configured(None, ("swp1", "swp2", "swp3", "swp4"))


def test_what_is_set_is_pending_until_it_is_applied(rack: Played) -> None:
    nv(rack, "set", *AR, "on")
    assert nvue.read_pending(*nv(rack, "config", "diff")) == (
        "- set:",
        "    router:",
        "      adaptive-routing:",
        "        enable: on",
    )
    assert not nvue.read(*nv(rack, *nvue.show()[1:])).on
    assert nv(rack, "config", "apply", "-y") == ("applied [rev_id: 1]\n", "", 0)
    assert nvue.read(*nv(rack, *nvue.show()[1:])).on
    assert nvue.read_pending(*nv(rack, "config", "diff")) == ()


def test_a_commit_that_nobody_confirms_is_rolled_back_in_its_time(rack: Played) -> None:
    nv(rack, "set", *AR, "on")
    nv(rack, "config", "apply", "--confirm", "2m", "-y")
    at_s = rack.now_s
    rack.wait(at_s + 119.0)
    assert of(rack, "leaf0").applied["router adaptive-routing enable"] == "on"
    rack.wait(at_s + 121.0)
    assert "router adaptive-routing enable" not in of(rack, "leaf0").applied


def test_a_confirmed_commit_stays(rack: Played) -> None:
    nv(rack, "set", *AR, "on")
    nv(rack, *nvue.apply("fabric 01", confirm_min=1)[1:])
    assert nv(rack, *nvue.CONFIRM[1:])[2] == 0
    rack.wait(rack.now_s + 1000.0)
    assert of(rack, "leaf0").applied["router adaptive-routing enable"] == "on"
    assert nv(rack, *nvue.CONFIRM[1:])[2] == 1


def roce_pod(kit) -> Topology:
    """Two units of two hosts, two spines: what collides on hashed paths does not with adaptive routing."""
    leaves = [tuple(f"u{unit}-leaf{rail}" for rail in range(8)) for unit in range(2)]
    platform = kit.platform_like(link_layer="ethernet")
    hosts = {f"gpu{n:03d}": Host(f"gpu{n:03d}", platform, f"10.0.0.{n}", None, leaves[n // 2]) for n in range(4)}
    tiers = {name: "leaf" for unit in leaves for name in unit} | {"spine0": "spine", "spine1": "spine"}
    switches = {name: Switch(name, tier, Login(f"{name}.mgmt", "nvue")) for name, tier in tiers.items()}
    return Topology(hosts, switches, (Uplinks((*leaves[0], *leaves[1]), ("spine0", "spine1"), 1, 400.0),))


def test_rings_run_faster_when_every_switch_routes_adaptively(kit) -> None:
    world = World(roce_pod(kit), MockSettings(noise_cv=0.0, routing="ecmp"), seed=1)
    rack = world.rack
    for host in rack.topology.hosts.values():
        for rnic in host.platform.rnics:
            rack.ports.of_adapter(host.name, rnic.device).registers["adaptive_routing_forced_en"] = 1
    rings = (line("gpu000", "gpu002"), line("gpu001", "gpu003"))
    hashed = measured(kit, world, *rings)
    for name in rack.topology.switches:
        switch = rack.nvue.switches[name]
        switch.staged["router adaptive-routing enable"] = "on"
        rack.nvue.apply(switch, 100.0, message="on")
        assert rack.above.forwarding.adaptive == (name == list(rack.topology.switches)[-1])
    adaptive = measured(kit, world, *rings, starts_s=(200.0, 200.0))
    assert sum(adaptive) > 1.2 * sum(hashed)


def test_a_flow_label_decides_the_way_that_a_hash_draws(kit) -> None:
    """One of two spines is slow: a label is on it always or never, and of many labels some are."""
    faults = (Fault("spine0", "slow", 0.5),)
    world = World(roce_pod(kit), MockSettings(faults=faults, noise_cv=0.0, routing="ecmp"), seed=1)
    lines = []
    for turn, label in enumerate([*range(1, 9), *range(1, 9)]):
        option = f"--flow_label={label}"
        server, client = kit.pair(20.0 * turn, "gpu000", "mlx5_0", port=18600 + turn, server=option, client=option)
        lines += [(server[0], "gpu002", server[2]), (client[0], "gpu000", client[2].replace("localhost", "gpu002"))]
    gbps = [round(kit.bandwidth_gbps(ended.stdout)) for ended in kit.played(world, lines)[1::2]]
    assert gbps[:8] == gbps[8:]
    assert len(set(gbps)) == 2


CONFIG, BACKUP = "/etc/opensm/opensm.conf", "/run/fabric-guard/opensm.conf"


def edit(kit, world, *words, host="gpu001", at_s):
    """One edit; its status and all it says."""
    pid = world.start(host, ("sh", "-c", "anything at all", "fabric-conf", *words), {}, at_s)
    (said,) = world.advance(at_s + 0.1)
    assert said.pid == pid
    return said.exit_status, said.stdout, said.stderr


def managed(kit):
    """A world with one manager."""
    managers = (SubnetManager("gpu001"),)
    return World(kit.topology_of(2, kit.platform_like()), MockSettings(noise_cv=0.0), seed=1, subnet_managers=managers)


def text_of(kit, world, at_s, path=CONFIG):
    """The file as ``cat`` prints it."""
    return kit.ask(world, "gpu001", f"cat {path}", at_s).stdout


def test_set_keeps_the_first_file_and_undo_brings_its_lines_back(kit):
    """Twice set is once kept; undone, there is nothing left to undo; what is not there is dropped as well."""
    world = managed(kit)
    before = text_of(kit, world, 0.0)
    for at_s, value in ((1.0, "ar_updn"), (2.0, "ar_ftree")):
        status, said, _ = edit(kit, world, "set", CONFIG, BACKUP, f"routing_engine={value}", "new_key=a=b", at_s=at_s)
        assert (status, said.count("\n")) == (0, 1)
    assert text_of(kit, world, 3.0, BACKUP) == before
    assert {"routing_engine ar_ftree", "new_key a=b"} <= set(text_of(kit, world, 4.0).splitlines())
    assert edit(kit, world, "absent", CONFIG, BACKUP, "new_key", at_s=4.5)[0] == 1
    for at_s, said in ((5.0, f"undone {CONFIG}\n"), (6.0, f"nothing to undo: {CONFIG}\n")):
        assert edit(kit, world, "undo", CONFIG, BACKUP, "routing_engine=x", "new_key", at_s=at_s) == (0, said, "")
        assert text_of(kit, world, at_s + 0.5) == before
    for at_s in (7.0, 8.0):
        assert edit(kit, world, "drop", CONFIG, BACKUP, at_s=at_s)[0] == 0


def test_nonsense_changes_nothing(kit):
    """Unknown verbs, missing words, pairs without a key."""
    world = managed(kit)
    before = text_of(kit, world, 0.0)
    for at_s, words in enumerate((("burn", CONFIG, BACKUP), ("set",), ("set", CONFIG, BACKUP, "=x")), 1):
        status, _, why = edit(kit, world, *words, at_s=float(at_s))
        assert (status, bool(why)) == (1, True)
    assert text_of(kit, world, 10.0) == before


def test_engines_mean_what_they_mean_to_opensm():
    """``ar_X`` is adaptive over X; the first of several; none or unknown is minhop."""
    for value, meant in (
        ("ar_updn", ("updn", True)),
        ("ar_ftree,updn", ("ftree", True)),
        ("updn", ("updn", False)),
        ("(null)", ("minhop", False)),
        ("ar_torus", ("minhop", False)),
    ):
        found = forwarding_of({"routing_engine": value}, None)
        assert (found.engine, found.adaptive) == meant
    assert forwarding_of({"routing_engine": "updn"}, "lft_random").engine == "lft_random"
    assert not forwarding_of({"shield_mode": "0"}, None).shield
    assert forwarding_of({"shield_mode": "2"}, None).shield


HOSTS = ("gpu001", "gpu002", "gpu003")
RING = "mpirun -np 8 -H {}:4,{}:4 -x NCCL_DEBUG=WARN {} all_reduce_perf -b 8G -e 8G"


def world(lossless: int | None = 106, **told: object) -> World:
    """Three hosts on one ToR."""
    hosts = {name: Host(name, roce_platform(), name, None, ("tor0",) * 4) for name in HOSTS}
    settings = MockSettings(noise_cv=0.0, lossless_class=lossless, **told)
    return World(Topology(hosts, {"tor0": Switch("tor0", "leaf")}), settings, seed=1)


def incast(kit, options: str, *, senders: int, lossless: int | None = 106) -> list[str]:
    """What senders print that write to one RNIC of the last host at the same time."""
    base = f"ib_write_bw --ib-dev=mlx5_0 --size=8388608 --duration=5 --report_gbits {options}"
    servers = [(0.0, HOSTS[2], f"{base} --port={18600 + n}") for n in range(senders)]
    clients = [(1.0, HOSTS[n], f"{base} --port={18600 + n} {HOSTS[2]}") for n in range(senders)]
    ended = kit.played(world(lossless), servers + clients)
    return [one.stdout + one.stderr for one in ended[senders:]]


@pytest.mark.parametrize(
    ("options", "senders", "lossless", "lost"),
    [
        ("--tclass=106", 2, 106, False),
        ("-R --tos=106", 2, 106, False),
        ("", 2, 106, True),
        ("--tclass=41", 2, 106, True),
        ("", 1, 106, False),
        ("", 2, None, False),
    ],
)
def test_the_wrong_class_is_lost_under_load(kit, options: str, senders: int, lossless: int | None, lost: bool) -> None:
    said = incast(kit, options, senders=senders, lossless=lossless)
    assert ["Failed status 12" in text for text in said] == [lost] * senders


@pytest.mark.parametrize(("asked", "status"), [("-x NCCL_IB_TC=106", [0, 0]), ("", [3, 3])])
def test_collectives_too(kit, asked: str, status: list[int]) -> None:
    """Two rings share a host, and with it its RNICs."""
    lines = [(0.0, "gpu001", RING.format("gpu001", "gpu002", asked))]
    lines.append((0.0, "gpu003", RING.format("gpu003", "gpu002", asked)))
    assert [one.exit_status for one in kit.played(world(), lines)] == status


def test_a_type_of_service_wants_rdma_cm(kit) -> None:
    """As perftest_parameters.c has it."""
    (ended,) = kit.played(world(), [(0.0, "gpu001", "ib_write_bw --ib-dev=mlx5_0 --tos=106")])
    assert ended.exit_status == 1
    assert "TOS only valid for rdma_cm based QP" in ended.stderr


def test_what_the_network_does_is_what_its_ends_are_set_to() -> None:
    """Settings of the mock are those of every end; what is set wrong at one end comes on top."""
    faults = (Fault("gpu001/mlx5_0:port", "trusts_pcp"),)
    ports = world().rack.ports
    off = world(ecn=False, pfc=False, faults=faults).rack.ports
    for name in ("tor0", "gpu001/mlx5_0"):
        own = ports.cabling.ends(ports.cabling.nodes[name])[0]
        on, without = ports.qos(ports.at(own)), off.qos(off.at(own))
        assert (on.marks, on.pfc, on.lossless) == (True, True, {3})
        assert (without.marks, without.pfc, without.lossless) == (False, False, frozenset())
    assert off.qos(off.at(("tor0", 1))).trust == "pcp"
