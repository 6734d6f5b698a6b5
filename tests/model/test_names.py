"""Host names fold and unfold as the field writes them."""

from __future__ import annotations

import pytest

from fabric.model.text import fold, unfold


def test_fold_keeps_padding() -> None:
    """Consecutive names become one range with its zeros."""
    assert fold(["gpu001", "gpu002", "gpu004"]) == "gpu[001-002,004]"


def test_unfold_in_order() -> None:
    """A two-dimensional set unfolds in order."""
    assert unfold("su[0-1]-leaf[0-1]") == ("su0-leaf0", "su0-leaf1", "su1-leaf0", "su1-leaf1")


def test_broken_set_says_why() -> None:
    """A broken set is a ValueError with the reason."""
    with pytest.raises(ValueError, match="bracket"):
        unfold("gpu[1-")
