"""Pickles of plain values: what is plain is read, and nothing else does anything at all."""

import collections
import datetime
import os
import pickle
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import UnreadableOutput
from fabric.tools.hang import flight_recorder
from fabric.tools.hang.flight_recorder import plain_values
from tests.places import CAPTURES

DUMP = (CAPTURES / "hang/absent/nccl_trace_rank_0").read_bytes()
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=8)
PLAIN = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=5)
        | st.tuples(inner, inner)
    ),
    max_leaves=30,
)


class Evil:
    """Makes a folder where a pickle of it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def laughs(depth):
    """Each list holds the one before twice, so that it has 2**depth leaves."""
    made = [1]
    for _ in range(depth):
        made = [made, made]
    return made


NESTED_KEY = b"\x80\x02}" + b"K\x01" + b"\x85" * 200_000 + b"K\x01s."
REFUSED = {
    "a call": pickle.dumps({"entries": [Evil()]}, 2),
    "a call, protocol 4": pickle.dumps({"entries": [Evil()]}, 4),
    "a class of the library": pickle.dumps(collections.OrderedDict(a=1)),
    "a date": pickle.dumps(datetime.datetime(2026, 1, 1)),
    "a set": pickle.dumps({1, 2}, 4),
    "an extension": b"\x80\x02\x82\x01.",
    "an object from outside": b"\x80\x02K\x01Q.",
    "a memo of 64 GB": b"\x80\x02K\x01r\xff\xff\xff\xff" + b"h\x01.",
    "a number of 2 GB": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "bytes of 2**60": b"\x80\x05\x96" + (2**60).to_bytes(8, "little") + b".",
    "text of 2**60": b"\x80\x04\x8d" + (2**60).to_bytes(8, "little") + b".",
    "a key nested 200,000 deep": NESTED_KEY,
    "a pop": b"\x80\x02K\x010.",
    "a mark that is not there": b"\x80\x02u.",
    "a value that is not there": b"\x80\x02h\x05.",
    "a list that is none": b"\x80\x02K\x01K\x02a.",
    "a key without a value": b"\x80\x02}(K\x01u.",
    "nothing on the stack": b"\x80\x02.",
    "an end that is not there": b"\x80\x02K\x01",
    "half a dump": DUMP[:1000],
    "nothing": b"",
    "text": b"hello",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_plain_data_is_refused_and_does_nothing(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnreadableOutput):
        plain_values(REFUSED[name])
    assert list(tmp_path.iterdir()) == []


def test_steps_have_a_bound(monkeypatch):
    monkeypatch.setattr(flight_recorder, "MOST_STEPS", 1000)
    with pytest.raises(UnreadableOutput, match="more than 1,000 steps"):
        plain_values(b"\x80\x02" + b"K\x01q\x00" * 1000 + b".")


def test_a_value_that_holds_another_twice_a_thousand_times_takes_no_memory():
    tracemalloc.start()
    found = plain_values(pickle.dumps(laughs(300), 2))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 2
    assert peak < 2 << 20


def test_a_real_dump_is_read_as_python_reads_it():
    assert plain_values(DUMP) == pickle.loads(DUMP)


@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
@settings(max_examples=150, deadline=None)
def test_plain_values_are_read_as_python_reads_them(value, protocol):
    assert plain_values(pickle.dumps(value, protocol)) == value


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_dump_is_read_or_refused_in_little_time_and_memory(data):
    broken = bytearray(DUMP)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=6))
    bounded(bytes(broken))


@given(st.binary(max_size=400))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_read_or_refused_in_little_time_and_memory(data):
    bounded(b"\x80\x02" + data)


def bounded(data):
    started = time.process_time()
    tracemalloc.start()
    try:
        plain_values(data)
    except UnreadableOutput:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 4 << 20
    assert time.process_time() - started < 2.0
