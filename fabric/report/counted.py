"""A number with its noun: ``1 probe``, ``1,144 probes``."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number with thousands apart, and the noun in singular or plural (with an s)."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
