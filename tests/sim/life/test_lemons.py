"""Life of hosts as inventories ask for it; lemons err as often as asked, in bursts, always in the same place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.config import load_inventory
from fabric.errors import ConfigError
from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.sim.life import FLAP_S, LEAST_BER, WORST_BER, episodes
from fabric.sim.world import World
from tests.places import INVENTORY

HOUR_S = 3600.0


def test_a_lemon_has_as_many_episodes_as_asked(kit):
    """Ten seeds, ten days, two an hour; half are flaps of seconds, the others bit errors."""
    topology = kit.topology_of(2, kit.platform_like())
    lemons = (Fault("gpu001", "lemon"),)
    found = [
        one
        for seed in range(10)
        for one in episodes(topology, lemons, seed=seed, per_hour=2.0, window_s=(0.0, 240 * HOUR_S))
    ]
    assert len(found) == pytest.approx(4800, rel=0.1)
    flaps = [one for one in found if one.fault.kind == "broken"]
    assert len(flaps) / len(found) == pytest.approx(0.5, abs=0.03)
    assert all(FLAP_S[0] <= one.duration_s <= FLAP_S[1] for one in flaps)
    assert all(LEAST_BER <= one.fault.factor <= WORST_BER for one in found if one.fault.kind == "bit_errors")


def test_a_window_holds_what_the_whole_holds_there(kit):
    """Whoever looks a day ahead sees what one who looks a month ahead sees."""
    topology = kit.topology_of(1, kit.platform_like())
    lemons = (Fault("gpu001/mlx5_2", "lemon"),)

    def between(first_h, last_h):
        window_s = (first_h * HOUR_S, last_h * HOUR_S)
        return episodes(topology, lemons, seed=3, per_hour=5.0, window_s=window_s)

    assert between(0, 72) == between(0, 24) + between(24, 48) + between(48, 72)
    assert {one.fault.component for one in between(0, 72)} == {"gpu001/mlx5_2"}


def test_a_cable_between_switches_that_is_a_lemon_flaps_at_both_ends(kit):
    """The ports of the leaf and of the spine count the same link-downs."""
    platform = kit.platform_like()
    leaves = [tuple(f"u{unit}-leaf{rail}" for rail in range(8)) for unit in range(2)]
    hosts = {f"h{n}": Host(f"h{n}", platform, f"h{n}", None, leaves[n]) for n in range(2)}
    switches = {name: Switch(name, "leaf") for unit in leaves for name in unit} | {"spine0": Switch("spine0", "spine")}
    topology = Topology(hosts, switches, (Uplinks((*leaves[0], *leaves[1]), ("spine0",), 1, 400.0),))
    lemon = (Fault("u0-leaf3--spine0", "lemon"),)
    world = World(topology, MockSettings(faults=lemon, noise_cv=0.0, lemon_per_hour=10.0), seed=1)
    world.advance(24 * HOUR_S)
    ports = world.rack.ports
    downed = {end: ports.at(end).tally.counts.downed for end in (("u0-leaf3", 2), ("spine0", 4), ("spine0", 5))}
    assert ports.cabling.peers["u0-leaf3", 2] == ("spine0", 4)
    assert downed["u0-leaf3", 2] == downed["spine0", 4]
    assert 50 < downed["spine0", 4] < 200
    assert downed["spine0", 5] == 0


POD = INVENTORY / "pod-64.yaml"


def loaded(tmp_path, mock, *, faults=()):
    """The 64-host pod with other settings of the mock."""
    path = tmp_path / "pod.yaml"
    text = POD.read_text()
    path.write_text(text.replace("mock: {noise_cv: 0.003}", f"mock: {mock}"))
    baselines = tmp_path / "baselines"
    if not baselines.exists():
        baselines.symlink_to(POD.parent / "baselines")
    return load_inventory(path, extra_faults=faults)


def test_all_of_it_is_read(tmp_path):
    """Times with their units, rates as numbers."""
    timed = "{component: gpu001/mlx5_2, kind: slow, factor: 0.5, at: 10m, lasts: 30s}"
    mock = f"{{lemon_per_hour: 4, timed_faults: [{timed}]}}"
    found = loaded(tmp_path, mock, faults=("gpu003:lemon", "su0-leaf3--spine02:lemon", "gpu004/gpu1:hot")).mock
    assert found.timed_faults == (TimedFault(600.0, 30.0, Fault("gpu001/mlx5_2", "slow", 0.5)),)
    assert found.lemon_per_hour == 4.0
    assert [one.kind for one in found.faults] == ["lemon", "lemon", "hot"]
    quiet = loaded(tmp_path, "{noise_cv: 0.003}").mock
    assert quiet == replace(quiet, timed_faults=(), lemon_per_hour=1.0, faults=())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu003/gpu1:lemon", "only a host, an RNIC or a cable between switches can be a lemon"),
        ("gpu003:hot", "a host cannot be 'hot'"),
        ("gpu903:lemon", "no host"),
        ("gpu003:lemon=0.5", "'factor' goes with kind slow"),
        ("spine03:hot", "can be broken for a while, not hot"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, text, said):
    """Before anything runs."""
    with pytest.raises(ConfigError, match=said):
        loaded(tmp_path, "{noise_cv: 0.003}", faults=(text,))
