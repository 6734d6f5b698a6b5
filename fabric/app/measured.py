"""Tables of a judged run (``runs.columns``): samples, the parts each probe passed through, links, suspects.

The normal value of a sample is the median over all hosts of the same measurement in this run (with the same values of a
matrix). Each host counts once, with the median of its repetitions and rounds; otherwise a bad host that is measured
again and again would become normal. Samples taken while a fault was made on purpose do not count. There is no normal
value where hosts share a probe (a collective over all of them), nor for flows that share links (link_burn): each flow
gets what the others leave.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fabric.errors import StoreError
from fabric.judge.locate.candidates import components_of
from fabric.judge.normal.keys import BANDWIDTH_UNIT, line_rate_gbps, link_class
from fabric.judge.ports.health import by_port, steps_of
from fabric.judge.ports.links import SeenCable, cables_of, light, raw_ber
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Measurement, Probe
from fabric.model.repair import HostIdentity
from fabric.model.sampling import CounterCourse, Value
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import ONE_LINE, Suspect
from fabric.probes.kinds import PEER_KINDS
from fabric.probes.latency import UNIT as LATENCY_UNIT
from fabric.probes.link_burn import LinkBurnSpec
from fabric.report.shown_run import Row, ShownRun
from fabric.runs.run_document import read_identity
from fabric.runs.samples import LinkSamples, read_links
from fabric.runs.tables import TABLES, WallClock, changes, counters, schema_of, table_of
from fabric.tools.infiniband import COUNTED, SENT

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Numbers = np.ndarray[Any, Any]


AT_ONCE = 5_000
"""How many probes are made into rows at once: a bound on memory."""

_REPETITION = re.compile(r"\.r([0-9]+)$")


def tables_of(run: ShownRun) -> dict[str, Iterable[pa.Table]]:
    """Return every table of a judged run by name, in groups of rows; the large ones are made as they are read."""
    past, clock = run.past, _clock(run)
    return {
        "samples": samples(run, clock),
        "parts": parts(run),
        "counters": counters(past.path, clock),
        "links": [links(run)],
        "changes": [changes(past.history.others, [one.change for one in run.judged.verdict.changes], clock)],
        "suspects": [suspects(run.judged.verdict.suspects)],
    }


def _clock(run: ShownRun) -> WallClock:
    return WallClock(run.past.history.others, run.judged.run_id)


def samples(run: ShownRun, clock: WallClock) -> Iterator[pa.Table]:
    """
    Yield one row for each number of each probe, in planned order; a probe without numbers has one row with the reason.
    """
    comparable, at = _Comparable(run), 0
    normal = _normal(run, comparable)
    for first in range(0, len(run.rows), AT_ONCE):
        pairs = [(row, one) for row in run.rows[first : first + AT_ONCE] for one in _numbers(row)]
        rows, numbers = [row for row, _ in pairs], [one for _, one in pairs]
        began_s, ended_s = _times(rows)
        gbps, usual = _values(numbers, BANDWIDTH_UNIT), normal[at : at + len(pairs)]
        at += len(pairs)
        columns = {
            **_probe_columns(run, rows),
            "link_class": [comparable.path(row.probe) for row in rows],
            "op": [one and one.metric for one in numbers],
            "size_bytes": [one and one.size_bytes for one in numbers],
            "began_s": began_s,
            "ended_s": ended_s,
            "at": clock.at(began_s),
            "gbps": gbps,
            "us": _values(numbers, LATENCY_UNIT),
            "required_gbps": [row.verdict.limit_gbps if _is_largest(row, one) else None for row, one in pairs],
            "normal_gbps": usual,
            "share": gbps / usual,
            "change": _in_force(run.judged.verdict.changes, began_s, ended_s),
        }
        yield table_of("samples", columns)


def _times(rows: Sequence[Row]) -> Numbers:
    """Return when each probe began and ended, by the history; NaN if it did not run."""
    nothing = (np.nan, np.nan)
    times = [nothing if row.result is None else (row.result.started_s, row.result.ended_s) for row in rows]
    return np.array(times, float).reshape(-1, 2).T.round(6)


def _numbers(row: Row) -> Sequence[Measurement | None]:
    """Return the measurements of bandwidth and latency; other measurements of a probe are not samples."""
    measured = () if row.result is None else row.result.measurements
    if len(measured) == 1 and measured[0].unit == BANDWIDTH_UNIT:  # nearly all
        return measured
    return [one for one in measured if one.unit in (BANDWIDTH_UNIT, LATENCY_UNIT)] or (None,)


def _values(numbers: Sequence[Measurement | None], unit: str) -> Numbers:
    return np.array([one.value if one and one.unit == unit else np.nan for one in numbers], float)


def _is_largest(row: Row, one: Measurement | None) -> bool:
    """Return whether the probe's limit applies to this number: limits are for the largest message."""
    if one is None or row.result is None or len(row.result.measurements) == 1:
        return True
    return one.size_bytes == max((other.size_bytes or 0 for other in row.result.measurements), default=0)


