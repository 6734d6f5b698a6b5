"""All runs as one history: trends of a component, repeat offenders, and directories that are not whole."""

import os
import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.app.history import history
from fabric.errors import ConfigError, StoreError
from fabric.report.several_runs import SIGNALS, history_text
from fabric.runs.run_lock import holding
from tests.report.shown import run_of
from tests.runs.other_account import place, shut
from tests.tools.test_launch import KERNEL, SACCT, TICKETS

__all__ = ["place"]


@pytest.fixture(scope="module")
def results(slow_rnic: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs of four hosts: gpu002/mlx5_3 slow in three of them, gpu003 out of one."""
    folder = tmp_path_factory.mktemp("history")
    good = run_of(folder, reports=False)
    bad = folder / "self-check" / f"{good.name}1"  # after it, and before the next
    copied(slow_rnic, bad)
    out = run_of(folder, faults=("gpu003:hanging",), reports=False)
    for number, source in enumerate((bad, bad, good)):
        copied(source, folder / "self-check" / f"20990101-00000{number}")
    assert out.is_dir()
    return folder


def copied(source: Path, target: Path) -> None:
    """A run once more, under another id."""
    shutil.copytree(source, target)
    for name in ("run.json", "verdict.json"):
        document = orjson.loads((target / name).read_bytes())
        (target / name).write_bytes(orjson.dumps({**document, "run_id": target.name}))


@pytest.mark.slow
def test_every_run_is_there_once_and_in_order(results: Path) -> None:
    found = history(results)
    assert [run.outcome for run in found.runs] == ["pass", "fail", "error", "fail", "fail", "pass"]
    assert found.total == 6


@pytest.mark.slow
def test_the_host_in_trouble_again_and_again_is_an_offender(results: Path) -> None:
    signals = {one.host: one for one in history(results).signals}
    assert [host for host, one in signals.items() if one.lemon] == ["gpu002"]
    values = dict(zip(("tickets", "troubles", "out"), signals["gpu002"].values, strict=False))
    assert values == {"tickets": 3.0, "troubles": 1.0, "out": 0.0}
    assert signals["gpu003"].values[2] == 1.0
    assert signals["gpu001"].troubled == 0


def test_what_others_wrote_down_makes_an_offender(results: Path, tmp_path: Path) -> None:
    """Tickets, jobs and Xids of a host that our runs saw nothing of; a leaf has a row of its own; days bound all."""
    files = {"jobs": SACCT, "tickets.csv": TICKETS, "kernel": KERNEL, "none": "hello\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text.replace("gpu[003-", "gpu[001,").replace("gpu003", "gpu001"))
    *imports, none = (tmp_path / name for name in files)
    found = history(results, imports=imports)
    signals = {one.host: one for one in found.signals}
    values = dict(zip(SIGNALS, signals["gpu001"].values, strict=True))
    assert values == {
        **{"tickets": 1.0, "troubles": 4.0, "out": 0.0, "excluded": 0.0},
        **{"multi_fails": 1.0, "single_fails": 1.0, "single_fail_rate": 1 / 8},  # 6 runs and two jobs
    }
    assert (signals["gpu001"].troubled, signals["leaf3"].values[0]) == (3, 1.0)
    assert (found.records, "  8 records of others counted in" in history_text(found)) == (8, True)
    assert signals["gpu001"].high == ("troubles", "multi_fails")
    assert history(results, imports=imports, days=1).records == 0
    assert signals["gpu001"].told_by[0] == "jobs:3"
    assert "kernel:3, kernel:2 and 4 more" in history_text(history(results, component="gpu001", imports=imports))
    (tmp_path / "bad.csv").write_text(TICKETS + "leaf3,never,,\nleaf4,soon,,\n")
    with pytest.raises(ConfigError, match="none: expected columns") as raised:
        history(results, imports=[none, tmp_path / "bad.csv", tmp_path / "absent"])
    assert [(Path(one.file).name, one.line) for one in raised.value.problems] == [
        *(("absent", 0), ("bad.csv", 4), ("bad.csv", 5), ("none", 0))
    ]
    (tmp_path / "empty").mkdir()
    alone = {one.host: one.lemon for one in history(tmp_path / "empty", imports=imports).signals}
    assert alone == {"gpu001": True, "gpu004": False, "leaf3": False}


def test_a_component_has_its_share_in_every_run(results: Path) -> None:
    shares = [run.share for run in history(results, component="gpu002/mlx5_3").runs]
    assert [share is not None and share < 0.7 for share in shares] == [False, True, False, True, True, False]
    healthy = [run.share for run in history(results, component="gpu002/mlx5_4").runs]
    assert healthy[0] is not None
    assert healthy[0] > 0.95


@pytest.mark.parametrize("part", ["mlx5_", "mlx5_33", "gpu9"])
def test_a_part_that_no_run_knows_is_an_error_with_the_nearest_one(results: Path, part: str) -> None:
    """A part is a whole word: mlx5_ is not in mlx5_3."""
    with pytest.raises(ConfigError, match="says anything of that part; did you mean"):
        history(results, component=f"gpu002/{part}")


def test_the_cable_of_an_rnic_has_what_its_rnic_sent(results: Path) -> None:
    port, rnic = (history(results, component=f"gpu002/{part}").runs for part in ("mlx5_3:port", "mlx5_3"))
    assert [(run.share, run.failed) for run in port] == [(run.share, run.failed) for run in rnic]


def test_a_part_of_the_network_is_told_by_the_runs_that_suspected_it(results: Path, tmp_path: Path) -> None:
    """It is in no host: neither it nor the line of its run may be lost."""
    name = "su0-leaf3--spine02"
    copy = (
        shutil.copytree(results, tmp_path / "copy", symlinks=True) / "self-check" / "20990101-000000" / "verdict.json"
    )
    document = orjson.loads(copy.read_bytes())
    suspect = {**document["suspects"][0], "component": name, "kind": "link", "hosts": []}
    copy.write_bytes(orjson.dumps({**document, "suspects": [suspect]}))
    assert [name in run.suspected for run in history(tmp_path / "copy").runs].count(True) == 1
    found = history(tmp_path / "copy", component=name)
    assert [(run.run_id, run.suspected) for run in found.runs] == [("20990101-000000", (name,))]
    told = history_text(found).splitlines()
    assert told[0] == f"1 of 6 runs suspected {name}"
    assert not any("offenders" in line for line in told)
    with pytest.raises(ConfigError, match=f"did you mean '{name}'"):
        history(tmp_path / "copy", component="su0-leaf3--spine2")


def test_an_unknown_host_is_an_error_and_so_is_an_empty_folder(results: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        history(results, component="gpu999")
    with pytest.raises(ConfigError):
        history(tmp_path)


@pytest.mark.parametrize("damage", ["torn", "other columns"])
def test_a_table_that_cannot_be_read_is_made_again(slow_rnic: Path, tmp_path: Path, damage: str) -> None:
    """As that of an older version; where it cannot be made that is told."""
    run = Path(shutil.copytree(slow_rnic, tmp_path / "copy" / "self-check" / slow_rnic.name))
    file = run / "measurements.parquet"
    if damage == "torn":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        pq.write_table(pa.table({"value": [1.0]}), file)
    (found,) = history(tmp_path / "copy", component="gpu002/mlx5_3").runs
    assert found.share is not None
    assert found.share < 0.7
    file.unlink()
    (run / "events.jsonl").write_bytes((run / "events.jsonl").read_bytes().replace(b"gpu003", b"gpu004", 1))
    with pytest.raises(StoreError, match=r"events\.jsonl:3: not a line of this tool"):
        history(tmp_path / "copy", component="gpu002")


def test_a_run_whose_tables_cannot_be_made_again_is_told_beside_the_rest(results: Path, tmp_path: Path) -> None:
    """Not instead of all others; alone it is an error."""
    folder = tmp_path / "results"
    shutil.copytree(results, folder, symlinks=True)
    before = history(folder, component="gpu002/mlx5_3")
    bad = folder / "self-check" / "20990101-000000"
    (bad / "measurements.parquet").unlink()
    (bad / "events.jsonl").write_bytes((bad / "events.jsonl").read_bytes().replace(b"gpu003", b"gpu004", 1))
    found = history(folder, component="gpu002/mlx5_3")
    assert len(found.runs) == len(before.runs) - 1
    assert len(found.closed) == 1
    assert str(bad) in found.closed[0]
    copied(bad, tmp_path / "alone" / "self-check" / bad.name)
    with pytest.raises(StoreError, match=bad.name):
        history(tmp_path / "alone", component="gpu002/mlx5_3")


def test_a_host_alone_has_its_share_of_its_limit(tmp_path: Path) -> None:
    """Without peers its own numbers would be what is normal."""
    run_of(tmp_path, hosts="gpu002", faults=("gpu002:slow=0.5",), reports=False)
    (found,) = history(tmp_path, component="gpu002").runs
    assert found.share is not None
    assert found.share < 0.7


def test_a_validation_after_a_repair_has_its_decision(results: Path, tmp_path: Path) -> None:
    """All its probes may pass, and the host be rejected: nothing was replaced, or it is slower than it was."""
    shutil.copytree(results, tmp_path / "all", symlinks=True)
    decided, other = sorted((tmp_path / "all" / "self-check").glob("2099*"))[:2]
    (decided / "acceptance.json").write_bytes(orjson.dumps({"decision": "REJECT", "reasons": []}))
    (other / "acceptance.json").write_bytes(b"{")
    found = history(tmp_path / "all")
    assert {run.run_id: run.decision for run in found.runs if run.decision} == {decided.name: "REJECT"}
    (line,) = [line for line in history_text(found).splitlines() if decided.name in line]
    assert "REJECT" in line
    assert "FAIL" not in line


def test_a_verdict_older_than_what_was_measured_is_left_out_and_told(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "copy", symlinks=True)
    run = tmp_path / "copy" / "self-check" / "20990101-000000"
    with (run / "events.jsonl").open("ab") as file:
        file.write(b"\n")
    found = history(tmp_path / "copy")
    assert run.name not in [one.run_id for one in found.runs]
    assert (len(found.runs), found.unreadable, found.not_judged) == (5, 1, (f"self-check/{run.name}",))
    assert next(one for one in found.signals if one.host == "gpu002").runs == 5
    assert f"  1 not judged yet: fabric analyze RUN; self-check/{run.name}" in history_text(found).splitlines()


def test_where_all_runs_are_older_nobody_is_told_to_judge_them(tmp_path: Path) -> None:
    for run, words in (("20200101-000000", "no run here is of the last 3 d"), ("other", "no run of the last 3 d")):
        (tmp_path / "self-check" / run).mkdir(parents=True)
        (tmp_path / "self-check" / run / "run.json").write_text("{}")
        with pytest.raises(ConfigError, match=words):
            history(tmp_path, days=3)


def test_a_run_that_goes_on_is_not_to_be_judged_by_hand(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results, tmp_path / "copy", symlinks=True)
    run = tmp_path / "copy" / "self-check" / "20990101-000000"
    (run / "verdict.json").unlink()
    with holding(tmp_path / "copy", "self-check", ["gpu001"], run=run.name):
        found = history(tmp_path / "copy")
        for other in (tmp_path / "copy" / "self-check").glob("2*"):
            if other != run and not other.is_symlink():
                shutil.rmtree(other)
        with pytest.raises(ConfigError, match="no run is judged yet: still going on"):
            history(tmp_path / "copy")
    assert (found.at_work, found.unreadable, found.not_judged) == (1, 0, ())
    assert "  1 not judged yet: still going on (fabric status)" in history_text(found).splitlines()


def test_what_cannot_be_read_is_told_beside_the_rest(results: Path, place: Path) -> None:
    copy = Path(shutil.copytree(results, place / "copy", symlinks=True))
    for folder in (copy, copy / "self-check", *copy.glob("self-check/2*")):
        folder.chmod(0o755)
    run, other = copy / "self-check" / "20990101-000000", copy / "self-check" / "20990101-000001"
    with shut(run, other / "verdict.json"):
        found = history(copy)
    assert found.closed == (f"{run}: Permission denied", f"{other / 'verdict.json'}: cannot be read: Permission denied")
    assert (len(found.runs), found.total) == (4, 4)
    assert f"  left out: {run}: Permission denied" in history_text(found).splitlines()


def test_a_file_of_somebody_else_is_named_and_not_quoted(results: Path, tmp_path: Path) -> None:
    """What stands in it is not for everybody to read."""
    run = tmp_path / "copy" / "self-check" / "20990101-000000"
    shutil.copytree(results / "self-check" / run.name, run)
    (run / "verdict.json").write_bytes(b'["root:secret"]')
    with pytest.raises(StoreError, match=r"verdict\.json: not as this version writes it; fabric analyze [^:]+$"):
        history(tmp_path / "copy")
    shutil.copytree(results / "self-check" / run.name, run.with_name("20990101-000001"))
    (found,) = history(tmp_path / "copy").closed
    assert "verdict.json: not as this version writes it; fabric analyze" in found


def test_what_is_no_plain_file_is_told_beside_the_rest(results: Path, tmp_path: Path) -> None:
    """No FIFO is opened and no link followed: such a run is left out, with the reason."""
    copy = Path(shutil.copytree(results, tmp_path / "copy", symlinks=True))
    first, second, *_ = sorted(copy.glob("self-check/2*"))
    (first / "measurements.parquet").unlink()
    os.mkfifo(first / "measurements.parquet")
    (second / "verdict.json").rename(tmp_path / "verdict.json")
    (second / "verdict.json").symlink_to(tmp_path / "verdict.json")
    found = history(copy)
    assert found.closed == (f"{second / 'verdict.json'}: cannot be read: not a plain file (a link)",)
    assert second.name not in [run.run_id for run in found.runs]
    assert len(history(copy, component="gpu002").runs) == len(found.runs)  # its samples are made again
