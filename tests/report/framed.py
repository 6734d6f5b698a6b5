"""Frames of rows that a test writes down, as ``fabric.load`` gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from fabric.runs.tables import TABLES, table_of

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Framed:
    """All frames of a run."""

    samples: pd.DataFrame
    parts: pd.DataFrame
    counters: pd.DataFrame
    links: pd.DataFrame
    changes: pd.DataFrame
    suspects: pd.DataFrame


def framed(**rows: Rows) -> Framed:
    """Of each named table these rows; what a row leaves out is missing."""
    return Framed(
        **{
            name: _frame(name, rows.get(name, ()))
            for name in ("samples", "parts", "counters", "links", "changes", "suspects")
        }
    )


def _frame(name: str, rows: Rows) -> pd.DataFrame:
    columns = {column: [row.get(column) for row in rows] for column in TABLES[name].names}
    return table_of(name, columns).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def sample(probe: str, gbps: float | None = 400.0, **others: Any) -> dict[str, Any]:
    """One loopback of mlx5_0 to numa0, of which 400 Gb/s are normal."""
    host = others.get("host", "gpu001")
    row = {"probe": probe, "phase": "p", "round": 1, "repeat": 1, "kind": "loopback", "series": "mlx5_0.numa0"}
    row |= {
        "host": host,
        "hosts": host,
        "rnic": "mlx5_0",
        "endpoint": "numa0",
        "op": "bandwidth",
        "size_bytes": 8 << 20,
    }
    row |= {"began_s": 0.0, "ended_s": 10.0, "gbps": gbps, "normal_gbps": 400.0, "outcome": "pass"}
    row |= {"share": None if gbps is None else gbps / 400.0}
    return row | others


def pair(probe: str, low: str, high: str, gbps: float = 400.0, **others: Any) -> dict[str, Any]:
    """What two hosts measured together over mlx5_0."""
    names = {"host": low, "peer_host": high, "hosts": f"{low},{high}", "peer_rnic": "mlx5_0", "endpoint": None}
    return sample(probe, gbps, **{"kind": "pairwise", "series": "mlx5_0.t1", **names, **others})
