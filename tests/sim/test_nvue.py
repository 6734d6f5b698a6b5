"""A simulated switch with NVUE: what it prints, what it stages and commits, its timer, and what it does to routes."""

from __future__ import annotations

import pytest

from fabric.model.change import ChangeSettings
from fabric.model.inventory import MockSettings
from fabric.model.topology import Host, Login, Switch, Topology, Uplinks
from fabric.sim.world import World
from fabric.tools import nvue
from fabric.tools.nvue import Configured, Setting
from tests.changes.played import Played
from tests.changes.roce import of, roce
from tests.sim.test_network_collectives import line, measured

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
    assert nvue.read_commands(*nv(rack, *nvue.commands()[1:])) == Configured(None, ("swp1", "swp2", "swp3", "swp4"))


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


@pytest.mark.parametrize(("time", "seconds"), [(("90s",), 90.0), (("2m",), 120.0), (("3",), 180.0), ((), 600.0)])
def test_a_commit_that_nobody_confirms_is_rolled_back_in_its_time(
    rack: Played, time: tuple[str, ...], seconds: float
) -> None:
    nv(rack, "set", *AR, "on")
    nv(rack, "config", "apply", "--confirm", *time, "-y")
    at_s = rack.now_s
    rack.wait(at_s + seconds - 1.0)
    assert of(rack, "leaf0").applied["router adaptive-routing enable"] == "on"
    rack.wait(at_s + seconds + 1.0)
    assert "router adaptive-routing enable" not in of(rack, "leaf0").applied


def test_a_confirmed_commit_stays(rack: Played) -> None:
    nv(rack, "set", *AR, "on")
    nv(rack, *nvue.apply("fabric 01", confirm_min=1)[1:])
    assert nv(rack, *nvue.confirm()[1:])[2] == 0
    rack.wait(rack.now_s + 1000.0)
    assert of(rack, "leaf0").applied["router adaptive-routing enable"] == "on"
    assert nv(rack, *nvue.confirm()[1:])[2] == 1


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
        switch = rack.nvue.of(name)
        assert switch is not None
        switch.staged["router adaptive-routing enable"] = "on"
        rack.nvue.apply(switch, 100.0, message="on")
        assert rack.above.forwarding.adaptive == (name == list(rack.topology.switches)[-1])
    adaptive = measured(kit, world, *rings, starts_s=(200.0, 200.0))
    assert sum(adaptive) > 1.2 * sum(hashed)
