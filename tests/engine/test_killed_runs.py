"""A whole ``fabric run`` is killed (SIGKILL) at some instant and goes on: nothing acknowledged is lost or repeated."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.killed_runs import forked, killed_and_resumed, whole_run, write_scenario


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_at_random_instants_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Six instants of the run, two of them followed by a kill while it resumes; benchmarks/resume.py does hundreds."""
    write_scenario(tmp_path)
    as_whole, took_s = whole_run(forked, tmp_path)
    chance = random.Random()
    for number in range(6):
        times = [chance.uniform(number, number + 1) / 6 * took_s]
        if number % 3 == 0:
            times.append(chance.uniform(0.3, 1.0) * took_s)
        found = killed_and_resumed(forked, tmp_path, number, after_s=times, as_whole=as_whole)
        assert not found.wrong, (times, found)
