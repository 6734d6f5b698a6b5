"""Modules that have something in common and err together: too few errors on each cable, too many on all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.judge.ports.health import ERRORS, PortHealth, judge_ber
from fabric.model.outcome import Outcome
from fabric.model.text import fold
from fabric.runs.links import End, LinkModule

COMMON = {"firmware": "firmware", "part_number": "part number", "vendor": "vendor"}
"""What modules may share, and its name in words."""

LEAST = 4
"""So many ends make a batch (a choice: fewer are cables)."""

Ends = Sequence[tuple[str, End, PortHealth]]
"""Each end with its cable's name and what its counters say."""


def bad_batches(ends: Ends, modules: Mapping[End, LinkModule], *, line_rate_gbps: float) -> list[PortHealth]:
    """
    Each group of modules that FAILs the Poisson test of a port by the sum of its errors, while the others do not.

    Cables that FAIL by themselves do not count: they have a cause of their own. One group of the same ends is enough.
    """
    known = [one for one in ends if one[1] in modules and one[2].ber and one[2].outcome is not Outcome.FAIL]
    groups = {
        (field, value): [one for one in known if getattr(modules[one[1]], field) == value]
        for field in COMMON
        for value in sorted({getattr(modules[one[1]], field) or "" for one in known} - {""})
    }
    found: list[PortHealth] = []
    told: set[frozenset[End]] = set()
    for (field, value), group in groups.items():
        key = frozenset(end for _, end, _ in group)
        others = [one for one in known if one[1] not in key]
        if len(group) < LEAST or not others or key in told or not _errs(group, line_rate_gbps, len(groups)):
            continue
        if _errs(others, line_rate_gbps, len(groups)):
            continue  # all of them err: it is not what these have in common
        told.add(key)
        names = list(dict.fromkeys(name for name, _, _ in group))
        counted = sum(one.ber.count for _, _, one in group if one.ber)
        text = (
            f"{counted:,} symbol errors on all {len(group)} modules with {COMMON[field]} {value}, none too many on one"
        )
        found.append(
            PortHealth(
                host=names[0],
                device="",
                outcome=Outcome.FAIL,
                words=(f"{text}: {fold(names)}",),
                steps=(),
                bad={ERRORS[0]: Outcome.FAIL},
                ber=None,
                cable=f"modules with {COMMON[field]} {value}",
            )
        )
    return found


def _errs(group: Ends, line_rate_gbps: float, groups: int) -> bool:
    """Whether they have too many errors together."""
    bers = [one.ber for _, _, one in group if one.ber is not None]
    count, watched_s = sum(one.count for one in bers), sum(one.watched_s for one in bers)
    return judge_ber(count, watched_s, line_rate_gbps, ports=max(1, groups)).outcome is Outcome.FAIL
