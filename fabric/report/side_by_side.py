"""Several runs beside each other: what was mended, what is new, and how bandwidth moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import median

from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.verdict import Suspect
from fabric.report.shown_run import Row, ShownRun

NOTICED = 0.02
"""A median that moved by less than this share is not pointed out (a choice, wider than the noise)."""

MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class SuspectRow:
    """One component with what each run says of it; None: not suspected there. *tried*: it could have shown there."""

    component: str
    found: tuple[Suspect | None, ...]
    tried: tuple[bool, ...]

    @property
    def word(self) -> str:
        """
        ``mended``, ``new``, ``still``, ``now and then``, from the first run to the last.

        ``not tried again`` (``before``) where the last (first) run measured nothing that could have shown it.
        """
        if not self.tried[-1]:
            return "not tried again"
        first, last = self.found[0] is not None, self.found[-1] is not None
        if all(one is not None for one in self.found):
            return "still"
        if last and not self.tried[0]:
            return "not tried before"
        if first != last:
            return "mended" if first else "new"
        return "now and then"


@dataclass(frozen=True, slots=True)
class BandwidthRow:
    """The median of one kind of probe in one configuration, Gb/s, in each run; None: not measured there."""

    configuration: str
    kind: str
    medians: tuple[float | None, ...]

    @property
    def ratio(self) -> float | None:
        """The last run over the first."""
        first, last = self.medians[0], self.medians[-1]
        return last / first if first and last is not None else None


@dataclass(frozen=True, slots=True)
class SideBySide:
    """What is shown of several runs, in the order they were named."""

    runs: tuple[ShownRun, ...]
    suspects: tuple[SuspectRow, ...]
    bandwidths: tuple[BandwidthRow, ...]
    notes: tuple[str, ...]


def side_by_side(runs: Sequence[ShownRun]) -> SideBySide:
    """Compare at least two runs; *notes* say where they are not alike, so that nobody compares what differs."""
    by_run = [{suspect.component: suspect for suspect in run.judged.verdict.suspects} for run in runs]
    names = list(dict.fromkeys(name for found in by_run for name in found))
    shown = tried([[found.get(name) for found in by_run] for name in names], runs)
    rows = [
        SuspectRow(name, tuple(found.get(name) for found in by_run), shown[number]) for number, name in enumerate(names)
    ]
    return SideBySide(tuple(runs), tuple(rows[:MOST_ROWS]), tuple(_bandwidths(runs)), tuple(_notes(runs, len(rows))))


def _bandwidths(runs: Sequence[ShownRun]) -> Iterator[BandwidthRow]:
    tables = [_medians(run) for run in runs]
    for key in list(dict.fromkeys(key for table in tables for key in table))[:MOST_ROWS]:
        yield BandwidthRow(*key, tuple(table.get(key) for table in tables))


def _medians(run: ShownRun) -> dict[tuple[str, str], float]:
    named = {
        phase.name: ", ".join([phase.written, *(f"{name}={value}" for name, value in phase.where)])
        for phase in run.judged.scenario.phases
    }
    found: dict[tuple[str, str], list[float]] = {}
    for row in run.rows:
        if row.verdict.value_gbps is not None:
            key = (named.get(row.probe.phase, row.probe.phase), row.probe.kind)
            found.setdefault(key, []).append(row.verdict.value_gbps)
    return {key: median(values) for key, values in found.items()}


def _notes(runs: Sequence[ShownRun], suspects: int) -> Iterator[str]:
    first = runs[0]
    for run in runs[1:]:
        for what, a, b in (
            ("scenario", first.judged.scenario.name, run.judged.scenario.name),
            ("inventory", first.inventory.name, run.inventory.name),
            ("backend", first.judged.backend, run.judged.backend),
            ("limits", ", ".join(first.judged.judged_by), ", ".join(run.judged.judged_by)),
        ):
            if a != b:
                yield f"{run.judged.run_id} has {'other' if what == 'limits' else 'another'} {what}: {b}, not {a}"
        if first.judged.scenario.hosts != run.judged.scenario.hosts:
            common = len(set(first.judged.scenario.hosts) & set(run.judged.scenario.hosts))
            yield f"{run.judged.run_id} ran on other hosts: {common} of {len(run.judged.scenario.hosts)} are the same"
    for run in runs:
        if not run.complete:
            yield f"{run.judged.run_id} {'goes on' if run.judged.goes_on else 'was interrupted'}"
    if suspects > MOST_ROWS:
        yield f"only the first {MOST_ROWS} of {suspects} suspects are shown"


def worst(found: SideBySide) -> Outcome:
    """Of the last run: it says how things are now."""
    return found.runs[-1].judged.verdict.outcome


def lines(found: SideBySide) -> Iterator[str]:
    """For a terminal."""
    verdicts = [run.judged.verdict for run in found.runs]
    yield from _table(
        [
            ("", *(run.judged.run_id for run in found.runs)),
            ("outcome", *(verdict.outcome.name for verdict in verdicts)),
            ("probes", *(f"{len(verdict.probes):,}" for verdict in verdicts)),
            ("hosts", *(f"{len(run.judged.scenario.hosts):,}" for run in found.runs)),
        ]
    )
    yield from (f"  note: {note}" for note in found.notes)
    if found.suspects:
        yield "\nSuspects"
        shown = [
            ["-" if one is None else f"{one.outcome.name} {one.confidence:.0%}" for one in row.found]
            for row in found.suspects
        ]
        yield from _table((row.component, *cells, row.word) for row, cells in zip(found.suspects, shown, strict=True))
    if found.bandwidths:
        yield "\nMedian bandwidth, Gb/s"
        yield from _table(
            (
                f"{row.configuration}: {row.kind}",
                *("-" if value is None else f"{value:,.1f}" for value in row.medians),
                "" if row.ratio is None or abs(row.ratio - 1) < NOTICED else f"{row.ratio - 1:+.1%}",
            )
            for row in found.bandwidths
        )


def _accused(one: Suspect | None) -> str:
    return "-" if one is None else f"{one.outcome.name} {one.confidence:.0%}"


def _table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """In columns of one width in all tables."""
    for name, *cells in rows:
        shown = name if len(name) <= 41 else f"{name[:40]}…"
        yield "".join([f"  {shown:<42}", *(f"{cell:<24}" for cell in cells)]).rstrip()


_Shape = tuple[str, ...]
"""What a measurement is about: its kind, then host and part at an end of it, or both ends."""


def tried(suspects: Sequence[Sequence[Suspect | None]], runs: Sequence[ShownRun]) -> list[tuple[bool, ...]]:
    """
    For each component, given what every run says of it: in which runs it could have shown.

    It could where it is suspected, and where something was measured that is like one of the probes that accused it: the
    same kind from the same host and part. With whom does not matter for a part of a host or a leaf; what a cable
    between switches or a spine carries depends on both ends, so there the pair must be the same. A suspect
    without such probes could have shown where all its hosts took part.
    """
    accusing = [_accusing(found, runs) for found in suspects]
    wanted = {shape for shapes in accusing for shape in shapes}
    measured = [_measured(run, wanted) for run in runs]
    return [
        tuple(
            one is not None or (not shapes.isdisjoint(measured[number]) if shapes else _took_part(found, run))
            for number, (one, run) in enumerate(zip(found, runs, strict=True))
        )
        for found, shapes in zip(suspects, accusing, strict=True)
    ]


def _accusing(found: Sequence[Suspect | None], runs: Sequence[ShownRun]) -> set[_Shape]:
    shapes: set[_Shape] = set()
    for suspect, run in zip(found, runs, strict=True):
        for probe_id in suspect.probes if suspect is not None else ():
            row = run.row_of.get(probe_id)
            if row is not None and suspect is not None:
                shapes.update(_about(row.probe, suspect))
    return shapes


def _about(probe: Probe, suspect: Suspect) -> Iterator[_Shape]:
    """The ends of a probe that its suspect is at; both at once where it is at neither, or between two switches."""
    ends = [shape for host, shape in _ends(probe) if host in suspect.hosts]
    if suspect.kind == "leaf":
        ends = [shape for _, shape in _ends(probe)]
    yield from ends or [_both(probe)]


def _ends(probe: Probe) -> Iterator[tuple[str, _Shape]]:
    """Each host of a probe, with the kind and what of that host is measured."""
    params = probe.params
    parts = [str(params[key]) for key in ("rnic", "endpoint", "peer_rnic") if key in params]
    if len(probe.hosts) == 1:
        yield probe.hosts[0], (probe.kind, probe.hosts[0], *(parts or [str(params.get("series", ""))]))
        return
    for number, host in enumerate(probe.hosts):
        part = params.get("peer_rnic" if number else "rnic", "")
        yield host, (probe.kind, host, str(part))


def _both(probe: Probe) -> _Shape:
    return (probe.kind, *(word for _, shape in _ends(probe) for word in shape[1:]))


def _measured(run: ShownRun, wanted: AbstractSet[_Shape]) -> set[_Shape]:
    """Those of the *wanted* shapes that a run measured."""
    kinds = {shape[0] for shape in wanted}
    found: set[_Shape] = set()
    for row in run.rows if kinds else ():
        if row.probe.kind in kinds and _is_measured(row):
            found.add(_both(row.probe))
            found.update(shape for _, shape in _ends(row.probe))
    return found & wanted


def _is_measured(row: Row) -> bool:
    return row.verdict.value_gbps is not None or row.verdict.outcome is Outcome.FAIL


def _took_part(found: Sequence[Suspect | None], run: ShownRun) -> bool:
    hosts = {host for one in found if one is not None for host in one.hosts}
    return hosts.issubset(run.judged.scenario.hosts)
