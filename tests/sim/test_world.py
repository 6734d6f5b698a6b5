"""The world as its users see it: starts, ends, noise, small programs, faults of whole hosts."""

from __future__ import annotations

from statistics import mean, pstdev

import pytest

from fabric.model.inventory import Fault


def repeated(kit, count, **settings):
    """The bandwidths of the same loopback, again and again in one world."""
    world = kit.world(**settings)
    lines = [line for number in range(count) for line in kit.pair(10.0 * number, "gpu001", "mlx5_0", port=9)]
    return [kit.bandwidth_gbps(ended.stdout) for ended in kit.played(world, lines)[1::2]]


def test_noise_has_the_asked_spread_and_repeats_with_the_seed(kit):
    """The same seed gives the same series; its coefficient of variation is the one asked for."""
    first = repeated(kit, 300, noise_cv=0.01, seed=5)
    assert first == repeated(kit, 300, noise_cv=0.01, seed=5)
    assert first != repeated(kit, 300, noise_cv=0.01, seed=6)
    assert pstdev(first) / mean(first) == pytest.approx(0.01, rel=0.15)
    assert mean(first) == pytest.approx(kit.alone_gbps, rel=0.002)
    assert set(repeated(kit, 3)) == {kit.alone_gbps}


@pytest.mark.parametrize(
    ("line", "status", "stdout", "stderr"),
    [
        ("true", 0, "", ""),
        ("false", 1, "", ""),
        ("echo a  b", 0, "a b\n", ""),
        ("hostname", 0, "gpu001\n", ""),
        ("uname -n", 0, "gpu001\n", ""),
        ("uname", 0, "Linux\n", ""),
        ("env X=1 numactl -N 0 -m 0 echo $X", 0, "$X\n", ""),
        ("mpirun -np 2 -H gpu001,gpu003 hostname", 0, "gpu001\ngpu003\n", ""),
        ("srun -N2 -n2 -w gpu[002-003] -l hostname", 0, "0: gpu002\n1: gpu003\n", ""),
        ("srun -w gpu004 hostname", 0, "gpu004\n", ""),
        ("mlxburn -x", 127, "", "bash: line 1: mlxburn: command not found\n"),
        ("ib_write_bw --version", 1, "Version: 6.29\n", ""),
    ],
)
def test_small_programs(kit, line, status, stdout, stderr):
    """What a shell user expects of them."""
    (ended,) = kit.played(kit.world(), [(0.0, "gpu001", line)])
    assert (ended.exit_status, ended.stdout, ended.stderr) == (status, stdout, stderr)


def test_dead_hosts_are_unreachable(kit):
    """Broken: no route; absent or unknown: no such name; a command on them is the caller's mistake."""
    world = kit.world(Fault("gpu001", "broken"), Fault("gpu002", "absent"))
    assert world.unreachable("gpu001") == "No route to host"
    assert world.unreachable("gpu002") == world.unreachable("gpu999") == "Name or service not known"
    assert world.unreachable("gpu003") is None
    with pytest.raises(ValueError, match="No route"):
        world.start("gpu001", ("true",), {}, 0.0)


def test_garbage_and_hanging_hosts(kit):
    """A garbage host says the same nonsense to everything with exit 0; a hanging one says nothing."""
    world = kit.world(Fault("gpu001", "garbage"), Fault("gpu002", "hanging"))
    first, second, third = kit.played(
        world, [(0.0, "gpu001", "true"), (0.0, "gpu001", "hostname"), (0.0, "gpu002", "true")]
    )
    assert first.stdout == second.stdout
    assert "\x00" in first.stdout
    assert first.exit_status == 0
    assert third is None
