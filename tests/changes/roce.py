"""A small RoCE fabric whose three switches speak NVUE, for the tests of what is done to them."""

from __future__ import annotations

from fabric.model.change import Change, When
from fabric.model.topology import Host, Login, Switch, Topology, Uplinks
from fabric.sim.net.controllers import NvueSwitch
from fabric.sim.world import World
from tests.changes.played import Played, change
from tests.sim.conftest import platform_like

SWITCHES = ("leaf0", "leaf1", "spine0")


def roce(*, management: str | None = "nvue", mute: tuple[str, ...] = ()) -> Topology:
    """Four hosts under two leaves and a spine; those of *mute* have no address."""
    platform = platform_like(link_layer="ethernet")
    hosts = {
        f"gpu{n:03d}": Host(f"gpu{n:03d}", platform, f"10.0.0.{n}", None, (f"leaf{(n - 1) // 2}",) * 8)
        for n in range(1, 5)
    }
    switches = {
        name: Switch(name, name[:-1], None if name in mute else Login(f"{name}.mgmt", management)) for name in SWITCHES
    }
    return Topology(hosts, switches, (Uplinks(("leaf0", "leaf1"), ("spine0",), 4, 400.0),))


def switch_of(world: World, name: str) -> NvueSwitch:
    """The simulated switch itself."""
    found = world.rack.nvue.of(name)
    assert found is not None
    return found


def of(rack: Played, name: str) -> NvueSwitch:
    """The same, of a played rack."""
    return switch_of(rack.world, name)


def values(world: World) -> dict[str, str | None]:
    """What is set of adaptive routing on each switch as a whole; None: nothing is."""
    return {name: switch_of(world, name).applied.get("router adaptive-routing enable") for name in SWITCHES}


def routed(*, on: bool = True, for_s: float | None = 20.0) -> Change:
    """Adaptive routing of the fabric."""
    when = When(None, for_s)
    return change("adaptive_routing", "fabric", scope="fabric", when=when, on=on)
