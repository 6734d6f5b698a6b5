"""
What a judged run measured, as tables (``runs.columns``): samples, the parts that each passed through, and suspects.

What is normal for a sample is the median of all hosts for the same measurement in this run (with the same values of a
matrix): repetitions and rounds count by their median and each host once, or a bad host that is measured again and again
would be normal. What was measured while a fault was made on purpose is no part of it. Where several have something in
common (a collective over all of them) nothing is normal.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric.errors import StoreError
from fabric.judge.locate.candidates import components_of
from fabric.judge.normal.keys import BANDWIDTH_UNIT, line_rate_gbps, link_class
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Measurement, Probe
from fabric.model.repair import HostIdentity
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import ONE_LINE
from fabric.probes.kinds import PEER_KINDS
from fabric.probes.latency import UNIT as LATENCY_UNIT
from fabric.report.shown_run import Row, ShownRun
from fabric.runs.columns import TABLES
from fabric.runs.run_document import read_identity
from fabric.runs.tables import WallClock, changes, counters, table_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    Numbers = np.ndarray[Any, Any]


def tables_of(run: ShownRun) -> dict[str, Iterable[pa.Table]]:
    """Every table of a judged run, by name, in groups of rows; what its counters tell is read as it is asked for."""
    path = Path(run.judged.path)
    clock = WallClock(path, run.judged.run_id)
    measured, incidence = samples(run, clock), parts(run)
    return {
        "samples": [measured],
        "parts": [incidence],
        "counters": counters(path, clock),
        "changes": [changes(path, [one.change for one in run.judged.verdict.changes], clock)],
        "suspects": [suspects(run, measured, incidence)],
    }


_REPETITION = re.compile(r"\.r([0-9]+)$")


def samples(run: ShownRun, clock: WallClock) -> pa.Table:
    """A row each number of each probe, in planned order; of a probe without any, one row that says why."""
    import numpy as np

    pairs = [(row, one) for row in run.rows for one in _numbers(row)]
    rows, numbers = [row for row, _ in pairs], [one for _, one in pairs]
    times = [(np.nan, np.nan) if row.result is None else (row.result.started_s, row.result.ended_s) for row in rows]
    began_s, ended_s = np.array(times, float).reshape(-1, 2).T.round(6)  # as its history has them
    changed, gbps = run.judged.verdict.changes, _values(numbers, BANDWIDTH_UNIT)
    columns = {
        **_probe_columns(run, rows),
        "op": [one and one.metric for one in numbers],
        "size_bytes": [one and one.size_bytes for one in numbers],
        "began_s": began_s,
        "ended_s": ended_s,
        "at": clock.at(began_s),
        "gbps": gbps,
        "us": _values(numbers, LATENCY_UNIT),
        "required_gbps": [row.verdict.limit_gbps if _is_largest(row, one) else None for row, one in pairs],
        "change": _in_force(changed, began_s, ended_s),
    }
    columns["link_class"], likes = _alike(pairs, run)
    on_purpose = _in_force([one for one in changed if one.change.is_fault], began_s, ended_s)
    normal = _normal(likes, columns["hosts"], np.where([one is None for one in on_purpose], gbps, np.nan))
    return table_of("samples", {**columns, "normal_gbps": normal, "share": gbps / normal})


def _numbers(row: Row) -> Sequence[Measurement | None]:
    """Those of bandwidth and latency; what else was read of a probe is no sample."""
    measured = () if row.result is None else row.result.measurements
    if len(measured) == 1 and measured[0].unit == BANDWIDTH_UNIT:  # nearly all
        return measured
    return [one for one in measured if one.unit in (BANDWIDTH_UNIT, LATENCY_UNIT)] or (None,)


def _values(numbers: Sequence[Measurement | None], unit: str) -> Numbers:
    import numpy as np

    return np.array([one.value if one and one.unit == unit else np.nan for one in numbers], float)


def _is_largest(row: Row, one: Measurement | None) -> bool:
    """Whether the limit of a probe is about this number of it: limits are for the largest message."""
    if one is None or row.result is None or len(row.result.measurements) == 1:
        return True
    return one.size_bytes == max((other.size_bytes or 0 for other in row.result.measurements), default=0)


def _probe_columns(run: ShownRun, rows: Sequence[Row]) -> dict[str, Any]:
    """What is the same for every number of a probe."""
    rounds = {phase.name: phase.round for phase in run.judged.scenario.phases}
    probes, verdicts = [row.probe for row in rows], [row.verdict for row in rows]
    repeats = [_REPETITION.search(probe.probe_id) for probe in probes]
    who: dict[tuple[str, ...], tuple[str | None, str | None, str]] = {}
    for probe in probes:
        if probe.hosts not in who:
            first, second = (*probe.hosts, None)[:2] if len(probe.hosts) < 3 else (None, None)
            who[probe.hosts] = first, second, fold(probe.hosts)
    return {
        "probe": [probe.probe_id for probe in probes],
        "phase": [probe.phase for probe in probes],
        "round": [rounds.get(probe.phase) for probe in probes],
        "repeat": [1 if found is None else int(found[1]) for found in repeats],
        "kind": [probe.kind for probe in probes],
        "series": [row.series.rpartition("/")[2] for row in rows],
        "host": [who[probe.hosts][0] for probe in probes],
        "peer_host": [who[probe.hosts][1] for probe in probes],
        "hosts": [who[probe.hosts][2] for probe in probes],
        **{name: [probe.params.get(name) for probe in probes] for name in ("rnic", "peer_rnic", "endpoint")},
        "outcome": [one.outcome.value for one in verdicts],
        "reason": [one.reason or None for one in verdicts],
        "failure": [one.failure and one.failure.value for one in verdicts],
    }


def _alike(pairs: Sequence[tuple[Row, Measurement | None]], run: ShownRun) -> tuple[list[str | None], list[int | None]]:
    """Of each number the class of its path, and a code that like numbers share; None where they have no peers."""
    topology = run.inventory.topology
    wheres = {phase.name: phase.where for phase in run.judged.scenario.phases}
    codes: dict[Hashable, int] = {}
    layouts: dict[Hashable, tuple[str | None, Hashable]] = {}
    classes: list[str | None] = []
    likes: list[int | None] = []
    for row, one in pairs:
        layout = _layout(row.probe, topology)
        if layout not in layouts:
            layouts[layout] = link_class(row.probe, topology), _like(row.probe, topology)
        of_path, like = layouts[layout]
        classes.append(of_path)
        key = like, wheres.get(row.probe.phase), one and one.metric, one and one.size_bytes
        likes.append(None if like is None else codes.setdefault(key, len(codes)))
    return classes, likes


def _layout(probe: Probe, topology: Topology) -> Hashable:
    """Equal for probes that differ in their host alone: the hosts of a make share parameters, which live as long."""
    host = topology.hosts[probe.hosts[0]]
    return id(probe.params), host.leaves, probe.hosts if len(probe.hosts) > 1 else host.platform.name


def _like(probe: Probe, topology: Topology) -> Hashable:
    """What peers share, but for the quantity; None where there are none."""
    if probe.kind not in PEER_KINDS | ONE_LINE:
        return None
    what = _REPETITION.sub("", probe.probe_id.rpartition("/")[2])
    make = topology.hosts[probe.hosts[0]].platform.name
    return what, make, link_class(probe, topology), line_rate_gbps(probe, topology)


def _normal(likes: Sequence[int | None], hosts: Sequence[str], gbps: Numbers) -> Numbers:
    """The median over the hosts of the hosts' medians, for each number; NaN where it has no peers."""
    import pandas as pd

    found = pd.DataFrame({"like": pd.array(likes, "Int64"), "hosts": hosts, "gbps": gbps})
    of_host = found[found["gbps"] > 0].groupby(["like", "hosts"])["gbps"].median()
    of_like: Numbers = found["like"].map(of_host.groupby("like").median()).to_numpy(float, na_value=float("nan"))
    return of_like


