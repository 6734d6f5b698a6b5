"""
measurements.parquet and samples.parquet: what was measured as tables, for whoever reads Parquet; derived.

Read back are the shares of a host in many runs: what it measured over what is normal in each, the median of all hosts
there. Repetitions count by their median, as they are judged, and each host once in what is normal, or a bad host that
is measured again and again would be normal. Where several have something in common nothing is normal: it is known that
they measured it, and no share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric.errors import StoreError
from fabric.model.probe import Measurement
from fabric.runs import samples
from fabric.runs.plain_file import GIB, is_there, read_plain, writing

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ROWS = 500_000
"""Rows of one group of samples: a bound on memory."""

MEASUREMENTS, SAMPLES = "measurements.parquet", "samples.parquet"


def write_measurements(run: Path, measurements: Iterable[Measurement]) -> None:
    """Columns probe_id, metric, size_bytes, value, unit; sorted, without times: equal runs give equal bytes."""
    import pyarrow as pa

    rows = sorted(measurements, key=lambda m: (m.probe_id, m.metric, m.size_bytes or 0))
    table = pa.table(
        {
            "probe_id": pa.array([row.probe_id for row in rows], pa.string()),
            "metric": pa.array([row.metric for row in rows], pa.string()).dictionary_encode(),
            "size_bytes": pa.array([row.size_bytes for row in rows], pa.int64()),
            "value": pa.array([row.value for row in rows], pa.float64()),
            "unit": pa.array([row.unit for row in rows], pa.string()).dictionary_encode(),
        }
    )
    _write(run / MEASUREMENTS, table.schema, [table])


def write_samples(run: Path) -> None:
    """Columns host, part, name, at_s, value (null: not readable from then on), a row a change; none without samples."""
    if not is_there(run / samples.FILE):
        return
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    kinds = (("host", text), ("part", text), ("name", text), ("at_s", pa.float64()), ("value", pa.float64()))
    schema = pa.schema(list(kinds))
    rows = ((r.host, r.part, r.name, at_s, value) for r, at_s, value in samples.sample_changes(run))

    def groups() -> Iterable[pa.Table]:
        while group := list(islice(rows, ROWS)):
            columns = zip(*group, strict=True)
            yield pa.table(
                [pa.array(column, kind) for column, (_, kind) in zip(columns, kinds, strict=True)], schema=schema
            )

    _write(run / SAMPLES, schema, groups())


def _write(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Whole or not at all."""
    import pyarrow.parquet as pq

    temporary = path.with_name(f".{path.name}.tmp")
    with writing(temporary) as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
    temporary.rename(path)


MOST_BYTES = 4 * GIB
"""Of measurements.parquet."""

Apart = frozenset[tuple[str, str]]
"""Phase and name of what several hosts measure of one thing that they share: they are no peers."""

Shares = dict[str, float | None]
"""The least share of each measurement by its name (a probe's id without phase, host and repetition); None: no peers."""

_AT_ONCE = 200  # runs: a bound on memory
_REPETITION = re.compile(r"\.r[0-9]+$")


def shares_of(host: str, runs: Sequence[tuple[Path, Apart]]) -> list[Shares]:
    """Of each of the runs (directories) in that order; StoreError for a table that cannot be read."""
    found: list[Shares] = []
    for start in range(0, len(runs), _AT_ONCE):
        found.extend(_shares(host, runs[start : start + _AT_ONCE]))
    return found


