"""A reason that many probes share is said once, with how many they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabric.judge.verdict.conclude import common_reasons


def test_reasons_that_differ_in_numbers_are_one_with_its_count() -> None:
    reasons = [f"{380 + number / 10:.1f} Gb/s, just above the 380 required" for number in range(32)]
    assert common_reasons(reasons) == [
        "380.0 Gb/s, just above the 380 required … and 31 more probes for the same reason"
    ]


def test_the_most_frequent_comes_first_and_what_is_beyond_is_counted() -> None:
    assert common_reasons(["a", "b", "b", "c 1", "c 2", "c 3"], most=2) == [
        "c 1 … and 2 more probes for the same reason",
        "b",
        "and 1 more, in verdict.json",
    ]


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"])))
def test_no_probe_is_forgotten(found: list[str]) -> None:
    """Of two with the very same words one is enough, so each has a number of its own here."""
    reasons = [f"{text} {place}" for place, text in enumerate(found)]
    said = common_reasons(reasons)
    alone = [text for text in said if "…" not in text and "verdict.json" not in text]
    more = [int(text.rpartition(" and ")[2].split()[0]) for text in said if "…" in text]
    rest = [int(text.split()[1]) for text in said if "verdict.json" in text]
    assert len(alone) + sum(number + 1 for number in more) + sum(rest) == len(reasons)


def test_nothing_is_said_of_nothing() -> None:
    assert common_reasons([]) == []
