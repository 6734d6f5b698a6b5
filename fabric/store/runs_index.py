"""
All runs below a results directory in one DuckDB file in ``.history``: each is read once, not at every question.

It is derived: delete it, and it is made again. A run is read anew when one of its files has another size or time than
when it was read. Where the file cannot be written, or another process holds it, all is read into memory instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fabric.store import run_document, verdict_age
from fabric.store.plain_file import GIB, is_there, open_plain
from fabric.store.verdict_age import KEY

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FOLDER = ".history"
FORMAT = 4
"""Part of the file's name: another version of this tool with other tables has a file of its own."""

FILES = {"run.json": run_document.MOST_BYTES, "verdict.json": verdict_age.MOST_BYTES, "measurements.parquet": 4 * GIB}
"""What is read of a run, each with its largest size in bytes; who calls has looked that they are plain files."""

_LARGEST_FILE = max(run_document.MOST_BYTES, verdict_age.MOST_BYTES)
_AT_ONCE = 500  # files a query: a bound on memory

_VERDICT = {
    "run_id": "VARCHAR",
    "scenario": "VARCHAR",
    "backend": "VARCHAR",
    KEY: "BIGINT",
    "outcome": "VARCHAR",
    "suspects": "STRUCT(component VARCHAR, kind VARCHAR, outcome VARCHAR, hosts VARCHAR[])[]",
    "not_passed": "STRUCT(probe_id VARCHAR, outcome VARCHAR, value_gbps DOUBLE, limit_gbps DOUBLE)[]",
}
_PHASES = "STRUCT(name VARCHAR, probes JSON[])[]"
_RUN = {"run_id": "VARCHAR", "asked": f"STRUCT(scenario STRUCT(hosts VARCHAR[], phases {_PHASES}))"}

WITH_PEERS = ("loopback", "rnic_to_rnic", "all_to_all", "tor_all_reduce", "bidirectional")
"""
Kinds whose probes have what they use to themselves, so that one of them says what is normal for another (``PEER_KINDS``
of judge/normal/series.py). Rings that run at once share the network: half of what others have is no fault of a host.
"""

# What of a scenario has no peers, by phase and name; evidence (``again``) is of any kind, and repeated one by one.
_APART = f"""
flatten([[{{'phase': phase.name, 'name': json_extract_string(probe, '$[1].name')}} FOR probe IN phase.probes
          IF json_extract_string(probe, '$[0]') NOT IN {(*WITH_PEERS, "again")}]
         FOR phase IN asked.scenario.phases])
"""

_TABLES = f"""
CREATE TABLE IF NOT EXISTS known (path VARCHAR, stamp VARCHAR);
CREATE TABLE IF NOT EXISTS told (path VARCHAR, hosts VARCHAR[], apart STRUCT(phase VARCHAR, name VARCHAR)[],
  {", ".join(f"{n} {t}" for n, t in _VERDICT.items())});
CREATE TABLE IF NOT EXISTS part_share (path VARCHAR, host VARCHAR, name VARCHAR, share FLOAT);
"""

# Only the columns that are asked for: the rest of a document is skipped while it is read.
_TELL = f"""
INSERT INTO told BY NAME
SELECT substring(parse_dirpath(v.filename), $prefix) AS path, r.hosts, r.apart, v.* EXCLUDE (filename)
FROM read_json($verdicts, columns = {_VERDICT}, format = 'unstructured', filename = true,
               maximum_object_size = {_LARGEST_FILE}) v
JOIN (SELECT parse_dirpath(filename) AS folder, asked.scenario.hosts AS hosts, {_APART} AS apart
      FROM read_json($runs, columns = {_RUN}, format = 'unstructured', filename = true,
                     maximum_object_size = {_LARGEST_FILE})) r ON r.folder = parse_dirpath(v.filename)
"""

# A probe's id is <phase>/<who>/<name>; <who> is a host, two joined by +, or words such as 64-hosts. The least share of
# what is normal in that run of each host's measurement: repetitions count as they are judged, by their median, and each
# host once in what is normal, or a bad host that is measured again and again would be normal. A probe below its limit
# has no greater share than of that: where a host is alone it would be its own peer. Of kinds without peers only
# that is known; that they were measured at all is kept without a share.
_NAME = "regexp_replace(split_part({id}, '/', 3), '\\.r[0-9]+$', '')"
_SHARE = f"""
INSERT INTO part_share
WITH apart AS (SELECT path, one.phase AS phase, one.name AS name FROM (SELECT path, unnest(apart) AS one FROM told)),
measured AS (
  SELECT substring(parse_dirpath(filename), $prefix) AS path, split_part(probe_id, '/', 1) AS phase,
         split_part(probe_id, '/', 2) AS who, {_NAME.format(id="probe_id")} AS name,
         metric, coalesce(size_bytes, -1) AS size_bytes, value
  FROM read_parquet($files, filename = true, union_by_name = true) WHERE unit = 'Gb/s'),
judged AS (SELECT path, phase, who, name, metric, size_bytes, median(value) AS value FROM measured GROUP BY ALL),
with_peers AS (
  SELECT * FROM judged j WHERE NOT EXISTS (
    SELECT 1 FROM apart a
    WHERE a.path = j.path AND a.phase = j.phase AND (j.name = a.name OR starts_with(j.name, a.name || '.')))),
of_host AS (SELECT path, who, name, metric, size_bytes, median(value) AS value FROM with_peers GROUP BY ALL),
normal AS (SELECT path, name, metric, size_bytes, median(value) AS value FROM of_host GROUP BY ALL),
failed AS (SELECT path, unnest(not_passed) AS one FROM told),
shared AS (
  SELECT m.path, m.who, m.name, min(m.value / n.value) AS share
  FROM with_peers m JOIN normal n USING (path, name, metric, size_bytes) WHERE n.value > 0 GROUP BY ALL
  UNION ALL
  SELECT DISTINCT path, who, name, NULL FROM judged
  UNION ALL
  SELECT path, split_part(one.probe_id, '/', 2), {_NAME.format(id="one.probe_id")}, one.value_gbps / one.limit_gbps
  FROM failed WHERE one.outcome = 'fail' AND one.value_gbps < one.limit_gbps
    AND path IN (SELECT DISTINCT path FROM measured))
SELECT path, host, name, min(share) FROM (
  SELECT path, unnest(string_split(who, '+')) AS host, name, share FROM shared) GROUP BY ALL
ORDER BY host, name, path
"""


