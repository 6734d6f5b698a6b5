"""Output and the wrapper's words, told apart however they arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabric.hosts.wrapped import MarkedOutput

NONCE = "fabric-0123456789abcdef0123456789abcdef"


@given(st.binary(max_size=200), st.binary(max_size=200), st.lists(st.integers(1, 60), max_size=40))
def test_words_are_found_wherever_the_data_is_cut(before: bytes, after: bytes, cuts: list[int]):
    """However the stream is cut into pieces, words are taken out and all the rest is kept."""
    data = before + f"{NONCE} ready\n".encode() + after + f"{NONCE} end 3\n".encode()
    output = MarkedOutput(NONCE, 1000)
    for cut in [*cuts, len(data)]:
        output.add(data[:cut])
        data = data[cut:]
    output.add(data)
    assert output.words == ["ready", "end 3"]
    assert output.text() == (before + after).decode("utf-8", "replace")
    assert output.finished


def test_word_is_heard_beyond_the_cap():
    """What the tool floods is dropped, what the wrapper says is not; memory stays bounded."""
    output = MarkedOutput(NONCE, 4)
    for _ in range(100):
        output.add(b"e" * 1000)
    assert not output.finished
    output.add(f"{NONCE} end 0\n".encode())
    assert (output.text(), output.truncated, output.finished) == ("eeee", True, True)


def test_beginning_of_a_word_that_never_comes_is_output():
    """A tool may print what looks like the beginning of a marked line."""
    output = MarkedOutput(NONCE, 1000)
    output.add(b"fabric-0123")
    assert output.text() == "fabric-0123"
    output.add(b"zzz")
    assert (output.text(), output.truncated) == ("fabric-0123zzz", False)