def _in_force(changes: Iterable[ChangeResult], began_s: Numbers, ended_s: Numbers) -> list[str | None]:
    """Which of these changes were in force while each sample was taken, by their ids."""
    import numpy as np

    found = np.full(len(began_s), "", object)
    for one in changes:
        meanwhile = np.zeros(len(began_s), bool)
        for window in one.windows:
            end_s = np.inf if window.ended_s is None else window.ended_s
            meanwhile |= (began_s < end_s) & (ended_s > window.began_s)
        found[meanwhile] += f", {one.change.change_id}"
    return [text[2:] or None for text in found]


def passes_through(probe: Probe, topology: Topology) -> Iterator[tuple[str, str | None]]:
    """The parts whose fault a probe would show, each with the way its bytes take there: ``tx``, ``rx`` or both."""
    ways: dict[str, str] = {}
    if "peer_rnic" in probe.params and probe.params.get("direction") != "both_ways":
        ways[f"{probe.hosts[0]}/{probe.params['rnic']}"] = "tx"
        ways[f"{probe.hosts[-1]}/{probe.params['peer_rnic']}"] = "rx"
    for part in components_of(probe, topology):
        yield part.name, ways.get(part.name.removesuffix(":port"))


def parts(run: ShownRun) -> pa.Table:
    """A row each part that a probe passes through, in the order of the probes."""
    import numpy as np

    names = [row.probe.hosts[0] for row in run.rows]
    which, patterns = _patterns(run)
    texts = list(dict.fromkeys(text for pattern in patterns for text, _ in pattern))
    place = {text: number for number, text in enumerate(texts)}
    flat = np.array([place[text] for pattern in patterns for text, _ in pattern], int)
    ways = np.array([_WAYS.index(way) for pattern in patterns for _, way in pattern], int)
    lengths = np.array([len(pattern) for pattern in patterns], int)
    counts = lengths[which]
    rows = np.repeat(np.arange(len(which)), counts)
    step = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.repeat((np.cumsum(lengths) - lengths)[which], counts) + step
    hosts = list(dict.fromkeys(names))
    code = {name: number for number, name in enumerate(hosts)}
    own = np.array([_OWN in text for text in texts], bool)[flat[at]]
    host = np.where(own, np.array([code[name] for name in names], int)[rows], 0)
    pairs, part = np.unique(host * len(texts) + flat[at], return_inverse=True)
    told = [texts[pair % len(texts)].replace(_OWN, hosts[pair // len(texts)]) for pair in pairs.tolist()]
    columns = {
        "probe": (rows, [row.probe.probe_id for row in run.rows]),
        "part": (part, told),
        "direction": (ways[at], _WAYS),
    }
    return table_of("parts", {name: _coded(*column) for name, column in columns.items()})


_OWN = "\0"  # stands for the host of a probe; in no name
_WAYS = ("tx", "rx", None)


def _patterns(run: ShownRun) -> tuple[list[int], list[list[tuple[str, str | None]]]]:
    """Which pattern each probe has, and of each what it passes through: worked out once for all hosts of a make."""
    topology = run.inventory.topology
    places: dict[Hashable, int] = {}
    which: list[int] = []
    patterns: list[list[tuple[str, str | None]]] = []
    for row in run.rows:
        layout = _layout(row.probe, topology)
        if layout not in places:
            places[layout] = len(patterns)
            host = row.probe.hosts[0] if len(row.probe.hosts) == 1 else None
            found = passes_through(row.probe, topology)
            patterns.append([(_without(name, host), way) for name, way in found])
        which.append(places[layout])
    return which, patterns


def _without(part: str, host: str | None) -> str:
    """A part of any host of the make."""
    return f"{_OWN}{part[len(host) :]}" if host is not None and Part.of(part).host == host else part


def _coded(codes: Numbers, texts: Sequence[str | None]) -> pa.DictionaryArray:
    """A column of texts from where each stands among them; one text may stand in several places, None is missing."""
    import numpy as np
    import pyarrow as pa

    known = {text: number for number, text in enumerate(one for one in dict.fromkeys(texts) if one is not None)}
    where = np.array([-1 if text is None else known[text] for text in texts], np.int32)[codes]
    return pa.DictionaryArray.from_arrays(pa.array(where, mask=where < 0), pa.array(list(known), pa.string()))


def suspects(run: ShownRun, measured: pa.Table, incidence: pa.Table) -> pa.Table:
    """A row each suspect, with what its samples say: those through the part, and those that accuse it."""
    import pandas as pd

    found = run.judged.verdict.suspects
    frame = measured.select(["probe", "outcome", "gbps", "share", "normal_gbps", "began_s"]).to_pandas()
    frame = frame[frame["outcome"] != Outcome.SKIPPED.value]
    through = incidence.select(["probe", "part"]).to_pandas() if found else pd.DataFrame()
    known: Mapping[str, HostIdentity] = {}
    with suppress(StoreError):  # without it no serial is known, and the rest stands
        known = (read_identity(Path(run.judged.path)) if found else None) or {}
    told: list[dict[str, Any]] = []
    for one in found:
        probes = {*one.probes, *through["probe"][through["part"] == one.component]}
        told.append(
            {
                "part": one.component,
                "kind": one.kind,
                "outcome": one.outcome.value,
                "confidence": one.confidence,
                "rivals": ", ".join(one.ambiguous_with) or None,
                "next_step": one.next_step or None,
                **_loss(frame[frame["probe"].isin(probes)]),
                **_place(Part.of(one.component), run.inventory.topology, known),
            }
        )
    return table_of("suspects", {name: [one.get(name) for one in told] for name in TABLES["suspects"].names})


def _loss(mine: pd.DataFrame) -> dict[str, float]:
    """How much the samples of a part lose that did not pass, how often that is, and since when."""
    bad = mine[mine["outcome"] != Outcome.PASS.value].sort_values(["share", "gbps"])
    if bad.empty:
        return {}
    worst = bad.iloc[0]
    return {
        "loss": 1 - bad["share"].median(),
        "worst_gbps": worst["gbps"],
        "normal_gbps": worst["normal_gbps"],
        "rate": len(bad) / len(mine),
        "since_s": bad["began_s"].min(),
    }


def _place(part: Part, topology: Topology, known: Mapping[str, HostIdentity]) -> dict[str, str | None]:
    """The rack of its host, the leaf at the other end of its RNIC's cable, its serial number where that is known."""
    host = topology.hosts.get(part.host)
    if host is None:
        return {}
    rnic = host.platform.rnic_by_device.get(part.device)
    leaf = host.leaves[rnic.rail] if rnic is not None and rnic.rail < len(host.leaves) else None
    own = known[host.name].by_part.get(part.inside) if host.name in known else None
    return {"rack": host.rack, "leaf_port": leaf, "serial": None if own is None else own.serial}