@contextmanager
def runs_index(results: Path, runs: Sequence[Path]) -> Iterator[DuckDBPyConnection]:
    """
    A database that has the tables ``told`` and ``part_share`` of *runs*, directories two levels below *results*.

    ``wanted`` (path) names just these: the file may have others. ``path`` is that below *results*. Raises duckdb.Error
    for a run that cannot be read.
    """
    import duckdb

    database = _opened(results)
    try:
        _refresh(database, results, runs)
        yield database
    finally:
        try:
            database.close()
        except duckdb.Error:  # the disk is full: what was asked is answered
            (results / FOLDER / _name()).unlink(missing_ok=True)


def _name() -> str:
    import duckdb

    return f"runs-{FORMAT}-{duckdb.__version__}.duckdb"


def _opened(results: Path) -> DuckDBPyConnection:
    """The file; memory where it cannot be had, because it cannot be written or another process holds it."""
    import duckdb

    path = results / FOLDER / _name()
    try:
        path.parent.mkdir(exist_ok=True)
        _refuse_planted(path)
        database = duckdb.connect(str(path))
        database.execute(_TABLES)
    except (duckdb.Error, OSError):
        database = duckdb.connect(":memory:")
        database.execute(_TABLES)
    return database


def _refuse_planted(path: Path) -> None:
    """
    Raise OSError where somebody else made the file, its folder or what DuckDB writes beside it; a torn one is removed.

    What is no plain file would be waited for, what lies behind a link would be written to.
    """
    if path.parent.is_symlink():
        raise NotADirectoryError(path.parent)
    for one in (path, path.with_name(f"{path.name}.wal")):
        if not is_there(one):
            continue
        fd = open_plain(one)
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                raise PermissionError(one)
            torn = one == path and os.read(fd, 12)[8:] != b"DUCK"  # as each of its files begins
        finally:
            os.close(fd)
        if torn:
            one.unlink()


def _refresh(database: DuckDBPyConnection, results: Path, runs: Sequence[Path]) -> None:
    """Read what is new or has changed, forget what is gone or was another."""
    stamps = {str(run.relative_to(results)): _stamp(run) for run in runs}
    known = dict(database.execute("SELECT path, stamp FROM known").fetchall())
    fresh = [path for path, stamp in stamps.items() if known.get(path) != stamp]
    gone = [path for path in known if path not in stamps and not (results / path).is_dir()]
    database.execute("CREATE TEMP TABLE wanted AS SELECT unnest($paths) AS path", {"paths": list(stamps)})
    if not fresh and not gone:
        return
    database.execute("BEGIN")
    for table in ("known", "told", "part_share"):
        database.execute(f"DELETE FROM {table} WHERE list_contains($old, path)", {"old": [*fresh, *gone]})
    for start in range(0, len(fresh), _AT_ONCE):
        _read(database, results, fresh[start : start + _AT_ONCE])
    rows = {"paths": fresh, "stamps": [stamps[path] for path in fresh]}
    database.execute("INSERT INTO known SELECT unnest($paths), unnest($stamps)", rows)
    database.execute("COMMIT")


def _read(database: DuckDBPyConnection, results: Path, paths: Sequence[str]) -> None:
    prefix = len(str(results)) + 2  # SQL counts from 1
    verdicts, documents, measured = (
        [_literal(results / path / name) for path in paths if (results / path / name).is_file()]
        for name in ("verdict.json", "run.json", "measurements.parquet")
    )
    database.execute(_TELL, {"verdicts": verdicts, "runs": documents, "prefix": prefix})
    if measured:
        database.execute(_SHARE, {"files": measured, "prefix": prefix})


def _stamp(run: Path) -> str:
    """Size and time of each of its files; empty for one that is not there."""
    found = []
    for name in FILES:
        try:
            status = (run / name).stat()
        except OSError:
            found.append("")
            continue
        found.append(f"{status.st_size}.{status.st_mtime_ns}")
    return " ".join(found)


def _literal(path: Path) -> str:
    """DuckDB reads * ? [ in a name as patterns; in brackets they are themselves."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))
