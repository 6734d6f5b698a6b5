"""Links between switches that go down under a running collective, and who does what about it, and when."""

from __future__ import annotations

import pytest

from fabric.model.inventory import Fault, TimedFault
from fabric.sim.tools.nccl_tests.model import rc_timeout_s
from tests.sim.subnet.truth_table import LinkFault, Patience, Reaction, State, phases

A = ("gpu000", "gpu002")  # over spine0 by D-mod-K
B = ("gpu001", "gpu003")  # over spine1
T_S = rc_timeout_s(20)
UPLINK = "ibportstate 1 3"  # of the first leaf, to spine0
FAULT_S = 20.05  # asked at 20, done a moment later
TRAINED_S = 4.0  # an InfiniBand port is Active so long after it was opened

TABLE = [(ar, shield) for ar in (False, True) for shield in (False, True)]


def lived(ar, shield, tier, down_s):
    """When the flows on the link carry nothing, after the fault, by the pure truth table."""
    fault = LinkFault("flap", tier, 0.0, down_s)
    found = phases(fault, Reaction(ar=ar, shield=shield), patience=Patience())
    silent = [one for one in found if one.state in (State.BLACK_HOLE, State.WAITING)]
    return (silent[0].start_s, silent[-1].end_s) if silent else None


@pytest.mark.parametrize(("ar", "shield"), TABLE)
@pytest.mark.parametrize("down_s", [1.0, 25.0])
def test_the_world_does_what_the_truth_table_says_of_a_trunk(pod, ar, shield, down_s):
    """Static: stalled until somebody reroutes, or the link is back; SHIELD: one retry; adaptive: never."""
    one = pod("ar" if ar else None, shield=shield)
    pid = one.run(*A)
    assert one.shares(pid, 19.0)[0] > 0.95
    one.ask("gpu001", f"{UPLINK} disable", 20.0)
    expected = lived(ar, shield, "trunk", down_s + TRAINED_S)
    found = one.silences(pid, 60.0, (FAULT_S + down_s - 0.05, "gpu001", f"{UPLINK} enable"))
    if expected is None:
        assert found == []
    else:
        # The probe begins 0.05 s after the fault; the end is exact.
        assert [end_s for _, end_s in found] == [pytest.approx(FAULT_S + expected[1])]
    assert one.shares(pid, 60.0)[0] > 0.95
    assert one.result(pid).exit_status == 0


@pytest.mark.parametrize(("ar", "shield"), TABLE)
def test_the_world_does_what_the_truth_table_says_of_an_access_link(pod, ar, shield):
    """No other path: a stall of whole retries, whoever could reroute."""
    one = pod("ar" if ar else None, shield=shield)
    pid = one.run(*A)
    one.to(20.0)
    one.ask("gpu001", "ibportstate 1 1 disable", 20.0)
    one.world.start("gpu001", ("ibportstate", "1", "1", "enable"), {}, 26.0)
    expected = lived(ar, shield, "access", 6.05 + TRAINED_S - 0.05)
    assert [end_s for _, end_s in one.silences(pid, 60.0)] == [pytest.approx(FAULT_S + expected[1])]
    assert expected[1] == pytest.approx(3 * T_S)


@pytest.mark.parametrize(("ar", "shield"), TABLE)
def test_the_world_does_what_the_truth_table_says_of_bit_errors(pod, ar, shield):
    """The link is up: SHIELD does nothing about it; adaptive routing takes the traffic elsewhere."""
    one = pod("ar" if ar else None, shield=shield)
    pids = [one.run(*A), one.run(*B)]
    before = one.shares(pids[0], 19.0)[0]
    told = "error_type_admin=2,ber_mantissa=2,ber_exp=5,error_injection_time=2000"
    one.ask("gpu001", f"mlxreg -d lid-1 --reg_name PTER --indexes local_port=3,error_page=0 --yes --set {told}", 20.0)
    during = one.shares(pids[0], 20.1, 21.0, 39.0)
    assert len(set(during)) == 1  # from the first moment to the last
    cell = 1 - (1 - 2e-5) ** (642 * 8)
    left = (1 - cell) / (1 - cell + cell * (0.3e3 * 400 / (642 * 8) + 1))
    alone_gbps = 400 * 0.994
    expected = min(before, 0.95 * 400 * (1 + left) / 2 / alone_gbps) if ar else left * 400 / alone_gbps
    assert during[0] == pytest.approx(expected, rel=0.01)
    assert (during[0] < 0.75) is not ar or during[0] > 0.6
    assert one.shares(pids[0], 41.0) == [before]


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


