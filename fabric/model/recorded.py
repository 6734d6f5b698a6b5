"""The distributions that good runs measured, one per key; a baseline has them beside its spec limits."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from fabric.model.fields.entry import InFiles, key
from fabric.model.fields.scalars import SAFE_NAME, Choice, Decimal, Size, Whole, Word
from fabric.model.scenario import PROBE_KIND
from fabric.model.text import size_text
from fabric.model.topology import NVLINK

LINK_CLASSES = ("pix", "node", "sys", "mem_local", "mem_remote", NVLINK)
LEAF_CLASSES = ("same_leaf", "cross_leaf")
ALGORITHMS = ("RING", "TREE", "NVLS", "NVLSTREE", "COLLNETDIRECT", "COLLNETCHAIN")  # NCCL_ALGO

MessageSize = Annotated[int, Size(1, 1 << 40)]
Ranks = Annotated[int, Whole(1, 1_000_000)]
Algorithm = Annotated[str, Choice(ALGORITHMS)]
Gbps = Annotated[float, Decimal(0.001, 1_000_000)]
RunName = Annotated[str, Word(rf"{SAFE_NAME.pattern}/{SAFE_NAME.pattern}", "a run as scenario/run-id")]


@dataclass(frozen=True, slots=True)
class Key(InFiles):
    """
    What two measurements must share to be comparable; a field that is None was not there to record.

    *tool* is the tool family. *link_class* is as in ``Limit`` for loopback; between RNICs it is ``same_leaf`` or
    ``cross_leaf``, None if the leaves are not known. *direction* and *line_rate_gbps* (of the slower RNIC) are None for
    collectives. The hardware class is the baseline that holds the key.
    """

    kind: Annotated[str, PROBE_KIND]
    tool: Annotated[str, Choice(("perftest", "nccl-tests"))]
    link_class: Annotated[str, Choice(LINK_CLASSES + LEAF_CLASSES)] | None = None
    size_bytes: MessageSize | None = key(None, alias="size")
    ranks: Ranks | None = None
    algorithm: Algorithm | None = None
    direction: Annotated[str, Choice(("one_way", "both_ways"))] | None = None
    line_rate_gbps: Gbps | None = None


@dataclass(frozen=True, kw_only=True)
class Recorded(Key):
    """
    The distribution of one key over runs that passed: median and MAD (not scaled) in Gb/s, *n* samples, *cv* robust.

    *cv* is 1.4826 MAD / median: the coefficient of variation if the samples are normal. *runs* are the runs of the
    samples, as ``scenario/run-id``; *trimmed* counts the samples that were left out as outliers.
    """

    median_gbps: Gbps
    mad_gbps: Annotated[float, Decimal(0, 1_000_000)]
    n: Annotated[int, Whole(2, 100_000_000)]
    cv: Annotated[float, Decimal(0, 10)]
    runs: Annotated[tuple[RunName, ...], Field(min_length=1, max_length=1000)]
    trimmed: Annotated[int, Whole(0, 100_000_000)] = 0

    @property
    def key(self) -> Key:
        """Return the key of the distribution."""
        return Key(**self.fields_of(Key))


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One key in two sets of records; *old* or *new* is None if that set lacks it."""

    key: Key
    old: Recorded | None
    new: Recorded | None

    @property
    def ratio(self) -> float:
        """Return the new median over the old one; 1 if one is missing."""
        return self.new.median_gbps / self.old.median_gbps if self.old and self.new else 1.0


def key_words(key: Key) -> str:
    """Return the key in words: ``loopback pix 8M one_way line rate 400 Gb/s``."""
    size = size_text(key.size_bytes) if key.size_bytes else None
    ranks = f"{key.ranks} ranks" if key.ranks else None
    rate = f"line rate {key.line_rate_gbps:g} Gb/s" if key.line_rate_gbps else None
    parts = (key.kind, key.link_class, size, ranks, key.algorithm, key.direction, rate)
    return " ".join(part for part in parts if part)
