"""Faults that come and go: what runs feels them, what starts meets them, and afterwards all is as before."""

from __future__ import annotations

import pytest

from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.sim.world import World

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
    assert "Polling" in kit.ask(world, "gpu002", "ibportstate 1 1", 13.0).stdout
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
    assert "Polling" in kit.ask(world, "gpu002", "ibportstate 1 1", 13.0).stdout
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
        said = kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -c", at_s).stdout
        return int(said.split("Effective Physical Errors")[1].split(":")[1].split()[0])

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
    ask_gpu = "nvidia-smi --query-gpu=temperature.gpu --format=csv,noheader,nounits -i 0"
    before, gpu_before = (int(kit.ask(world, "gpu001", text, 5.0 + n).stdout) for n, text in enumerate((read, ask_gpu)))
    during, gpu_during = (int(kit.ask(world, "gpu001", text, 1e3 + n).stdout) for n, text in enumerate((read, ask_gpu)))
    assert during - before == pytest.approx(25_000, abs=500)
    assert gpu_during - gpu_before == pytest.approx(25, abs=1)
    slow = one(kit, world, ALL, 1100.0)
    after = int(kit.ask(world, "gpu001", read, 9000.0).stdout)
    assert after == pytest.approx(before, abs=300)
    whole = one(kit, world, ALL, 9100.0)
    assert kit.busbw_gbps(slow.stdout)[0] == pytest.approx(0.8 * kit.busbw_gbps(whole.stdout)[0], rel=0.02)
