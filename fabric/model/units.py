"""Units: bandwidth is Gb/s, decimal, always; sizes are bytes, powers of two; times are seconds."""

from __future__ import annotations

_STEPS = (("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10))


def size_text(size_bytes: int) -> str:
    """Write a size as the tools and people do: ``8M``, ``64K``, ``1G``, ``1000``."""
    for letter, factor in _STEPS:
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


def change_text(ratio: float) -> str:
    """How far a ratio is from 1, as ``-38%``: with as many digits as it takes not to say that it is nothing."""
    change = ratio - 1.0
    for digits in (0, 1, 2):
        text = f"{change:+.{digits}%}"
        if any(digit in "123456789" for digit in text):
            return text
    return "+0%" if change == 0.0 else f"{'-' if change < 0.0 else '+'}0.01% or less"
