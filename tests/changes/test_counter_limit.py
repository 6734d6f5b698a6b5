"""How much a counter may grow."""

from __future__ import annotations

from fabric.changes.watching import over
from fabric.model.change import When
from tests.changes.played import change

LIMITED = change("ber", "gpu001/mlx5_0", raw="1e-6", when=When(stop_above=(("symbol_errors", 10.0),)))


def test_as_much_as_the_limit_is_not_too_much() -> None:
    assert not list(over(LIMITED, {"leaf0:1.symbol_errors": 5.0}, {"leaf0:1.symbol_errors": 15.0}))


def test_more_than_the_limit_names_the_end_and_both_numbers() -> None:
    (reason,) = over(LIMITED, {"leaf0:1.symbol_errors": 5.0}, {"leaf0:1.symbol_errors": 16.0})
    assert reason == "phase/ber.gpu001/mlx5_0: leaf0:1.symbol_errors grew by 11, more than 10 (stop_above)"


def test_a_counter_that_was_not_read_before_limits_nothing_and_that_is_said() -> None:
    (reason,) = over(LIMITED, {}, {"leaf0:1.symbol_errors": 1.0})
    assert "could not be read before it was applied" in reason