def _probe_columns(run: ShownRun, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the columns that are equal for all numbers of a probe."""
    rounds = {phase.name: phase.round for phase in run.judged.scenario.phases}
    probes, verdicts = [row.probe for row in rows], [row.verdict for row in rows]
    repeats = [_REPETITION.search(probe.probe_id) for probe in probes]
    pairs = [(*probe.hosts, None)[:2] if len(probe.hosts) < 3 else (None, None) for probe in probes]
    folded = {hosts: fold(hosts) for hosts in {probe.hosts for probe in probes}}
    return {
        "probe": [probe.probe_id for probe in probes],
        "phase": [probe.phase for probe in probes],
        "round": [rounds.get(probe.phase) for probe in probes],
        "repeat": [1 if found is None else int(found[1]) for found in repeats],
        "kind": [probe.kind for probe in probes],
        "series": [row.series.rpartition("/")[2] for row in rows],
        "host": [host for host, _ in pairs],
        "peer_host": [peer for _, peer in pairs],
        "hosts": [folded[probe.hosts] for probe in probes],
        **{name: [probe.params.get(name) for probe in probes] for name in ("rnic", "peer_rnic", "endpoint")},
        "outcome": [one.outcome.value for one in verdicts],
        "reason": [one.reason or None for one in verdicts],
        "failure": [one.failure and one.failure.value for one in verdicts],
    }


_HAVE_PEERS = (PEER_KINDS | ONE_LINE) - {LinkBurnSpec.kind}


class _Comparable:
    """Tells which numbers of a run are comparable; worked out once for all hosts of one platform."""

    def __init__(self, run: ShownRun) -> None:
        self._topology = run.past.inventory.topology
        self._wheres = {phase.name: phase.where for phase in run.judged.scenario.phases}
        self._known: dict[Hashable, tuple[str | None, Hashable]] = {}
        self._codes: dict[Hashable, int] = {}

    def path(self, probe: Probe) -> str | None:
        """Return the class of the probe's path."""
        return self._of(probe)[0]

    def code(self, probe: Probe, one: Measurement | None) -> int:
        """Return a code that comparable numbers share; negative for a number that has no peers."""
        like = self._of(probe)[1]
        if one is None or like is None:
            return -1
        key = like, self._wheres.get(probe.phase), one.metric, one.size_bytes
        return self._codes.setdefault(key, len(self._codes))

    def _of(self, probe: Probe) -> tuple[str | None, Hashable]:
        layout = _host_independent_key(probe, self._topology)
        if layout not in self._known:
            path, like = link_class(probe, self._topology), None
            if probe.kind in _HAVE_PEERS:
                make = self._topology.hosts[probe.hosts[0]].platform.name
                like = (_measurement_name(probe), make, path, line_rate_gbps(probe, self._topology))
            self._known[layout] = path, like
        return self._known[layout]


def _measurement_name(probe: Probe) -> str:
    """Return the name of what a probe measures: the last part of its id, without the repetition."""
    return _REPETITION.sub("", probe.probe_id.rpartition("/")[2])


def _host_independent_key(probe: Probe, topology: Topology) -> Hashable:
    """
    Return a key that is equal for probes that differ only in their host.

    Hosts of one platform share one params object, so its id is stable.
    """
    host = topology.hosts[probe.hosts[0]]
    return id(probe.params), host.leaves, probe.hosts if len(probe.hosts) > 1 else host.platform.name


def _normal(run: ShownRun, comparable: _Comparable) -> Numbers:
    """Return the median over hosts of each host's median, for each number in order; NaN where there are no peers."""
    import pandas as pd

    faults = [one for one in run.judged.verdict.changes if one.change.is_fault]
    quiet = np.array([one is None for one in _in_force(faults, *_times(run.rows))], bool)
    hosts: dict[tuple[str, ...], int] = {}
    like, host, gbps = array("i"), array("i"), array("d")
    for row, undisturbed in zip(run.rows, quiet.tolist(), strict=True):
        for one in _numbers(row):
            like.append(comparable.code(row.probe, one))
            host.append(hosts.setdefault(row.probe.hosts, len(hosts)))
            gbps.append(one.value if undisturbed and one is not None else np.nan)
    found = pd.DataFrame({"like": like, "host": host, "gbps": gbps})
    usable = found[(found["like"] >= 0) & (found["gbps"] > 0)]
    of_like = usable.groupby(["like", "host"])["gbps"].median().groupby("like").median()
    normal: Numbers = found["like"].map(of_like).to_numpy(float)
    return normal


def _in_force(changes: Iterable[ChangeResult], began_s: Numbers, ended_s: Numbers) -> list[str | None]:
    """Return for each sample the ids of the changes that were in force while it was taken."""
    found = np.full(len(began_s), "", object)
    for one in changes:
        meanwhile = np.zeros(len(began_s), bool)
        for window in one.windows:
            meanwhile |= (began_s < window.until_s) & (ended_s > window.began_s)
        found[meanwhile] += f", {one.change.change_id}"
    return [text[2:] or None for text in found]


def passes_through(probe: Probe, topology: Topology) -> Iterator[tuple[str, str | None]]:
    """
    Yield the parts whose fault a probe would show, each with the direction of its bytes: ``tx``, ``rx``, None for both.
    """
    ways: dict[str, str] = {}
    if "peer_rnic" in probe.params and probe.params.get("direction") != "both_ways":
        ways[f"{probe.hosts[0]}/{probe.params['rnic']}"] = "tx"
        ways[f"{probe.hosts[-1]}/{probe.params['peer_rnic']}"] = "rx"
    for part in components_of(probe, topology):
        yield part.name, ways.get(part.name.removesuffix(":port"))


def parts(run: ShownRun) -> Iterator[pa.Table]:
    """Yield one row for each part that a probe passes through, in the order of the probes."""
    layouts: dict[Hashable, _Passed] = {}
    for first in range(0, len(run.rows), AT_ONCE):
        columns: dict[str, list[str | None]] = {name: [] for name in TABLES["parts"].names}
        for row in run.rows[first : first + AT_ONCE]:
            names, ways = _passed(row.probe, run.past.inventory.topology, layouts)
            columns["probe"] += [row.probe.probe_id] * len(names)
            columns["part"] += names
            columns["direction"] += ways
        yield table_of("parts", columns)


_Passed = tuple[Sequence[str], Sequence[str | None]]  # parts, and the direction through each
_OWN = "\0"  # stands for the host of a probe; occurs in no name


def _passed(probe: Probe, topology: Topology, layouts: dict[Hashable, _Passed]) -> _Passed:
    """Return what ``passes_through`` yields, worked out once for all hosts of one platform."""
    name, *others = probe.hosts
    layout = _host_independent_key(probe, topology)
    found = layouts.get(layout)
    if found is None:
        passed = dict(passes_through(probe, topology))
        parts = [_OWN + part[len(name) :] if Part.of(part).host == name else part for part in passed]
        found = parts, tuple(passed.values())
        if not others:
            layouts[layout] = found
    return [part.replace(_OWN, name) for part in found[0]], found[1]


def suspects(found: Sequence[Suspect]) -> pa.Table:
    """Return a table with one row for each suspect."""
    columns = {
        "part": [one.component for one in found],
        "outcome": [one.outcome.value for one in found],
        "rivals": [", ".join(one.ambiguous_with) or None for one in found],
        "next_step": [one.next_step or None for one in found],
        "leaf_port": [one.leaf for one in found],
    }
    others = (name for name in TABLES["suspects"].names if name not in columns)
    return table_of("suspects", {**columns, **{name: [getattr(one, name) for one in found] for name in others}})


def with_particulars(run: ShownRun, directories: Iterable[Path]) -> tuple[Suspect, ...]:
    """
    Return the suspects of a run, with the loss in their samples, their place, and their serial and firmware.

    What went through several suspects says nothing of one of them, unless all that did not pass did. *directories*: the
    run directories in which hosts recorded their identity.
    """
    found, topology = run.judged.verdict.suspects, run.past.inventory.topology
    if not found:
        return ()
    probes = {one.component: set(one.probes) for one in found}
    in_racks = {host for one in found if one.kind == "rack" for host in one.hosts}
    of_racks = [row.probe.probe_id for row in run.rows if not in_racks.isdisjoint(row.probe.hosts)]
    layouts: dict[Hashable, _Passed] = {}
    for row in run.rows:
        for part in probes.keys() & _passed(row.probe, topology, layouts)[0]:
            probes[part].add(row.probe.probe_id)
    shared = {probe for probe, many in Counter(chain(of_racks, *probes.values())).items() if many > 1}
    frame = _only(samples(run, _clock(run)), set().union(*probes.values()))
    known: dict[str, HostIdentity] = {}
    for directory in directories:
        with suppress(StoreError):  # then no serial is known; everything else is
            known |= read_identity(directory) or {}
    return tuple(
        replace(
            one,
            **(_loss(_of(frame, probes[one.component] - shared)) or _loss(_of(frame, probes[one.component]))),
            **_place(Part.of(one.component), topology, known),
        )
        for one in found
    )


def _only(measured: Iterable[pa.Table], probes: AbstractSet[str]) -> pd.DataFrame:
    """Return the samples of these probes that were not skipped."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(probes), pa.string())
    kept = [one.filter(pc.is_in(one["probe"].cast(pa.string()), wanted)) for one in measured]
    frame = pa.concat_tables(kept or [schema_of("samples").empty_table()]).to_pandas()
    return frame[frame["outcome"] != Outcome.SKIPPED.value]


def _of(frame: pd.DataFrame, probes: AbstractSet[str]) -> pd.DataFrame:
    return frame[frame["probe"].isin(probes)]


def _loss(mine: pd.DataFrame) -> dict[str, Any]:
    """Return how much the samples that did not pass lose, what share of all samples they are, and since when."""
    bad = mine[mine["outcome"] != Outcome.PASS.value].sort_values(["share", "gbps"])
    if bad.empty:
        return {}
    worst = bad.iloc[0]
    found = {
        "loss": 1 - bad["share"].median(),
        "worst_gbps": worst["gbps"],
        "normal_gbps": worst["normal_gbps"],
        "rate": len(bad) / len(mine),
        "since_s": bad["began_s"].min(),
    }
    return {name: float(value) for name, value in found.items() if value == value}  # not NaN


def _place(part: Part, topology: Topology, known: Mapping[str, HostIdentity]) -> dict[str, Any]:
    """Return the part's direction, its host's rack, the leaf at the end of its RNIC's cable, and its own identity."""
    host = topology.hosts.get(part.host)
    if host is None:
        return {}
    rnic = host.platform.rnic_by_device.get(part.device)
    parts = known[host.name].by_part if host.name in known else {}
    own = parts.get(part.inside) or parts.get(part.device)
    names = ("serial", "part_number", "firmware")
    return {
        "direction": part.aspect if part.both_ways != part else None,
        "rack": host.rack,
        "leaf": host.leaves[rnic.rail] if rnic is not None and rnic.rail < len(host.leaves) else None,
        **({} if own is None else {name: getattr(own, name) for name in names}),
    }


_LANES = 4
_WORD_BITS = 32
_AS_LAST_READ = ("width", "lane_gbps", "speed_gbps", "worst_block", "module_c")
_NOT_READ = CounterCourse()


def links(run: ShownRun) -> pa.Table:
    """Return every cable that the run's traffic may cross, with both ends; empty if nobody looked at cables."""
    topology = run.past.inventory.topology
    found = read_links(run.past.path)
    rows = [] if found is None else list(_link_rows(found, cables_of(found, topology, run.judged.scenario.hosts), run))
    return table_of("links", {name: [row.get(name) for row in rows] for name in TABLES["links"].names})


def _link_rows(found: LinkSamples, cables: list[SeenCable], run: ShownRun) -> Iterator[dict[str, Any]]:
    courses = by_port(found.samples)
    outcomes = {one.component: one.outcome.value for one in run.judged.verdict.components}
    hosts = run.past.inventory.topology.hosts
    for cable in cables:
        judged = outcomes.get(cable.name, Outcome.PASS.value if cable.ends else None)
        if not cable.ends:
            yield {"part": cable.name, "node": cable.link.a, "peer_node": cable.link.b, "outcome": judged}
        for end, far in zip(cable.ends, reversed(cable.ends), strict=True):
            place = {"node": end[0], "port": end[1], "peer_node": far[0], "peer_port": far[1]}
            rack = hosts[end[0]].rack if end[0] in hosts else None
            module = found.modules.get(end)
            details = {} if module is None else asdict(module)
            numbers = _link_numbers(courses.get(end, {}), cable.link.line_rate_gbps, found.samples.every_s)
            yield {"part": cable.name, **place, "rack": rack, **numbers, **details, "outcome": judged}


def _link_numbers(courses: dict[str, CounterCourse], line_rate_gbps: float, every_s: float) -> dict[str, Any]:
    """Return the state of one end of a cable and what it counted; light is the last reading."""
    state = _last(courses, "up")
    seen = courses.get("up", _NOT_READ)
    counted = {
        name: sum(step.by for step in steps_of(name, courses[name], (), every_s)[0])
        for name in (*COUNTED.values(), "rx_crc_errors", "full_blocks")
        if name in courses
    }
    powers = {f"{way}{lane}_dbm": dbm for way in ("rx", "tx") for lane, dbm in light(courses, way, least=False).items()}
    return {
        "state": None if state is None else "up" if state else "down",
        **{name: _last(courses, name) for name in _AS_LAST_READ},
        "sent_gbps": _sent_gbps(courses.get(SENT, _NOT_READ)),
        "began_s": seen.at_s[0] if seen.at_s else None,
        "ended_s": seen.until_s if seen.at_s else None,
        **counted,
        "raw_ber": raw_ber(courses, line_rate_gbps),
        "effective_ber": raw_ber(courses, line_rate_gbps, "effective_errors"),
        **{name: dbm for name, dbm in powers.items() if int(name[2]) < _LANES},
    }


def _sent_gbps(words: CounterCourse) -> float | None:
    """Return the mean rate from first to last reading; None if it was read only once or cleared meanwhile."""
    read = [(at_s, value) for at_s, value in zip(words.at_s, words.values, strict=True) if value is not None]
    lasted_s, sent = (read[-1][0] - read[0][0], read[-1][1] - read[0][1]) if read else (0.0, 0)
    return sent * _WORD_BITS / 1e9 / lasted_s if lasted_s > 0 and sent >= 0 else None


def _last(courses: dict[str, CounterCourse], name: str) -> Value:
    return next((value for value in reversed(courses.get(name, _NOT_READ).values) if value is not None), None)
