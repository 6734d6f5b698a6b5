"""Why injected bit errors may show in counters only."""

from __future__ import annotations

from fabric.judge.changes.effects import corrected
from fabric.model.change import Change, ChangeSpec
from tests.changes.asked import ber, port_flap


def made(spec: ChangeSpec) -> Change:
    """A change of one cable."""
    return Change("one/ber.x", "one", "leaf1--spine1", "port", spec)


def test_what_forward_error_correction_hides_is_said() -> None:
    assert corrected(made(ber("leaf1--spine1", raw="1e-5"))) == (
        "raw BER 1e-5 is corrected by RS-FEC (cliff at about 7e-4 to 2e-3): counters rise, bandwidth stays"
    )


def test_what_it_does_not_hide_is_not() -> None:
    assert corrected(made(ber("leaf1--spine1", raw="7e-4"))) == ""
    assert corrected(made(ber("leaf1--spine1", effective="1e-5"))) == ""
    assert corrected(made(port_flap("leaf1--spine1", down=1.0))) == ""
