"""``ib_write_bw`` of the simulated rack: what it measures, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.model.inventory import Fault, MockSettings
from fabric.sim.world import World
from tests.places import CAPTURES


@pytest.mark.parametrize(
    ("endpoint", "expected_gbps"),
    [("numa0", None), ("gpu0", None), ("gpu1", None), ("gpu2", 368.0), ("gpu5", 248.0), ("numa1", 372.0)],
)
def test_each_path_class_has_its_own_bandwidth(kit, endpoint, expected_gbps):
    """Same switch and local memory give the RNIC's rate; the CPU and the other socket cost what capacity.py says."""
    assert kit.loopback_gbps("mlx5_0", endpoint) == (expected_gbps or kit.alone_gbps)


@pytest.mark.parametrize(
    ("component", "slow", "healthy"),
    [
        ("gpu001/mlx5_0", [("mlx5_0", "numa0"), ("mlx5_0", "gpu5")], [("mlx5_1", "numa0")]),
        ("gpu001/gpu1", [("mlx5_0", "gpu1"), ("mlx5_5", "gpu1")], [("mlx5_0", "gpu0")]),
        ("gpu001/numa1", [("mlx5_0", "numa1"), ("mlx5_4", "numa1")], [("mlx5_0", "numa0"), ("mlx5_0", "gpu5")]),
        ("gpu001/pcie0", [("mlx5_0", "gpu0"), ("mlx5_1", "numa0"), ("mlx5_7", "gpu1")], [("mlx5_2", "numa0")]),
        ("gpu001/mlx5_0->gpu5", [("mlx5_0", "gpu5")], [("mlx5_0", "gpu4"), ("mlx5_1", "gpu5")]),
        ("gpu001/mlx5_0->numa1", [("mlx5_0", "numa1")], [("mlx5_0", "gpu4"), ("mlx5_0", "numa0")]),
        ("gpu001/mlx5_0->numa1-gpus", [("mlx5_0", "gpu4"), ("mlx5_0", "gpu7")], [("mlx5_0", "numa1")]),
        ("gpu001", [("mlx5_0", "gpu0"), ("mlx5_5", "numa1")], []),
        ("gpu001/gpu0:nvlink", [], [("mlx5_0", "gpu0")]),
        ("leaf0", [], [("mlx5_0", "gpu0")]),
    ],
)
def test_a_slow_part_slows_the_paths_through_it_and_no_other(kit, component, slow, healthy):
    """A part at 0.3 of its bandwidth shows on its own paths only."""
    fault = Fault(component, "slow", 0.3)
    for device, endpoint in slow:
        expected = kit.loopback_gbps(device, endpoint)
        assert kit.loopback_gbps(device, endpoint, fault) < 0.6 * expected, (device, endpoint)
    for device, endpoint in healthy:
        expected = kit.loopback_gbps(device, endpoint)
        assert kit.loopback_gbps(device, endpoint, fault) == expected, (device, endpoint)


def test_two_rnics_share_their_pcie_switch_and_say_so_in_the_average(kit):
    """Both RNICs of a switch to memory get half the uplink each for as long as both run."""
    lines = [*kit.pair(0.0, "gpu001", "mlx5_0", port=1), *kit.pair(0.0, "gpu001", "mlx5_1", port=2)]
    exits = [exit for exit in kit.played(kit.world(), sorted(lines, key=lambda line: line[0])) if exit]
    assert {kit.bandwidth_gbps(exit.stdout) for exit in exits} == {215.0}


def test_rnics_that_nothing_joins_do_not_hear_each_other(kit):
    """Rails by themselves: a packet for another rail has no way; on its own rail all is well."""
    made = kit.topology_of(2, kit.platform_like())
    rails = replace(made, switches={name: one for name, one in made.switches.items() if one.tier == "leaf"})
    for device, peer, said in (("mlx5_1", "localhost", "Completion"), ("mlx5_3", "gpu002", "")):
        lines = kit.pair(0.0, "gpu001", "mlx5_3", port=9, peer=peer)
        client = (1.0, "gpu001", lines[1][2].replace("mlx5_3", device))
        server = (0.0, "gpu002" if peer == "gpu002" else "gpu001", lines[0][2])
        _, client = kit.played(World(rails, MockSettings(noise_cv=0.0), seed=1), [server, client])
        assert (client.exit_status, said in client.stderr) == (1 if said else 0, True)


