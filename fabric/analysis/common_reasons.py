"""Why probes did not pass, each reason once: those that differ in their numbers only are the same reason."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def common_reasons(reasons: Iterable[str], *, most: int = 4) -> list[str]:
    """
    The first of each sort with how many more there are, the most frequent sort first, at most *most* sorts.

    What is beyond that is one line that says how many probes it stands for.
    """
    sorts: dict[str, list[str]] = {}
    for reason in reasons:
        sorts.setdefault(_NUMBER.sub("#", reason), []).append(reason)
    frequent = sorted(sorts.values(), key=len, reverse=True)
    rest = sum(len(members) for members in frequent[most:])
    return [_said(members) for members in frequent[:most]] + ([f"and {rest} more, in verdict.json"] if rest else [])


def _said(members: list[str]) -> str:
    """Two of the very same words are said without a count, as there is nothing to look up."""
    others = len(set(members)) - 1 if len(members) == 2 else len(members) - 1
    return members[0] + (
        f" … and {others} more probe{'' if others == 1 else 's'} for the same reason" if others else ""
    )
