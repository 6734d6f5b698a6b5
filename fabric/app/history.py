"""All runs under a results directory as one history; DuckDB reads their verdicts and measurements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric.errors import ConfigError, Problem, StoreError
from fabric.model.fields.wording import nearest
from fabric.report.decision import decision_in
from fabric.report.history import QUANTILE, SIGNALS, HostSignals, PartHistory, RunLine
from fabric.store.plain_file import why_not_plain
from fabric.store.run_folders import run_folders
from fabric.store.run_lock import running
from fabric.store.runs_index import FILES, runs_index
from fabric.store.verdict_age import KEY, is_of_all

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MOST_CLOSED = 5

# A probe's id is <phase>/<who>/<name>; <who> is a host, two joined by +, or words such as 64-hosts.
_TABLES = """
CREATE TEMP TABLE verdicts AS SELECT * FROM told SEMI JOIN wanted USING (path);
CREATE TEMP TABLE taking_part AS SELECT path, unnest(hosts) AS host FROM verdicts;
CREATE TEMP TABLE bad AS
  SELECT path, probe.outcome AS outcome, unnest(string_split(split_part(probe.probe_id, '/', 2), '+')) AS host,
         contains(split_part(probe.probe_id, '/', 2), '+') AS several, probe.probe_id AS probe_id
  FROM (SELECT path, unnest(not_passed) AS probe FROM verdicts);
CREATE TEMP TABLE suspected AS
  SELECT path, suspect.component AS component, suspect.kind AS kind, suspect.outcome AS outcome,
         unnest(CASE WHEN len(suspect.hosts) = 0 THEN [NULL] ELSE suspect.hosts END) AS host
  FROM (SELECT path, unnest(suspects) AS suspect FROM verdicts);
"""

_SIGNALS = """
WITH counted AS (
  SELECT t.host AS host, count(DISTINCT t.path) AS runs,
    (SELECT count(DISTINCT s.path) FROM suspected s WHERE s.host = t.host AND s.outcome = 'fail') AS tickets,
    (SELECT count(DISTINCT s.kind) FROM suspected s WHERE s.host = t.host AND s.outcome = 'fail') AS troubles,
    (SELECT count(DISTINCT s.path) FROM suspected s WHERE s.host = t.host AND s.outcome = 'error') AS out,
    (SELECT count(DISTINCT b.path) FROM bad b WHERE b.host = t.host AND b.outcome = 'skipped'
       AND EXISTS (SELECT 1 FROM bad o WHERE o.path = b.path AND o.host = t.host
                   AND o.outcome IN ('fail', 'error') AND NOT o.several)) AS excluded,
    (SELECT count(DISTINCT b.path) FROM bad b
     WHERE b.host = t.host AND b.outcome = 'fail' AND b.several) AS multi_fails,
    (SELECT count(DISTINCT b.path) FROM bad b
     WHERE b.host = t.host AND b.outcome = 'fail' AND NOT b.several) AS single_fails,
    (SELECT count(DISTINCT x.path) FROM (SELECT path, host FROM bad WHERE outcome IN ('fail', 'error')
       UNION ALL SELECT path, host FROM suspected) x WHERE x.host = t.host) AS troubled
  FROM taking_part t GROUP BY t.host)
