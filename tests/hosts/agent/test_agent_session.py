"""The orchestrator's side of an agent: whatever a host says, we neither crash nor hang, and lose no command."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import HostUnreachable
from fabric.hosts.agent.protocol import LINE_BYTES, Garbled, LineDecoder, start_request
from fabric.hosts.agent.session import PING_S
from fabric.hosts.stream import GRACE_S, Request
from fabric.model.probe import Command
from fabric.ports import Ended, Lost, Sampled, Source
from tests.hosts.agent_talk import HELLO, NONCE, Conversation, end, said


def test_a_command_from_asking_to_end():
    """Output arrives in pieces and is put together; times are the host's, in our clock."""
    talk = Conversation()
    command = talk.begin(1)
    talk.now_s = 1003.0
    talk.hear({"e": "out", "id": 1, "data": "gr\u00c3"}, end(1, out="\u00bcn\n", err="oh", status=3, cut=True))
    (ended,) = talk.told
    assert isinstance(ended, Ended)
    result = ended.result
    assert (result.command, result.exit_status, result.stdout, result.stderr) == (command, 3, "grün\n", "oh")
    assert (result.started_s, result.ended_s, result.truncated) == (1001.0, 1002.0, True)


def test_what_a_shell_prints_first_is_passed_over():
    """Banners and messages of the day are no messages of the agent."""
    talk = Conversation(greeted=False)
    talk.bytes(b'Welcome!\n{"e":"bye"}\nfabric-agent-xyz {}\n$ ')
    assert (talk.session.hello, talk.session.failure) == (None, "")
    talk.hear(HELLO, lead=f"fabric-agent-{NONCE} ")
    assert talk.session.hello is not None
    assert talk.session.decoder.preamble == ""


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[]\n",
        b'{"e":"new"}\n',
        b'{"e":"ended","id":1}\n',
        b'{"e":"ended","id":1,"status":"0","why":"ended","t0":1,"t1":2}\n',
        b'{"e":"ended","id":1,"status":0,"why":"bored","t0":1,"t1":2}\n',
        b'{"e":"out","id":1,"data":"\xe2\x82\xac"}\n',
        b'{"e":"rows","id":1,"part":0,"at":[],"rows":[]}\n',
    ],
)
def test_what_breaks_the_protocol_loses_the_host_and_is_quoted(line: bytes):
    """Every command is told what was seen, and the way to the host is cut."""
    talk = Conversation()
    talk.begin(1)
    talk.begin(2)
    talk.bytes(line)
    assert [type(one) for one in talk.told] == [Lost, Lost]
    assert all(isinstance(one, Lost) and isinstance(one.error, HostUnreachable) for one in talk.told)
    assert "h: waiting for true: the agent broke the protocol: " in said(talk.told[0].error)  # type: ignore[union-attr]
    assert talk.stream.abandoned


def test_more_output_than_asked_for_is_not_kept():
    """A host cannot fill our memory."""
    talk = Conversation()
    talk.begin(1, output_cap_bytes=10)
    talk.hear({"e": "out", "id": 1, "data": "x" * 11})
    assert "more output of true than was asked for" in talk.session.failure
    decoder = LineDecoder(NONCE)
    with pytest.raises(Garbled, match="a line of more than"):
        decoder.feed(f"fabric-agent-{NONCE} ".encode() + b"x" * (LINE_BYTES + 1))


def test_the_end_of_the_stream_loses_what_was_asked_and_returns_what_was_not():
    """What cannot have begun may be begun elsewhere; all else is Lost."""
    talk = Conversation()
    talk.begin(1)
    talk.session.begin(Request(2, "h", Command("h", ("date",), 5.0)))
    talk.bytes(None)
    assert [one.ticket for one in talk.told] == [1]
    assert [request.ticket for request in talk.session.unsent] == [2]
    assert talk.session.failure == "connection lost"


def test_silence_beyond_deadline_and_grace_loses_the_host():
    """A host that hangs costs a command its deadline and the grace."""
    talk = Conversation()
    talk.begin(1)
    talk.session.tick(talk.now_s + 5 + GRACE_S - 0.01)
    assert talk.told == []
    talk.session.tick(talk.now_s + 5 + GRACE_S)
    assert "the host said nothing within 11 s" in said(talk.told[0].error)  # type: ignore[union-attr]
    assert talk.stream.abandoned


def test_a_busy_agent_hears_of_us_often_and_an_idle_one_seldom():
    """The heartbeat costs nothing while nothing runs."""
    talk = Conversation()
    talk.session.tick(talk.now_s + 3 * PING_S)
    assert talk.stream.written == b""
    talk.session.begin(Request(1, "h", None, (Source("/sys/a"),), 1.0))
    talk.session.flush()
    before = len(talk.stream.written)
    talk.session.tick(talk.now_s + PING_S / 2)
    assert len(talk.stream.written) == before
    talk.now_s += PING_S
    talk.session.tick(talk.now_s)
    assert b'"clock"' in talk.stream.written[before:]