@pytest.mark.parametrize(
    ("line", "stderr"),
    [
        ("ib_write_bw -d mlx5_9", "IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device\n"),
        ("ib_write_bw -d mlx5_0 -p 77 gpu002", "Couldn't connect to gpu002:77\nUnable to open file descriptor for"),
        ("ib_write_bw -d mlx5_0 nowhere", "Couldn't connect to nowhere:18515\n"),
        ("ib_write_bw --bogus", "ib_write_bw: unrecognized option '--bogus'\n Invalid Command or flag.\n"),
        ("ib_write_bw -d", "ib_write_bw: option requires an argument -- 'd'\n"),
        ("numactl --membind=7 ib_write_bw -d mlx5_0", "<7> is invalid"),
    ],
)
def test_what_cannot_work_fails_in_the_tools_words(kit, line, stderr):
    """Exit 1 and the text that the real tool prints."""
    (ended,) = kit.played(kit.world(), [(0.0, "gpu001", line)])
    assert ended.exit_status == 1
    assert stderr in ended.stderr


@pytest.mark.parametrize(
    ("fault", "options", "said"),
    [
        (Fault("gpu001/mlx5_0", "broken"), "", " Port number 1 state is Down\n Couldn't set the link layer\n"),
        (Fault("gpu001/mlx5_0", "absent"), "", "IB device mlx5_0 not found\n"),
        (Fault("leaf0", "broken"), "", " Port number 1 state is Down\n"),
        (Fault("gpu001/gpu3", "broken"), "--use_cuda=3", "cuCtxCreate() error=214\n"),
        (Fault("gpu001/gpu3", "absent"), "--use_cuda=7", "No such device ID (7) exists in system\n"),
    ],
)
def test_broken_parts_are_named_by_the_tool(kit, fault, options, said):
    """Port down, device gone, CUDA errors: exit 1 on both sides."""
    lines = kit.pair(0.0, "gpu001", "mlx5_0", port=9, server=options, client=options)
    exits = kit.played(kit.world(fault), lines)
    assert [ended.exit_status for ended in exits] == [1, 1]
    assert any(said in ended.stdout + ended.stderr for ended in exits)


@pytest.mark.parametrize("component", ["gpu001/mlx5_0", "gpu001/gpu3", "gpu001"])
def test_a_hanging_part_keeps_the_tool_until_it_is_killed(kit, component):
    """Nothing ends by itself; a kill ends it with 137 and frees everything."""
    world = kit.world(Fault(component, "hanging"))
    lines = kit.pair(0.0, "gpu001", "mlx5_0", port=9, server="--use_cuda=3", client="--use_cuda=3")
    assert kit.played(world, lines) == [None, None]
    world.kill(1, 100.0)
    world.kill(2, 101.0)
    assert [(event.pid, event.exit_status) for event in world.advance(200.0)] == [(1, 137), (2, 137)]


@pytest.mark.parametrize(("victim", "said"), [(0, "Failed status 12"), (1, "Couldn't read remote address")])
def test_the_survivor_of_a_pair_notices(kit, victim, said):
    """Kill one side in mid-transfer and the other fails soon after, with the tool's words."""
    world = kit.world()
    pids = [
        world.start(host, tuple(text.split()), {}, at_s) for at_s, host, text in kit.pair(0, "gpu001", "mlx5_0", port=9)
    ]
    world.advance(3.0)
    world.kill(pids[victim], 3.0)
    killed, other = world.advance(10.0)
    assert (killed.pid, killed.exit_status) == (pids[victim], 137)
    assert (other.pid, other.exit_status) == (pids[1 - victim], 1)
    assert said in other.stderr
    assert world.next_s() is None or world.advance(1e6) == []


def test_the_frame_is_that_of_the_real_tool(kit):
    """
    Every line of a recorded table without numbers of its own is also in ours, in the same order.

    Since then some have a second column.
    """
    recorded = (CAPTURES / "perftest" / "24-issue132-all-sizes-gbits-small-values-partial.txt").read_text()
    _, client = kit.played(kit.world(), kit.pair(0.0, "gpu001", "mlx5_0", port=9))
    added = ("\t\tLock-free      : OFF", "\t\tUsing Enhanced Reorder      : OFF")
    ours = [line.removesuffix(added[0]).removesuffix(added[1]) for line in client.stdout.splitlines()]
    frame = [
        line for line in recorded.splitlines()[1:]
        if "address" not in line and "Moderation" not in line and not line[:8].strip().isdigit()
    ]  # fmt: skip
    assert [line for line in ours if line in set(frame)][: len(frame)] == frame
