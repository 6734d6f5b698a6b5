"""Files read at once on simulated hosts."""

from __future__ import annotations

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.model.inventory import Fault, MockSettings
from fabric.model.sampling import SampleSettings
from fabric.probes.sources import sources_of
from fabric.sim.hosts.timeline import Exited
from fabric.sim.world import World


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
