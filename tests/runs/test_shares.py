"""What a host measured as shares of what is normal in each run: only where something is normal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fabric.model.probe import Measurement
from fabric.runs.tables import Apart, Shares, shares_of, write_measurements

Values = Sequence[tuple[str, float]]


def measured(run: Path, values: Values) -> Path:
    """A run that measured these bandwidths in phase ``one``."""
    run.mkdir(parents=True)
    write_measurements(run, [Measurement(f"one/{who}", "bw", value, "Gb/s") for who, value in values])
    return run


def shares(run: Path, host: str, values: Values, apart: Apart = frozenset()) -> Shares:
    """Those of a host in such a run."""
    (found,) = shares_of(host, [(measured(run, values), apart)])
    return found


def three(name: str) -> Values:
    """One host at half of what two others measure."""
    return [(f"gpu001/{name}", 100.0), (f"gpu002/{name}", 100.0), (f"gpu003/{name}", 50.0)]


def test_what_has_peers_has_a_share_of_normal(tmp_path: Path) -> None:
    assert shares(tmp_path / "a", "gpu003", three("probe.mlx5_0")) == {"probe.mlx5_0": pytest.approx(0.5)}
    assert shares(tmp_path / "b", "gpu001", three("probe.mlx5_0")) == {"probe.mlx5_0": pytest.approx(1.0)}


def test_what_shares_the_network_has_none_and_its_parts_are_known(tmp_path: Path) -> None:
    found = shares(tmp_path / "a", "gpu003", three("rings.mlx5_0"), frozenset({("one", "rings")}))
    assert found == {"rings.mlx5_0": None}


def test_it_does_not_take_the_share_of_what_else_the_host_measured(tmp_path: Path) -> None:
    found = shares(tmp_path / "a", "gpu003", [*three("rings"), *three("rings2")], frozenset({("one", "rings")}))
    assert found == {"rings": None, "rings2": pytest.approx(0.5)}


def test_a_pair_is_of_both_of_its_hosts(tmp_path: Path) -> None:
    values = [("gpu001+gpu002/pair", 100.0), ("gpu003+gpu004/pair", 100.0), ("gpu002+gpu003/pair", 60.0)]
    for host, share in (("gpu001", 1.0), ("gpu002", 0.6), ("gpu003", 0.6), ("gpu00", None)):
        found = shares(tmp_path / host, host, values)
        assert found == ({} if share is None else {"pair": pytest.approx(share)})


def test_repetitions_count_by_their_median(tmp_path: Path) -> None:
    again = [(f"gpu003/probe.r{number}", value) for number, value in enumerate((50.0, 90.0, 100.0))]
    found = shares(tmp_path / "a", "gpu003", [("gpu001/probe", 100.0), ("gpu002/probe", 100.0), *again])
    assert found == {"probe": pytest.approx(0.9)}


def test_each_run_has_its_own_normal_and_one_without_a_table_has_none(tmp_path: Path) -> None:
    """Also where more are asked than are read at once."""
    slow = [(who, value / 2) for who, value in three("probe")]
    runs = [measured(tmp_path / "a", three("probe")), tmp_path / "none", measured(tmp_path / "b", slow)] * 100
    found = shares_of("gpu003", [(run, frozenset()) for run in runs])
    half = {"probe": pytest.approx(0.5)}
    assert found == [half, {}, half] * 100
