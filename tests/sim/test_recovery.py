"""Recovery: fault x adaptive routing x SHIELD, in time and in bandwidth."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.sim.phy import link_quality
from fabric.sim.recovery import LinkFault, Phase, Reaction, State, lost_s, phases, routed_around
from fabric.sim.shares import Share, Trunk, share
from fabric.sim.transport import Patience, abort_window_s

OFF, SHIELD, AR, BOTH = Reaction(), Reaction(shield=True), Reaction(ar=True), Reaction(ar=True, shield=True)
EVERY = (OFF, SHIELD, AR, BOTH)
TRUNK = Trunk(links=32, line_rate_gbps=400.0)
SLOW = link_quality(raw_ber=1.8e-3, fec="kp4", plr=True, line_rate_gbps=400.0)
LOSSY = link_quality(effective_ber=3e-7, fec="kp4", plr=False, line_rate_gbps=400.0)  # packet loss 1 %


def states(fault, reaction, **more):
    """What the flows meet, in order."""
    return [phase.state for phase in phases(fault, reaction, **more)]


def settled(fault, reaction):
    """The last state, with the fault still there."""
    return phases(fault, reaction, horizon_s=1000.0)[-1].state


def test_bit_errors_on_a_trunk_link():
    """The link stays up, so SHIELD does nothing; adaptive routing moves the traffic."""
    fault = LinkFault("ber", "trunk")
    assert states(fault, OFF) == states(fault, SHIELD) == [State.DEGRADED]
    assert states(fault, AR) == states(fault, BOTH) == [State.BALANCED]


def test_trunk_link_down():
    """Without AR a black hole until the SM (15 s) or SHIELD (3 ms) moves the routes; with AR none."""
    fault = LinkFault("down", "trunk", start_s=10.0)
    assert phases(fault, OFF) == (
        Phase(0.0, 10.0, State.HEALTHY),
        Phase(10.0, 25.0, State.BLACK_HOLE),
        Phase(25.0, inf, State.REROUTED),
    )
    assert phases(fault, SHIELD) == (
        Phase(0.0, 10.0, State.HEALTHY),
        Phase(10.0, 10.003, State.BLACK_HOLE),
        Phase(10.003, 25.0, State.SHIELDED),
        Phase(25.0, inf, State.REROUTED),
    )
    assert (
        phases(fault, AR)
        == phases(fault, BOTH)
        == (
            Phase(0.0, 10.0, State.HEALTHY),
            Phase(10.0, inf, State.BALANCED),
        )
    )
    assert [lost_s(phases(fault, one)) for one in EVERY] == pytest.approx([15.0, 0.003, 0.0, 0.0])


def test_short_trunk_flap():
    """A flap shorter than the SM's sweep is over before the SM acts; SHIELD and AR bridge it."""
    fault = LinkFault("flap", "trunk", duration_s=5.0)
    assert states(fault, OFF) == [State.BLACK_HOLE, State.HEALTHY]
    assert states(fault, SHIELD) == [State.BLACK_HOLE, State.SHIELDED, State.HEALTHY]
    assert states(fault, AR) == [State.BALANCED, State.HEALTHY]


def test_long_trunk_flap():
    """After a long one the SM needs another sweep to use the link again."""
    found = phases(LinkFault("flap", "trunk", duration_s=60.0), OFF)
    assert found[-2:] == (Phase(15.0, 75.0, State.REROUTED), Phase(75.0, inf, State.HEALTHY))


@pytest.mark.parametrize("kind", ["ber", "down", "flap"])
def test_access_link(kind):
    """Neither AR nor SHIELD changes anything on the cable of an RNIC: there is no other path."""
    fault = LinkFault(kind, "access", duration_s=5.0)
    assert len({phases(fault, reaction, patience=Patience()) for reaction in EVERY}) == 1
    assert states(fault, OFF) == [State.DEGRADED if kind == "ber" else State.BLACK_HOLE, State.HEALTHY]


@pytest.mark.parametrize("reaction", EVERY)
def test_access_flap_as_lived(reaction):
    """5 s down stalls a job for 8.6 s by NCCL's defaults; 40 s ends it at 34.4 s."""
    short = phases(LinkFault("flap", "access", duration_s=5.0), reaction, patience=Patience())
    assert [phase.state for phase in short] == [State.BLACK_HOLE, State.WAITING, State.HEALTHY]
    assert lost_s(short) == pytest.approx(8.59, abs=0.01)
    long = phases(LinkFault("flap", "access", duration_s=40.0), reaction, patience=Patience())
    assert [phase.state for phase in long] == [State.BLACK_HOLE, State.ABORTED]
    exact = LinkFault("flap", "access", duration_s=abort_window_s(20, 7))
    assert State.ABORTED in states(exact, reaction, patience=Patience())
    assert long[-1] == Phase(pytest.approx(34.36, abs=0.01), inf, State.ABORTED)


def test_the_sm_is_slower_than_an_old_timeout():
    """15 s of black hole ends a job with NCCL's older timeout (18: 8.6 s) and stalls one with today's for 17.2 s."""
    fault = LinkFault("down", "trunk")
    assert states(fault, OFF, patience=Patience(timeout=18)) == [State.BLACK_HOLE, State.ABORTED]
    today = phases(fault, OFF, patience=Patience())
    assert [phase.state for phase in today] == [State.BLACK_HOLE, State.WAITING, State.REROUTED]
    assert lost_s(today) == pytest.approx(17.18, abs=0.01)


