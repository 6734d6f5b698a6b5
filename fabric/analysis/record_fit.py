"""Recorded numbers against each other, and against the limits beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fabric.analysis.limits import most_specific
from fabric.model.recorded import Key, KeyChange, Recorded, key_words
from fabric.model.units import size_text
from fabric.model.verdict import Baseline, Limit, LimitChange

LOOSE = 0.8
"""A limit below this share of the recorded median lets a part through that lost a fifth (a choice)."""


def changes_between(old: Iterable[Recorded], new: Iterable[Recorded]) -> list[KeyChange]:
    """Every key of either, the largest loss first."""
    before, after = ({entry.key: entry for entry in entries} for entries in (old, new))
    found = [KeyChange(key, before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]
    return sorted(found, key=lambda change: (change.ratio, key_words(change.key)))


def limit_changes(old: Iterable[Limit], new: Iterable[Limit]) -> list[LimitChange]:
    """Every limit that is new, gone, or another number; where it comes from does not count."""
    before, after = ({_applies_to(limit): limit for limit in limits} for limits in (old, new))
    found = [LimitChange(before.get(key), after.get(key)) for key in dict.fromkeys((*before, *after))]
    return [change for change in found if _least(change.old) != _least(change.new)]


def _applies_to(limit: Limit) -> Limit:
    return replace(limit, at_least_gbps=0.0, source="", per_rnic=False)


def _least(limit: Limit | None) -> tuple[float, bool] | None:
    return (limit.at_least_gbps, limit.per_rnic) if limit is not None else None


def fit_notes(baseline: Baseline) -> list[tuple[bool, str]]:
    """
    What does not fit between limits and records, as (whether the file is wrong, in words).

    Wrong is a limit that the recorded median does not meet: good parts FAIL. The rest is worth a look.
    """
    notes: list[tuple[bool, str]] = []
    used: set[int] = set()
    for entry in baseline.recorded:
        limit = _limit(baseline.limits, entry.key)
        words = key_words(entry.key)
        if limit is None:
            notes.append(
                (False, f"{words}: recorded, and no limit: a fabric that was bad from the first day would pass")
            )
            continue
        used.add(id(limit))
        if limit.per_rnic:
            continue  # how many RNICs a host has is the platform's, not the baseline's
        if limit.at_least_gbps > entry.median_gbps:
            text = (
                f"{words}: at least {limit.at_least_gbps:g} Gb/s required, above the recorded {entry.median_gbps:.1f}"
            )
            notes.append((True, text))
        elif limit.at_least_gbps < LOOSE * entry.median_gbps:
            share = limit.at_least_gbps / entry.median_gbps
            text = f"{words}: the limit is {share:.0%} of the recorded {entry.median_gbps:.1f} Gb/s"
            notes.append((False, text))
    missing = [limit for limit in baseline.limits if id(limit) not in used]
    return notes + [(False, f"{_limit_words(limit)}: a limit, and nothing recorded") for limit in missing]


def _limit(limits: Sequence[Limit], key: Key) -> Limit | None:
    return most_specific(limits, key.kind, key.link_class, key.size_bytes, key.ranks, key.algorithm)


def _limit_words(limit: Limit) -> str:
    size = size_text(limit.size_bytes) if limit.size_bytes else None
    return " ".join(part for part in (limit.kind, limit.link_class, size, limit.algorithm) if part)
