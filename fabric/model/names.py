"""Host names folded and unfolded as the field writes them: ``gpu[001-016,020]``."""

from __future__ import annotations

from collections.abc import Iterable

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError


def unfold(text: str) -> tuple[str, ...]:
    """
    ``gpu[001-003]`` to its names, in order.

    Raises ValueError with the reason when the text is not a host set.
    """
    try:
        return tuple(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetParseError as exc:
        raise ValueError(str(exc)) from exc


def fold(names: Iterable[str]) -> str:
    """Names to ``gpu[001-003]``; "none" when there are none."""
    listed = list(names)
    if not listed:
        return "none"
    return str(NodeSet.fromlist(listed, resolver=RESOLVER_NOGROUP))