def test_shield_still_costs_a_timeout():
    """What was lost in SHIELD's milliseconds is sent again when the ack timer says so, unless retries adapt."""
    fault = LinkFault("down", "trunk")
    assert lost_s(phases(fault, SHIELD, patience=Patience())) == pytest.approx(4.295, abs=0.001)
    assert lost_s(phases(fault, SHIELD, patience=Patience(adaptive_retx=True))) < 0.02
    assert lost_s(phases(fault, AR, patience=Patience())) == 0.0


def test_failover():
    """Another port of the host carries on: 7/8 with eight RNICs (R2CCL), all but 6.25 % of 16 ports (HPN)."""
    reaction = Reaction(failover=True)
    assert states(LinkFault("down", "access"), reaction, patience=Patience()) == [State.FAILED_OVER]
    assert share(State.FAILED_OVER, Trunk(8, 400.0)).hit == 0.875
    assert 1 - share(State.FAILED_OVER, Trunk(16, 200.0)).hit == 0.0625


def test_bandwidth_with_bit_errors():
    """A slow trunk link: its own flows keep half without AR, SHIELD or not; with AR everyone keeps (K-1+c)/K."""
    fault = LinkFault("ber", "trunk")
    left = SLOW.capacity_factor
    assert left == pytest.approx(0.5, abs=0.02)
    for reaction in (OFF, SHIELD):
        assert share(settled(fault, reaction), TRUNK, quality=SLOW).hit == left
    with_ar = share(settled(fault, AR), TRUNK, quality=SLOW)
    assert with_ar.hit == with_ar.mean == pytest.approx((31 + left) / 32)


def test_bandwidth_with_the_link_down():
    """The SM and AR leave (K-1)/K, exactly; SHIELD's other port carries double until the SM has spread the routes."""
    fault = LinkFault("down", "trunk")
    for reaction in EVERY:
        assert share(settled(fault, reaction), TRUNK).hit == 31 / 32
    assert share(State.SHIELDED, TRUNK) == Share(0.5, 31 / 32)
    assert share(State.BLACK_HOLE, TRUNK) == Share(0.0, 31 / 32)
    assert share(State.ABORTED, TRUNK) == Share(0.0, 0.0)


def test_a_lossy_link_under_spraying():
    """On a lossy but fast link AR is better for the flows hit, and worse on average: all lose p/K."""
    static = share(State.DEGRADED, TRUNK, quality=LOSSY)
    sprayed = share(State.BALANCED, TRUNK, quality=LOSSY)
    assert static.hit == pytest.approx(0.40, abs=0.01)
    assert sprayed.hit == pytest.approx(0.956, abs=0.002)
    assert static.hit < sprayed.hit == sprayed.mean < static.mean


def test_what_the_routing_knows():
    """Routes avoid the link only after SHIELD, the SM or failover moved them."""
    found = phases(LinkFault("down", "trunk"), SHIELD, patience=Patience(adaptive_retx=True))
    assert [routed_around(phase) for phase in found] == [False, False, True, True]


durations = st.floats(1e-6, 1e5)
faults = st.builds(
    LinkFault,
    st.sampled_from(["ber", "down", "flap"]),
    st.sampled_from(["access", "trunk"]),
    start_s=st.floats(0, 1e4),
    duration_s=durations,
)
reactions = st.builds(
    Reaction,
    ar=st.booleans(),
    shield=st.booleans(),
    failover=st.booleans(),
    t_ar_s=st.floats(0, 100),
    t_shield_s=st.floats(0, 100),
    t_sm_s=st.floats(0, 100),
    t_failover_s=st.floats(0, 100),
)
patiences = st.none() | st.builds(
    Patience, timeout=st.integers(0, 31), retry=st.integers(0, 7), adaptive_retx=st.booleans()
)


@given(faults, reactions, patiences, durations)
def test_phases_tile_time(fault, reaction, patience, horizon):
    """From 0 to the horizon without gaps, every phase longer than nothing; an abort is the end."""
    found = phases(fault, reaction, patience=patience, horizon_s=horizon)
    assert (found[0].start_s, found[-1].end_s) == (0.0, horizon)
    assert all(one.end_s == other.start_s for one, other in pairwise(found))
    assert all(phase.start_s < phase.end_s for phase in found)
    assert State.ABORTED not in [phase.state for phase in found[:-1]]
    if patience is not None:
        window = abort_window_s(patience.timeout, patience.retry)
        holes = [phase.end_s - phase.start_s for phase in found if phase.state is State.BLACK_HOLE]
        assert all(hole <= window * (1 + 1e-9) + 1e-9 for hole in holes)


@given(st.sampled_from(list(State)), st.integers(1, 64), st.sampled_from([SLOW, LOSSY]))
def test_shares_are_shares(state, links, quality):
    """Every state leaves between nothing and everything; the mean is never below the flows hit worst."""
    left = share(state, Trunk(links, 400.0), quality=quality)
    assert 0.0 <= left.hit <= left.mean <= 1.0


def test_nonsense_is_refused():
    """Faults that cannot be and trunks without links are errors."""
    with pytest.raises(ValueError, match="there is no fault"):
        LinkFault("rust", "trunk")
    with pytest.raises(ValueError, match="there is no tier"):
        LinkFault("ber", "spine")
    with pytest.raises(ValueError, match="a flap comes back"):
        LinkFault("flap", "trunk")
    with pytest.raises(ValueError, match="not in time"):
        LinkFault("ber", "trunk", start_s=-1.0)
    with pytest.raises(ValueError, match="reaction times"):
        Reaction(t_sm_s=-1.0)
    with pytest.raises(ValueError, match="has a quality"):
        share(State.DEGRADED, TRUNK)
    with pytest.raises(ValueError, match="no trunk"):
        share(State.HEALTHY, Trunk(0, 400.0))
