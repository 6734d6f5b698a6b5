"""Links between switches that go down under a running collective, and who does what about it, and when."""

from __future__ import annotations

import pytest

from fabric.sim.tools.nccl_tests.model import rc_timeout_s

A = ("gpu000", "gpu002")  # over spine0 by D-mod-K
B = ("gpu001", "gpu003")  # over spine1
T_S = rc_timeout_s(20)
UPLINK = "ibportstate 1 3"  # of the first leaf, to spine0
FAULT_S = 20.05  # asked at 20, done a moment later


def test_who_reroutes_decides_what_is_left_for_whom(pod):
    """After the manager both rings share spine1 on one rail; before, only the one on the dead link stands still."""
    one = pod()
    a, b = one.run(*A), one.run(*B)
    one.ask("gpu001", f"{UPLINK} disable", 20.0)
    assert one.shares(a, 20.1, 34.0) == [0.0, 0.0]
    assert one.share(b) == pytest.approx(1.0)
    # 15 s are four retries: the manager is done at 35.05, the ring goes on at 37.2.
    assert one.shares(b, 37.0, 37.3) == [pytest.approx(1.0), pytest.approx(0.5, rel=0.01)]
    assert one.share(a) == pytest.approx(0.5, rel=0.01)


def test_a_link_that_is_back_is_used_again_after_the_manager_knows(pod):
    """Static routes come back after 15 s more; adaptive ones at once."""
    for engine, shares in ((None, [0.5, 0.5, 1.0]), ("ar", [0.478, 0.956, 0.956])):
        one = pod(engine)
        a, b = one.run(*A), one.run(*B)
        one.ask("gpu001", f"{UPLINK} disable", 20.0)
        one.ask("gpu001", f"{UPLINK} enable", 60.0)
        assert one.shares(b, 59.0, 65.0, 80.0) == pytest.approx(shares, rel=0.01)
        assert one.share(a) == one.share(b)


def test_the_manager_takes_as_long_as_the_inventory_says(pod):
    """Half a second is one retry; for ever is an abort after NCCL's window."""
    quick, never = pod(sm_reroute_s=0.5), pod(sm_reroute_s=1e6)
    for one, exit_status, end_s in ((quick, None, FAULT_S + T_S), (never, 3, FAULT_S + 8 * T_S)):
        pid = one.run(*A)
        one.ask("gpu001", f"{UPLINK} disable", 20.0)
        assert [until_s for _, until_s in one.silences(pid, 58.0)] == [pytest.approx(end_s)]
        ended = one.ended.get(pid)
        assert (ended.exit_status if ended else None) == exit_status
    assert "gpu000: Test NCCL failure" in ended.stdout
    assert "status=12" in ended.stdout
    assert "hca mlx5_0" in ended.stdout


def test_a_group_that_has_no_way_at_all_fails(pod):
    """All uplinks of a leaf are closed: who starts then is told at once, who runs after NCCL's patience."""
    one = pod("ar", shield=True)
    pid = one.run("gpu000", "gpu001", "gpu002", "gpu003")
    for port in (3, 4):
        one.ask("gpu001", f"ibportstate 1 {port} disable", 20.0 + port)
    late = one.run(*A, at_s=25.0)
    ended = one.result(pid)
    assert (ended.exit_status, ended.at_s) == (3, pytest.approx(24.05 + 8 * T_S))
    assert one.ended[late].exit_status == 3
