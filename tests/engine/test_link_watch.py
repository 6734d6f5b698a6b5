"""Looks at all links and sampling beside the probes: on simulated hosts, some of which cannot or go away."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.engine.link_views import askers_of
from fabric.engine.watching import LinkWatch, Watch
from fabric.hosts.mock import MockExecutor
from fabric.model.change import ChangeSettings
from fabric.model.inventory import Fault, Inventory, MockSettings, TimedFault
from fabric.model.probe import Command
from fabric.model.sampling import CounterCourse, CounterReading, Samples, SampleSettings
from fabric.model.scenario import Scenario
from fabric.model.topology import Topology, Uplinks
from fabric.ports import Ended, Ticket
from fabric.runs.samples import SAMPLES, LinkSamples, SampleLog, read_links, read_samples
from fabric.sim.world import World

HOSTS = ("gpu001", "gpu002")
NODES = {*HOSTS, "leaf0", "leaf1", "spine0"}


def fabric() -> Topology:
    """Two hosts, two leaves, and a spine with one cable to each."""
    rack = rack_topology(2, parts=2)
    switches = {**rack.switches, "spine0": replace(rack.switches["leaf0"], name="spine0", tier="spine")}
    return replace(rack, switches=switches, uplinks=(Uplinks(("leaf0", "leaf1"), ("spine0",), 1, 400.0),))


def rails() -> Topology:
    """Two hosts on leaves that nothing joins, one a rail."""
    rack = rack_topology(2, parts=4)
    return replace(rack, switches={name: one for name, one in rack.switches.items() if one.tier == "leaf"})


def inventory() -> Inventory:
    return Inventory(name="i", source="i.yaml", topology=fabric(), backend="mock")


def looked(folder: Path, *faults: TimedFault, given: tuple[Fault, ...] = (), until_s: float = 600.0) -> LinkSamples:
    """What a watch of a minute's beat saw while a host slept for so long."""
    settings = MockSettings(faults=given, noise_cv=0.0, timed_faults=faults)
    mock = MockExecutor(World(fabric(), settings, seed=1))
    watch = LinkWatch(mock, folder, inventory(), HOSTS, 60.0, nodes=NODES)
    ticket = watch.start(Command("gpu002", ("sleep", str(until_s)), until_s + 60))
    found: list[object] = []
    while not any(isinstance(one, Ended) for one in found):
        found += watch.wait(inf)
    assert [one.ticket for one in found if isinstance(one, Ended)] == [ticket]  # of our own nobody is told
    watch.finish()
    watch.close()
    links = read_links(folder)
    assert links is not None
    return links


def of(links: LinkSamples, node: str, part: str, name: str) -> CounterCourse:
    return links.samples.courses[CounterReading(node, part, name)]


def test_both_ends_of_every_cable_are_read_from_the_beginning_to_the_end(tmp_path: Path) -> None:
    """Who is joined with whom, how it stands, and what is plugged in."""
    links = looked(tmp_path)
    assert len(links.cables) == fabric().link_count
    assert of(links, "", "", "looks").values[-1] >= 11
    for node, part in (end for pair in links.cables for end in pair):
        assert of(links, node, part, "link_downed").values == [0]
        assert of(links, node, part, "link_downed").until_s >= 600.0
        assert of(links, node, part, "width").values == [4]
        assert len([one for one in links.samples.courses if one.part == part and one.name.startswith("rx")]) >= 4
        assert (node, part) in links.modules
    assert not links.failed


def test_a_cable_that_flaps_between_switches_is_counted_at_both_ends(tmp_path: Path) -> None:
    links = looked(tmp_path, TimedFault(130.0, 5.0, Fault("leaf0--spine0", "broken")))
    ends = next(pair for pair in links.cables if {pair[0][0], pair[1][0]} == {"leaf0", "spine0"})
    assert [of(links, *end, "link_downed").values for end in ends] == [[0, 1], [0, 1]]
    assert of(links, *ends[0], "link_downed").at_s[1] == pytest.approx(180.0, abs=15.0)


class Told(MockExecutor):
    """Keeps when what was asked."""

    def __init__(self, world: World) -> None:
        self.asked: list[tuple[float, tuple[str, ...]]] = []
        super().__init__(world)

    def start(self, command: Command) -> int:
        """As any executor, and note it."""
        self.asked.append((self.now(), command.argv))
        return super().start(command)


def test_what_was_sent_and_waited_is_asked_for_each_half_hour(tmp_path: Path) -> None:
    """Not each minute: it grows on a good fabric, and then every port is asked."""
    mock = Told(World(fabric(), MockSettings(noise_cv=0.0), seed=1))
    watch = LinkWatch(mock, tmp_path, inventory(), HOSTS, 600.0, nodes=NODES)
    watch.start(Command("gpu002", ("sleep", "4500"), 5000.0))
    while mock.now() < 4500.0:
        watch.wait(inf)
    watch.finish()
    watch.close()
    for asked in (lambda argv: "--counters" in argv, lambda argv: argv[0] == "ibqueryerrors" and len(argv) == 5):
        assert [round(at_s / 600.0) for at_s, argv in mock.asked if asked(argv)] == [0, 3, 6, 8]


