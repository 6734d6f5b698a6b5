"""Faults that come and go, lemons, parts that are well most of the time, and files read at once on such hosts."""

from dataclasses import replace

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.config.inventory import load_inventory
from fabric.errors import ConfigError
from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.model.sampling import SampleSettings
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.probes.sources import sources_of
from fabric.sim.hashing import mix64
from fabric.sim.hosts.site import SWING_S, swung_c
from fabric.sim.hosts.timeline import Exited
from fabric.sim.life import DAY_S, FLAP_S, LEAST_BER, ONE_IN, WORST_BER, episodes
from fabric.sim.rack import Rack
from fabric.sim.world import World
from tests.places import INVENTORY

RING = "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 2000"
ALL = "alltoall_perf -b 8G -e 8G -f 2 -g 8 -n 2000"


def living(kit, *timed, faults=(), **more):
    """Four hosts to which this happens."""
    mock = MockSettings(faults=faults, noise_cv=0.0, timed_faults=tuple(timed), **more)
    return World(kit.topology_of(4, kit.platform_like()), mock, seed=1)


def passing(component, kind, factor=1.0, *, at_s=10.0, lasts_s=20.0):
    """A fault from *at_s* on."""
    return TimedFault(at_s, lasts_s, Fault(component, kind, factor))


def one(kit, world, text, at_s=0.0, host="gpu001"):
    """What became of one command line."""
    return kit.played(world, [(at_s, host, text)])[0]


def test_a_hanging_part_holds_up_what_runs(kit):
    """Nothing moves for 20 s; the fifth retry after 4.3 s each is the first that works."""
    whole = one(kit, living(kit), RING)
    held = one(kit, living(kit, passing("gpu002/mlx5_3", "hanging")), RING)
    assert held.at_s - whole.at_s == pytest.approx(5 * 4.295, abs=0.1)


def test_a_gpu_that_breaks_ends_what_uses_it_and_works_again_later(kit):
    """In CUDA's words, a second later; while it is broken nothing starts on it."""
    world = living(kit, passing("gpu001/gpu4", "broken"))
    ended, during = kit.played(world, [(0.0, "gpu001", ALL), (15.0, "gpu001", ALL)])
    assert (ended.exit_status, ended.at_s) == (2, pytest.approx(11.0))
    assert "uncorrectable ECC error" in ended.stdout
    assert during.exit_status == 2
    assert one(kit, world, ALL, 100.0).exit_status == 0


def test_an_rnic_that_breaks_takes_its_link_down_and_comes_back_after_training(kit):
    """Both ends see it, the counter counts it, perftest refuses it meanwhile."""
    world = living(kit, passing("gpu001/mlx5_0", "broken"))
    state = "cat /sys/class/infiniband/mlx5_0/ports/1/state"
    assert kit.ask(world, "gpu001", state, 5.0).stdout == "4: ACTIVE\n"
    assert kit.ask(world, "gpu001", state, 12.0).stdout == "1: DOWN\n"
    assert "Polling" in kit.ask(world, "gpu002", "smpquery portinfo 1 1", 13.0).stdout
    assert "Port number 1 state is Down" in kit.played(world, kit.pair(14.0, "gpu001", "mlx5_0", port=18600))[1].stderr
    assert kit.ask(world, "gpu001", state, 31.0).stdout == "1: DOWN\n"
    assert kit.ask(world, "gpu001", state, 35.0).stdout == "4: ACTIVE\n"
    assert kit.ask(world, "gpu001", state.replace("state", "counters/link_downed"), 36.0).stdout == "1\n"


