"""Numbers in GB/s among numbers in Gb/s are asked about before anybody swaps a cable."""

from __future__ import annotations

import pytest

from fabric.judge.locate.pairs.diagnose import diagnose
from tests.judge.locate.pairs.made import all_pairs, hosts


def notes(slow: dict[str, float]) -> list[str]:
    """Those that ask for the unit, of eight hosts."""
    return [note for note in diagnose(all_pairs(hosts(8), slow)).notes if "GB/s" in note]


def test_a_host_whose_results_are_an_eighth_is_asked_for_its_unit() -> None:
    assert notes({"gpu003": 7 / 8}) == [
        "7 results are about an eighth of what good pairs reach: are they in GB/s, and the others in Gb/s?"
    ]


@pytest.mark.parametrize("loss", [0.0, 0.4, 0.75, 0.95])
def test_other_losses_are_not(loss: float) -> None:
    assert notes({"gpu003": loss}) == []


def test_a_single_result_is_not() -> None:
    rows = all_pairs(hosts(8))
    rows[5] = rows[5]._replace(gbps=rows[5].gbps / 8)
    assert not [note for note in diagnose(rows).notes if "GB/s" in note]