def test_of_a_switch_only_ports_are_kept_whose_cables_lead_to_nodes_of_the_run(tmp_path: Path) -> None:
    """A spine's port to a leaf of others is not, though the walk finds it, and though others' cables flap."""
    fault = TimedFault(130.0, 200.0, Fault("leaf1--spine0", "broken"))
    mock = MockExecutor(World(fabric(), MockSettings(noise_cv=0.0, timed_faults=(fault,)), seed=1))
    watch = LinkWatch(mock, tmp_path, inventory(), HOSTS, 60.0, nodes={*HOSTS, "leaf0", "spine0"})
    watch.start(Command("gpu002", ("sleep", "400"), 500.0))
    while not any(isinstance(one, Ended) for one in watch.wait(inf)):
        pass
    watch.finish()
    watch.close()
    links = read_links(tmp_path)
    assert links is not None
    ends = {(one.host, one.part) for one in links.samples.courses if one.name == "up"}
    assert {node for node, _ in ends} == {*HOSTS, "leaf0", "spine0"}
    assert sum(node == "spine0" for node, _ in ends) == 1


def test_a_host_that_cannot_look_is_followed_by_one_that_can(tmp_path: Path) -> None:
    """What was counted meanwhile is seen afterwards."""
    gone = TimedFault(100.0, inf, Fault("gpu001", "broken"))
    links = looked(tmp_path, gone, TimedFault(130.0, 5.0, Fault("leaf1--spine0", "broken")))
    assert "gpu001" in links.failed
    assert of(links, "", "", "looks").until_s >= 600.0
    downs = [course.values[-1] for one, course in links.samples.courses.items() if one.host == "spine0" and
             one.name == "link_downed"]  # fmt: skip
    assert sorted(downs) == [0, 1]


def test_each_subnet_is_asked_out_of_a_port_in_it() -> None:
    """Rails that nothing joins are subnets; ``via`` asks out of its ``via_device`` where that is one of its ports."""
    apart = replace(inventory(), topology=rails(), changes=ChangeSettings(via="gpu002", via_device="mlx5_1"))
    of_rails = [[(name, rnic.device) for name, rnic in one] for one in askers_of(apart, ("gpu002", "gpu001"))]
    assert sorted(of_rails) == [[("gpu002", f"mlx5_{n}"), ("gpu001", f"mlx5_{n}")] for n in range(4)]
    joined = askers_of(replace(apart, topology=fabric()), ("gpu002", "gpu001"))
    assert [[(name, rnic.device) for name, rnic in one] for one in joined] == [
        [("gpu002", "mlx5_1"), ("gpu001", "mlx5_0")]
    ]


def test_a_subnet_of_which_no_host_can_ask_leaves_the_others_seen(tmp_path: Path) -> None:
    """Both cables into one rail's leaf are down at the hosts: the other rails are looked at as before."""
    topology = rails()
    world = World(topology, MockSettings(faults=(Fault("leaf1", "broken"),), noise_cv=0.0), seed=1)
    watch = LinkWatch(
        MockExecutor(world),
        tmp_path,
        replace(inventory(), topology=topology),
        HOSTS,
        60.0,
        nodes={*topology.switches, *HOSTS},
    )
    watch.finish()
    watch.close()
    links = read_links(tmp_path)
    assert links is not None
    seen = {reading.host for reading in links.samples.courses if reading.name == "up"}
    assert seen >= set(topology.parts) - {"leaf1"}


class WithoutMlxlink(MockExecutor):
    """Of a rack on which it is not installed."""

    def start(self, command: Command) -> Ticket:
        """Under a name that nothing has."""
        absent = command.argv[0] == "mlxlink"
        return super().start(replace(command, argv=("/nowhere/absent", *command.argv[1:])) if absent else command)


def test_ufm_tells_bit_errors_of_all_ends_though_no_port_is_asked(tmp_path: Path) -> None:
    """Its telemetry, out of one host; mlxlink is not there, so that nobody tells of light."""
    changes = ChangeSettings(via="gpu001", ufm_url="https://ufm.example")
    world = World(fabric(), MockSettings(noise_cv=0.0), seed=1, ufm=True)
    mine = replace(inventory(), changes=changes)
    watch = LinkWatch(WithoutMlxlink(world), tmp_path, mine, HOSTS, 60.0, nodes=NODES)
    watch.finish()
    watch.close()
    links = read_links(tmp_path)
    assert links is not None
    ends = {end for pair in links.cables for end in pair}
    assert {(one.host, one.part) for one in links.samples.courses if one.name == "raw_errors"} == ends
    assert links.modules.keys() == ends
    assert not [one for one in links.samples.courses if one.name == "rx0_dbm"]


