"""All runs under a results directory as one history: their stored verdicts, and what they measured."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from fabric.app.analyze import made_again
from fabric.errors import ConfigError, Problem, StoreError, ToolError
from fabric.model import gathered
from fabric.model.fields.wording import nearest
from fabric.model.history import QUANTILE, SIGNALS, HostSignals, PartHistory, RunLine
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.text import counted
from fabric.probes.kinds import PEER_KINDS
from fabric.runs import run_document
from fabric.runs.plain_file import MIB, read_plain, reading
from fabric.runs.run_directory import RUN, run_folders
from fabric.runs.run_lock import running
from fabric.runs.stored_verdict import StoredVerdict, decision_in, stored_verdict
from fabric.runs.tables import read_table
from fabric.tools.records import BATCH, Record, UnreadableLines, read_records

_MOST_CLOSED = 5
MOST_PLACES = 20
"""The most places of records that are shown for a component; the last ones are (a choice)."""

_MOST_IMPORTED_BYTES = 256 * MIB
"""The largest import (a choice: two million jobs, or the kernel's messages of a hall in a month)."""


def history(
    results: Path, *, component: str | None = None, days: int | None = None, imports: Sequence[Path] = ()
) -> PartHistory:
    """
    Return every run below *results* (none older than *days*), oldest first, with the signals of each host.

    *imports*: files of jobs, tickets or kernel messages that others wrote (``tools/records.py``); they count as signals
    too.

    *component*: a host, a part of it (``gpu003/mlx5_2``), or a part of the network (``su0-leaf3--spine02``). Each run
    then shows what it found of that; for a part of the network only runs that suspected it are known. Raises
    ConfigError when there is neither a run nor a record, when no run knows the component, or for an import that cannot
    be used; StoreError when nothing that is there can be read.
    """
    judged, unjudged, closed = _all_judged(results.resolve(), days)
    records = _all_imported(imports, days)
    if closed and not judged and not unjudged:
        raise StoreError("; ".join(f"cannot read {text}" for text in closed[:_MOST_CLOSED]))
    if not judged and not records:
        raise _nothing_judged(results, unjudged, closed, days)
    signals = _signals(judged, records)
    measured, unreadable = _measured(judged, component)
    if unreadable and not measured:
        raise StoreError("; ".join([*unreadable.values()][:_MOST_CLOSED]))
    runs = _runs(judged, component, measured, [one.host for one in signals], results)
    at_rest = tuple(f"{path.parent.name}/{path.name}" for path in unjudged if running(path) is None)
    return PartHistory(
        component,
        tuple(runs),
        tuple(signals),
        unreadable=len(at_rest),
        total=len(judged) + len(unjudged),
        not_judged=at_rest,
        at_work=len(unjudged) - len(at_rest),
        closed=(*closed, *unreadable.values()),
        records=len(records),
    )


def _all_imported(paths: Sequence[Path], days: int | None) -> list[tuple[str, Record]]:
    """
    Read the records of all files, each with its file's name; none older than *days*.

    Raises ConfigError with every line of any file that is not a record.
    """
    since = datetime.min.replace(tzinfo=UTC) if days is None else datetime.now(UTC) - timedelta(days=days)
    found: list[tuple[str, Record]] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            with reading(path):
                text = read_plain(path, _MOST_IMPORTED_BYTES).decode("utf-8", "replace")
            found += [(path.name, one) for one in read_records(text) if one.at >= since]
        except ConfigError as exc:
            problems += exc.problems
        except UnreadableLines as exc:
            problems += [Problem(str(path), line, why) for line, why in exc.lines]
        except ToolError as exc:
            problems.append(Problem(str(path), 0, str(exc)))
    if problems:
        raise ConfigError(problems)
    return found


def _judged(path: Path) -> StoredVerdict | None:
    """
    Return the stored verdict of a run with its hosts; None without a run.json or a verdict of all that was measured.

    Raises StoreError as ``stored_verdict`` does.
    """
    stored = stored_verdict(path)
    try:
        asked = orjson.loads(read_plain(path / RUN, run_document.MOST_BYTES)).get("asked", {}) if stored else {}
        return replace(stored, hosts=tuple(asked.get("scenario", {}).get("hosts", ()))) if stored else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        raise StoreError(f"{path / RUN}: not as this version writes it") from exc


def _nothing_judged(results: Path, paths: Sequence[Path], closed: Sequence[str], days: int | None) -> ConfigError:
    late = "" if days is None else f" of the last {counted(days, 'day')}"
    if not paths:
        text = f"no run here is{late}" if late else "no runs here: expected <scenario>/<run>/run.json"
        return ConfigError.at(results, text)
    at_work = all(running(path) is not None for path in paths)
    then = "still going on (fabric status)" if at_work else "fabric analyze RUN makes its verdict.json"
    shut = [Problem(str(results), 0, f"cannot read {text}") for text in closed[:_MOST_CLOSED]]
    return ConfigError([Problem(str(results), 0, f"no run{late} is judged yet: {then}"), *shut])


def _all_judged(results: Path, days: int | None) -> tuple[list[StoredVerdict], list[Path], tuple[str, ...]]:
    """Return the judged runs, oldest first; those not judged; and what cannot be read, with the reason."""
    since = "" if days is None else (datetime.now(UTC) - timedelta(days=days)).strftime("%Y%m%d-%H%M%S")
    found = run_folders(results)
    closed = [f"{path}: {why}" for path, why in found.closed.items() if path.name >= since]
    judged: list[StoredVerdict] = []
    unjudged: list[Path] = []
    for path in sorted(found.runs, key=lambda path: (path.name, path)):
        if path.name >= since:
            try:
                stored = _judged(path)
            except StoreError as exc:
                closed.append(str(exc))
                continue
            if stored is None:
                unjudged.append(path)
            else:
                judged.append(stored)
    return sorted(judged, key=lambda one: (one.run_id, one.path)), unjudged, tuple(closed)


def _measured(judged: Sequence[StoredVerdict], component: str | None) -> tuple[dict[Path, Shares], dict[Path, str]]:
    """Return what each run with the component's host measured of it, and why the others cannot be read."""
    measured: dict[Path, Shares] = {}
    unreadable: dict[Path, str] = {}
    host = None if component is None else Part.of(component).host
    for run in judged:
        if host in run.hosts:
            try:
                measured[run.path] = shares_of(host, run.path)
            except StoreError as exc:
                unreadable[run.path] = str(exc)
    return measured, unreadable


def _runs(
    judged: Sequence[StoredVerdict],
    component: str | None,
    measured: Mapping[Path, Shares],
    hosts: Sequence[str],
    results: Path,
) -> list[RunLine]:
    """Return a line for each run that measured or suspected the component; for every run if *component* is None."""
    if component is None:
        return [_line(run, None, {}) for run in judged]
    part = Part.of(component)
    _refuse_unknown(judged, component, hosts, {name for one in measured.values() for name in one}, results)
    return [
        _line(run, part, measured.get(run.path, {}))
        for run in judged
        if run.path in measured or any(one.component == part.host for one in run.suspects)
    ]


def _line(run: StoredVerdict, part: Part | None, measured: Shares) -> RunLine:
    host, own, inside = (part.host, part.item, part.inside) if part is not None else (None, "", "")
    # The cable of an RNIC was measured by what the RNIC sent, so match its numbers by *own*.
    failed = [one for one in run.not_passed if one.outcome == "fail" and (host is None or host in one.hosts)]
    suspected = [one.component for one in run.suspects if host is None or host in (*one.hosts, one.component)]
    found = [share for name, share in measured.items() if share is not None and _names(name, own)]
    if measured:  # a failed probe counts with its own share: a host without peers would be compared with itself
        found += [one.share for one in failed if one.share is not None and _names(one.name, own)]
    decided = decision_in(run.path)
    return RunLine(
        run.run_id,
        run.scenario,
        run.backend,
        run.outcome,
        len(run.hosts),
        min(found, default=None),
        len({one.probe_id for one in failed if _names(one.probe_id, own)}),
        tuple(name for name in dict.fromkeys(suspected) if _names(name, inside)),
        None if decided is None else decided.value,
    )


def _refuse_unknown(
    judged: Sequence[StoredVerdict], component: str, hosts: Sequence[str], measured: Iterable[str], results: Path
) -> None:
    """Raise ConfigError for a host that took part in no run, or a part that no run mentions."""
    suspects = list(dict.fromkeys(one.component for run in judged for one in run.suspects))
    part = Part.of(component)
    if component in suspects:
        return
    if part.host not in hosts:
        hint = nearest(component, [*hosts, *suspects])
        text = f"no run below {results} has such a host, or suspected a part of that name{hint}"
        raise ConfigError.at(component, text)
    texts = [*measured, *(one.inside for one in map(Part.of, suspects) if one.host == part.host)]
    texts += [one.name for run in judged for one in run.not_passed if part.host in one.hosts]
    if part.inside and not any(_names(text, part.item) for text in texts):
        words = {word for text in texts for word in re.findall(r"[A-Za-z]+[0-9_]*[0-9]", text)}
        hint = nearest(part.inside, sorted(words))
        raise ConfigError.at(component, f"no run below {results} says anything of that part{hint}")


Shares = dict[str, float | None]
"""The lowest share that each series reached; None: the series has no peers."""


def shares_of(host: str, run: Path) -> Shares:
    """
    Return the lowest share of what is normal that each series of a host reached in a judged run (its directory).

    Only what it measured alone or with one other host. Kinds that the judge does not compare with peers have no share:
    a slow pair accuses both of its hosts.
    """
    columns = ["kind", "host", "peer_host", "series", "share"]
    try:
        table = read_table(run, "samples", columns)
    except StoreError:
        table = made_again(run)["samples"].select(columns)
    frame = table.to_pandas()
    own = frame[(frame["host"] == host) | (frame["peer_host"] == host)]
    least = own[own["kind"].isin(PEER_KINDS)].groupby("series", observed=True)["share"].min().dropna().to_dict()
    return {name: least.get(name) for name in own["series"].unique()}


def _names(text: str, part: str) -> bool:
    """Return whether a probe's id or a component contains the part as a whole word: mlx5_1 is not in mlx5_10."""
    return not part or re.search(rf"(?<![A-Za-z0-9_]){re.escape(part)}(?![A-Za-z0-9_])", text) is not None


def _signals(judged: Sequence[StoredVerdict], records: Sequence[tuple[str, Record]]) -> list[HostSignals]:
    """Return the signals of every host that took part and every component with a record, the most troubled first."""
    counts, kinds = _counted(judged, records)
    rows = {}
    for name, count in counts.items():
        rate = count["single_fails"] / max(1, count["runs"] + count["jobs"])
        values = {**count, "troubles": len(kinds[name]), "single_fail_rate": rate}
        rows[name] = tuple(float(values.get(signal, 0)) for signal in SIGNALS)
    alike = gathered((_class_of(name), row) for name, row in rows.items())
    limits = {one: [_quantile(column) for column in zip(*of, strict=True)] for one, of in alike.items()}
    incidents = ((file, record) for file, record in records if record.signal != "jobs")
    places_of = gathered((name, f"{file}:{record.line}") for file, record in incidents for name in record.names)
    found = []
    for name, row in rows.items():
        of_class, count = zip(SIGNALS, row, limits[_class_of(name)], strict=True), counts[name]
        high = tuple(signal for signal, value, limit in of_class if value > 0 and value >= limit)
        places = tuple(places_of.get(name, ())[-MOST_PLACES:])
        found.append(HostSignals(name, count["runs"], count["troubled"], row, high, places))
    return sorted(found, key=lambda one: (-one.troubled, one.host))


def _counted(
    judged: Sequence[StoredVerdict], records: Iterable[tuple[str, Record]]
) -> tuple[Mapping[str, Counter[str]], Mapping[str, set[str]]]:
    """Count each signal of each component, and collect the kinds of suspicion and trouble it had."""
    kinds, counts = defaultdict[str, set[str]](set), defaultdict[str, Counter[str]](Counter)
    for run in judged:
        for one in run.suspects:
            for host in one.hosts if one.outcome is Outcome.FAIL else ():
                kinds[host].add(one.kind)
        by_signal = _hosts_by_signal(run)
        for host in run.hosts:
            counts[host].update(["runs", *(name for name, hosts in by_signal.items() if host in hosts)])
    days: set[tuple[str, object]] = set()
    for _, record in records:
        alone = record.signal != "jobs" or len(record.names) == 1  # jobs of many nodes are no base for a rate
        for name in record.names if alone else ():
            counts[name].update([record.signal, *(["jobs"] if record.signal == "single_fails" else [])])
            kinds[name].update([record.kind] if record.kind else [])
            days |= {(name, record.at.date())} if record.signal != "jobs" else set()
    for name, _ in days:
        counts[name]["troubled"] += 1
    return counts, kinds


def _class_of(name: str) -> str:
    """
    Return the class within which a component is compared.

    Batches have more tickets than links, and links have other tickets than hosts.
    """
    if name.startswith(BATCH):
        return BATCH
    part = Part.of(name)
    return "link" if part.link_ends else "part" if part.inside else "host"


def _hosts_by_signal(run: StoredVerdict) -> dict[str, set[str]]:
    """Return the hosts that a run reports under each signal; *troubled* means any trouble."""
    alone: dict[str, set[str]] = defaultdict(set)  # by outcome, from probes of one host
    shared: dict[str, set[str]] = defaultdict(set)  # by outcome, from probes of several hosts
    suspected: dict[str, set[str]] = defaultdict(set)
    for probe in run.not_passed:
        (shared if len(probe.hosts) > 1 else alone)[probe.outcome].update(probe.hosts)
    for one in run.suspects:
        suspected[one.outcome.value].update(one.hosts)
    own, skipped = alone["fail"] | alone["error"], alone["skipped"] | shared["skipped"]
    return {
        "tickets": suspected["fail"],
        "out": suspected["error"],
        "excluded": skipped & own,
        "multi_fails": shared["fail"],
        "single_fails": alone["fail"],
        "troubled": own.union(shared["fail"], shared["error"], *suspected.values()),
    }


def _quantile(values: Sequence[float]) -> float:
    """Return the value that a share of QUANTILE of the values does not exceed."""
    listed = sorted(values)
    return listed[min(int(len(listed) * QUANTILE), len(listed) - 1)]
