"""The agent's JSON is everybody's JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.agent.wire import parsed, written

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(VALUES)
def test_it_reads_and_writes_what_json_does(value: object) -> None:
    """In both directions."""
    line = json.dumps(value, separators=(",", ":")).encode("ascii")
    assert parsed(line) == value
    assert written(value) == line


@pytest.mark.parametrize("line", [b"", b"{", b"x", b'{"a":1} 2', b'{"a"}', b"[1,]", b"\xff", b'"a'])
def test_what_is_not_json_is_a_value_error(line: bytes) -> None:
    """Whatever the C functions raise themselves."""
    with pytest.raises(ValueError, match=r"JSON|value|Expecting|Unterminated|Illegal|codec"):
        parsed(line)


def test_what_json_cannot_say_is_refused() -> None:
    """A defect of ours, not a line that the other side cannot read."""
    with pytest.raises(TypeError, match="not JSON"):
        written({"a": b"bytes"})
