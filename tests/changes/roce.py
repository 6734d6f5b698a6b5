"""A small RoCE fabric whose three switches speak NVUE, for the tests of what is done to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fabric.changes.kind import Kind
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
    found = world.rack.nvue.switches.get(name)
    assert found is not None
    return found


def of(rack: Played, name: str) -> NvueSwitch:
    """The same, of a played rack."""
    return switch_of(rack.world, name)


@dataclass(frozen=True)
class Told:
    """One kind of change of these switches: the keys that it sets, how they are without it, and what they become."""

    kind: str
    keys: tuple[str, ...]
    was: str
    becomes: str
    on: bool
    more: Mapping[str, int] = field(default_factory=dict)

    def change(self, *, back: bool = False, for_s: float | None = 20.0) -> Change:
        """It, or what is so already; it ends after *for_s*, which no scenario can ask for."""
        when = When(None, for_s)
        planned = change(self.kind, "fabric", scope="fabric", when=when, on=self.on != back, **self.more)
        return planned if self.kind == "adaptive_routing" else replace(planned, spec=lasting(planned.spec, when))

    def values(self, world: World) -> dict[str, str | None]:
        """What is set of its keys on each switch as a whole, those that are alike as one; None: nothing is."""
        found = {name: {switch_of(world, name).applied.get(key) for key in self.keys} for name in SWITCHES}
        return {name: one.pop() if len(one) == 1 else f"{one}" for name, one in found.items()}


def lasting(spec: Kind, when: When) -> Kind:
    """The same that ends before its phase."""
    kind = type(spec)
    made = type(
        kind.__name__, (kind,), {"when": property(lambda _: when), "__module__": __name__, "__doc__": "Passing."}
    )
    return made(**{name: getattr(spec, name) for name in kind.model_fields})


QOS = "qos congestion-control default-global traffic-class 3 ecn", "qos pfc default-global"
TOLD = {
    "adaptive routing": Told("adaptive_routing", ("router adaptive-routing enable",), "off", "on", on=True),
    "ecn": Told("ecn", QOS[:1], "enable", "disable", on=False, more={"traffic_class": 3}),
    "switch_pfc": Told(
        "switch_pfc", (f"{QOS[1]} tx", f"{QOS[1]} rx"), "enable", "disable", on=False, more={"priority": 3}
    ),
}
LOSSLESS = 106
"""The class (NCCL_IB_TC) that is lossless where ECN and PFC are switched."""
