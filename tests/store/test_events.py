"""The history survives being cut anywhere, and nobody's foreign line is guessed at."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.errors import StoreError
from fabric.store.events import EventLog, read_events


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


def test_unwritable_place(tmp_path: Path) -> None:
    """A log that cannot be opened says so."""
    with pytest.raises(StoreError, match="cannot open"):
        EventLog(tmp_path / "missing" / "e")