def test_a_frozen_host_is_not_written_to_for_ever():
    """What it has not confirmed stays below what kernels buffer, so no write can block."""
    talk = Conversation()
    for ticket in range(1, 400):
        talk.begin(ticket, env=(("PADDING", "x" * 1000),))
    assert len(talk.stream.written) <= 32 << 10
    while talk.session.blocked:
        before = len(talk.stream.written)
        talk.hear({"e": "got", "n": before})
        assert len(talk.stream.written) > before
    assert len(talk.stream.written.splitlines()) == 399


def test_samples_are_told_in_our_time():
    """Also values that could not be read."""
    talk = Conversation()
    talk.session.begin(Request(1, "h", None, (Source("/sys/a"), Source("/sys/b")), 0.1))
    talk.now_s += 0.3
    talk.hear(
        {"e": "names", "id": 1, "part": 0, "names": ["/sys/a", "/sys/b"]},
        {
            "e": "rows",
            "id": 1,
            "part": 0,
            "at": [100.0, 100.1, 100.2],
            "rows": [[5, None], [5, None], [3, 1.5]],
        },
    )
    (sampled,) = talk.told
    assert isinstance(sampled, Sampled)
    assert sampled.rows == ((5, None), (5, None), (3, 1.5))
    assert sampled.at_s == pytest.approx((1000.0, 1000.1, 1000.2))


def test_no_row_is_of_a_time_still_to_come():
    """The agent's first word was half a second on its way; the first rows show it, and their times are right."""
    talk = Conversation()
    talk.session.begin(Request(1, "h", None, (Source("/sys/a"),), 0.1))
    talk.now_s += 0.2
    talk.hear(
        {"e": "names", "id": 1, "part": 0, "names": ["/sys/a"]},
        {"e": "rows", "id": 1, "part": 0, "at": [100.6, 100.7], "rows": [[5], [5]]},
    )
    (sampled,) = talk.told
    assert isinstance(sampled, Sampled)
    assert sampled.at_s == pytest.approx((1000.1, 1000.2))


def asked(talk: Conversation) -> list[dict[str, Any]]:
    """All requests so far."""
    return [json.loads(line) for line in talk.stream.written.splitlines()]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
KINDS = st.sampled_from(
    ["hello", "ready", "out", "err", "ended", "error", "clock", "names", "rows", "got", "bye", "stopped", "x"]
)
FIELDS = (
    "id",
    "status",
    "why",
    "t",
    "t0",
    "t1",
    "out",
    "err",
    "data",
    "n",
    "part",
    "names",
    "at",
    "rows",
    "got",
)
LIKELY = st.sampled_from([0, 1, 2, 3, "ended", "deadline", [0], [[1]], [], "x", 1e400, -1, None])
MESSAGES = st.builds(
    lambda kind, fields: json.dumps({**fields, "e": kind}).encode("utf-8", "replace") + b"\n",
    KINDS,
    st.dictionaries(st.sampled_from(FIELDS), LIKELY | JSON),
)


@given(st.lists(MESSAGES | st.binary(max_size=60), max_size=12), st.booleans())
def test_any_bytes_end_every_order_exactly_once(pieces: list[bytes], greeted: bool):
    """Whatever the host says, then hangs up: each request has one end or comes back unsent."""
    talk = Conversation(greeted=greeted)
    for ticket in (1, 2):
        talk.begin(ticket)
    talk.session.begin(Request(3, "h", None, (Source("/sys/a"),), 0.1))
    talk.begin(4)
    talk.bytes(*filter(None, pieces), None)
    ends = [one.ticket for one in talk.told if isinstance(one, Ended | Lost)]
    ends += [request.ticket for request in talk.session.unsent]
    assert sorted(ends) == [1, 2, 3, 4]
    assert talk.session.failure


# A name of a file that is not UTF-8 comes with surrogates, one by one (PEP 383).
words = st.text(max_size=8) | st.text(st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF), max_size=3)


@given(st.lists(words, min_size=1, max_size=4), st.tuples(words, words))
def test_what_is_asked_arrives(argv: list[str], variable: tuple[str, str]) -> None:
    """In ASCII, on one line; what is usual is left out."""
    command = Command("h", tuple(argv), 5.5, env=(variable,), ready_port=255)
    line = start_request(7, command)
    assert line.isascii()
    assert line.count(b"\n") == 1
    asked = json.loads(line)
    assert (asked["v"], asked["id"], asked["argv"], asked["timeout"]) == ("start", 7, argv, 5.5)
    assert (asked["env"], asked["port"]) == ([list(variable)], "00FF")
    plain = json.loads(start_request(8, Command("h", ("true",), 5.0)))
    assert set(plain) == {"v", "id", "argv", "timeout", "cap"}
