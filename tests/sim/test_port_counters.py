"""What a port has counted is plausible together: what was put right and what was not add up, in any window."""

from __future__ import annotations

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.sim.phy.lines import EFFECTIVE, RAW, Injection
from fabric.sim.phy.port import lanes
from fabric.sim.world import World
from tests.sim.conftest import Kit

INJECTIONS = st.one_of(
    st.none(),
    st.builds(
        Injection,
        kind=st.sampled_from([RAW, EFFECTIVE]),
        mantissa=st.integers(1, 15),
        exponent=st.integers(2, 12),
        until_s=st.just(inf),
    ),
)
STRETCHES = st.lists(st.tuples(st.floats(0.2, 90.0), INJECTIONS), min_size=2, max_size=8)


def counted(world: World, at_s: float) -> tuple[int, int, int]:
    """Corrected, effective and raw errors of gpu001/mlx5_0, the last lane by lane."""
    ports = world.rack.ports
    world.advance(at_s)
    counts = ports.counts(ports.of_adapter("gpu001", "mlx5_0"), at_s)
    return counts.corrected_errors, counts.effective_errors, sum(lanes(counts))


@settings(max_examples=20, deadline=None)
@given(stretches=STRETCHES)
def test_in_any_window_no_more_errors_were_put_right_or_left_than_there_were(
    stretches: list[tuple[float, Injection | None]],
) -> None:
    world, now_s = Kit.world(), 1.0
    ports = world.rack.ports
    sender = ports.peer(ports.of_adapter("gpu001", "mlx5_0"))
    readings = [counted(world, now_s)]
    for lasts_s, injection in stretches:
        ports.inject(sender, injection, now_s + 0.1)
        now_s += 0.2 + lasts_s
        readings.append(counted(world, now_s))
    for number, before in enumerate(readings):
        for after in readings[number + 1 :]:
            corrected, effective, raw = (late - early for late, early in zip(after, before, strict=True))
            assert min(corrected, effective) >= 0
            assert corrected + effective <= raw


def test_errors_injected_behind_the_fec_are_errors_before_it_too() -> None:
    world = Kit.world()
    ports = world.rack.ports
    ports.inject(ports.peer(ports.of_adapter("gpu001", "mlx5_0")), Injection(EFFECTIVE, 1, 6, inf), 0.0)
    _, effective, raw = counted(world, 10.0)
    assert 0 < effective <= raw
