"""The names that readings have, and their units."""

import pytest

from fabric.probes.sources import LEVELS, unit_of


@pytest.mark.parametrize(
    ("name", "unit"),
    [("module_c", "C"), ("lane_gbps", "Gb/s"), ("speed_gbps", "Gb/s"), ("width", "lanes"), ("up", "0 or 1")],
)
def test_what_goes_up_and_down_is_no_count(name: str, unit: str) -> None:
    """A lane that fell from 106.25 to 53.125 Gb/s had grown by 53 as a counter that was cleared."""
    assert unit_of(name) == unit
    assert unit in LEVELS


@pytest.mark.parametrize(("name", "unit"), [("link_downed", "count"), ("rx_pfc_us", "us"), ("full_blocks", "count")])
def test_what_counts_only_grows(name: str, unit: str) -> None:
    assert unit_of(name) == unit
    assert unit not in LEVELS
