"""Results that are an eighth of all others: GB/s among Gb/s, more often than links of one lane in eight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fabric.analysis.pairs.fitted import Fitted

EIGHTH = 1 / 8
"""Of a number in Gb/s the same in GB/s."""

_NEAR = 0.1  # as a share of it (a choice: noise and small losses)
_LEAST = 2  # a single one is a bad sample like another (a choice)


def mixed_units(planes: Sequence[tuple[str, Fitted]]) -> list[str]:
    """A note when several results are so; none else. It judges nothing: a link may have lost as much."""
    count = sum(int((np.abs(fitted.evidence.ratio - EIGHTH) <= _NEAR * EIGHTH).sum()) for _, fitted in planes)
    if count < _LEAST:
        return []
    return [f"{count} results are about an eighth of what good pairs reach: are they in GB/s, and the others in Gb/s?"]
