"""Looks at the cables of a RoCE fabric: by NVUE of switches that have a login, and by the hosts."""

from pathlib import Path

import pytest

from fabric.engine.watching import LinkWatch
from fabric.hosts.mock import MockExecutor
from fabric.judge.ports.links import LinkEvidence, cables_of, link_health
from fabric.model.inventory import Fault, Inventory, MockSettings, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.sampling import LINK_DOWNED, LINK_RECOVERIES, CounterReading, ZeroGrowth
from fabric.model.topology import Topology
from fabric.runs.samples import End, LinkSamples, read_links
from fabric.sim.world import World
from tests.changes.roce import SWITCHES, roce

UPLINKS = ("leaf1--spine0", "leaf1--spine0#1", "leaf1--spine0#2", "leaf1--spine0#3")


def looked(
    folder: Path, *faults: TimedFault, given: tuple[Fault, ...] = (), topology: Topology | None = None
) -> LinkSamples:
    """What a watch of a minute's beat saw in ten minutes."""
    topology = topology or roce()
    settings = MockSettings(faults=given, noise_cv=0.0, timed_faults=faults)
    inventory = Inventory(name="i", source="i.yaml", topology=topology, backend="mock", mock=settings)
    mock = MockExecutor(World(topology, settings, seed=1))
    watch = LinkWatch(mock, folder, inventory, tuple(topology.hosts), 60.0, nodes={*topology.hosts, *SWITCHES})
    while mock.now() < 600.0:
        watch.wait(600.0)
    watch.finish()
    watch.close()
    links = read_links(folder)
    assert links is not None
    return links


def of(links: LinkSamples, end: End, name: str) -> list[float | int | None]:
    return links.samples.courses[CounterReading(*end, name)].values


def between(links: LinkSamples, lower: str) -> list[tuple[End, End]]:
    """Cables of a leaf up, each from both ends."""
    return [pair for pair in links.cables if {pair[0][0], pair[1][0]} == {lower, "spine0"}]


def test_both_ends_of_every_cable_are_read(tmp_path: Path) -> None:
    links = looked(tmp_path)
    assert len({frozenset(pair) for pair in links.cables}) == roce().link_count
    for pair in links.cables:
        for end in pair:
            assert of(links, end, "up") == [1]
            assert of(links, end, "speed_gbps") == [400.0]
            assert (end[0] not in SWITCHES) or of(links, end, "link_downed") == of(links, end, "rx_crc_errors") == [0]
            assert links.modules[end].rx_warn_dbm == pytest.approx(-7.41, abs=0.01)  # NVUE's, and ethtool's
            assert {
                CounterReading(*end, name) for name in ("rx3_dbm", "module_c", "raw_errors")
            } <= links.samples.courses.keys()
    assert not links.failed


def test_what_is_wrong_with_a_cable_between_switches_is_seen_at_both_ends(tmp_path: Path) -> None:
    flapped = TimedFault(130.0, 5.0, Fault("leaf0--spine0", "broken"))
    links = looked(tmp_path, flapped, given=(Fault("leaf1--spine0", "half_width"),))
    assert {tuple(of(links, end, "link_downed")) for pair in between(links, "leaf0") for end in pair} == {(0, 1)}
    assert {tuple(of(links, end, "speed_gbps")) for pair in between(links, "leaf1") for end in pair} == {(200.0,)}


@pytest.mark.parametrize(
    ("kind", "bad"), [("half_width", "speed"), ("broken", "link_downed"), ("dark_lane", "rx"), (None, None)]
)
def test_a_bad_cable_between_switches_fails_and_no_other(tmp_path: Path, kind: str | None, bad: str | None) -> None:
    """No recoveries are asked of an Ethernet port: it counts none."""
    fault = Fault("leaf1--spine0", kind or "")
    for_ever = () if kind in (None, "broken") else (fault,)
    links = looked(tmp_path, *([TimedFault(130.0, 5.0, fault)] if kind == "broken" else []), given=for_ever)
    topology, wanted = roce(), ZeroGrowth((LINK_DOWNED, LINK_RECOVERIES))
    cables = cables_of(links, topology, topology.hosts)
    read = frozenset(end for cable in cables for end in cable.ends if end[0] in topology.hosts)
    found = link_health(LinkEvidence(links, topology, (), wanted, read, began_s=0.0, ended_s=600.0), cables)
    assert {one.outcome for one in found if one.cable not in UPLINKS} == {Outcome.PASS}
    of_cables = [one for one in found if one.cable in UPLINKS]
    assert len(of_cables) == 4
    assert {one.outcome for one in of_cables} == {Outcome.FAIL if kind else Outcome.PASS}
    assert bad is None or all(bad in one.bad for one in of_cables)


@pytest.mark.parametrize("management", ["nvue", None])
def test_switches_that_nobody_can_ask_are_named_with_what_to_add(tmp_path: Path, management: str | None) -> None:
    """A cable to one that can be asked is heard there; of its other end nothing is read."""
    links = looked(tmp_path, topology=roce(management=management, mute=("spine0",)))
    assert "add `address` and `management: nvue`" in links.failed
    assert ("spine0" in links.failed, "leaf" in links.failed) == (True, management is None)
    assert bool(between(links, "leaf0")) == (management is not None)
    assert {one.host for one in links.samples.courses} >= set(roce().hosts)
    assert "spine0" not in {one.host for one in links.samples.courses}
