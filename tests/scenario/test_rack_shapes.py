"""Racks as they are built go through the shipped burn-in: a clean one passes, a bad cable of a host is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.rack_shapes import SHAPES, played
from fabric.model.outcome import Outcome


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_a_clean_rack_passes_and_a_bad_cable_is_named(name: str, tmp_path: Path) -> None:
    """An hour of it each; what nothing joins is no reason to fail, nor what is above the leaves and not described."""
    clean, bad = (played(name, 101, 1.0, tmp_path / str(bad), bad=bad) for bad in (False, True))
    assert clean.outcome in (Outcome.PASS, Outcome.MARGINAL), clean.reasons
    assert clean.score.healthy == ()
    assert (bad.outcome, bad.score.found, bad.score.healthy) == (Outcome.FAIL, ("right",), ())