def test_where_nobody_can_look_that_is_said_and_hinders_nothing(tmp_path: Path) -> None:
    garbled = tuple(Fault(host, "hanging") for host in ("gpu001",))
    mock = MockExecutor(World(fabric(), MockSettings(faults=garbled), seed=1))
    watch = LinkWatch(mock, tmp_path, inventory(), ("gpu001",), 60.0, nodes=NODES)
    watch.start(Command("gpu002", ("sleep", "200"), 260))
    found: list[object] = []
    while not any(isinstance(one, Ended) for one in found):
        found += watch.wait(inf)
    watch.finish()
    watch.close()
    links = read_links(tmp_path)
    assert links is not None
    assert (links.cables, links.samples.courses) == ((), {})
    assert "gpu001" in links.failed


@pytest.mark.parametrize(
    ("kind", "name", "shows"),
    [("half_width", "width", [2]), ("dark_lane", "raw_errors", None)],
)
def test_what_is_wrong_with_a_cable_for_ever_is_seen_at_its_ends(
    tmp_path: Path, kind: str, name: str, shows: list[int] | None
) -> None:
    links = looked(tmp_path, given=(Fault("leaf0->spine0", kind),))
    near, far = next(pair for pair in links.cables if {pair[0][0], pair[1][0]} == {"leaf0", "spine0"})
    spine = near if near[0] == "spine0" else far
    if shows is not None:
        assert of(links, *spine, name).values == shows
        return
    light = sorted(of(links, *spine, f"rx{lane}_dbm").values[0] or 0.0 for lane in range(4))
    assert light[1] - light[0] > 3.0  # and what leaf0 receives is well
    own = far if spine == near else near
    light = sorted(of(links, *own, f"rx{lane}_dbm").values[0] or 0.0 for lane in range(4))
    assert light[1] - light[0] < 2.0


RACK = rack_topology(2, parts=2)


@pytest.fixture
def mock() -> Iterator[MockExecutor]:
    """Two hosts; the second goes away after 100 s, for 200 s."""
    gone, hot = TimedFault(100.0, 200.0, Fault("gpu002", "broken")), TimedFault(0.0, inf, Fault("gpu001/mlx5_0", "hot"))
    executor = MockExecutor(World(RACK, MockSettings(noise_cv=0.0, timed_faults=(gone, hot)), seed=1))
    yield executor
    executor.close()


def watched(mock: MockExecutor, folder: Path, until_s: float, settings: SampleSettings | None = None) -> Samples:
    """A host sleeps for so long while both are sampled."""
    wanted = settings or SampleSettings(every_s=10.0)
    watch = Watch(mock, SampleLog(folder / SAMPLES, wanted.every_s), wanted)
    watch.begin(list(RACK.hosts.values()))
    ticket = watch.start(Command("gpu001", ("sleep", str(until_s)), until_s + 60))
    found = []
    while not found and watch.now() < until_s + 60:
        found = list(watch.wait(until_s + 60))
    assert [(type(one), one.ticket) for one in found] == [(Ended, ticket)]  # and nothing that we started
    watch.end()
    return read_samples(folder)


def test_counters_temperatures_and_clocks_are_sampled(mock: MockExecutor, tmp_path: Path) -> None:
    """Of every part, by its name."""
    samples = watched(mock, tmp_path, 60.0)
    names = {(reading.part, reading.name) for reading in samples.courses if reading.host == "gpu001"}
    wanted = (
        "symbol_error",
        "link_downed",
        "out_of_sequence",
        "port_xmit_wait",
        "asic_c",
        "module_c",
    )
    assert names >= {(f"mlx5_{number}", name) for number in (0, 1) for name in wanted}
    assert names >= {(f"gpu{number}", name) for number in (0, 1) for name in ("gpu_c", "sm_mhz")}


def test_a_host_that_goes_away_has_a_gap_and_comes_back(mock: MockExecutor, tmp_path: Path) -> None:
    """The run does not notice; what is not known meanwhile is not 0."""
    samples = watched(mock, tmp_path, 600.0)
    course = samples.courses[CounterReading("gpu002", "mlx5_0", "link_error_recovery")]
    assert [course.value_at(at_s) for at_s in (50.0, 200.0, 500.0)] == [0, None, 0]


def test_what_only_wavers_is_not_written_again(mock: MockExecutor, tmp_path: Path) -> None:
    """A temperature in balance is one line, not sixty."""
    samples = watched(mock, tmp_path, 600.0)
    assert len(samples.courses[CounterReading("gpu001", "mlx5_1", "module_c")].values) == 1


def scenario(settings: SampleSettings | None) -> Scenario:
    """One that is never run."""
    return Scenario(name="s", source="s.yaml", inventory="i.yaml", hosts=("gpu001",), phases=(), sample=settings)
