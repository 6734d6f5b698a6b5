"""Looks at the cables of a RoCE fabric: by NVUE of switches that have a login, and by the hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.engine.link_watch import LinkWatch
from fabric.hosts.mock import MockExecutor
from fabric.model.inventory import Fault, Inventory, MockSettings, ProcessSettings, SshSettings, TimedFault
from fabric.model.sampling import CounterReading
from fabric.model.topology import Topology
from fabric.runs.links import End, LinkSamples, read_links
from fabric.sim.world import World
from tests.changes.roce import SWITCHES, roce


def looked(
    folder: Path, *faults: TimedFault, given: tuple[Fault, ...] = (), topology: Topology | None = None
) -> LinkSamples:
    """What a watch of a minute's beat saw in ten minutes."""
    topology = topology or roce()
    settings = MockSettings(faults=given, noise_cv=0.0, timed_faults=faults)
    inventory = Inventory("i", "i.yaml", topology, "mock", SshSettings(), ProcessSettings(), settings)
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
            assert end in links.modules
            assert CounterReading(*end, "rx3_dbm") in links.samples.courses
    assert not links.failed


def test_what_is_wrong_with_a_cable_between_switches_is_seen_at_both_ends(tmp_path: Path) -> None:
    flapped = TimedFault(130.0, 5.0, Fault("leaf0--spine0", "broken"))
    links = looked(tmp_path, flapped, given=(Fault("leaf1--spine0", "half_width"),))
    assert {tuple(of(links, end, "link_downed")) for pair in between(links, "leaf0") for end in pair} == {(0, 1)}
    assert {tuple(of(links, end, "speed_gbps")) for pair in between(links, "leaf1") for end in pair} == {(200.0,)}


@pytest.mark.parametrize("management", ["nvue", None])
def test_switches_that_nobody_can_ask_are_named_with_what_to_add(tmp_path: Path, management: str | None) -> None:
    """A cable to one that can be asked is heard there; of its other end nothing is read."""
    links = looked(tmp_path, topology=roce(management=management, mute=("spine0",)))
    assert "add `address` and `management: nvue`" in links.failed
    assert ("spine0" in links.failed, "leaf" in links.failed) == (True, management is None)
    assert bool(between(links, "leaf0")) == (management is not None)
    assert {one.host for one in links.samples.courses} >= set(roce().hosts)
    assert "spine0" not in {one.host for one in links.samples.courses}
