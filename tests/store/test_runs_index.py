"""What the index of all runs keeps of each: shares of normal only where something is normal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson
import pytest

from fabric.model.probe import Measurement
from fabric.probes.kinds import PEER_KINDS
from fabric.store import runs_index as runs_index_module
from fabric.store.measurements import write_measurements
from fabric.store.runs_index import FOLDER, WITH_PEERS, runs_index

RUN = "mixed/20990101-000000"
Values = Sequence[tuple[str, float]]


def kept(results: Path, probes: Iterable[tuple[str, str]], values: Values) -> dict[tuple[str, str], float | None]:
    """The share of each host and name: of a run with these probes (kind, name) in phase ``one`` and these numbers."""
    run = results / RUN
    run.mkdir(parents=True)
    phases = [{"name": "one", "probes": [[kind, {"name": name}] for kind, name in probes]}]
    asked = {"scenario": {"hosts": ["gpu001", "gpu002", "gpu003"], "phases": phases}}
    (run / "run.json").write_bytes(orjson.dumps({"run_id": "r", "asked": asked}))
    (run / "verdict.json").write_bytes(
        orjson.dumps({"run_id": "r", "scenario": "mixed", "outcome": "pass", "suspects": [], "not_passed": []})
    )
    write_measurements(
        run / "measurements.parquet", [Measurement(f"one/{who}", "bw", value, "Gb/s") for who, value in values]
    )
    with runs_index(results, [run]) as database:
        rows = database.execute("SELECT host, name, min(share) FROM part_share GROUP BY ALL").fetchall()
    return {(host, name): share for host, name, share in rows}


def three(name: str) -> Values:
    """One host at half of what two others measure."""
    return [(f"gpu001/{name}", 100.0), (f"gpu002/{name}", 100.0), (f"gpu003/{name}", 50.0)]


@pytest.mark.parametrize("kind", WITH_PEERS)
def test_what_has_peers_has_a_share_of_normal(tmp_path: Path, kind: str) -> None:
    shares = kept(tmp_path, [(kind, "probe")], three("probe.mlx5_0"))
    assert shares["gpu003", "probe.mlx5_0"] == pytest.approx(0.5)
    assert shares["gpu001", "probe.mlx5_0"] == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["concurrent_rings", "group_all_reduce", "pairwise", "link_burn"])
def test_what_shares_the_network_has_none_and_its_parts_are_known(tmp_path: Path, kind: str) -> None:
    shares = kept(tmp_path, [(kind, "probe")], three("probe.mlx5_0"))
    assert shares == {(host, "probe.mlx5_0"): None for host in ("gpu001", "gpu002", "gpu003")}


def test_it_does_not_take_the_share_of_what_else_the_host_measured(tmp_path: Path) -> None:
    shares = kept(
        tmp_path, [("concurrent_rings", "rings"), ("loopback", "rings2")], [*three("rings"), *three("rings2")]
    )
    assert shares["gpu003", "rings"] is None
    assert shares["gpu003", "rings2"] == pytest.approx(0.5)


def test_evidence_that_is_measured_again_keeps_its_share(tmp_path: Path) -> None:
    shares = kept(tmp_path, [("again", "again")], three("loopback.mlx5_0"))
    assert shares["gpu003", "loopback.mlx5_0"] == pytest.approx(0.5)


def test_the_kinds_are_those_that_are_judged_by_their_peers() -> None:
    assert set(WITH_PEERS) == PEER_KINDS


@pytest.mark.parametrize("kind", ["FIFO", "link", "folder", "log", "torn"])
def test_a_planted_database_is_neither_waited_for_nor_written(tmp_path: Path, kind: str) -> None:
    """What is asked is read into memory then; a torn file of ours is made again."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    results = tmp_path / "results"
    results.mkdir()
    file = results / FOLDER / runs_index_module._name()
    if kind == "folder":
        file.parent.symlink_to(elsewhere)
    else:
        file.parent.mkdir()
    if kind == "FIFO":
        os.mkfifo(file)
    elif kind == "log":
        os.mkfifo(f"{file}.wal")
    elif kind == "link":
        file.symlink_to(elsewhere / "file")
    elif kind == "torn":
        file.write_bytes(b"torn")
    shares = kept(results, [("rnic_to_rnic", "bw")], three("bw"))
    assert shares["gpu003", "bw"] == 0.5
    assert list(elsewhere.iterdir()) == []
    assert (file.is_file() and file.stat().st_size > 4) is (kind == "torn")