def test_shield_moves_only_the_routes_of_the_dead_port(pod):
    """One retry after the fault the ring is on the other spine, long before the manager would have been done."""
    one = pod(shield=True, sm_reroute_s=1000.0)
    a, b = one.run(*A), one.run(*B)
    one.ask("gpu001", f"{UPLINK} disable", 20.0)
    assert one.shares(a, FAULT_S + T_S - 0.01, FAULT_S + T_S + 0.01) == pytest.approx([0.0, 0.5], abs=0.01)
    assert one.share(b) == pytest.approx(0.5, rel=0.01)


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


def test_a_link_that_is_down_from_the_start_is_routed_around_from_the_start(pod):
    """The manager has had all the time it needs."""
    one = pod(faults=(Fault("u0-leaf0--spine0", "broken"),))
    pid = one.run(*A)
    assert one.shares(pid, 6.0) == pytest.approx([1.0])


def test_a_new_collective_on_a_dead_route_waits_too(pod):
    """It starts into the black hole, and goes on when the manager is done; it does not fail at once."""
    one = pod()
    one.world.rack.above.network()
    one.ask("gpu001", f"{UPLINK} disable", 1.0)
    pid = one.run(*A, at_s=2.0, iterations=100)
    assert one.shares(pid, 7.1, 15.0) == [0.0, 0.0]
    assert one.result(pid).exit_status == 0


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


def test_two_worlds_with_the_same_events_are_the_same(pod):
    """Flaps, toggles and collectives: byte for byte, second for second."""

    def story():
        one = pod(shield=True)
        pids = [one.run(*A, iterations=1500), one.run("gpu000", "gpu001", "gpu002", "gpu003", at_s=3.0)]
        for number in range(6):
            one.ask("gpu001", f"ibportstate {1 + number} 3 reset", 20.0 + 7 * number)
        one.to(1000.0)
        return [one.ended[pid] for pid in pids]

    assert story() == story()


def test_a_cable_that_is_broken_from_the_start_looks_so_and_stays_so(pod):
    """At both its ends; its neighbours are up; opening it does not help."""
    one = pod(faults=(Fault("u0-leaf0--spine0", "broken"),))
    for lid, port, text in ((1, 3, "Down"), (17, 1, "Down"), (1, 4, "Active"), (17, 2, "Active")):
        assert text in one.ask("gpu001", f"ibportstate {lid} {port}", 1.0).stdout
    one.ask("gpu001", "ibportstate 1 3 reset", 5.0)
    assert "Polling" in one.ask("gpu001", "ibportstate 1 3", 60.0).stdout
    pid = one.run(*A, at_s=61.0)
    assert one.shares(pid, 70.0) == pytest.approx([1.0])


def test_a_switch_that_breaks_under_way_is_one_outage(pod):
    """All its cables at one instant: one retry with SHIELD, and the other spine carries everything."""
    one = pod(shield=True, timed_faults=(TimedFault(20.0, 30.0, Fault("spine0", "broken")),))
    pid = one.run(*A)
    one.to(19.0)
    assert [end_s for _, end_s in one.silences(pid, 45.0)] == [pytest.approx(20.0 + T_S)]
    assert one.shares(pid, 45.0, 70.0) == pytest.approx([1.0, 1.0])