SELECT host, runs, troubled, tickets, troubles, out, excluded, multi_fails, single_fails, single_fails / runs
FROM counted ORDER BY troubled DESC, host
"""

_SHARES = """
SELECT path, min(share) FROM part_share SEMI JOIN wanted USING (path)
WHERE host = $host AND regexp_matches(name, $part) GROUP BY path
"""


def history(results: Path, *, component: str | None = None, days: int | None = None) -> PartHistory:
    """
    Every run below *results* (none older than *days*), oldest first, with the signals of each host.

    *component*: a host, a part of it (``gpu003/mlx5_2``), or a part of the network (``su0-leaf3--spine02``): then each
    run says what it found of that; of a part of the network only runs that suspected it are known. Raises ConfigError
    when there are no runs, or when no run knows the component; StoreError when all that is there cannot be read.
    """
    paths, closed = _directories(results.resolve(), days)
    if not paths and closed:
        raise StoreError("; ".join(f"cannot read {text}" for text in closed[:_MOST_CLOSED]))
    if not paths:
        raise ConfigError([Problem(str(results), 0, "no runs here: expected <scenario>/<run>/run.json")])
    whole = [path for path in paths if (path / "verdict.json").is_file()]
    if not whole:
        raise _nothing_judged(results, paths, closed)
    import duckdb

    try:
        with runs_index(results.resolve(), whole) as database:
            stale = _forget_stale(database, results.resolve())
            if len(stale) == len(whole):
                raise _nothing_judged(results, paths, closed)
            database.execute(_TABLES)
            signals = _signals(database)
            if component is not None:
                _refuse_unknown(database, component, [one.host for one in signals], results)
            runs = _runs(database, component, results.resolve())
    except duckdb.Error as exc:
        raise StoreError(f"{results}: cannot read the runs: {_which(exc)}") from exc
    unjudged = sorted({*paths}.difference(whole) | stale, key=lambda path: (path.name, path))
    at_rest = tuple(f"{path.parent.name}/{path.name}" for path in unjudged if running(path) is None)
    return PartHistory(
        component,
        tuple(runs),
        tuple(signals),
        unreadable=len(at_rest),
        total=len(paths),
        not_judged=at_rest,
        at_work=len(unjudged) - len(at_rest),
        closed=closed,
    )


def _which(exc: Exception) -> str:
    """The file that DuckDB speaks of; the rest of what it says quotes the file."""
    file = re.search(r"""["'](/[^"']+)["']""", str(exc))
    return f"{file[1]}: not as this version writes it" if file else type(exc).__name__


def _nothing_judged(results: Path, paths: Sequence[Path], closed: Sequence[str]) -> ConfigError:
    at_work = all(running(path) is not None for path in paths)
    then = "still going on (fabric status)" if at_work else "fabric analyze RUN makes its verdict.json"
    shut = [Problem(str(results), 0, f"cannot read {text}") for text in closed[:_MOST_CLOSED]]
    return ConfigError([Problem(str(results), 0, f"no run is judged yet: {then}"), *shut])


def _forget_stale(database: DuckDBPyConnection, results: Path) -> set[Path]:
    """Leave out runs whose verdict is older than what they measured, as after a crash between the two; those."""
    rows = database.execute(f"SELECT path, {KEY} FROM told SEMI JOIN wanted USING (path)").fetchall()
    stale = [path for path, judged_bytes in rows if not is_of_all(results / path, judged_bytes)]
    database.execute("DELETE FROM wanted WHERE list_contains($stale, path)", {"stale": stale})
    return {results / path for path in stale}


def _directories(results: Path, days: int | None) -> tuple[list[Path], tuple[str, ...]]:
    """Run directories, the oldest first, and what cannot be read, with the reason."""
    since = "" if days is None else (datetime.now(UTC) - timedelta(days=days)).strftime("%Y%m%d-%H%M%S")
    found = run_folders(results)
    closed = [one.text for one in found.closed if one.path.name >= since]
    runs = []
    for path in found.runs:
        if path.name >= since:
            shut = [
                f"{path / name}: {why}" for name, most in FILES.items() if (why := why_not_plain(path / name, most))
            ]
            closed.extend(shut)
            runs.extend([] if shut else [path])
    return sorted(runs, key=lambda path: (path.name, path)), tuple(closed)


def _runs(database: DuckDBPyConnection, component: str | None, results: Path) -> list[RunLine]:
    host = component.partition("/")[0] if component else None
    where = (
        """WHERE EXISTS (SELECT 1 FROM taking_part t WHERE t.path = v.path AND t.host = $host)
        OR EXISTS (SELECT 1 FROM suspected s WHERE s.path = v.path AND s.component = $host)"""
        if host
        else ""
    )
    rows = database.execute(
        f"""SELECT v.path, v.run_id, v.scenario, v.backend, v.outcome, len(v.hosts)
        FROM verdicts v {where} ORDER BY v.run_id, v.path""",
        {"host": host} if host else {},
    ).fetchall()
    failed = _by_path(database, "SELECT path, probe_id FROM bad WHERE outcome = 'fail'", host)
    suspected = _by_path(database, "SELECT path, component FROM suspected WHERE true", host, or_named=True)
    shares = _shares(database, component) if component else {}
    part = component.partition("/")[2] if component else ""
    return [
        RunLine(
            run_id,
            scenario,
            backend,
            outcome,
            hosts,
            shares.get(path),
            sum(_names(probe, part.partition(":")[0]) for probe in dict.fromkeys(failed.get(path, ()))),
            tuple(name for name in dict.fromkeys(suspected.get(path, ())) if _names(name, part)),
            None if (decided := decision_in(results / path)) is None else decided.value,
        )
        for path, run_id, scenario, backend, outcome, hosts in rows
    ]


def _refuse_unknown(database: DuckDBPyConnection, component: str, hosts: Sequence[str], results: Path) -> None:
    """Raise ConfigError for a host that took part in no run, and for a part that no run says anything of."""
    suspects = [row[0] for row in database.execute("SELECT DISTINCT component FROM suspected").fetchall()]
    host, _, part = component.partition("/")
    if component in suspects:
        return
    if host not in hosts:
        hint = nearest(component, [*hosts, *suspects])
        text = f"no run below {results} has such a host, or suspected a part of that name{hint}"
        raise ConfigError([Problem(component, 0, text)])
    if not part:
        return
    own = {"host": host}
    named = database.execute(
        "SELECT DISTINCT name FROM part_share SEMI JOIN wanted USING (path) WHERE host = $host", own
    )
    texts = [row[0] for row in named.fetchall()] + [
        one.partition("/")[2] for one in suspects if one.partition("/")[0] == host
    ]
    failed = database.execute("SELECT DISTINCT probe_id FROM bad WHERE host = $host", own).fetchall()
    texts += [row[0].rpartition("/")[2] for row in failed]
    if not any(_names(text, part.partition(":")[0]) for text in texts):
        words = {word for text in texts for word in re.findall(r"[A-Za-z]+[0-9_]*[0-9]", text)}
        hint = nearest(part, sorted(words))
        raise ConfigError([Problem(component, 0, f"no run below {results} says anything of that part{hint}")])


def _names(text: str, part: str) -> bool:
    """Whether a probe's id or a component names the part as a whole word: mlx5_1 is not in mlx5_10."""
    return not part or re.search(rf"(?<![A-Za-z0-9_]){re.escape(part)}(?![A-Za-z0-9_])", text) is not None


