"""Bit errors: what is set, on which port, for how long, and how it is seen and taken back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.changes.ber import SPARE_S, injection_s
from fabric.errors import NotInForce, Refused
from fabric.model.change import Lease
from tests.changes.played import VIA, Played, change, topology


def ber(component="gpu001/mlx5_0", *, when=None, **more):
    """1e-6 behind the FEC, in both directions, unless said otherwise."""
    return change("ber", component, when=when, **{"effective": "1e-6"} | more)


@pytest.mark.parametrize(
    ("component", "direction", "places"),
    [
        ("gpu001/mlx5_0", "up", [("gpu001", "mlx5_0", 1, 0)]),
        ("gpu001/mlx5_0", "down", [("gpu004", "iblid-1,mlx5_0,1", 1, 1)]),
        ("gpu002/mlx5_3", "both", [("gpu002", "mlx5_3", 1, 0), ("gpu004", "iblid-4,mlx5_0,1", 2, 1)]),
        ("leaf1--spine0#1", "both", [("gpu004", "iblid-2,mlx5_0,1", 6, 1), ("gpu004", "iblid-9,mlx5_0,1", 4, 1)]),
    ],
)
def test_the_port_that_sends_is_the_one_that_is_changed(component, direction, places):
    """``up``: the lower end, on its own host; ``down``: the upper end, from ``via``, by InfiniBand port number."""
    played = Played(VIA)
    alterations = played.prepare(ber(component, direction=direction))
    for alteration, (host, device, port, pnat) in zip(alterations, places, strict=True):
        (argv,) = alteration.apply
        indexes = f"local_port={port},lp_msb=0,pnat={pnat},plane_ind=0,error_page=0"
        values = "error_type_admin=2,ber_mantissa=1,ber_exp=6,error_injection_time=15000"
        assert (alteration.host, argv[:3], argv[-5:]) == (
            host,
            ("mlxreg", "-d", device),
            ("--indexes", indexes, "--set", values, "--yes"),
        )
        assert alteration.devices == ((device,) if host != "gpu004" else ())


@pytest.mark.parametrize("component", ["gpu001/mlx5_0", "leaf1--spine0"])
def test_a_change_is_seen_in_force_and_taken_back(component):
    """Applied twice like once; the checks fail while it is there and hold after the undo."""
    played, asked = Played(VIA), ber(component)
    alterations = played.prepare(asked)
    assert played.checks_hold(alterations)
    played.apply(alterations)
    played.there_and_back(asked, alterations)
    with pytest.raises(NotInForce, match="error_type_admin is 0, not 2"):
        played.confirm(asked, alterations)


def test_errors_that_take_the_link_down_are_in_force_and_it_comes_back():
    """Half of all bits wrong: no link survives that. After the undo it is waited for."""
    played, asked = Played(VIA), ber(effective=None, raw="5e-1", direction="down")
    alterations = played.prepare(asked)
    played.apply(alterations)
    played.wait(played.now_s + 5.0)
    assert "LinkState:.......................Down" in played.ask("gpu004", ("smpquery", "portinfo", "1", "1")).stdout
    played.confirm(asked, alterations)
    played.undo(alterations)
    assert played.checks_hold(alterations)
    assert played.recovered(asked, alterations) > 1.0
    assert "LinkState:.......................Active" in played.ask("gpu004", ("smpquery", "portinfo", "1", "1")).stdout


def test_the_receivers_count_what_was_sent():
    """Ten seconds of 1e-6 of 400 Gb/s are 4 million wrong bits, at the host for ``down``."""
    played, asked = Played(VIA), ber(direction="down")
    alterations, before = played.prepare(asked), played.counters(asked)
    played.apply(alterations)
    played.wait(played.now_s + 10.0)
    grown = {name: value - before[name] for name, value in played.counters(asked).items()}
    assert grown["gpu001/mlx5_0.effective_errors"] == pytest.approx(4e6, rel=0.1)


def test_the_other_values_that_were_seen_are_put_back():
    """An exponent left behind by an earlier injection is there again after the undo."""
    played = Played(VIA)
    table = "".join(f"{name:<22}| 0x{value:08x}\n" for name, value in register(ber_exp=9, ber_mantissa=4).items())
    said = f"Sending access register...\n\nField Name | Data\n====\n{table}====\n"
    played.answers["gpu001 mlxreg"] = (said, "", 0)
    (alteration,) = played.prepare(ber(direction="up"))
    assert alteration.undo[0][-2] == "error_type_admin=0,ber_mantissa=4,ber_exp=9,error_injection_time=0"


def register(**more):
    """A healthy port's PTER."""
    names = ("status", "error_type_admin", "error_type_oper", "ber_exp", "ber_mantissa", "error_injection_time")
    return dict.fromkeys(names, 0) | {"error_type_cap": 3} | more


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (register(error_type_cap=1), "does not offer error type 2"),
        (register(error_type_oper=1, error_type_admin=1), "injects errors there already"),
        (register(status=3), "neither up nor in test mode"),
    ],
)
def test_a_port_that_cannot_or_is_used_by_others_is_refused(fields, reason):
    """Before anything is altered."""
    played = Played(VIA)
    table = "".join(f"{name:<22}| 0x{value:08x}\n" for name, value in fields.items())
    played.answers["gpu001 mlxreg"] = (f"Sending access register...\n\nField Name | Data\n===\n{table}===\n", "", 0)
    with pytest.raises(Refused, match=reason):
        played.prepare(ber(direction="up"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (register(status=4, error_type_oper=0), "out of range"),
        (register(error_type_admin=2, ber_exp=6, ber_mantissa=1), "no errors are injected"),
        (register(status=3), "error_type_admin is 0, not 2"),
        (register(error_type_oper=1, error_type_admin=2, ber_exp=6, ber_mantissa=2), "ber_mantissa is 2, not 1"),
        (register(error_type_oper=1, error_type_admin=1, ber_exp=6, ber_mantissa=1), "error_type_admin is 1, not 2"),
    ],
)
def test_what_is_not_as_asked_is_not_in_force(fields, reason):
    """A register that was accepted without effect, or with other values."""
    played = Played(VIA)
    alterations = played.prepare(ber(direction="up"))
    table = "".join(f"{name:<22}| 0x{value:08x}\n" for name, value in fields.items())
    played.answers["gpu001 mlxreg"] = (f"Sending access register...\n\nField Name | Data\n===\n{table}===\n", "", 0)
    with pytest.raises(NotInForce, match=reason):
        played.confirm(ber(direction="up"), alterations)


def test_ethernet_links_are_changed_at_the_host():
    """Their switches cannot be reached in-band."""
    played = Played(VIA, world=topology(link_layer="ethernet"))
    asked = ber(direction="up")
    alterations = played.prepare(asked)
    played.apply(alterations)
    played.confirm(asked, alterations)
    assert [one.host for one in alterations] == ["gpu001"]


@given(
    ttl_s=st.floats(10.0, 600.0),
    for_s=st.none() | st.floats(0.001, 1e6),
)
def test_the_device_heals_itself(ttl_s, for_s):
    """Never longer than the register holds; longer than the lease, unless the change is shorter itself."""
    found = injection_s(for_s, Lease(ttl_s, 3600.0))
    assert 0.0 < found <= 655.34 + 1e-9
    if for_s is None:
        assert found == min(655.34, 2 * ttl_s + 30.0)
    else:
        assert found <= for_s + SPARE_S
