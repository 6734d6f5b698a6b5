"""``--budget``: the option of ``fabric plan`` and ``fabric run``, and what both say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from fabric.plan.budget import Chosen

_F = TypeVar("_F", bound=Callable[..., Any])

_NAMED = 4  # components named in a line; the rest are counted


def budget_option(function: _F) -> _F:
    """Only the part of the plan that tells most and fits into a time."""
    return click.option(
        "--budget", metavar="TIME", help="Only what fits into this time, the most telling first: 4h, 90m."
    )(function)


def budget_lines(chosen: Chosen | None, budget: str | None) -> Iterator[str]:
    """What fits into a *budget*, as it was given, what is left out, and what is then not covered; none without one."""
    from fabric.report.output import counted

    if chosen is None:
        return
    yield f"within {budget}: {chosen.covered:,} of {chosen.coverable:,} components"
    for phase, number in chosen.dropped:
        yield f"  {phase}: {counted(number, 'probe')} left out"
    by_kind: dict[str, list[str]] = {}
    for kind, name in chosen.uncovered:
        by_kind.setdefault(kind, []).append(name)
    for kind, names in by_kind.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        yield f"  not covered: {len(names):,} {kind}: {', '.join(names[:_NAMED])}{more}"
