"""What good runs measured: a distribution per key, recorded beside the spec limits of a baseline."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.model.text import size_text


@dataclass(frozen=True, slots=True)
class Key:
    """
    What two measurements must share to be compared with each other.

    *tool* is the tool family (``perftest``, ``nccl-tests``). *link_class* is as in ``Limit`` for loopback; between
    RNICs it is ``same_leaf`` or ``cross_leaf``, None where the leaves are not known. *direction* is ``one_way`` for
    perftest, None for collectives. *line_rate_gbps* is that of the slower RNIC, None for collectives. The hardware
    class is the baseline that holds the key.
    """

    kind: str
    tool: str
    link_class: str | None = None
    size_bytes: int | None = None
    ranks: int | None = None
    algorithm: str | None = None
    direction: str | None = None
    line_rate_gbps: float | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """
    The distribution of one key over runs that passed: median and MAD (not scaled) in Gb/s, *n* samples, *cv* robust.

    *cv* is 1.4826 MAD / median: the coefficient of variation if the samples are normal. *runs* are those that the
    samples came from, as ``scenario/run-id``; *trimmed* counts the samples that were left out as outliers.
    """

    key: Key
    median_gbps: float
    mad_gbps: float
    n: int
    cv: float
    runs: tuple[str, ...]
    trimmed: int = 0


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key in two sets of records; *old* or *new* is None where one of them lacks it."""

    key: Key
    old: Recorded | None
    new: Recorded | None

    @property
    def ratio(self) -> float:
        """The new median over the old one; 1 where one is missing."""
        return self.new.median_gbps / self.old.median_gbps if self.old and self.new else 1.0


def key_words(key: Key) -> str:
    """``loopback pix 8M one_way line rate 400 Gb/s``."""
    size = size_text(key.size_bytes) if key.size_bytes else None
    ranks = f"{key.ranks} ranks" if key.ranks else None
    rate = f"line rate {key.line_rate_gbps:g} Gb/s" if key.line_rate_gbps else None
    return " ".join(
        part for part in (key.kind, key.link_class, size, ranks, key.algorithm, key.direction, rate) if part
    )
