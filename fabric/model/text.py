"""Text for people: host names folded as ``gpu[001-016,020]``, counts, sizes, durations, bandwidths."""

import re
from collections.abc import Iterable, Mapping, Sequence

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetParseError


def unfold(text: str) -> tuple[str, ...]:
    """
    Return the names of ``gpu[001-003]``, in order.

    Raises ValueError with the reason if the text is not a host set.
    """
    try:
        return tuple(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetParseError as exc:
        raise ValueError(str(exc)) from exc


def fold(names: Iterable[str]) -> str:
    """Fold names to ``gpu[001-003]``; "none" if there are none."""
    listed = list(names)
    if not listed:
        return "none"
    return str(NodeSet.fromlist(listed, resolver=RESOLVER_NOGROUP))


def other_names(names: Iterable[str]) -> Mapping[str, str]:
    """
    Return for each name that may be of the same machine as another one of *names* the one that it repeats.

    DNS knows no case, and a name may be written with its domain or without. The one is the first name in other case, or
    the one without the domain. Two names with unlike domains are two machines.
    """
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(_lower(name), name)
    found = {}
    for name in names:
        plain = _lower(name)
        other = first.get(plain.partition(".")[0], first[plain])
        if other != name:
            found[name] = other
    return found


def _lower(name: str) -> str:
    return name.rstrip(".").lower()


def counted(number: int, noun: str) -> str:
    """Return the number with thousands separated, and the noun in singular or plural (with an s)."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


MOST_SHOWN = 4
"""How many items of a list are shown; of the rest only the number is given."""


def some(names: Sequence[str], most: int = MOST_SHOWN, apart: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    rest = len(names) - most
    return apart.join(names[:most]) + (f"{';' if apart == '; ' else ''} and {rest:,} more" if rest > 0 else "")


def cut(text: str, most: int) -> str:
    """Cut a text to *most* characters; an ellipsis marks the cut."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


HOST, ADDRESS = "HOST", "ADDRESS"
"""Placeholders for a host's own name and address."""


def without_own(text: str, host: str, address: str = "") -> str:
    """Return *text* with a host's own name as HOST and its address as ADDRESS, and without a leading ``name: ``."""
    anonymous = text.removeprefix(f"{host}: ")
    if address and address != host:
        anonymous = _alone(address).sub(ADDRESS, anonymous)
    return _alone(host).sub(HOST, anonymous)


def _alone(name: str) -> re.Pattern[str]:
    """Return a pattern of the name as a whole: gpu1 is not in gpu12, 10.0.0.1 not in 10.0.0.12."""
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")


def gbps_text(gbps: float, decimals: int = 1) -> str:
    """
    Return a bandwidth for people, ``391.3``; below 1 Gb/s with three significant digits, which decimals would lose.
    """
    return f"{gbps:.3g}" if 0 < abs(gbps) < 1 else f"{gbps:.{decimals}f}"


SIZE_STEPS = {"T": 1 << 40, "G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
"""Bytes of the letters that a size may end with, the largest first."""


def size_text(size_bytes: int) -> str:
    """Write a size as the tools and people do: ``8M``, ``64K``, ``1G``, ``1000``."""
    for letter, factor in SIZE_STEPS.items():
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor}{letter}"
    return str(size_bytes)


def duration_text(seconds: float) -> str:
    """Write a duration for people: ``45 s``, ``6 min 20 s``, ``2 h 05 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def three_digits(value: float) -> str:
    """Return a number with three significant digits: ``0.0316``, ``1.62``, ``1,530``."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def change_text(ratio: float) -> str:
    """Return how far a ratio is from 1, as ``-38%``, with enough digits that a change does not look like none."""
    change = ratio - 1.0
    for digits in (0, 1, 2):
        text = f"{change:+.{digits}%}"
        if any(digit in "123456789" for digit in text):
            return text
    return "+0%" if change == 0.0 else f"{'-' if change < 0.0 else '+'}0.01% or less"
