"""Samples of a run that died and went on: nothing is known of the time between, and all of it is readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.model.sampling import CounterReading
from fabric.runs.samples import SAMPLES as FILE
from fabric.runs.samples import SampleLog, close_samples, read_samples

KEYS = (("mlx5_0", "link_downed"), ("mlx5_1", "link_downed"))


def session(run: Path, host: str, at_s: float) -> int:
    """Two samples of one host; returns the length of the file."""
    log = SampleLog(run / FILE, 1.0)
    log.add(host, at_s, KEYS, (1, 2))
    log.add(host, at_s + 5.0, KEYS, (3, 2))
    log.close()
    return (run / FILE).stat().st_size


def test_cut_at_every_byte_another_session_can_begin_behind_it(tmp_path: Path) -> None:
    whole = session(tmp_path, "h1", 10.0)
    data = (tmp_path / FILE).read_bytes()
    second = data.index(b"\n", data.index(b"\n") + 1)  # the end of the line that first tells of it
    for cut in range(whole + 1):
        (tmp_path / FILE).write_bytes(data[:cut])
        close_samples(tmp_path)
        session(tmp_path, "h2", 50.0)
        found = read_samples(tmp_path).courses
        assert found[CounterReading("h2", *KEYS[0])].values == [1, 3]
        assert (CounterReading("h1", *KEYS[0]) in found) == (cut >= second)


def test_a_reading_is_unknown_from_when_its_host_was_last_asked(tmp_path: Path) -> None:
    session(tmp_path, "h1", 10.0)
    assert close_samples(tmp_path) == pytest.approx(15.0)
    course = read_samples(tmp_path).courses[CounterReading("h1", *KEYS[0])]
    assert (course.at_s, course.values) == ([10.0, 15.0, 15.0], [1, 3, None])


def test_a_host_of_an_earlier_session_is_unknown_once(tmp_path: Path) -> None:
    session(tmp_path, "h1", 10.0)
    close_samples(tmp_path)
    session(tmp_path, "h2", 50.0)
    assert close_samples(tmp_path) == pytest.approx(55.0)
    found = read_samples(tmp_path).courses
    assert found[CounterReading("h2", *KEYS[1])].values == [2, None]
    assert found[CounterReading("h1", *KEYS[1])].values == [2, None]