def _by_path(
    database: DuckDBPyConnection, query: str, host: str | None, *, or_named: bool = False
) -> dict[str, list[str]]:
    """*or_named*: also what is called so itself, as a cable between switches is."""
    found: dict[str, list[str]] = {}
    named = " OR component = $host" if or_named else ""
    only = f" AND (host = $host{named})" if host else ""
    for path, text in database.execute(query + only, {"host": host} if host else {}).fetchall():
        found.setdefault(path, []).append(text)
    return found


def _shares(database: DuckDBPyConnection, component: str) -> dict[str, float]:
    host, _, part = component.partition("/")
    part = part.partition(":")[0]  # the cable of an RNIC was measured by what its RNIC sent
    pattern = rf"(^|[^A-Za-z0-9_]){re.escape(part)}($|[^A-Za-z0-9_])" if part else ""
    rows: list[Any] = database.execute(_SHARES, {"host": host, "part": pattern}).fetchall()
    return dict(rows)


def _signals(database: DuckDBPyConnection) -> list[HostSignals]:
    rows: list[Any] = database.execute(_SIGNALS).fetchall()
    limits = [_quantile([row[3 + index] for row in rows]) for index in range(len(SIGNALS))]
    return [
        HostSignals(
            host,
            runs,
            troubled,
            tuple(float(value) for value in values),
            tuple(
                name for name, value, limit in zip(SIGNALS, values, limits, strict=True) if value > 0 and value >= limit
            ),
        )
        for host, runs, troubled, *values in rows
    ]


def _quantile(values: Sequence[float]) -> float:
    """The value that so large a part of all hosts does not exceed."""
    listed = sorted(values)
    return listed[min(int(len(listed) * QUANTILE), len(listed) - 1)] if listed else 0.0
