"""A run as tables and pandas frames, enough by themselves; what is seen, and Prometheus told, while it goes on."""

import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import fabric
from fabric.app.analyze import analyze, reopened
from fabric.app.live_metrics import live_metrics, serve
from fabric.app.measured import parts, passes_through, samples, suspects, tables_of, with_particulars
from fabric.app.status import HostState, RunStatus, Watched
from fabric.errors import ConfigError, StoreError
from fabric.model.change import ChangeResult, Window
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.verdict import ProbeVerdict
from fabric.plan import Plan
from fabric.report.shown_run import ShownRun
from fabric.runs.frames import Run
from fabric.runs.run_lock import holding
from fabric.runs.tables import TABLES, WallClock
from tests.builders import asked, on_mock
from tests.places import INVENTORY, ROOT, SCENARIOS
from tests.report.shown import hostile
from tests.runs.small_run import begin, cut_after, run_of


@pytest.fixture
def path(slow_rnic: Path) -> Path:
    return slow_rnic


@pytest.fixture
def copy(path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(path, tmp_path / path.name))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TABLES))
def test_frames_documents_and_docstring_agree(path: Path, name: str) -> None:
    """Columns in order, with type and unit."""
    columns = [(column, kind, unit) for column, (kind, unit) in TABLES[name].columns.items()]
    frame = getattr(fabric.load(path), name)
    assert [(column, str(kind)) for column, kind in frame.dtypes.items()] == [one[:2] for one in columns]
    section = (ROOT / "docs" / "data.md").read_text().partition(f"## `run.{name}`, {TABLES[name].file}\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| .+ \|$", section.partition("\n## ")[0], re.MULTILINE)
    assert rows == columns
    told = (Run.__doc__ or "").partition(f"*{name}* ({TABLES[name].file})")[2].partition("=\n\n")[0]
    lines = [re.split(r" {2,}", line.strip()) for line in told.splitlines() if line.strip() and "=" not in line][1:]
    assert [(*line, "", "")[:3] for line in lines] == columns


def test_one_rnic_over_time_needs_no_id_and_no_other_file(path: Path) -> None:
    samples = fabric.load(path).samples
    one = samples[(samples.host == "gpu002") & (samples.rnic == "mlx5_3") & (samples.kind == "loopback")]
    assert len(one) == 10
    assert (one.share < 0.98).all()
    assert one["at"].is_monotonic_increasing
    assert set(one.outcome) == {"fail"}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["none", "older"])
def test_tables_that_are_not_there_are_made_again_and_kept(path: Path, copy: Path, damage: str) -> None:
    """As of a run that an older version wrote."""
    before, verdict = fabric.load(path), (copy / "verdict.json").read_bytes()
    for table in TABLES.values():
        (copy / table.file).unlink()
    if damage == "older":
        pd.DataFrame({"probe_id": ["a"], "value": [1.0]}).to_parquet(copy / TABLES["samples"].file)
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(fabric.load(copy), name), getattr(before, name))
        assert (copy / TABLES[name].file).is_file()
    assert (copy / "verdict.json").read_bytes() == verdict


