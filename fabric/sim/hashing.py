"""Randomness without order: every word is a function of what it is for, never of when it was asked for."""

from __future__ import annotations

from hashlib import blake2b
from math import exp, sqrt

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_SPREAD = sqrt(3.0) / 65536.0  # four 16-bit uniforms, summed: variance 4/12; scaled to variance 1


def mix64(value: int) -> int:
    """Scramble 64 bits (the finaliser of SplitMix64, Steele et al. 2014)."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def word(base: int, number: int) -> int:
    """The *number*-th 64-bit word of the stream that *base* names."""
    return mix64(base + _GOLDEN * (number + 1))


def text_hash(text: str) -> int:
    """64 bits that stand for a text, the same on every machine (unlike ``hash``)."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "big")


def noise_factor(bits: int, cv: float) -> float:
    """A factor around 1 with coefficient of variation *cv*; log-scale noise cut at 3.5 sigma, so never absurd."""
    total = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48 & 0xFFFF)
    return exp(cv * (total - 131070.0) * _SPREAD)


def uniform(bits: int) -> float:
    """64 bits as a number above 0 and below 1."""
    return ((bits >> 12) + 0.5) / (1 << 52)


def between(low: float, high: float, bits: int) -> float:
    """64 bits as a number between two others."""
    return low + (high - low) * uniform(bits)
