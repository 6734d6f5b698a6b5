"""Tests of fabric.model."""

from fabric.model import gathered


def test_values_of_a_key_are_together_in_the_order_in_which_they_come() -> None:
    """Neither keys nor values are sorted."""
    found = gathered([("b", 3), ("a", 1), ("b", 2)])
    assert list(found.items()) == [("b", [3, 2]), ("a", [1])]
