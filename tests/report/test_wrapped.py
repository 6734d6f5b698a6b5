"""Lines that a person reads end within the width; commands to copy stay whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabric.report.output import WIDTH, wrapped


@given(st.lists(st.text("abc", min_size=1, max_size=20), max_size=60), st.integers(0, 16))
def test_no_line_is_longer_and_no_word_is_lost(words: list[str], indent: int) -> None:
    text = " " * indent + " ".join(words)
    lines = wrapped(text)
    assert all(len(line) <= WIDTH for line in lines)
    assert " ".join(lines).split() == text.split()
    assert all(line.startswith(" " * indent) for line in lines)


def test_a_command_to_copy_is_never_broken() -> None:
    text = f"    by hand: sed -i {'x' * 90} && sed -i {'y' * 90}"
    assert wrapped(text) == [text]
