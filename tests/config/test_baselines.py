"""Baseline files: limits with their sources, every mistake explained, every shipped number as published."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric import config
from fabric.errors import ConfigError
from fabric.model.verdict import Baseline, Limit

RING = "  - {kind: tor_all_reduce, size: 1G, ranks: 16, algorithm: RING, at_least_gbps: 2944, source: x}"
LIMIT = '  - {kind: loopback, link_class: pix, at_least_gbps: 380, source: "a datasheet"}'


def test_a_baseline_becomes_the_model(folder: Path) -> None:
    """What is left out of a limit matches anything."""
    path = folder / "baselines" / "h100-ndr.yaml"
    path.write_text(f"name: h100-ndr\nlimits:\n{LIMIT}\n{RING}\n")
    assert config.load_baseline(path) == Baseline(
        "h100-ndr",
        str(path),
        (
            Limit("loopback", 380.0, "a datasheet", link_class="pix"),
            Limit("tor_all_reduce", 2944.0, "x", size_bytes=1 << 30, ranks=16, algorithm="RING"),
        ),
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: h100-ndr", "name: h200-ndr", "1: expected 'h100-ndr', as the file is called, got 'h200-ndr'"),
        ("kind: loopback", "kind: lopback", "3: expected loopback, rnic_to_rnic, all_to_all, tor_all_reduce"),
        (
            "link_class: pix",
            "link_class: pxi",
            "3: expected pix, node, sys, mem_local, mem_remote, nvlink or cross_leaf, got 'pxi'",
        ),
        ("at_least_gbps: 380", "at_least_gbps: 380Gb", "3: expected a number from 0.001 to 1000000, got '380Gb'"),
        ("at_least_gbps: 380", "at_least_gbps: 0", "3: expected a number from 0.001"),
        ("at_least_gbps: 380, ", "", "3: 'at_least_gbps' is required here"),
        (', source: "a datasheet"', "", "3: 'source' is required here"),
        ("at_least_gbps: 380", "at_least: 380", "3: unknown key 'at_least'; did you mean 'at_least_gbps'?"),
        (LIMIT, f"{LIMIT}\n{LIMIT}", "4: the same key as the limit on line 3"),
        (LIMIT, "  []", "2: expected at least 1 entry, got 0"),
    ],
)
def test_a_bad_baseline_is_explained(folder: Path, baseline_text: str, old: str, new: str, said: str) -> None:
    """Each mistake is said with its line."""
    path = folder / "baselines" / "h100-ndr.yaml"
    path.write_text(baseline_text.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        config.load_baseline(path)
    assert any(f"{problem.line}: {problem.text}".startswith(said) for problem in caught.value.problems)


def test_a_name_where_a_file_is_expected_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``fabric analyze --baseline h100-ndr`` says that it wants the file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"not a name: inventory/baselines/h100-ndr\.yaml"):
        config.load_baseline(Path("h100-ndr"))
    with pytest.raises(ConfigError, match=r"gone\.yaml: no such file$"):
        config.load_baseline(Path("gone.yaml"))


# Azure azurehpc-health-checks, oci-hpc, nccl-tests issue 290; Gb/s
