"""Runs and frames for the tests of reports, and what a hostile host may have printed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from fabric.model.outcome import Outcome, Reason
from fabric.model.verdict import Suspect
from fabric.report.shown_run import ShownRun
from fabric.runs.tables import TABLES, table_of
from tests import builders
from tests.places import INVENTORY, SCENARIOS

HOSTILE = (
    "<script>window.owned=1</script>",
    "\"><img src=x onerror='window.owned=1'>",
    "</script><script>window.owned=1</script>",
    "<!--<script>",
    "<!-- <script ",
    "javascript:window.owned=1",
    "{{ 7*7 }}",
    "=cmd|' /C calc'!A0",
    "\x1b[31mred\x1b[0m\u202egnp\x00",
)


def run_of(
    results: Path,
    *,
    scenario: str = "self-check",
    hosts: str | None = "gpu[001-004]",
    faults: tuple[str, ...] = (),
    reports: bool = True,
) -> Path:
    """Run a shipped scenario on the mock; the directory of the run."""
    inventory = INVENTORY / "demo-rack-healthy.yaml" if scenario == "self-check" else None
    path = SCENARIOS / f"{scenario}.yaml"
    asked = builders.asked(path, inventory=inventory, hosts=hosts, faults=faults)
    judged = builders.on_mock(asked, results, reports=reports)
    return Path(judged.path)


def hostile(run: ShownRun) -> ShownRun:
    """The same run as hosts, files and tools that mean harm would have made it."""
    verdict = run.judged.verdict
    words = HOSTILE
    suspects = tuple(
        Suspect(
            f"gpu001/{word}",
            "rnic",
            Outcome.FAIL,
            0.5,
            (word, f"said: {word}" * 200),
            (word,),
            word,
            ("gpu001",),
            (verdict.probes[0].probe_id,),
        )
        for word in words
    )
    probes = tuple(
        replace(probe, outcome=Outcome.ERROR, reason=words[index % len(words)], value_gbps=None)
        for index, probe in enumerate(verdict.probes)
    )
    judged = replace(
        run.judged,
        scenario=replace(run.judged.scenario, name=words[0], description=words[1]),
        verdict=replace(
            verdict, reasons=tuple(map(Reason, words)), suspects=suspects, probes=probes, outcome=Outcome.FAIL
        ),
        judged_by=words,
        again=words[1],
        complete=False,
    )
    document = {"argv": list(words), "versions": {words[0]: words[1]}}
    return replace(run, past=replace(run.past, document=document), judged=judged)


Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Framed:
    """All frames of a run."""

    samples: pd.DataFrame
    parts: pd.DataFrame
    counters: pd.DataFrame
    links: pd.DataFrame
    changes: pd.DataFrame
    suspects: pd.DataFrame


def framed(**rows: Rows) -> Framed:
    """Of each named table these rows; what a row leaves out is missing."""
    return Framed(
        **{
            name: _frame(name, rows.get(name, ()))
            for name in ("samples", "parts", "counters", "links", "changes", "suspects")
        }
    )


def _frame(name: str, rows: Rows) -> pd.DataFrame:
    columns = {column: [row.get(column) for row in rows] for column in TABLES[name].names}
    return table_of(name, columns).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def sample(probe: str, gbps: float | None = 400.0, **others: Any) -> dict[str, Any]:
    """One loopback of mlx5_0 to numa0, of which 400 Gb/s are normal."""
    host = others.get("host", "gpu001")
    row = {"probe": probe, "phase": "p", "round": 1, "repeat": 1, "kind": "loopback", "series": "mlx5_0.numa0"}
    row |= {
        "host": host,
        "hosts": host,
        "rnic": "mlx5_0",
        "endpoint": "numa0",
        "op": "bandwidth",
        "size_bytes": 8 << 20,
    }
    row |= {"began_s": 0.0, "ended_s": 10.0, "gbps": gbps, "normal_gbps": 400.0, "outcome": "pass"}
    row |= {"share": None if gbps is None else gbps / 400.0}
    return row | others


def pair(probe: str, low: str, high: str, gbps: float = 400.0, **others: Any) -> dict[str, Any]:
    """What two hosts measured together over mlx5_0."""
    names = {"host": low, "peer_host": high, "hosts": f"{low},{high}", "peer_rnic": "mlx5_0", "endpoint": None}
    return sample(probe, gbps, **{"kind": "pairwise", "series": "mlx5_0.t1", **names, **others})
