"""Every measurement of a run as the page's table: columns of small numbers, 400,000 rows in a few megabytes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zlib import compress

from fabric.model.outcome import Outcome
from fabric.model.text import size_text, unfold
from fabric.report.output import visible

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fabric.runs.frames import Run

MOST_ROWS = 450_000
"""The most rows in the page, the worst ones; it says so if there are more, and measurements.parquet has them all."""

_ALWAYS = ("outcome", "host")  # columns that are shown even if they are empty
MOST_REASONS = 2000
_REASON = 240


def table(run: Run) -> dict[str, Any]:
    """
    Return JSON-able values: rows worst first; each column as its distinct values and, packed, the value of each row.

    A value is a text or a number; *members* are the hosts of each value of the column ``host`` that has more than two.
    """
    frame = _worst_first(run.samples)
    left_out = max(len(frame) - MOST_ROWS, 0)
    frame = frame.iloc[:MOST_ROWS]
    columns = [
        _texts("outcome", frame["outcome"].astype(str).str.upper().astype("category")),
        _numbers("% of normal", (100 * frame["share"]).round(1)),
        _numbers("Gb/s", frame["gbps"].round(1)),
        _numbers("us", frame["us"].round(2)),
        _numbers("required", frame["required_gbps"].round(1)),
        _texts("host", _hosts(frame)),
        *(_texts(name, frame[name]) for name in ("kind", "series", "phase")),
        _texts("size", _sizes(frame["size_bytes"])),
        _texts("why", _reasons(frame)),
    ]
    columns = [one for one in columns if one["values"] or one["name"] in _ALWAYS]
    hosts = next(one["values"] for one in columns if one["name"] == "host")
    members = {place: unfold(name) for place, name in enumerate(hosts) if isinstance(name, str) and "[" in name}
    return {"rows": len(frame), "left_out": left_out, "columns": columns, "members": members}


def _worst_first(frame: pd.DataFrame) -> pd.DataFrame:
    """
    Sort rows by outcome, failures first, then by lowest share.

    Rows without a share follow the low ones, each compared with the best of its like.
    """
    import numpy as np

    rank = frame["outcome"].map({one.value: -one.rank for one in Outcome}).astype(int).to_numpy()
    share = frame["share"].fillna(frame["gbps"] / frame["required_gbps"]).fillna(0.98).to_numpy()
    best = frame.groupby(["kind", "series", "size_bytes"], observed=True, dropna=False)["gbps"].transform("max")
    return frame.iloc[np.lexsort((frame["gbps"] / best, np.where(rank == 0, share.round(3), share), rank))]


def _hosts(frame: pd.DataFrame) -> pd.Series:
    """Return ``gpu001 + gpu002`` for two hosts; else the one host, or the folded names."""
    both = frame["host"].astype(object) + " + " + frame["peer_host"].astype(object)
    return frame["hosts"].astype(object).where(frame["peer_host"].isna(), both).astype("category")


def _sizes(sizes: pd.Series) -> pd.Series:
    known = {one: size_text(int(one)) for one in sizes.dropna().unique()}
    return sizes.map(known).astype("category")


def _reasons(frame: pd.DataFrame) -> pd.Series:
    """
    Return the reason of each row that did not pass.

    If there are too many distinct ones, the rest refers to verdict.json.
    """
    reasons = frame["reason"].where(frame["outcome"] != "pass").cat.remove_unused_categories()
    if len(reasons.cat.categories) <= MOST_REASONS:
        return reasons
    first = set(reasons.dropna().drop_duplicates()[:MOST_REASONS])
    return reasons.astype(object).where(reasons.isna() | reasons.isin(first), "see verdict.json").astype("category")


def _texts(name: str, column: pd.Series) -> dict[str, Any]:
    used = column.cat.remove_unused_categories().cat
    values = [visible(str(one))[:_REASON] for one in used.categories]
    return _column(name, values, used.codes.to_numpy())


def _numbers(name: str, column: pd.Series) -> dict[str, Any]:
    import pandas as pd

    codes, different = pd.factorize(column, sort=True)
    return _column(name, [float(one) for one in different], codes)


def _column(name: str, values: Sequence[Any], codes: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Pack a column: codes count from 1, 0 is no value; little-endian in the fewest bytes, deflated, base64."""
    kind = "u1" if len(values) < 1 << 8 else "<u2" if len(values) < 1 << 16 else "<u4"
    packed = compress((codes.astype("int64") + 1).astype(kind).tobytes(), 6)
    return {"name": name, "values": values, "bytes": int(kind[-1]), "data": b64encode(packed).decode()}