def test_a_host_that_goes_away_never_answers_and_is_there_again_later(kit):
    """Its programs are gone; its ports are down for the others; nobody reaches it."""
    world = living(kit, passing("gpu001", "broken"))
    pid = world.start("gpu001", ("sleep", "15"), {}, 0.0)
    assert world.advance(12.0) == []
    assert world.unreachable("gpu001") == "No route to host"
    assert "Polling" in kit.ask(world, "gpu002", "smpquery portinfo 1 1", 13.0).stdout
    with pytest.raises(ValueError, match="No route"):
        world.start("gpu001", ("true",), {}, 14.0)
    assert one(kit, world, "hostname", 40.0).stdout == "gpu001\n"
    assert world.advance(1000.0) == []
    world.kill(pid, 1001.0)
    assert [(event.pid, event.exit_status) for event in world.advance(1001.0)] == [(pid, 137)]


def test_bit_errors_of_a_cable_show_at_both_ends_and_cost_bandwidth(kit):
    """1e-5 behind the FEC for 20 s; afterwards the counters stand still."""
    world = living(kit, passing("gpu001/mlx5_0", "bit_errors", 1e-5))

    def effective(at_s):
        said = kit.mlxlink(world, "gpu001", "-c", at_s)["Physical Counters and BER Info"]
        return int(said["Effective Physical Errors"])

    assert effective(5.0) == 0
    assert effective(20.05) == pytest.approx(400e9 * 10.05 * 1e-5, rel=0.02)
    assert effective(40.0) == effective(50.0) == pytest.approx(400e9 * 20 * 1e-5, rel=0.02)
    whole = one(kit, living(kit), RING)
    slowed = one(kit, living(kit, passing("gpu001/mlx5_0", "bit_errors", 1e-5, lasts_s=1e6)), RING)
    assert slowed.at_s > 1.5 * whole.at_s


def test_faults_that_always_were_stay_when_others_leave(kit):
    """A slow RNIC is still slow after its host was away."""
    slow = Fault("gpu001/mlx5_0", "slow", 0.5)
    world = living(kit, passing("gpu001", "broken"), faults=(slow,))
    pair = kit.pair(100.0, "gpu001", "mlx5_0", port=18600)
    assert kit.bandwidth_gbps(kit.played(world, pair)[1].stdout) == pytest.approx(kit.alone_gbps / 2, rel=0.01)


def test_a_hot_rnic_warms_and_errs_and_a_hot_gpu_throttles(kit):
    """Through 70 C, at which NVIDIA's UFM isolates; back to what it was when it is over."""
    world = living(kit, passing("gpu001/mlx5_0", "hot", lasts_s=2000.0), passing("gpu001/gpu0", "hot", lasts_s=2000.0))
    read = "cat /sys/class/infiniband/mlx5_0/device/hwmon/hwmon0/temp1_input"
    ask_gpu = "nvidia-smi --query-gpu=temperature.gpu --format=csv,noheader,nounits"
    (before, gpu_before), (during, gpu_during) = (
        [int(kit.ask(world, "gpu001", text, at_s + n).stdout.split()[0]) for n, text in enumerate((read, ask_gpu))]
        for at_s in (5.0, 1e3)
    )
    assert during - before == pytest.approx(25_000, abs=500)
    assert gpu_during - gpu_before == pytest.approx(25, abs=1)
    slow = one(kit, world, ALL, 1100.0)
    after = int(kit.ask(world, "gpu001", read, 9000.0).stdout)
    assert after == pytest.approx(before, abs=300)
    whole = one(kit, world, ALL, 9100.0)
    assert kit.busbw_gbps(slow.stdout)[0] == pytest.approx(0.8 * kit.busbw_gbps(whole.stdout)[0], rel=0.02)


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


def paths() -> list[str]:
    """Every file that is sampled on such a host, by its own name where a pattern is sampled."""
    often, slowly = sources_of(rack_topology(1, parts=2).hosts["gpu001"].platform, SampleSettings())
    files = [source.path for source in (*often, *slowly) if source.path]
    return [path.replace("hwmon*", f"hwmon{path.split('mlx5_')[1][0]}") for path in files]


