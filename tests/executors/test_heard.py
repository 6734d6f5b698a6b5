"""Output and the wrapper's words, told apart however they arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabric.executors.heard import Heard
from fabric.model.command import Command

NONCE = "fabric-0123456789abcdef0123456789abcdef"


def heard(cap_bytes: int = 1000) -> Heard:
    """Nothing yet."""
    return Heard(Command("h", ("tool",), 1, output_cap_bytes=cap_bytes), NONCE)


@given(st.binary(max_size=200), st.binary(max_size=200), st.lists(st.integers(1, 60), max_size=40))
def test_words_are_found_wherever_the_data_is_cut(before: bytes, after: bytes, cuts: list[int]):
    """However the stream is cut into pieces, words are taken out and all the rest is kept."""
    data = before + f"{NONCE} ready\n".encode() + after + f"{NONCE} end 3\n".encode()
    one = heard()
    said: list[str] = []
    for cut in [*cuts, len(data)]:
        said += one.add(b"", data[:cut])
        data = data[cut:]
    said += one.add(b"", data)
    assert said == ["ready", "end 3"]
    assert one.stderr == (before + after).decode("utf-8", "replace")
    assert not one.finished
    one.add(f"x{NONCE} end 3\n".encode(), b"")
    assert one.finished
    assert one.stdout == "x"


def test_word_is_heard_beyond_the_cap():
    """What the tool floods is dropped, what the wrapper says is not; memory stays bounded."""
    one = heard(cap_bytes=4)
    for _ in range(100):
        one.add(b"o" * 1000, b"e" * 1000)
    one.add(f"{NONCE} end 0\n".encode(), f"{NONCE} end 0\n".encode())
    assert (one.stdout, one.stderr, one.truncated, one.finished) == ("oooo", "eeee", True, True)


def test_beginning_of_a_word_that_never_comes_is_output():
    """A tool may print what looks like the beginning of a marked line."""
    one = heard()
    one.add(b"fabric-0123", b"")
    assert one.stdout == "fabric-0123"
    one.add(b"zzz", b"")
    assert (one.stdout, one.truncated) == ("fabric-0123zzz", False)