def test_rows_made_and_written_in_groups_are_one_table(path: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group has texts of its own."""
    (copy / TABLES["parts"].file).unlink()
    monkeypatch.setattr("fabric.app.measured.AT_ONCE", 7)
    made, kept, before = fabric.load(copy), fabric.load(copy), fabric.load(path)
    for name in TABLES:
        expected = getattr(before, name).astype(object)
        for run in (made, kept):
            pd.testing.assert_frame_equal(getattr(run, name).astype(object), expected)


def test_a_run_whose_verdict_is_old_is_read_as_far_as_it_came(copy: Path) -> None:
    """It goes on, or was killed: nothing is written beside it."""
    lines = (copy / "events.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "events.jsonl").write_bytes(b"".join(lines[:400]))
    files = {file.name: file.stat().st_mtime_ns for file in copy.iterdir()}
    samples = fabric.load(copy).samples
    assert samples.gbps.isna().any()
    assert {file.name: file.stat().st_mtime_ns for file in copy.iterdir()} == files


@pytest.mark.slow
def test_a_defect_in_a_table_does_not_cost_the_verdict(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> None:
        raise ValueError("no such column")

    (copy / "verdict.json").unlink()
    monkeypatch.setattr("fabric.app.analyze.tables_of", broken)
    analyze(copy, rewrite=True)
    assert (copy / "verdict.json").is_file()
    assert "tables could not be made: ValueError: no such column" in capsys.readouterr().err


def test_importing_fabric_is_light() -> None:
    code = "import sys, fabric; sys.exit(bool({'pandas', 'numpy', 'pyarrow', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A run of which half is done."""
    begin(tmp_path)
    cut_after(run_of(tmp_path), "finished", 3)
    return run_of(tmp_path)


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_each_scrape_is_a_look_at_the_run(half: Path) -> None:
    registry = CollectorRegistry()
    registry.register(live_metrics(half))
    with holding(half.parent.parent, half.parent.name, ["gpu001"], run=half.name):
        text = generate_latest(registry).decode()
    assert 'fabric_live_running{scenario="small"} 1.0' in text
    assert 'state="done"} 3.0' in text
    assert 'fabric_live_running{scenario="small"} 0.0' in generate_latest(registry).decode()


def test_it_is_served_as_open_metrics(half: Path) -> None:
    port = free_port()
    serve(live_metrics(half), port)
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=accept)
    with urllib.request.urlopen(request, timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    assert {"fabric_live_probes", "fabric_live_hosts", "fabric_live_open_changes"} <= {one.name for one in families}
    with pytest.raises(ConfigError, match="--metrics-port"):
        serve(live_metrics(half), port)


def test_a_crowd_is_answered_one_after_the_other(half: Path) -> None:
    """Connections that ask nothing hold up the next one for a moment, and make no thread each."""
    port = free_port()
    before = threading.active_count()
    serve(live_metrics(half), port)
    with ExitStack() as crowd:
        for _ in range(4):
            crowd.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        time.sleep(0.2)
        assert threading.active_count() == before + 1
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert b"fabric_live_running" in answer.read()


@pytest.fixture(scope="module")
def bad_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight hosts, one RNIC dead and one host at half its speed."""
    faults = ("gpu002/mlx5_3:broken", "gpu005:slow=0.5")
    given = asked(SCENARIOS / "self-check.yaml", inventory=INVENTORY / "demo-rack-healthy.yaml", faults=faults)
    return Path(on_mock(given, tmp_path_factory.mktemp("results")).path)


def seen_until(run: Path, folder: Path, bytes_: int) -> tuple[Watched, RunStatus, Path]:
    """The run as far as so many bytes of its history, and the copy that it was looked at in."""
    copy = folder / run.parent.name / run.name
    copy.mkdir(parents=True)
    (copy / "run.json").write_bytes((run / "run.json").read_bytes())
    (copy / "events.jsonl").write_bytes((run / "events.jsonl").read_bytes()[:bytes_])
    watched = Watched(copy)
    return watched, watched.look(), copy


@pytest.mark.slow
def test_half_way_the_dead_rnic_and_the_slow_host_are_seen(bad_run: Path, tmp_path: Path) -> None:
    size = (bad_run / "events.jsonl").stat().st_size
    _, seen, _ = seen_until(bad_run, tmp_path, size // 2)
    assert 0 < seen.done < seen.planned
    assert list(seen.named) == ["gpu002/mlx5_3"]
    assert (seen.hosts["gpu002"], seen.hosts["gpu005"]) == (HostState.FAILED, HostState.SLOW)
    assert {seen.hosts[name] for name in seen.hosts if name not in ("gpu002", "gpu005")} <= {
        HostState.RUNNING,
        HostState.WELL,
    }
    assert seen.state == "killed"


@pytest.mark.slow
def test_looking_on_gives_what_one_look_at_the_end_does(bad_run: Path, tmp_path: Path) -> None:
    """A torn last line is read when it is whole."""
    data = (bad_run / "events.jsonl").read_bytes()
    watched, _, copy = seen_until(bad_run, tmp_path, len(data) // 3)
    for share in (0.5, 0.8, 1.0):
        (copy / "events.jsonl").write_bytes(data[: int(share * len(data))])
        seen = watched.look()
    whole = Watched(bad_run).look()
    assert (seen.done, seen.planned, seen.hosts, seen.named) == (whole.done, whole.planned, whole.hosts, whole.named)
    assert (whole.state, whole.done, whole.left_s) == ("ended", whole.planned, None)
    assert {one.component.partition("/")[0] for one in whole.suspects or ()} == {"gpu002", "gpu005"}


def test_a_collective_over_all_hosts_is_one_of_each(tmp_path: Path) -> None:
    """Its id (``8-hosts``) names none of them: on the map of a run that ended nobody is waiting."""
    text = (
        "name: all\ninventory: {}\nhosts: all\nphases: [{{name: p, probes: [{{group_all_reduce: {{sizes: [1G]}}}}]}}]\n"
    )
    file = tmp_path / "all.yaml"
    file.write_text(text.format(INVENTORY / "demo-rack-healthy.yaml"))
    on_mock(asked(file), tmp_path / "results")
    (run,) = (path.parent for path in (tmp_path / "results" / "all").glob("2*/run.json"))
    assert set(Watched(run).look().hosts.values()) == {HostState.WELL}


def test_a_run_that_somebody_works_on_is_running(tmp_path: Path) -> None:
    begin(tmp_path)
    run = run_of(tmp_path)
    cut_after(run, "finished", 1)
    with holding(tmp_path / "results", "small", ["gpu001"], run=run.name):
        assert Watched(run).look().state == "running"


def test_a_history_that_became_shorter_is_of_another_run(bad_run: Path, tmp_path: Path) -> None:
    watched, _, copy = seen_until(bad_run, tmp_path, 20_000)
    (copy / "events.jsonl").write_bytes(b"")
    with pytest.raises(StoreError, match="shorter than it was"):
        watched.look()


def test_no_run_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        Watched(tmp_path)


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
    return of_past(measured_as(run, probes), probes, results)


def of_past(run: ShownRun, probes: Sequence[Probe], results: Mapping[str, ProbeResult]) -> ShownRun:
    """With these probes and results instead."""
    history = replace(run.past.history, results=results, added=tuple(probes))
    return replace(run, past=replace(run.past, plan=Plan(()), history=history))


def measured_as(run: ShownRun, probes: Sequence[Probe]) -> ShownRun:
    """With these probes instead, and no results."""
    verdicts = tuple(ProbeVerdict(probe.probe_id, Outcome.PASS, "") for probe in probes)
    verdict = replace(run.judged.verdict, probes=verdicts, suspects=())
    return of_past(replace(run, judged=replace(run.judged, verdict=verdict)), probes, {})


def number(probe: Probe, value: float) -> Measurement:
    return Measurement(probe.probe_id, "bandwidth", value, "Gb/s", 65536)


def clock(run: ShownRun) -> WallClock:
    return WallClock(run.past.history.others, run.judged.run_id)


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
    results = {name: one for name, one in made.past.results.items() if name != named.probe_id}
    row = table_of(of_past(replace(made, judged=judged), made.past.probes, results)).to_pylist()[-1]
    assert (row["outcome"], row["reason"], row["gbps"], row["at"]) == ("error", "no answer", None, None)


def test_every_probe_passes_through_what_the_judge_looks_at(run: ShownRun) -> None:
    """Worked out once for all hosts of a make, and the same as for each of them."""
    topology = run.past.inventory.topology
    expected = [(row.probe.probe_id, *found) for row in run.rows for found in passes_through(row.probe, topology)]
    assert [tuple(row.values()) for row in whole(parts(run)).to_pylist()] == expected


def test_a_pair_sends_through_one_port_and_receives_through_the_other(run: ShownRun) -> None:
    probe = next(row.probe for row in run.rows if row.probe.kind == "rnic_to_rnic")
    ways = dict(passes_through(probe, run.past.inventory.topology))
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
        topology = replace(run.past.inventory.topology, hosts=Counted(run.past.inventory.topology.hosts))
        inventory = replace(run.past.inventory, topology=topology)
        shown = of_past(measured_as(run, probes), probes, run.past.results)
        shown = replace(shown, past=replace(shown.past, inventory=inventory))
        list(parts(shown))
        return len(asked)

    few, many = of(one), of([row.probe for row in inside])
    assert many - few <= 2 * (len(inside) - len(one))


def test_a_suspect_says_how_much_it_loses_and_since_when(run: ShownRun) -> None:
    table = table_of(run)
    row = suspects(with_particulars(run, [])).to_pylist()[0]
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


def test_what_went_through_another_suspect_is_not_told_of_one(run: ShownRun) -> None:
    """The worst number of a cable that flapped was that of a sick RNIC at the other end, and went to the vendor."""
    verdict, alone = run.judged.verdict, with_particulars(run, [])[0]
    worst = next(one for one in table_of(run).to_pylist() if one["gbps"] == alone.worst_gbps)
    (far,) = {worst["rnic"], worst["peer_rnic"]} - {"mlx5_3"}
    other = replace(verdict.suspects[0], component=f"gpu002/{far}", probes=())
    both = replace(run.judged, verdict=replace(verdict, suspects=(verdict.suspects[0], other)))
    rnic, _ = with_particulars(replace(run, judged=both), [])
    assert alone.worst_gbps is not None
    assert rnic.worst_gbps is not None
    assert rnic.worst_gbps > alone.worst_gbps


def test_what_hosts_that_mean_harm_printed_is_only_text(run: ShownRun) -> None:
    """It is in the tables as it is; whoever shows it makes it harmless."""
    found = {name: list(groups) for name, groups in tables_of(hostile(run)).items()}
    assert found["samples"][0].num_rows >= len(run.rows)
