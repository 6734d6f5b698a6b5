"""What a port has counted is plausible together: what was put right and what was not add up, in any window."""

from __future__ import annotations

import re
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.sim.phy.lines import EFFECTIVE, RAW, Injection
from fabric.sim.world import World
from tests.sim.conftest import Kit

PPCNT = (
    "mlxreg -d mlx5_0 --get --reg_name PPCNT --indexes local_port=1,pnat=0,lp_msb=0,grp=0x16,swid=0,prio_tc=0,"
    "plane_ind=0,port_type=0,lp_gl=0,grp_profile=0"
)

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
    """Corrected, effective and raw errors of gpu001/mlx5_0, as mlxreg prints them."""
    said = Kit.ask(world, "gpu001", PPCNT, at_s).stdout
    fields = {name: int(value, 16) for name, value in re.findall(r"^(\S+) +\| (0x[0-9a-f]+)$", said, re.MULTILINE)}

    def whole(name: str) -> int:
        return (fields[f"{name}_high"] << 32) + fields[f"{name}_low"]

    raw = sum(whole(f"phy_raw_errors_lane{lane}") for lane in range(4))
    return whole("phy_corrected_bits"), whole("phy_effective_errors"), raw


@settings(max_examples=40, deadline=None)
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
