"""What is normal is what the hosts have in common, not what was measured most often."""

from __future__ import annotations

from pathlib import Path

from fabric.app.analyze import reopened
from fabric.report.html.shares import over_hosts
from fabric.report.html.timeline import levels
from tests.report.shown import run_of


def test_a_bad_host_measured_again_and_again_is_not_what_is_normal() -> None:
    again = [("gpu003", 240.0)] * 9
    assert over_hosts([*again, ("gpu004", 398.0), ("gpu005", 400.0)]) == 398.0


def test_two_hosts_have_no_median_worth_comparing_with() -> None:
    assert over_hosts([("gpu003", 240.0), ("gpu003", 241.0), ("gpu004", 398.0)]) is None


def test_a_slow_rnic_of_the_only_host_is_low_on_the_time_line(tmp_path: Path) -> None:
    """Over itself it would be 1 all the time."""
    found = levels(reopened(run_of(tmp_path, hosts="gpu001", faults=("gpu001/mlx5_3:slow=0.6",))))
    assert min(level.share for level in found if level.share is not None) < 0.7
