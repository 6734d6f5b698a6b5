"""
The tables of a run, each a Parquet file beside it and a frame of ``fabric.load``: their columns, types and units.

A type is that of pandas: ``category`` is text of which few differ, ``Int64`` a whole number or none. What is missing is
NA. docs/data.md says what each column means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TEXT, NUMBER, WHOLE, TIME = "category", "float64", "Int64", "datetime64[us, UTC]"

Columns = Mapping[str, tuple[str, str]]
"""By name: the type, and the unit ("" where it has none)."""

_S, _GBPS, _WORD, _AT = (NUMBER, "s"), (NUMBER, "Gb/s"), (TEXT, ""), (TIME, "UTC")


@dataclass(frozen=True, slots=True)
class TableKind:
    """One table: the *file* that it is written to, in a run's directory, and its columns in order."""

    file: str
    columns: Columns


TABLES: Mapping[str, TableKind] = {
    "samples": TableKind(
        "measurements.parquet",
        {
            "probe": _WORD,
            "phase": _WORD,
            "round": (WHOLE, ""),
            "repeat": (WHOLE, ""),
            "kind": _WORD,
            "series": _WORD,
            "link_class": _WORD,
            "host": _WORD,
            "peer_host": _WORD,
            "hosts": _WORD,
            "rnic": _WORD,
            "peer_rnic": _WORD,
            "endpoint": _WORD,
            "op": _WORD,
            "size_bytes": (WHOLE, "bytes"),
            "began_s": _S,
            "ended_s": _S,
            "at": _AT,
            "gbps": _GBPS,
            "us": (NUMBER, "us"),
            "required_gbps": _GBPS,
            "normal_gbps": _GBPS,
            "share": (NUMBER, "gbps / normal_gbps"),
            "outcome": _WORD,
            "reason": _WORD,
            "failure": _WORD,
            "change": _WORD,
        },
    ),
    "parts": TableKind("parts.parquet", {"probe": _WORD, "part": _WORD, "direction": _WORD}),
    "counters": TableKind(
        "counters.parquet",
        {
            "at_s": _S,
            "at": _AT,
            "host": _WORD,
            "part": _WORD,
            "name": _WORD,
            "value": (NUMBER, "as unit says"),
            "unit": _WORD,
            "delta": (NUMBER, "as unit says"),
        },
    ),
    "changes": TableKind(
        "changes.parquet",
        {"change": _WORD, "phase": _WORD, "kind": _WORD, "part": _WORD, "state": _WORD, "at_s": _S, "at": _AT},
    ),
    "suspects": TableKind(
        "suspects.parquet",
        {
            "part": _WORD,
            "kind": _WORD,
            "outcome": _WORD,
            "confidence": (NUMBER, "0 to 1"),
            "loss": (NUMBER, "0 to 1"),
            "worst_gbps": _GBPS,
            "normal_gbps": _GBPS,
            "rate": (NUMBER, "0 to 1"),
            "since_s": _S,
            "rivals": _WORD,
            "serial": _WORD,
            "rack": _WORD,
            "leaf_port": _WORD,
            "next_step": _WORD,
        },
    ),
}
