"""Requests to an agent: whatever a command holds, the agent's own reader makes the same of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fabric.agent.work import parsed
from fabric.hosts.agent.protocol import start_request
from fabric.model.command import Command

# A name of a file that is not UTF-8 comes with surrogates, one by one (PEP 383).
words = st.text(max_size=8) | st.text(st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=3)


@given(st.lists(words, min_size=1, max_size=4), st.tuples(words, words))
def test_what_is_asked_arrives(argv: list[str], variable: tuple[str, str]) -> None:
    """In ASCII, on one line; what is usual is left out."""
    command = Command("h", tuple(argv), 5.5, env=(variable,), ready_port=255)
    line = start_request(7, command)
    assert line.isascii()
    assert line.count(b"\n") == 1
    asked = parsed(line)
    assert (asked["v"], asked["id"], asked["argv"], asked["timeout"]) == ("start", 7, argv, 5.5)
    assert (asked["env"], asked["port"]) == ([list(variable)], "00FF")
    plain = parsed(start_request(8, Command("h", ("true",), 5.0)))
    assert set(plain) == {"v", "id", "argv", "timeout", "cap"}
