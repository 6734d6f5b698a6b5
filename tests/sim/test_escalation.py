"""Bit errors that the link does not survive: both ends see it go, count it, and see it come back when they end."""

from __future__ import annotations

import pytest

from fabric.sim.phy.quality import DOWN_SHARE, RECOVERY_SHARE, post_fec

RING = "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 4000"
BASE = "/sys/class/infiniband/mlx5_0/ports/1"


def inject(kit, world, at_s, *, kind=1, mantissa, exponent, time=3000):
    """Errors that the leaf sends to gpu001, for *time* x 10 ms."""
    told = f"error_type_admin={kind},ber_mantissa={mantissa},ber_exp={exponent},error_injection_time={time}"
    line = f"mlxreg -d lid-1 --reg_name PTER --indexes local_port=1,error_page=0 --yes --set {told}"
    assert kit.ask(world, "gpu002", line, at_s).exit_status == 0


def counted(kit, world, name, at_s):
    """A counter of gpu001's first RNIC."""
    return int(kit.ask(world, "gpu001", f"cat {BASE}/counters/{name}", at_s).stdout)


def phys_state(kit, world, at_s):
    """As the kernel says it."""
    return kit.ask(world, "gpu001", f"cat {BASE}/phys_state", at_s).stdout.strip()


def test_more_than_half_of_the_codewords_bad_takes_the_link_down_until_it_ends(kit):
    """Raw 3e-3 fails 55 %: recovery at the receiver, polling at the sender; four seconds after the end Active."""
    assert post_fec(3e-3, fec="kp4").codeword_error > DOWN_SHARE
    world = kit.world()
    kit.ask(world, "gpu001", f"cat {BASE}/state", 0.0)
    inject(kit, world, 1.0, mantissa=3, exponent=3)
    assert phys_state(kit, world, 2.0) == "6: LinkErrorRecovery"
    leaf = kit.ask(world, "gpu002", "ibportstate 1 1", 2.4).stdout
    assert ("Down" in leaf, "Polling" in leaf) == (True, True)
    assert counted(kit, world, "link_downed", 3.0) == 1
    assert counted(kit, world, "link_error_recovery", 3.2) == 1
    assert phys_state(kit, world, 30.5) == "6: LinkErrorRecovery"
    assert phys_state(kit, world, 34.0) == "5: LinkUp"
    assert kit.ask(world, "gpu001", f"cat {BASE}/state", 36.0).stdout == "4: ACTIVE\n"


def test_strong_errors_short_of_that_make_the_link_recover_now_and_then(kit):
    """Raw 2e-3 fails 8 %: one recovery in 12 s, no loss of the link; 1e-3 does neither."""
    assert RECOVERY_SHARE < post_fec(2e-3, fec="kp4").codeword_error < DOWN_SHARE
    world = kit.world()
    inject(kit, world, 1.0, mantissa=2, exponent=3, time=6000)
    assert phys_state(kit, world, 30.0) == "5: LinkUp"
    assert 3 <= counted(kit, world, "link_error_recovery", 61.0) <= 6
    assert counted(kit, world, "link_downed", 61.2) == 0
    shown = kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -c", 62.0).stdout
    assert "Link Error Recovery Counter        : 4" in shown
    mild = kit.world()
    inject(kit, mild, 1.0, mantissa=1, exponent=3, time=6000)
    assert counted(kit, mild, "link_error_recovery", 61.0) == 0


def test_a_collective_lives_through_it_or_not_by_its_patience(kit):
    """Errors for 10 s and training: 4 retries; for 30 s and training: 34.4 s are not enough."""
    for time, exit_status, ends_s in ((1000, 0, None), (3200, 3, 20.05 + 34.36)):
        world = kit.world()
        pid = world.start("gpu001", tuple(RING.split()), {}, 0.0)
        world.advance(19.0)
        inject(kit, world, 20.0, mantissa=3, exponent=3, time=time)
        (ended,) = (event for event in world.advance(10_000.0) if event.pid == pid)
        assert ended.exit_status == exit_status
        if ends_s is not None:
            assert ended.at_s == pytest.approx(ends_s, abs=0.01)
