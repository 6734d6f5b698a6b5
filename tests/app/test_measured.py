"""What a run measured as tables: what is normal, what each probe passes through, what is said of suspects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.app.analyze import reopened
from fabric.app.measured import parts, passes_through, samples, suspects, tables_of, with_particulars
from fabric.model.change import ChangeResult, Window
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.verdict import ProbeVerdict
from fabric.report.shown_run import ShownRun
from fabric.runs.tables import WallClock
from tests.report.shown import hostile
from tests.runs.small_run import begin

Values = Sequence[tuple[str, float]]


@pytest.fixture(scope="module")
def run(slow_rnic: Path) -> ShownRun:
    """Four hosts, RNIC mlx5_3 of gpu002 slow."""
    return reopened(slow_rnic)


def measured(run: ShownRun, values: Values, kind: str = "loopback") -> ShownRun:
    """The same rack, which measured these bandwidths instead, one after the other."""
    probes = [
        Probe(f"one/{who}", kind, "one", tuple(who.partition("/")[0].split("+")), (), 1.0, {"series": who})
        for who, _ in values
    ]
    results = {
        probe.probe_id: ProbeResult(probe.probe_id, 1, (number(probe, value),), None, "", float(at), at + 1.0)
        for at, (probe, (_, value)) in enumerate(zip(probes, values, strict=True))
    }
    return replace(measured_as(run, probes), results=results)


def measured_as(run: ShownRun, probes: Sequence[Probe]) -> ShownRun:
    """With these probes instead, and no results."""
    verdicts = tuple(ProbeVerdict(probe.probe_id, Outcome.PASS, "") for probe in probes)
    verdict = replace(run.judged.verdict, probes=verdicts, suspects=())
    return ShownRun(replace(run.judged, verdict=verdict), run.inventory, probes, {}, run.document)


def number(probe: Probe, value: float) -> Measurement:
    return Measurement(probe.probe_id, "bandwidth", value, "Gb/s", 65536)


def clock(run: ShownRun) -> WallClock:
    return WallClock(Path(run.judged.path), run.judged.run_id)


def whole(groups: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables(groups)


def table_of(run: ShownRun) -> pa.Table:
    return whole(samples(run, clock(run)))


def shares(run: ShownRun) -> Mapping[str, float | None]:
    """By probe."""
    table = table_of(run)
    return dict(zip(table["probe"].to_pylist(), table["share"].to_pylist(), strict=True))


def three(name: str) -> Values:
    """One host at half of what two others measure."""
    return [(f"gpu001/{name}", 100.0), (f"gpu002/{name}", 100.0), (f"gpu003/{name}", 50.0)]


def test_what_has_peers_has_a_share_of_normal(run: ShownRun) -> None:
    found = shares(measured(run, three("probe.mlx5_0")))
    assert list(found.values()) == [1.0, 1.0, 0.5]


def test_repetitions_count_by_their_median_and_each_host_once(run: ShownRun) -> None:
    """A bad host that is measured again and again is not its own normal."""
    again = [(f"gpu003/probe.r{number}", value) for number, value in enumerate((50.0, 55.0, 60.0, 50.0, 50.0))]
    found = shares(measured(run, [("gpu001/probe", 100.0), ("gpu002/probe", 100.0), *again]))
    assert found["one/gpu003/probe.r1"] == pytest.approx(0.55)


def test_a_pair_is_of_both_of_its_hosts(run: ShownRun) -> None:
    values = [("gpu001+gpu002/pair", 100.0), ("gpu003+gpu004/pair", 100.0), ("gpu002+gpu003/pair", 60.0)]
    table = table_of(measured(run, values, kind="pairwise")).to_pylist()
    assert [(row["host"], row["peer_host"], row["share"]) for row in table][2] == ("gpu002", "gpu003", 0.6)


def test_what_was_measured_during_a_fault_is_no_part_of_what_is_normal(tmp_path: Path, run: ShownRun) -> None:
    fault = begin(tmp_path).verdict.changes[0].change
    assert fault.is_fault
    made = measured(run, [("gpu001/probe", 100.0), ("gpu002/probe", 50.0), ("gpu003/probe", 50.0)])
    during = (ChangeResult(fault, "reverted", windows=(Window(1.0, 3.0),)),)
    made = replace(made, judged=replace(made.judged, verdict=replace(made.judged.verdict, changes=during)))
    table = table_of(made).to_pylist()
    assert [row["change"] for row in table] == [None, fault.change_id, fault.change_id]
    assert [row["normal_gbps"] for row in table] == [100.0, 100.0, 100.0]


def test_a_probe_without_a_number_has_a_row_that_says_why(run: ShownRun) -> None:
    made = measured(run, three("probe"))
    named = ProbeVerdict("one/gpu003/probe", Outcome.ERROR, "no answer")
    verdicts = (*made.judged.verdict.probes[:2], named)
    judged = replace(made.judged, verdict=replace(made.judged.verdict, probes=verdicts))
    results = {name: one for name, one in made.results.items() if name != named.probe_id}
    row = table_of(replace(made, judged=judged, results=results)).to_pylist()[-1]
    assert (row["outcome"], row["reason"], row["gbps"], row["at"]) == ("error", "no answer", None, None)


def test_every_probe_passes_through_what_the_judge_looks_at(run: ShownRun) -> None:
    """Worked out once for all hosts of a make, and the same as for each of them."""
    topology = run.inventory.topology
    expected = [(row.probe.probe_id, *found) for row in run.rows for found in passes_through(row.probe, topology)]
    assert [tuple(row.values()) for row in whole(parts(run)).to_pylist()] == expected


def test_a_pair_sends_through_one_port_and_receives_through_the_other(run: ShownRun) -> None:
    probe = next(row.probe for row in run.rows if row.probe.kind == "rnic_to_rnic")
    ways = dict(passes_through(probe, run.inventory.topology))
    own, peer = (f"{probe.hosts[0]}/{probe.params[end]}" for end in ("rnic", "peer_rnic"))
    assert (ways[own], ways[f"{own}:port"], ways[peer], ways[f"{peer}:port"]) == ("tx", "tx", "rx", "rx")
    assert ways[probe.hosts[0]] is None


def test_no_more_is_asked_of_the_judge_than_there_are_kinds_of_host(run: ShownRun) -> None:
    """Ten times as many hosts of one make ask no more often what a probe inside a host passes through."""
    asked = []

    class Counted(dict):  # type: ignore[type-arg]
        def __getitem__(self, key: str) -> object:
            asked.append(key)
            return super().__getitem__(key)

    inside = [row for row in run.rows if len(row.probe.hosts) == 1]
    one = [row.probe for row in inside if row.probe.hosts == ("gpu001",)]

    def of(probes: Sequence[Probe]) -> int:
        """How often a platform's parts are looked up."""
        asked.clear()
        topology = replace(run.inventory.topology, hosts=Counted(run.inventory.topology.hosts))
        shown = ShownRun(run.judged, replace(run.inventory, topology=topology), probes, run.results, run.document)
        list(parts(shown))
        return len(asked)

    few, many = of(one), of([row.probe for row in inside])
    assert many - few <= 2 * (len(inside) - len(one))


def test_a_suspect_says_how_much_it_loses_and_since_when(run: ShownRun) -> None:
    table = table_of(run)
    row = suspects(with_particulars(run)).to_pylist()[0]
    assert (row["part"], row["kind"], row["outcome"], row["leaf_port"]) == (
        "gpu002/mlx5_3",
        "rnic",
        "fail",
        "su0-leaf3",
    )
    assert row["loss"] == pytest.approx(0.4, abs=0.05)
    assert row["worst_gbps"] < 0.65 * row["normal_gbps"]
    assert row["rate"] == 1.0
    assert row["since_s"] == min(one["began_s"] for one in table.to_pylist() if one["outcome"] == "fail")


def test_what_hosts_that_mean_harm_printed_is_only_text(run: ShownRun) -> None:
    """It is in the tables as it is; whoever shows it makes it harmless."""
    found = {name: list(groups) for name, groups in tables_of(hostile(run)).items()}
    assert found["samples"][0].num_rows >= len(run.rows)
