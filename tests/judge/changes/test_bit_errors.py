"""Why injected bit errors may show in counters only."""

from __future__ import annotations

from fabric.judge.changes.effects import corrected
from fabric.model.change import Change, When


def ber(mantissa: int, exponent: int, errors: str = "raw", kind: str = "ber") -> Change:
    """Bit errors of this ratio on one cable."""
    params = {"errors": errors, "mantissa": mantissa, "exponent": exponent}
    return Change("one/ber.x", kind, "one", "leaf1--spine1", "port", When(), params)


def test_what_forward_error_correction_hides_is_said() -> None:
    assert corrected(ber(1, 5)) == (
        "raw BER 1e-5 is corrected by RS-FEC (cliff at about 7e-4 to 2e-3): counters rise, bandwidth stays"
    )


def test_what_it_does_not_hide_is_not() -> None:
    assert corrected(ber(7, 4)) == ""
    assert corrected(ber(1, 5, errors="effective")) == ""
    assert corrected(ber(1, 5, kind="port_flap")) == ""
