"""The table of a run's links: a row each end of each cable, as it stood at the end and what it counted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric.judge.ports.health import by_port, steps_of
from fabric.judge.ports.links import SeenCable, cables_of
from fabric.judge.ports.optics import light, raw_ber
from fabric.model.outcome import Outcome
from fabric.model.sampling import CounterCourse, Value
from fabric.report.shown_run import ShownRun
from fabric.runs.columns import TABLES
from fabric.runs.links import LinkSamples, read_links
from fabric.runs.tables import table_of
from fabric.tools.infiniband import COUNTED

if TYPE_CHECKING:
    import pyarrow as pa

_LANES = 4
_NONE = CounterCourse()


def links(run: ShownRun) -> pa.Table:
    """Every cable that the run's traffic may cross, both ends; empty where nobody looked."""
    path, topology = Path(run.judged.path), run.inventory.topology
    found = read_links(path)
    rows = [] if found is None else list(_rows(found, cables_of(found, topology, run.judged.scenario.hosts), run))
    return table_of("links", {name: [row.get(name) for row in rows] for name in TABLES["links"].names})


def _rows(found: LinkSamples, cables: list[SeenCable], run: ShownRun) -> Iterator[dict[str, Any]]:
    courses = by_port(found.samples)
    outcomes = {one.component: one.outcome.value for one in run.judged.verdict.components}
    hosts = run.inventory.topology.hosts
    for cable in cables:
        judged = outcomes.get(cable.name, Outcome.PASS.value if cable.ends else None)
        if not cable.ends:
            yield {"part": cable.name, "node": cable.link.a, "peer_node": cable.link.b, "outcome": judged}
        for end, far in zip(cable.ends, reversed(cable.ends), strict=True):
            place = {"node": end[0], "port": end[1], "peer_node": far[0], "peer_port": far[1]}
            rack = hosts[end[0]].rack if end[0] in hosts else None
            module = found.modules.get(end)
            told = {} if module is None else asdict(module)
            numbers = _numbers(courses.get(end, {}), cable.link.line_rate_gbps, found.samples.every_s)
            yield {"part": cable.name, **place, "rack": rack, **numbers, **told, "outcome": judged}


def _numbers(courses: dict[str, CounterCourse], line_rate_gbps: float, every_s: float) -> dict[str, Any]:
    """How one end stands, and what it counted; light is the last that was read."""
    state = _last(courses, "up")
    seen = courses.get("up", _NONE)
    counted = {
        name: sum(step.by for step in steps_of(name, courses[name], (), every_s)[0])
        for name in (*COUNTED.values(), "rx_crc_errors")
        if name in courses
    }
    powers = {f"{way}{lane}_dbm": dbm for way in ("rx", "tx") for lane, dbm in light(courses, way, least=False).items()}
    return {
        "state": None if state is None else "up" if state else "down",
        "width": _last(courses, "width"),
        "lane_gbps": _last(courses, "lane_gbps"),
        "speed_gbps": _last(courses, "speed_gbps"),
        "began_s": seen.at_s[0] if seen.at_s else None,
        "ended_s": seen.until_s if seen.at_s else None,
        **counted,
        "raw_ber": raw_ber(courses, line_rate_gbps),
        "effective_ber": raw_ber(courses, line_rate_gbps, "effective_errors"),
        **{name: dbm for name, dbm in powers.items() if int(name[2]) < _LANES},
        "module_c": _last(courses, "module_c"),
    }


def _last(courses: dict[str, CounterCourse], name: str) -> Value:
    return next((value for value in reversed(courses.get(name, _NONE).values) if value is not None), None)