def printed(world: World, names: list[str], at_s: float) -> list[str]:
    """What ``cat`` says of each file; asked 0.05 s before, for that is when it answers."""
    world.start("gpu001", ("cat", *names), {}, at_s - 0.05)
    (end,) = [event for event in world.advance(at_s) if isinstance(event, Exited)]
    return end.stdout.split()


def a_world(*faults: Fault) -> World:
    """Two hosts of two RNICs."""
    return World(rack_topology(2, parts=2), MockSettings(faults=faults, noise_cv=0.0), seed=1)


@pytest.mark.parametrize("fault", [Fault("gpu001/mlx5_1", "bit_errors", 1e-7), Fault("gpu001/mlx5_0", "hot")])
def test_every_file_says_what_cat_prints(fault: Fault) -> None:
    """The numbers of a sample are those of the simulated files, to the last digit."""
    names, world, at_s = paths(), a_world(fault), 500.0
    world.advance(at_s - 1)
    shown = printed(world, names, at_s)
    row = world.readings("gpu001", names).row(at_s)
    assert row is not None
    assert [str(value) for value in row] == shown
    assert len(names) > 20


def test_a_hanging_host_has_no_row_and_one_that_prints_garbage_no_numbers() -> None:
    """Neither is a host whose counters are 0."""
    world = a_world(Fault("gpu001", "hanging"), Fault("gpu002", "garbage"))
    names = paths()[:3]
    assert world.readings("gpu001", names).row(1.0) is None
    assert world.readings("gpu002", names).row(1.0) == [None, None, None]


PART = ("gpu001", "mlx5_0")


def having(kind: str, factor: float, component: str = "gpu001/mlx5_0") -> Rack:
    """A rack in which this is the matter from the beginning on."""
    world = a_world(Fault(component, kind, factor))
    world.advance(0.0)
    return world.rack


def test_one_transfer_in_fifty_dips() -> None:
    here = having("dipping", 0.5).passing
    left = [here.left([PART], bits, 0.0) for bits in range(50_000)]
    assert set(left) == {0.5, 1.0}
    assert left.count(0.5) / len(left) == pytest.approx(1 / ONE_IN, rel=0.1)


def test_an_erratic_part_is_slow_in_half_to_three_quarters_of_its_transfers() -> None:
    """How often is its own: another part has another number. A host's is felt by all of its RNICs, inside it, too."""
    rates = []
    for component in ("gpu001/mlx5_0", "gpu001/mlx5_0:port", "gpu001"):
        here = having("erratic", 0.8, component).passing
        inside = not component.endswith(":port")
        left = [here.left([PART], mix64(number), 0.0, inside=inside) for number in range(5_000)]
        assert set(left) == {0.8, 1.0}
        rates.append(left.count(0.8) / len(left))
    assert all(0.48 < rate < 0.77 for rate in rates)
    assert len({round(rate, 1) for rate in rates}) > 1


def test_programs_on_an_erratic_host_go_on_when_another_fault_comes_over_it(kit) -> None:
    """To be slow now and then is no reason not to answer."""
    world = living(kit, passing("gpu001/mlx5_3", "slow", 0.5), faults=(Fault("gpu001", "erratic", 0.8),))
    ended = one(kit, world, "sleep 30")
    assert (ended.at_s > 30.0, ended.exit_status) == (True, 0)


def test_a_fading_part_has_lost_its_share_after_a_day() -> None:
    here = having("fading", 0.7).passing
    assert [here.left([PART], 1, at_s) for at_s in (0.0, DAY_S / 2, DAY_S)] == pytest.approx([1.0, 0.85, 0.7])


def test_what_cannot_bear_warmth_is_slowest_at_its_warmest() -> None:
    rack = having("heat_sick", 0.8)
    here = rack.passing
    assert here.left([PART], 1, SWING_S / 2) == pytest.approx(0.8)
    assert swung_c(rack.hosts.site("gpu001").swings["mlx5_0"], SWING_S / 2) == pytest.approx(15.0)
    assert here.left([PART], 1, SWING_S) == pytest.approx(1.0)
