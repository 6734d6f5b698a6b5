"""A number with its noun."""

from __future__ import annotations

from fabric.report.output import counted


def test_one_is_singular() -> None:
    assert counted(1, "probe") == "1 probe"


def test_none_and_many_are_plural_with_thousands_apart() -> None:
    assert [counted(number, "round") for number in (0, 2, 1144)] == ["0 rounds", "2 rounds", "1,144 rounds"]
