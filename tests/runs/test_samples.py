"""samples.jsonl: what was written comes back, whatever happened to the end of it, also after the run went on."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.model.sampling import CounterReading
from fabric.runs.samples import SAMPLES as FILE
from fabric.runs.samples import SampleLog, close_samples, read_samples

KEYS = [("mlx5_0", "link_downed"), ("mlx5_1", "link_downed"), ("gpu0", "gpu_c")]
Rows = list[list[int | None]]


def written(folder: Path, rows: Rows, every_s: float = 10.0) -> Path:
    """One host, a row every period."""
    log = SampleLog(folder / FILE, every_s)
    for number, row in enumerate(rows):
        log.add("gpu001", number * every_s, KEYS, row)
    log.close()
    return folder / FILE


@given(rows=st.lists(st.lists(st.none() | st.integers(0, 2**40), min_size=3, max_size=3), min_size=1, max_size=60))
def test_every_value_comes_back_at_its_time(rows: Rows) -> None:
    """Though only changes are written."""
    with tempfile.TemporaryDirectory() as name:
        written(Path(name), rows)
        samples = read_samples(Path(name))
    assert samples.every_s == 10.0
    for place, (part, counter) in enumerate(KEYS):
        course = samples.courses[CounterReading("gpu001", part, counter)]
        assert [course.value_at(number * 10.0) for number in range(len(rows))] == [row[place] for row in rows]
        assert course.until_s == 10.0 * (len(rows) - 1)


def test_a_host_that_went_away_has_no_values_until_it_is_back(tmp_path: Path) -> None:
    """Not the last ones for ever."""
    log = SampleLog(tmp_path / FILE, 10.0)
    log.add("gpu001", 0.0, KEYS, [1, 2, 3])
    log.gone("gpu001", 15.0)
    log.add("gpu001", 100.0, KEYS, [1, 2, 3])
    log.close()
    course = read_samples(tmp_path).courses[CounterReading("gpu001", *KEYS[0])]
    assert [course.value_at(at_s) for at_s in (5.0, 50.0, 105.0)] == [1, None, 1]


READINGS = (("mlx5_0", "link_downed"), ("mlx5_1", "link_downed"))


def session(run: Path, host: str, at_s: float) -> int:
    """Two samples of one host; returns the length of the file."""
    log = SampleLog(run / FILE, 1.0)
    log.add(host, at_s, READINGS, (1, 2))
    log.add(host, at_s + 5.0, READINGS, (3, 2))
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
        assert found[CounterReading("h2", *READINGS[0])].values == [1, 3]
        assert (CounterReading("h1", *READINGS[0]) in found) == (cut >= second)


def test_a_reading_is_unknown_from_when_its_host_was_last_asked(tmp_path: Path) -> None:
    session(tmp_path, "h1", 10.0)
    assert close_samples(tmp_path) == pytest.approx(15.0)
    course = read_samples(tmp_path).courses[CounterReading("h1", *READINGS[0])]
    assert (course.at_s, course.values) == ([10.0, 15.0, 15.0], [1, 3, None])


def test_a_host_of_an_earlier_session_is_unknown_once(tmp_path: Path) -> None:
    session(tmp_path, "h1", 10.0)
    close_samples(tmp_path)
    session(tmp_path, "h2", 50.0)
    assert close_samples(tmp_path) == pytest.approx(55.0)
    found = read_samples(tmp_path).courses
    assert found[CounterReading("h2", *READINGS[1])].values == [2, None]
    assert found[CounterReading("h1", *READINGS[1])].values == [2, None]
