"""What dumps, answers of NCCL RAS and logs tell of a job; pickles of plain values, and of nothing else."""

import collections
import contextlib
import datetime
import json
import os
import pickle
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import UnreadableOutput
from fabric.model.hang import Call, CallState, HangKind, Place
from fabric.model.outcome import Outcome
from fabric.tools.hang import flight_recorder, read
from fabric.tools.hang.flight_recorder import plain_values
from tests.builders import accepted
from tests.places import CAPTURES

HANG = CAPTURES / "hang"
GROUP = "0 (default_pg)"


def told(name, file_name=None):
    path = HANG / name
    return read(path.read_bytes(), file_name or path.name)


def log(*lines):
    return read("\n".join(lines).encode(), "job.log")


def test_a_dump_tells_of_each_group_how_far_its_rank_came():
    found = told("absent/nccl_trace_rank_0")
    assert {(one.rank, one.group, one.called, one.open) for one in found.traces} == {
        (0, GROUP, 7, 7),
        (0, "1 (half)", 3, 4),
    }
    (trace,) = (one for one in found.traces if one.group == GROUP)
    call = trace.calls[7]
    assert call == Call("all_reduce", (32, 32), ("Float",), CallState.CALLED, call.at_ns)
    assert trace.calls[6].state is CallState.OVER


def test_json_tells_the_same_as_the_pickle():
    as_json = told("absent-json/dump_fr_trace_json_rank_2.json")
    assert as_json == told("absent/nccl_trace_rank_2")
    assert as_json.ranks == {0, 1, 2, 3}


def test_a_dump_of_which_only_the_status_is_left_tells_how_far_its_rank_came():
    document = json.loads((HANG / "absent-json/dump_fr_trace_json_rank_2.json").read_text())
    found = read(json.dumps({**document, "entries": []}).encode(), "trace_rank_2")
    assert [(one.group, one.called, one.open) for one in found.traces] == [(GROUP, 6, 7)]


def test_sends_that_are_not_over_are_told_and_are_no_collective():
    document = json.loads((HANG / "absent-json/dump_fr_trace_json_rank_2.json").read_text())
    send = {**document["entries"][0], "is_p2p": True, "retired": False, "collective_seq_id": 99}
    found = read(json.dumps({**document, "entries": [send]}).encode(), "trace_rank_2")
    assert found.in_exchange == {2}
    assert found.traces[0].called == 6


@pytest.mark.parametrize("damage", [{"version": "3.0"}, {"entries": 5}, {"entries": [{}]}, {"pg_config": {"0": 1}}])
def test_a_damaged_dump_is_refused(damage):
    document = json.loads((HANG / "absent-json/dump_fr_trace_json_rank_2.json").read_text())
    with pytest.raises(UnreadableOutput, match="dump of PyTorch's flight recorder"):
        read(json.dumps({**document, **damage}).encode(), "trace_rank_2")


def test_sizes_that_are_no_numbers_fill_no_memory():
    document = json.loads((HANG / "absent-json/dump_fr_trace_json_rank_2.json").read_text())
    document["entries"][0]["input_sizes"] = [["a" * 1000, 10**9]]
    with pytest.raises(UnreadableOutput, match="a damaged dump"):
        read(json.dumps(document).encode(), "trace_rank_2")


@pytest.mark.parametrize("rank", [-7, 10**6])
def test_ras_tells_of_no_rank_that_the_communicator_has_not(rank):
    document = json.loads((HANG / "status-json-docs-2.29.json").read_text())
    document["communicators"][0]["ranks"][0]["rank"] = rank
    with pytest.raises(UnreadableOutput, match="a damaged status"):
        read(json.dumps(document).encode(), "ras.json")


def test_a_dump_without_a_rank_in_its_name_is_refused():
    with pytest.raises(UnreadableOutput, match="expected a rank at the end"):
        told("absent/nccl_trace_rank_0", "dump.pickle")


@pytest.mark.parametrize("name", ["status-json-docs-2.29.json", "status-json-2.28.9-missing-comma-derived.json"])
def test_ras_json_tells_counts_and_who_is_missing_also_without_its_comma(name):
    found = told(name)
    assert [(one.rank, one.called, one.at_s) for one in found.traces] == [(0, 0, 1766149613.0)]
    assert (found.lost, found.dead, found.ranks) == ({1}, set(), {0, 1})
    assert found.places[1] == Place("172.16.64.245", 1)


def test_ras_words_tell_outliers_the_missing_and_the_dead():
    found = told("status-text-docs-2.30.txt")
    assert {one.rank: one.called for one in found.traces} == dict.fromkeys((0, 2, 3, 4, 5, 7), 6649)
    assert list(found.furthest.values()) == [6650]
    assert (found.lost, found.dead) == ({21}, {21})
    assert found.places[21] == Place("172.16.64.213", 5)
    assert found.places[24] == Place("172.16.64.222", 0)


