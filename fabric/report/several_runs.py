"""Reports over several runs: two compared, a part over many, and baselines of what good ones measured."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fabric.model import gathered
from fabric.model.comparison import WHOLE, Compared, Comparison, Difference
from fabric.model.history import LEAST_RUNS, LEAST_SIGNALS, QUANTILE, SIGNALS, HostSignals, PartHistory
from fabric.model.part import Part
from fabric.model.recorded import Key, KeyChange, Recorded, key_words
from fabric.model.text import counted, size_text, some
from fabric.model.verdict import Baseline, Limit
from fabric.report import templates
from fabric.report.output import columns, jsonable

LEAST_MERGED = 3
"""Fewer rows of one host are not merged (a choice: the merged line would be no shorter)."""

MOST_PARTS = 4
"""If more parts of one host changed alike, the host itself is named (a choice)."""


def merged(rows: Sequence[Compared]) -> tuple[Compared, ...]:
    """
    Merge three or more rows of one host and one change into one line; the order is kept.

    They become one line of the host if the host itself has such a row, or if more than four of its parts have; else one
    line of each part (``gpu003/mlx5_2``) with three or more. The line has the numbers of the worst, which comes first,
    and says how many there are. SAME is never merged, nor is a row of several hosts (a path, an uplink).
    """
    changed = gathered(((_host(row), row.change), row.component) for row in rows if _mergeable(row))
    parts = {key: set(names) for key, names in changed.items()}
    lines: dict[tuple[str, Difference], list[Compared]] = {}
    for row in rows:
        names = parts.get((_host(row), row.change), set()) if _mergeable(row) else set()
        as_a_whole = _host(row) in names or len(names) > MOST_PARTS
        lines.setdefault((_host(row) if as_a_whole else row.component, row.change), []).append(row)
    found: list[Compared] = []
    for (name, _), alike in lines.items():
        found += [_line(name, alike)] if len(alike) >= LEAST_MERGED and _mergeable(alike[0]) else alike
    return tuple(found)


def _host(row: Compared) -> str:
    return Part.of(row.component).host


def _mergeable(row: Compared) -> bool:
    """Return whether a row is of one host or a part of one; everything, paths and switches keep rows of their own."""
    whole = row.component == WHOLE or "+" in row.component or "--" in _host(row)
    return row.change is not Difference.SAME and not whole


def _line(name: str, alike: Sequence[Compared]) -> Compared:
    """Return the worst row, under the name that all share."""
    worst = alike[0]
    names = dict.fromkeys(row.component for row in alike)
    kinds = dict.fromkeys(row.kind for row in alike)
    parts = f" of {len(names)} components" if len(names) > 1 else ""
    shown = f": {worst.component}" if worst.component != name else ""
    summary = f"worst of {len(alike)} rows{parts} ({', '.join(kinds)}){shown}; all of them: --json"
    return replace(worst, component=name, note="; ".join(text for text in (worst.note, summary) if text))


EXIT_CODES = {Difference.BETTER: 0, Difference.SAME: 0, Difference.WORSE: 1, Difference.INCONCLUSIVE: 3}
"""Exit codes of a comparison: 0 the same or better, 1 worse, 3 undecided."""

COMPARE_FORMAT = 1

_MEANING = {
    Difference.BETTER: "nothing became worse, and something better",
    Difference.SAME: "of what both measured, nothing changed by more than what matters",
    Difference.WORSE: "something became worse",
    Difference.INCONCLUSIVE: "not enough was measured to tell",
}

_SHOWN = (Difference.WORSE, Difference.INCONCLUSIVE, Difference.BETTER)
_NOT_ALL_IN_BOTH = "of what both measured, nothing became worse, but not everything was measured in both"
_NOTHING_COMMON = "nothing in common: no probe was measured in both runs"
_MOST_ROWS = 20


def compare_text(first: str, second: str, comparison: Comparison, notes: Sequence[str]) -> str:
    """Return the answer first, then what changed, the worst first, then what could not be compared."""
    kinds = Counter(row.change for row in comparison.rows)
    rows = merged(comparison.rows)
    of_kind = [(kind, [_cells(row) for row in rows if row.change is kind]) for kind in _SHOWN]
    return templates.text(
        "compare.txt.j2",
        it=comparison,
        meaning=_meaning(comparison),
        both=_in_both(comparison),
        tally=", ".join(f"{kinds[kind]} {kind.value}" for kind in Difference if kinds[kind]) or "none",
        changed=[
            (kind.value, columns(cells[:_MOST_ROWS]), len(cells) - _MOST_ROWS) for kind, cells in of_kind if cells
        ],
        listed=(
            ("Only in the first run", comparison.only_first),
            ("Only in the second run", comparison.only_second),
            ("Asked for, and without a number to compare", comparison.in_neither),
        ),
        first=first,
        second=second,
        notes=notes,
    )


def _meaning(comparison: Comparison) -> str:
    if not comparison.common:
        return _NOTHING_COMMON
    open_ = comparison.change is Difference.INCONCLUSIVE
    if open_ and all(row.change is not Difference.INCONCLUSIVE for row in comparison.rows):
        return _NOT_ALL_IN_BOTH
    return _MEANING[comparison.change]


def _in_both(comparison: Comparison) -> str:
    """Return ``640 probes in both, 48% of what the first run measured and 11% of the second``."""
    text = f"{counted(comparison.common, 'probe')} in both"
    totals = (comparison.measured_first, comparison.measured_second)
    if not all(totals) or set(totals) == {comparison.common}:
        return text
    first, second = (comparison.common / total for total in totals)
    return f"{text}, {first:.0%} of what the first run measured and {second:.0%} of the second"


def compare_document(first: str, second: str, comparison: Comparison, notes: Sequence[str]) -> dict[str, Any]:
    """Return the same for pipelines, with every row."""
    return {
        "format": COMPARE_FORMAT,
        "first": first,
        "second": second,
        "change": comparison.change.value,
        "exit_code": EXIT_CODES[comparison.change],
        **jsonable(comparison, ("common", "measured_first", "measured_second", "unmeasured")),
        **jsonable(comparison, ("rows", "only_first", "only_second", "in_neither")),
        "notes": list(notes),
    }


def _cells(row: Compared) -> tuple[str, ...]:
    size = size_text(row.size_bytes) if row.size_bytes else ""
    ratio = f"{row.ratio:.3f}" if row.ratio is not None else "-"
    interval = f"{row.low:.3f} to {row.high:.3f}" if row.low is not None and row.high is not None else ""
    return row.component, f"{row.kind} {size}".strip(), ratio, interval, f"n={row.n}", row.note


_BARS = "▁▂▃▄▅▆▇█"
_MOST_RUNS = 40
_MOST_HOSTS = 20
_MOST_NAMES = 4
_MOST_PLACES = 2


def spark(shares: Sequence[float | None]) -> str:
    """Return shares from half to normal as a line of bars; a dot where nothing was measured."""
    return "".join("·" if s is None else _BARS[min(max(int((s - 0.5) * 2 * 8), 0), 7)] for s in shares)


def history_text(found: PartHistory) -> str:
    """Return the history as text for a terminal, the newest run last."""
    shown = found.runs[-_MOST_RUNS:]
    host = Part.of(found.component or "").host
    about = [one for one in found.signals if not host or one.host == host]
    lemons = [one for one in about if one.lemon]
    rows = lemons or [one for one in about if one.troubled]
    told_by = "told by" if any(one.told_by for one in rows[:_MOST_HOSTS]) else ""
    table = [("host", "runs", *_HEADS, told_by), *map(_signal_row, rows[:_MOST_HOSTS])]
    return templates.text(
        "history.txt.j2",
        it=found,
        shown=[(run, some(run.suspected, _MOST_NAMES)) for run in shown],
        bars=spark([run.share for run in shown]) if found.component and any(run.share for run in shown) else "",
        width=max((len(run.scenario) for run in shown), default=0),
        of_host=bool(about) or not host,  # otherwise a part of the network, and signals are about hosts
        host=host,
        hosts=len(about),
        lemons=len(lemons),
        more=len(rows) - _MOST_HOSTS,
        table=columns(table, range(1, len(_HEADS) + 2)) if rows else [],
        not_judged=some(found.not_judged, _MOST_NAMES),
        most=_MOST_NAMES,
        rule=f"{LEAST_SIGNALS} of these and trouble in {LEAST_RUNS} runs make an offender",
        quantile=f"{QUANTILE:.0%}",
    )


def _signal_row(one: HostSignals) -> tuple[str, ...]:
    cells = [f"{value:g}" if value >= 1 or value == 0 else f"{value:.2f}" for value in one.values]
    marked = [f"{cell}{'*' if name in one.high else ' '}" for cell, name in zip(cells, SIGNALS, strict=True)]
    return one.host, str(one.runs), *marked, some(one.told_by[::-1], _MOST_PLACES)


_HEADS = ("tickets", "troubles", "out", "excluded", "multi fails", "single fails", "single rate")


def recorded_lines(entries: Iterable[Recorded]) -> list[str]:
    """Return one line per key: median, spread, how many samples of how many runs."""
    rows = [
        (
            key_words(entry.key),
            f"median {entry.median_gbps:.1f} Gb/s",
            f"CV {entry.cv:.4f}",
            f"{entry.n} samples of {counted(len(entry.runs), 'run')}"
            + (f", {entry.trimmed} trimmed" if entry.trimmed else ""),
        )
        for entry in entries
    ]
    return columns(sorted(rows))


def baseline_lines(baseline: Baseline) -> list[str]:
    """Return the limits, then the records, as lines."""
    limits = columns((limit_words(limit), _least(limit), limit.source) for limit in baseline.limits)
    recorded = recorded_lines(baseline.recorded) or ["nothing: fabric baseline record RUN..."]
    lines = ["Limits", *(f"  {line}" for line in limits), "", "Recorded", *(f"  {line}" for line in recorded)]
    return [f"{baseline.name} ({baseline.source})", "", *lines]


def limit_words(limit: Limit) -> str:
    """Return what a limit is for: ``loopback pix``, ``group_all_reduce 1G 64 ranks Ring``."""
    size = size_text(limit.size_bytes) if limit.size_bytes else ""
    ranks = f"{limit.ranks} ranks" if limit.ranks else ""
    least = f"from {size_text(limit.min_size_bytes)} on" if limit.min_size_bytes else ""
    return " ".join(
        part for part in (limit.kind, limit.link_class or "", size, ranks, limit.algorithm or "", least) if part
    )


def _least(limit: Limit) -> str:
    return f"at least {limit.at_least_gbps:g} Gb/s" + (" for each RNIC" if limit.per_rnic else "")


def change_lines(changes: Iterable[KeyChange]) -> list[str]:
    """Return one line per key that is new, gone or different; "no difference" if there is none."""
    rows = []
    for change in changes:
        old = "new" if change.old is None else f"{change.old.median_gbps:.1f} Gb/s"
        new = "gone" if change.new is None else f"{change.new.median_gbps:.1f} Gb/s"
        if change.old != change.new:
            share = f"{change.ratio - 1:+.1%}" if change.old and change.new else ""
            rows.append((key_words(change.key), old, "->", new, share))
    return columns(rows) or ["no difference"]


def too_few_lines(keys: Iterable[Key]) -> list[str]:
    """Return one line per key that was not recorded."""
    return [f"not recorded, fewer than 8 samples: {key_words(key)}" for key in keys]


def baseline_document(baseline: Baseline) -> dict[str, Any]:
    """Return a baseline as JSON-able values, for pipelines."""
    return {"name": baseline.name, "file": baseline.source, **jsonable(baseline, ("limits", "recorded"))}
