"""The history survives being cut anywhere, and nobody's foreign line is guessed at."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from fabric.errors import StoreError
from fabric.runs.events import LIMITS, EventLog, read_events


def write(path: Path, count: int) -> bytes:
    """A log of *count* events."""
    log = EventLog(path)
    for number in range(count):
        log.append("finished", float(number), {"probe": f"p{number}", "reason": 'naïve "quoted"\n'})
    log.close()
    return path.read_bytes()


def test_round_trip(tmp_path: Path) -> None:
    """What was written is read back, in order, numbered from 1."""
    write(tmp_path / "e", 3)
    events = list(read_events(tmp_path / "e"))
    assert [event["seq"] for event in events] == [1, 2, 3]
    assert events[2]["probe"] == "p2"


def test_cut_at_every_byte(tmp_path: Path) -> None:
    """A file cut at any byte yields every whole line before the cut, and no error."""
    data = write(tmp_path / "e", 3)
    ends = [i for i, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        (tmp_path / "cut").write_bytes(data[:cut])
        whole = sum(end <= cut for end in ends)
        assert len(list(read_events(tmp_path / "cut"))) == whole


def test_bad_line_in_the_middle_stops(tmp_path: Path) -> None:
    """A changed line before the end is an error that names the line."""
    data = write(tmp_path / "e", 3)
    (tmp_path / "e").write_bytes(data.replace(b"p1", b"p9"))
    with pytest.raises(StoreError, match="e:2"):
        list(read_events(tmp_path / "e"))


def test_a_log_goes_on_behind_what_is_there_at_every_cut(tmp_path: Path) -> None:
    """Cut anywhere, the torn rest is cut off, and the numbers go on."""
    data = write(tmp_path / "e", 3)
    for cut in range(len(data) + 1):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        whole = len(list(read_events(path)))
        log = EventLog(path)
        log.append("resumed", 9.0, {})
        log.close()
        assert [event["seq"] for event in read_events(path)] == list(range(1, whole + 2))


def test_only_one_process_writes(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "e")
    with pytest.raises(StoreError, match="another process"):
        EventLog(tmp_path / "e")
    log.close()


@pytest.mark.parametrize("failing", ["write", "short write", "fsync"])
def test_after_a_full_disk_there_is_neither_a_torn_line_nor_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """What was not acknowledged is kept, and written when there is room again."""
    from fabric.runs import plain_file
    from tests.runs.full_disk import full_disk

    log = EventLog(tmp_path / "e")
    log.append("one", 1.0, {})
    log.flush()
    with monkeypatch.context() as patch:
        patch.setattr(plain_file, "os", full_disk(failing))
        log.append("two", 2.0, {})
        with pytest.raises(StoreError, match="No space left"):
            log.flush()
        assert [event["event"] for event in read_events(tmp_path / "e")] == ["one"]
    log.append("three", 3.0, {})
    log.close()
    assert [event["event"] for event in read_events(tmp_path / "e")] == ["one", "two", "three"]


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_what_stands_behind_a_page_that_never_reached_the_disk_is_torn(tmp_path: Path, lines: int) -> None:
    """It reads as zeros; all behind it was of the same write, and nothing followed from it."""
    whole = write(tmp_path / "e", 4).splitlines(keepends=True)
    hole = bytes(len(whole[lines]))
    (tmp_path / "e").write_bytes(b"".join(whole[:lines]) + hole[:-3] + b"".join(whole[lines + 1 :]))
    assert len(list(read_events(tmp_path / "e"))) == lines


def test_events_are_decoded_one_after_the_other(tmp_path: Path) -> None:
    """Who reads a long history need not hold it whole: what is bad further on is not met yet."""
    data = write(tmp_path / "e", 3)
    (tmp_path / "e").write_bytes(data.replace(b"p1", b"p9"))
    events = read_events(tmp_path / "e")
    assert next(events)["probe"] == "p0"
    with pytest.raises(StoreError, match="e:2"):
        next(events)


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path: Path) -> None:
    """A sparse file of many GiB is refused for its size, and for its first line where its size may be."""
    path = tmp_path / "e"
    write(path, 2)
    os.truncate(path, LIMITS.most_bytes + 1)
    with pytest.raises(StoreError, match="larger than 16 GiB"):
        list(read_events(path))
    os.truncate(path, LIMITS.most_bytes)
    tracemalloc.start()
    with pytest.raises(StoreError, match="a line larger than 64 MiB"):
        list(read_events(path))
    with pytest.raises(StoreError, match="a line larger than 64 MiB"):
        EventLog(path)
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()
