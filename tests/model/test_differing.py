"""Where two documents differ, in words: all of it is compared, and what is said is short."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.model.differing import MOST_DIFFERENCES, differing

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON)
def test_documents_differ_where_their_bytes_do(one: Any, other: Any) -> None:
    one, other = (orjson.loads(orjson.dumps(document)) for document in (one, other))
    same = orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)
    zeros = -0.0 in _numbers(one) or -0.0 in _numbers(other)
    assert differing(one, one) == []
    assert zeros or (differing(one, other) == []) == same


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return [number for one in inside for number in _numbers(one)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize(
    ("stated", "again", "said"),
    [
        ({"a": 1}, {"a": 1.0}, "a: it says 1, the run's files say 1.0"),
        ({"a": True}, {"a": 1}, "a: it says true, the run's files say 1"),
        ({"a": "1"}, {"a": 1}, 'a: it says "1", the run\'s files say 1'),
        ({"a": None}, {}, "a: it says null, the run's files say nothing"),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 3}]}}, "a.b[1].c: it says 2, the run's files say 3"),
        ({"a": [1, 2]}, {"a": [1]}, "a: it says a list of 2, the run's files say a list of 1"),
        ({"a": {"b": 1}}, {"a": []}, "a: it says an object of 1, the run's files say a list of 0"),
        ([], {}, "all of it: it says a list of 0, the run's files say an object of 0"),
    ],
)
def test_a_difference_is_said_with_its_place_and_both_values(stated: Any, again: Any, said: str) -> None:
    assert differing(stated, again) == [said]


def test_what_is_said_of_hostile_documents_is_short() -> None:
    """However long a text, however many fields, however deep."""
    deep: Any = orjson.loads("[" * 900 + "]" * 900)
    stated = {**{str(number): number for number in range(10_000)}, "x" * 10**6: deep, "0": "y" * 10**6}
    lines = differing(stated, {"0": "z"})
    assert len(lines) == MOST_DIFFERENCES + 1
    assert max(map(len, lines)) < 200


def test_only_where_asked_for_the_last_digits_of_a_number_may_differ() -> None:
    one, other = {"a": 0.1 + 0.2}, {"a": 0.3}
    assert differing(one, other)
    assert not differing(one, other, close=True)
    assert differing({"a": 0.3001}, other, close=True)
