"""Classes of links that were found in a run, in one line: each was compared with itself alone."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

import numpy as np

from fabric.analysis.pairs.fitted import Fitted
from fabric.analysis.pairs.link_classes import ALL

_MOST = 8  # classes in a line


def classes_said(planes: Iterable[tuple[str, Fitted]]) -> tuple[str, ...]:
    """
    The classes with what a good pair of them reaches (Gb/s, the median over rails) and their samples.

    Each plane comes with its name, which says the line rate where a rail has several. Nothing where all is one class.
    """
    found: dict[str, list[tuple[float, int]]] = {}
    for name, fitted in planes:
        counts = np.bincount(fitted.of_class, minlength=len(fitted.classes)).tolist()
        for one, reference, count in zip(fitted.classes, fitted.references, counts, strict=True):
            label = name if one == ALL else f"{name}, {one.name}"
            found.setdefault(label, []).append((reference.gbps, count))
    if len(found) < 2:
        return ()
    said = [
        f"{label} {median(gbps for gbps, _ in levels):,.1f} Gb/s ({sum(count for _, count in levels)} samples)"
        for label, levels in found.items()
    ]
    more = f"; and {len(said) - _MOST} more" if len(said) > _MOST else ""
    return (f"{len(said)} classes, each compared with itself alone: {'; '.join(said[:_MOST])}{more}",)