def test_processes_that_ras_cannot_tie_to_ranks_are_told_by_their_hosts():
    found = log(
        "Communicators... (2.05s)", "DEAD", "  Process 7 on node n1 managing GPU 5", "INCOMPLETE",
        "  Process 8 on node n2 managing GPU 1", "#0-0 (ab12) INCOMPLETE", "  The missing ranks: 21, 22",
    )  # fmt: skip
    assert found.lost == {21, 22}
    assert [(one.kind, one.outcome, one.host, one.said) for one in found.failures] == [
        (HangKind.DEAD, Outcome.FAIL, "n1", "the process of GPU 5"),
        (HangKind.SILENT, Outcome.INCONCLUSIVE, "n2", "the process of GPU 1"),
    ]


def test_ras_diagnostics_that_are_not_ok_are_noted():
    assert any("mismatch across 8 ranks" in note for note in told("diagnostics-docs-2.31.txt").notes)


def test_the_watchdog_tells_what_a_rank_waits_in():
    at = "[rank5]:[E626 01:02:03.000000004 ProcessGroupNCCL.cpp:616] "
    found = log(
        f"{at}[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, "
        "NumelIn=7, NumelOut=7, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.",
        f"{at}[PG ID 0 PG GUID 0(default_pg) Rank 1] Exception (either an error or timeout) detected by watchdog "
        "at work: 41, last enqueued NCCL work: 44, last completed NCCL work: 40.",
    )
    (trace,) = found.traces
    assert (trace.rank, trace.group, trace.called, trace.open) == (5, GROUP, 44, 41)
    assert trace.calls[41].alike == ("allreduce", (7, 7), ())


def test_nccl_info_tells_where_ranks_run_and_which_rnics_they_use():
    found = log(
        "n1:7:8 [3] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
        "n1:7:8 [3] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>",
        "n1:7:9 [3] NCCL INFO ncclCommInitRank comm 0xab rank 3 nranks 8 cudaDev 0 nvmlDev 3 busId 1 - Init COMPLETE",
        "n1:7:9 [3] NCCL INFO Channel 00/0 : 3[3] -> 4[0] [send] via NET/IBext_v8/1/GDRDMA",
        "n1:7:9 [3] NCCL INFO comm 0xac rank 0 nranks 2 cudaDev 0 nvmlDev 3 busId 1 - Init COMPLETE",
    )
    assert found.places == {3: Place("n1", 3, frozenset({"mlx5_3"}))}
    assert found.addresses == {"10.0.0.1": "n1"}
    assert found.ranks == set(range(8))


def test_a_connection_that_failed_accuses_both_ends_and_neither_for_certain():
    found = log(
        "n2:1:2 [6] transport/net_ib.cc:2244 NCCL WARN NET/IB: Got completion from peer 10.0.0.9<53908> with status=12 "
        "opcode=129 len=1 vendor err 129 (Recv) hca mlx5_10"
    )
    assert [(one.kind, one.outcome, one.host, one.parts, one.others) for one in found.failures] == [
        (HangKind.FAILED, Outcome.INCONCLUSIVE, "n2", ("n2/mlx5_10",), "10.0.0.9"),
        (HangKind.FAILED, Outcome.INCONCLUSIVE, "10.0.0.9", (), "n2"),
    ]


def test_a_rank_whose_peer_went_away_says_so():
    found = log(
        "[rank3]: Traceback (most recent call last):", "[rank3]: RuntimeError: Connection closed by peer [::1]:1"
    )
    assert found.gave_up == {3}


def test_a_port_that_its_own_host_calls_down_is_certain():
    found = log("n2:1:2 [6] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : port error")
    assert [(one.outcome, one.host) for one in found.failures] == [(Outcome.FAIL, "n2")]


@pytest.mark.parametrize("text", ["", "hello", "# host\n", "[1, 2]", '{"a": 1}', "a,b,value_gbps\n"])
def test_what_is_something_else_is_none_of_these(text):
    assert read(text.encode(), "file_rank_1") is None


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_refused(data):
    quietly(data)


TEXTS = [(HANG / name).read_bytes() for name in ("status-text-docs-2.30.txt", "status-json-docs-2.29.json")]
TEXTS.append((HANG / "absent-json/dump_fr_trace_json_rank_2.json").read_bytes())


@given(st.sampled_from(TEXTS), st.data())
@settings(max_examples=200, deadline=None)
def test_any_damage_to_a_text_is_read_or_refused(text, data):
    at = data.draw(st.integers(0, len(text)))
    quietly(text[:at] + data.draw(st.binary(max_size=8)) + text[at + data.draw(st.integers(0, 40)) :])


def quietly(data):
    with contextlib.suppress(UnreadableOutput):
        read(data, "trace_rank_1")


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


def test_what_is_no_plain_data_is_refused_and_does_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert accepted(REFUSED, lambda name: plain_values(REFUSED[name]), UnreadableOutput) == []
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


@pytest.mark.slow
@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
@settings(max_examples=150, deadline=None)
def test_plain_values_are_read_as_python_reads_them(value, protocol):
    assert plain_values(pickle.dumps(value, protocol)) == value


@pytest.mark.slow
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
