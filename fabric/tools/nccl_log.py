"""What nccl-tests' output says, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class NcclPlace:
    """One half of a row; None is a value that was not printed or not readable. *wrong* counts wrong elements."""

    time_us: float | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    wrong: int | None


@dataclass(frozen=True, slots=True)
class NcclRow:
    """One message size; *out_of_place* is None in a trace replay, which runs in place only."""

    size_bytes: int
    out_of_place: NcclPlace | None
    in_place: NcclPlace


class NcclRank(NamedTuple):
    """
    One line of the list of devices: *group* is 0 where the job was not split.

    *device* is its number and, where it is printed, its place on the PCI bus: who sees one GPU calls it 0, as all do.
    """

    rank: int
    group: int
    host: str
    device: str


@dataclass(frozen=True, slots=True)
class NcclTest:
    """
    One collective over a range of sizes.

    *op* (``all_reduce``) and *ranks* are printed or inferred (see ``nccl_ops``), else None. *avg_busbw_gbps* is the
    printed average over all rows, a checksum and nothing to judge by. *complete*: the closing lines were printed.
    *problems* says what does not add up; empty when everything was read and agrees with itself. *told* is what it said
    of itself by the names printed (``nGpus``, ``iters``), the collective it began under ``starting`` and the one it
    ended under ``concluded``; *listed* its list of devices. *kinds*: type, reduction and root of its rows, each once.
    *unchecked*: results that could be checked were not.
    """

    op: str | None
    ranks: int | None
    rows: tuple[NcclRow, ...]
    avg_busbw_gbps: float | None
    complete: bool
    problems: tuple[str, ...]
    hosts: tuple[str, ...]
    told: Mapping[str, str] = field(default_factory=dict)
    listed: tuple[NcclRank, ...] = ()
    kinds: tuple[tuple[str, ...], ...] = ()
    unchecked: bool = False


@dataclass(frozen=True, slots=True)
class NcclFailure:
    """
    Why the run gave up, in the words printed; *kind* is a key of ``nccl_failures.FAULT``.

    *host* printed it: it noticed the failure, which does not make it the culprit.
    """

    host: str | None
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class NcclLog:
    """All of one output; both are empty when nothing of nccl-tests is in it."""

    tests: tuple[NcclTest, ...]
    failures: tuple[NcclFailure, ...]
