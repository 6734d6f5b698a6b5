"""Results of two real clusters: faults planted in them are found, healthy parts of them FAIL nobody."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.real_pairs import healthy, planted, read

SETS = {
    path.stem: read(path)
    for path in sorted((Path(__file__).parents[3] / "golden" / "verdicts" / "pairs").glob("*.csv"))
}


def test_there_are_four_of_them() -> None:
    assert [len(pairs) for pairs in SETS.values()] == [134, 131, 45, 45]


def test_healthy_parts_of_them_fail_nobody() -> None:
    """A seed with which nothing was chosen; median and MAD rules fail 7 to 15 in 100."""
    assert healthy(SETS, np.random.default_rng(201), 4) == 0


@pytest.mark.slow
def test_bad_hosts_are_found_in_them_and_nobody_else() -> None:
    rows = planted(SETS, np.random.default_rng(202), 1)
    total = sum(rows.values(), Counter[str]())
    assert total["wrong"] == 0
    assert total["exact"] >= 0.95 * total["cases"]
