"""
The tables of a run, each a Parquet file beside it and a frame of ``fabric.load``: their columns, types and units.

A type is that of pandas: ``category`` is text of which few differ, ``Int64`` a whole number or none. What is missing is
NA. docs/data.md says what each column means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TEXT, NUMBER, WHOLE, TIME = "category", "float64", "Int64", "datetime64[us, UTC]"

_MEASURED = {"s": "s", "gbps": "Gb/s", "us": "us", "dbm": "dBm", "c": "C"}
"""The unit of a number by the last word of its column's name, as everywhere."""

_COUNTS = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards"),
    *("local_link_integrity_errors", "excessive_buffer_overrun_errors", "port_xmit_wait", "rx_crc_errors"),
)
"""What a port counts, as the kernel calls it."""

_OTHERS = {
    "at": (TIME, "UTC"),
    "round": (WHOLE, ""),
    "repeat": (WHOLE, ""),
    "size_bytes": (WHOLE, "bytes"),
    "width": (WHOLE, "lanes"),
    **dict.fromkeys((*_COUNTS, "full_blocks"), (WHOLE, "")),
    **dict.fromkeys(("raw_ber", "effective_ber"), (NUMBER, "ratio")),
    "share": (NUMBER, "gbps / normal_gbps"),
    "value": (NUMBER, "as unit says"),
    "delta": (NUMBER, "as unit says"),
    **dict.fromkeys(("confidence", "loss", "rate"), (NUMBER, "0 to 1")),
}


@dataclass(frozen=True, slots=True)
class TableKind:
    """One table: the *file* that it is written to, in a run's directory, and the *names* of its columns in order."""

    file: str
    names: tuple[str, ...]

    @property
    def columns(self) -> Mapping[str, tuple[str, str]]:
        """By name: the type, and the unit ("" where it has none)."""
        return {name: _column(name) for name in self.names}


def _column(name: str) -> tuple[str, str]:
    unit = _MEASURED.get(name.rpartition("_")[2])
    return _OTHERS.get(name, (TEXT, "")) if unit is None else (NUMBER, unit)


def _table(file: str, *names: str) -> TableKind:
    return TableKind(file, tuple(name for words in names for name in words.split()))


TABLES: Mapping[str, TableKind] = {
    "samples": _table(
        "measurements.parquet",
        "probe phase round repeat kind series link_class host peer_host hosts rnic peer_rnic endpoint op size_bytes",
        "began_s ended_s at gbps us required_gbps normal_gbps share outcome reason failure change",
    ),
    "parts": _table("parts.parquet", "probe part direction"),
    "counters": _table("counters.parquet", "at_s at host part name value unit delta"),
    "links": _table(
        "links.parquet",
        "part node port peer_node peer_port rack state width lane_gbps speed_gbps sent_gbps began_s ended_s",
        *_COUNTS,
        "raw_ber effective_ber full_blocks rx0_dbm rx1_dbm rx2_dbm rx3_dbm tx0_dbm tx1_dbm tx2_dbm tx3_dbm",
        "rx_low_dbm rx_high_dbm tx_low_dbm tx_high_dbm module_c vendor part_number serial firmware outcome",
    ),
    "changes": _table("changes.parquet", "change phase kind part state at_s at"),
    "suspects": _table(
        "suspects.parquet",
        "part kind outcome confidence loss worst_gbps normal_gbps rate since_s rivals serial rack leaf_port next_step",
    ),
}