def _shares(host: str, runs: Sequence[tuple[Path, Apart]]) -> list[Shares]:
    import numpy as np

    table = _table([path for path, _ in runs])
    found: list[Shares] = [{} for _ in runs]
    if not table.num_rows:
        return found
    ids, numbers = _numbered(table, "probe_id")
    series = list(dict.fromkeys(_REPETITION.sub("", one) for one in ids))
    place = {one: number for number, one in enumerate(series)}
    phases, who, names = zip(*([*one.split("/", 2), "", ""][:3] for one in series), strict=True)
    has_host = np.array([host in one.split("+") for one in who])
    which = np.array([place[_REPETITION.sub("", one)] for one in ids])[numbers]
    run = table["run"].to_numpy()
    sizes = np.unique(table["size_bytes"].to_numpy(), return_inverse=True)[1]
    quantity = _code(_numbered(table, "metric")[1], sizes)
    first, value = _medians(_code(run, which, quantity), table["value"].to_numpy())
    run, which, quantity = run[first], which[first], quantity[first]
    for one, number in zip(run[has_host[which]], which[has_host[which]], strict=True):
        found[one][names[number]] = None
    kinds = {apart for _, apart in runs}
    alone = {apart: [_is_of(*one, apart) for one in zip(phases, names, strict=True)] for apart in kinds}
    is_peer = ~np.array([alone[apart] for _, apart in runs])[run, which]
    run, which, quantity, value = run[is_peer], which[is_peer], quantity[is_peer], value[is_peer]
    host_of, name_of = np.unique(who, return_inverse=True)[1][which], np.unique(names, return_inverse=True)[1][which]
    key = _code(run, name_of, quantity)
    first, of_host = _medians(_code(key, host_of), value)
    of_key, normal = _medians(key[first], of_host)
    normal = normal[np.searchsorted(key[first][of_key], key)]
    mine = has_host[which] & (normal > 0)
    for one, number, share in zip(run[mine], which[mine], value[mine] / normal[mine], strict=True):
        least = found[one][names[number]]
        found[one][names[number]] = float(share) if least is None else min(least, float(share))
    return found


def _is_of(phase: str, name: str, apart: Apart) -> bool:
    return any(phase == of and (name == its or name.startswith(f"{its}.")) for of, its in apart)


def _table(runs: Sequence[Path]) -> pa.Table:
    """Every bandwidth of these runs, with the number of its run."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.dictionary(pa.int32(), pa.string())
    kinds = {"probe_id": text, "metric": text, "size_bytes": pa.int64(), "value": pa.float64(), "unit": text}
    schema = pa.schema(kinds)
    found = [schema.empty_table(), *(_read(run, schema) for run in runs)]
    numbers = pa.concat_arrays([pa.array([n] * len(table), pa.int64()) for n, table in enumerate(found, start=-1)])
    table = pa.concat_tables(found).unify_dictionaries().append_column("run", numbers)
    table = table.set_column(2, "size_bytes", pc.fill_null(table["size_bytes"], -1)).drop_null()
    return table.filter(pc.equal(table["unit"], "Gb/s")).combine_chunks()


def _read(run: Path, schema: pa.Schema) -> pa.Table:
    """The table of a run; an empty one where there is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = BytesIO(read_plain(run / MEASUREMENTS, MOST_BYTES))
        table = pq.ParquetFile(data, read_dictionary=["probe_id", "metric", "unit"]).read(schema.names)
        return table if table.schema.equals(schema) else table.cast(schema)
    except FileNotFoundError:
        return schema.empty_table()
    except (OSError, pa.ArrowException, ValueError, KeyError) as exc:
        raise StoreError(f"{run / MEASUREMENTS}: not as this version writes it") from exc


def _numbered(table: pa.Table, column: str) -> tuple[list[str], np.ndarray[Any, Any]]:
    """The different texts of a column, and which of them each row has."""
    found = table[column].combine_chunks()
    return found.dictionary.to_pylist(), found.indices.to_numpy()


def _code(*columns: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One number for each combination of theirs."""
    import numpy as np

    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        found = found * (int(column.max(initial=0)) + 1) + column
    return found


def _medians(
    code: np.ndarray[Any, Any], values: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The median of the values of each code, in order of code, and the place of one of its rows."""
    import numpy as np

    order = np.lexsort((values, code))
    starts = np.flatnonzero(np.r_[True, np.diff(code[order]) != 0]) if len(order) else order
    counts = np.diff(np.r_[starts, len(order)])
    ordered = values[order]
    return order[starts], (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2
