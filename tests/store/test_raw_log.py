"""What was flushed can be read whatever became of the transcripts, and the log goes when it is needed no more."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import StoreError
from fabric.store import durable, raw, raw_log
from fabric.store.raw import RawOutput, raw_entries
from fabric.store.raw_log import FILE, RawLog, read_pieces
from tests.store.full_disk import full_disk
from tests.store.test_raw import keep


def flushed(run: Path, *probes: str) -> RawOutput:
    """Their outputs in a run's directory, each flushed; as if the process died then."""
    output = RawOutput(run)
    for probe in probes:
        keep(output, probe, 1, f"what {probe} printed\n")
        output.flush()
    output.let_go()
    return output


@pytest.mark.parametrize("kept", [0, 10])
def test_a_transcript_that_the_disk_forgot_is_read_from_the_log_and_mended(tmp_path: Path, kept: int) -> None:
    flushed(tmp_path, "a/h/p", "a/h/q")
    file = tmp_path / "raw" / "a" / "h.out"
    whole = file.read_bytes()
    file.write_bytes(whole[:kept])
    assert "what a/h/q printed" in raw_entries(tmp_path, "a/h/q")
    RawOutput(tmp_path)
    assert file.read_bytes() == whole
    assert not (tmp_path / FILE).exists()


def test_mending_twice_changes_nothing(tmp_path: Path) -> None:
    flushed(tmp_path, "a/h/p", "a/h/q")
    log, file = tmp_path / FILE, tmp_path / "raw" / "a" / "h.out"
    data, whole = log.read_bytes(), file.read_bytes()
    for _ in range(2):
        log.write_bytes(data)
        RawOutput(tmp_path)
        assert file.read_bytes() == whole


def test_it_goes_when_the_transcripts_are_durable(tmp_path: Path) -> None:
    output = flushed(tmp_path, "a/h/p")
    output.settle()
    assert not (tmp_path / FILE).exists()
    assert "what a/h/p printed" in raw_entries(tmp_path, "a/h/p")


def test_it_stays_when_a_transcript_cannot_be_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second fsync would say yes to lost pages: it is not tried again."""
    output = flushed(tmp_path, "a/h/p")
    with monkeypatch.context() as patch:
        patch.setattr(durable, "os", full_disk("fsync"))
        output.settle()
    output.settle()
    assert list(read_pieces(tmp_path))


def test_it_begins_anew_when_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "MOST_LOG_BYTES", 150)
    output = RawOutput(tmp_path)
    for number in range(9):
        keep(output, f"a/h/p{number}", 1, "some words\n")
        output.flush()
        assert (tmp_path / FILE).stat().st_size <= 300
    output.let_go()
    RawOutput(tmp_path)
    assert all("some words" in raw_entries(tmp_path, f"a/h/p{number}") for number in range(9))


@settings(deadline=None)
@given(cut=st.integers(0, 200), torn=st.sampled_from([b"", bytes(8), bytes(40), b"\x05\0\0\0abcd"]))
def test_any_torn_end_is_left_out(tmp_path_factory: pytest.TempPathFactory, cut: int, torn: bytes) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = RawLog(folder)
    pieces = [("a/h.out", 0, b"x" * 50), ("a/h.out", 50, b"y" * 50)]
    sizes = []
    for piece in pieces:
        log.write([piece])
        sizes.append(log.size_bytes)
    log.let_go()
    data = (folder / FILE).read_bytes()[:cut]
    whole = sum(size <= cut for size in sizes)
    (folder / FILE).write_bytes(data + torn if cut in (0, *sizes) else data)
    assert list(read_pieces(folder)) == pieces[:whole]


def test_a_bad_block_before_the_end_is_told(tmp_path: Path) -> None:
    flushed(tmp_path, "a/h/p", "a/h/q")
    log = tmp_path / FILE
    data = bytearray(log.read_bytes())
    data[20] ^= 1
    log.write_bytes(data)
    with pytest.raises(StoreError, match=r"raw\.log: a bad block"):
        list(read_pieces(tmp_path))


def test_a_block_of_somebody_else_is_told(tmp_path: Path) -> None:
    body = b"no JSON\n"
    (tmp_path / FILE).write_bytes(len(body).to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little") + body)
    with pytest.raises(StoreError, match="not a block"):
        list(read_pieces(tmp_path))


def block(*where: object) -> bytes:
    """As the log has it, with a good checksum; what was written is always xxxx."""
    body = orjson.dumps(where) + b"\n" + b"x" * 4 * len(where)
    return len(body).to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little") + body


@pytest.mark.parametrize(
    "piece",
    [
        ["../run.json", 0, 4],
        ["/etc/motd", 0, 4],
        ["a/../../b", 0, 4],
        ["a//b", 0, 4],
        ["a/h.out", -1, 4],
        ["a/h.out", 1 << 40, 4],
        ["a/h.out", 0, -4],
        ["a/h.out", 0.5, 4],
        [7, 0, 4],
    ],
)
def test_a_log_writes_nothing_outside_the_transcripts(tmp_path: Path, piece: list[object]) -> None:
    """Mending a run follows no name that leads out of raw/, and makes no file of a terabyte."""
    run = tmp_path / "run"
    run.mkdir()
    (run / FILE).write_bytes(block(piece))
    with pytest.raises(StoreError, match=r"not a block of this tool$"):
        RawOutput(run)
    assert [file.name for file in run.iterdir()] == [FILE]


def test_mending_follows_no_link(tmp_path: Path) -> None:
    """Neither raw/, nor a folder in it, nor a transcript may lead elsewhere."""
    for name in ("raw", "raw/a", "raw/a/h.out"):
        run = tmp_path / name.replace("/", "-")
        (run / name).parent.mkdir(parents=True)
        elsewhere = run / "elsewhere"
        elsewhere.touch() if name.endswith("out") else elsewhere.mkdir()
        (run / name).symlink_to(elsewhere)
        (run / FILE).write_bytes(block(["a/h.out", 0, 4]))
        with pytest.raises(StoreError, match=r"cannot (write|read)"):
            RawOutput(run)
        assert elsewhere.is_dir() is not name.endswith("out")
        assert list(elsewhere.iterdir()) == [] if elsewhere.is_dir() else elsewhere.read_bytes() == b""


def test_what_is_flushed_at_once_may_be_larger_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut into blocks, made durable together, and put together again."""
    monkeypatch.setattr(raw_log, "_BLOCK", 10)
    monkeypatch.setattr(raw_log, "_MOST_BLOCK", 100)
    log = RawLog(tmp_path)
    pieces = [("a/h.out", 5, b"0123456789abcdefghijklmno"), ("b/h.out", 0, b"xyz"), ("c/h.out", 0, b"12345678")]
    log.write(pieces)
    log.let_go()
    found: dict[str, bytes] = {}
    for name, place, data in read_pieces(tmp_path):
        before = found.get(name, b"".ljust(pieces[0][1]) if name == "a/h.out" else b"")
        assert place == len(before)
        found[name] = before + data
    assert found == {name: b"".ljust(place) + data for name, place, data in pieces}


def test_a_block_larger_than_any_of_ours_is_told(tmp_path: Path) -> None:
    """Its length is not believed: nothing of it is read."""
    (tmp_path / FILE).write_bytes((2 << 30).to_bytes(4, "little") + bytes(4) + b"x")
    os.truncate(tmp_path / FILE, 3 << 30)
    with pytest.raises(StoreError, match="a block larger than 64 MiB"):
        list(read_pieces(tmp_path))
