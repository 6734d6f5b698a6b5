"""Baseline files: limits with their sources, what was recorded, and what does not fit a platform."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.config.baselines import (
    Candidate,
    baseline_notes,
    candidate_text,
    load_baseline,
    load_baselines,
    load_candidate,
    out_of_reach_line,
    with_recorded,
)
from fabric.config.inventory import load_inventory
from fabric.errors import ConfigError
from fabric.model.inventory import BACKENDS, Inventory
from fabric.model.recorded import ALGORITHMS, LEAF_CLASSES, LINK_CLASSES, Recorded
from fabric.model.scenario import JudgeSettings, Phase, ProbeSpec, Scenario
from fabric.model.verdict import Baseline, Limit
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import ASKED
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec

RING = "  - {kind: tor_all_reduce, size: 1G, ranks: 16, algorithm: RING, at_least_gbps: 2944, source: x}"
LIMIT = '  - {kind: loopback, link_class: pix, at_least_gbps: 380, source: "a datasheet"}'


def test_a_baseline_becomes_the_model(folder: Path) -> None:
    """What is left out of a limit matches anything."""
    path = folder / "baselines" / "h100-ndr.yaml"
    path.write_text(f"name: h100-ndr\nlimits:\n{LIMIT}\n{RING}\n")
    assert load_baseline(path) == Baseline(
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
        load_baseline(path)
    assert any(f"{problem.line}: {problem.text}".startswith(said) for problem in caught.value.problems)


def test_a_name_where_a_file_is_expected_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``fabric analyze --baseline h100-ndr`` says that it wants the file."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"not a name: inventory/baselines/h100-ndr\.yaml"):
        load_baseline(Path("h100-ndr"))
    with pytest.raises(ConfigError, match=r"gone\.yaml: no such file$"):
        load_baseline(Path("gone.yaml"))


# Azure azurehpc-health-checks, oci-hpc, nccl-tests issue 290; Gb/s


LIMITS = """\
# Our hosts. Numbers agreed with the vendor on 2026-01-07.
name: h100-ndr
limits:
  - {kind: loopback, at_least_gbps: 380, source: "a datasheet"}   # do not lower
"""
ENTRY = (
    "  - {kind: loopback, tool: perftest, link_class: pix, size: 8M, direction: one_way, line_rate_gbps: 400, "
    "median_gbps: 397.6, mad_gbps: 0.8, n: 128, cv: 0.003, runs: [self-check/20260101-000000]}"
)
RECORDED = Recorded(
    "loopback",
    "perftest",
    "pix",
    8 << 20,
    direction="one_way",
    line_rate_gbps=400.0,
    median_gbps=397.6,
    mad_gbps=0.8,
    n=128,
    cv=0.003,
    runs=("self-check/20260101-000000",),
)


def baseline(folder: Path, text: str) -> Path:
    """A file of that text."""
    path = folder / "h100-ndr.yaml"
    path.write_text(text)
    return path


def test_recorded_numbers_are_read_beside_the_limits(tmp_path: Path) -> None:
    """One entry, in the model's words; a file without the section has none."""
    found = load_baseline(baseline(tmp_path, f"{LIMITS}recorded:\n{ENTRY}\n"))
    assert found.recorded == (RECORDED,)
    assert load_baseline(baseline(tmp_path, LIMITS)).recorded == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("median_gbps: 397.6", "medain_gbps: 397.6", "6: unknown key 'medain_gbps'; did you mean 'median_gbps'?"),
        (
            "link_class: pix",
            "link_class: same_lef",
            "6: expected pix, node, sys, mem_local, mem_remote, nvlink, same_leaf",
        ),
        ("tool: perftest", "tool: perftset", "6: expected perftest or nccl-tests, got 'perftset'; did you mean"),
        ("direction: one_way", "direction: oneway", "6: expected one_way or both_ways, got 'oneway'; did you mean"),
        ("n: 128", "n: 1", "6: expected a whole number from 2"),
        ("cv: 0.003", "cv: 3 %", "6: expected a number from 0 to 10, got '3 %'"),
        ("runs: [self-check/20260101-000000]", "runs: []", "6: expected at least 1 entry, got 0"),
        ("runs: [self-check/20260101-000000]", "runs: [../../etc]", "6: expected a run as scenario/run-id"),
        (", mad_gbps: 0.8", "", "6: 'mad_gbps' is required here"),
        (ENTRY, f"{ENTRY}\n{ENTRY}", "7: the same key as the one recorded on line 6"),
        (ENTRY, "  []", "5: expected at least 1 entry, got 0"),
    ],
)
def test_a_bad_section_is_explained(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Each mistake with its line, what was expected, and the nearest word."""
    path = baseline(tmp_path, f"{LIMITS}recorded:\n{ENTRY}\n".replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_baseline(path)
    assert any(f"{problem.line}: {problem.text}".startswith(said) for problem in caught.value.problems)


def test_the_section_is_appended_and_nothing_else_changes(tmp_path: Path) -> None:
    """Comments, quotes and order stay as they were written, byte for byte."""
    text = with_recorded(LIMITS, [RECORDED])
    assert text.startswith(LIMITS)
    assert load_baseline(baseline(tmp_path, text)).recorded == (RECORDED,)


@pytest.mark.parametrize(
    "after", ["", "\n# The end.\n", "\n# About the limits.\nlimits2: x\n", "# Right below.\nx: y\n"]
)
@pytest.mark.parametrize(
    "section", [f"recorded:\n{ENTRY}\n", "recorded: [\n]\n", "recorded:\n# odd\n- {a: b}\n- {c: d}\n"]
)
def test_only_the_section_is_replaced(section: str, after: str) -> None:
    """What stands after it stays too, with the comments that belong to it."""
    text = with_recorded(f"{LIMITS}{section}{after}", [RECORDED])
    assert text == with_recorded(LIMITS, [RECORDED]) + after


_POSITIVE = st.floats(0.01, 99_999.0)
_RECORDED = st.builds(
    Recorded,
    st.sampled_from(tuple(ASKED)),
    st.sampled_from(("perftest", "nccl-tests")),
    st.none() | st.sampled_from(LINK_CLASSES + LEAF_CLASSES),
    st.none() | st.integers(1, 1 << 40),
    st.none() | st.integers(1, 10_000),
    st.none() | st.sampled_from(ALGORITHMS),
    st.none() | st.sampled_from(("one_way", "both_ways")),
    st.none() | st.sampled_from((100.0, 200.0, 400.0)),
    median_gbps=_POSITIVE,
    mad_gbps=_POSITIVE,
    n=st.integers(2, 10**6),
    cv=st.floats(0, 9.9),
    runs=st.just(("a/1",)),
    trimmed=st.integers(0, 9),
)


@given(st.lists(_RECORDED, min_size=1, max_size=5, unique_by=lambda entry: entry.key))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, entries: list[Recorded]) -> None:
    """Every key as it was, every number to at least four digits."""
    path = tmp_path_factory.mktemp("candidate") / "x.candidate.yaml"
    path.write_text(candidate_text(Candidate("h100-ndr", "ssh", tuple(entries))))
    found = {entry.key: entry for entry in load_candidate(path).recorded}
    assert set(found) == {entry.key for entry in entries}
    for entry in entries:
        assert found[entry.key].median_gbps == pytest.approx(entry.median_gbps, rel=1e-4)
        assert found[entry.key].mad_gbps == pytest.approx(entry.mad_gbps, rel=1e-3)
        assert (found[entry.key].n, found[entry.key].trimmed) == (entry.n, entry.trimmed)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_of_every_backend_can_be_recorded(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "candidate.yaml"
    path.write_text(candidate_text(Candidate("h100-ndr", backend, (RECORDED,))))
    assert load_candidate(path) == Candidate("h100-ndr", backend, (RECORDED,))


def test_a_candidate_is_no_baseline_and_the_other_way_round(tmp_path: Path) -> None:
    """Each is refused as the other, with what is missing or unknown."""
    path = tmp_path / "h100-ndr.yaml"
    path.write_text(candidate_text(Candidate("h100-ndr", "ssh", (RECORDED,))))
    with pytest.raises(ConfigError, match="'limits' is required here"):
        load_baseline(path)
    path.write_text(LIMITS)
    with pytest.raises(ConfigError, match="'backend' is required here"):
        load_candidate(path)


NOTHING = ": it judges nothing there"
"""How a note ends that says that a limit asks for more than the lines carry."""


@pytest.fixture
def inventory(folder: Path) -> Inventory:
    """Two RNICs of 400 Gb/s and two GPUs a host, one pair behind a PCIe switch."""
    return load_inventory(folder / "inventory.yaml")


def notes(inventory: Inventory, limits: list[Limit], *specs: ProbeSpec, override: str | None = None) -> list[str]:
    """The notes on these limits, without where they are from."""
    judge = JudgeSettings(override)
    scenario = Scenario(
        name="s",
        source="s.yaml",
        inventory="i.yaml",
        hosts=tuple(inventory.topology.hosts),
        phases=(Phase("p", specs),),
        judge=judge,
    )
    name = override or "h100-ndr"
    found = baseline_notes(scenario if specs else None, inventory, {name: Baseline(name, "b", tuple(limits))})
    prefix = f"platform duo, baseline {name}: "
    assert all(note.startswith(prefix) for note in found)
    assert all(note.endswith(NOTHING) == ("limit" in note and "no limit" not in note) for note in found)
    return [note.removeprefix(prefix).removesuffix(NOTHING) for note in found]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (Limit("loopback", 399, "x"), None),
        (
            Limit("loopback", 400, "x"),
            "loopback: limit 400 Gb/s is all of the line rate of 400 Gb/s",
        ),
        (
            Limit("link_burn", 401, "x"),
            "link_burn: limit 401 Gb/s is above the line rate of 400 Gb/s",
        ),
        (Limit("link_burn", 200, "x"), None),
        (
            Limit("loopback", 401, "x", link_class="pix"),
            "loopback pix: limit 401 Gb/s is above the line rate of 400 Gb/s",
        ),
        (Limit("rnic_to_rnic", 384, "x"), None),
        (
            Limit("rnic_to_rnic", 768, "x"),
            "rnic_to_rnic: limit 768 Gb/s is above the line rate of 400 Gb/s",
        ),
        (
            Limit("rnic_to_rnic", 192, "x"),
            "rnic_to_rnic: 192 Gb/s pass, half the line rate of mlx5_[0-1] (400 Gb/s) or less",
        ),
        (Limit("tor_all_reduce", 368, "x", algorithm="RING", per_rnic=True), None),
        (
            Limit("tor_all_reduce", 401, "x", algorithm="RING", per_rnic=True),
            "tor_all_reduce RING: limit 802 Gb/s is above the line rate of 2 RNICs together, 800 Gb/s",
        ),
        (
            Limit("tor_all_reduce", 2944, "x"),
            "tor_all_reduce: limit 2944 Gb/s is above the line rate of 2 RNICs together, 800 Gb/s",
        ),
        (Limit("tor_all_reduce", 1200, "x", algorithm="TREE"), None),
        (Limit("all_to_all", 9999, "x"), None),
    ],
)
def test_a_limit_out_of_reach_is_said(inventory: Inventory, limit: Limit, expected: str | None) -> None:
    """RNICs carry at most their line rate; trees and NVLink are not bound by it; half the line is too little."""
    assert notes(inventory, [limit]) == ([expected] if expected else [])


def test_a_run_is_told_in_one_line_of_limits_above_the_line(inventory: Inventory) -> None:
    """All limits of a platform that its lines cannot carry, of those that would judge what is asked for."""
    limits = [
        Limit("loopback", 500, "x", link_class="pix", min_size_bytes=1 << 20),
        Limit("loopback", 300, "x"),
        Limit("rnic_to_rnic", 400, "x"),
        Limit("pairwise", 900, "not asked for"),
        Limit("tor_all_reduce", 1200, "a tree's bus bandwidth may be above the lines"),
    ]
    hosts = tuple(inventory.topology.hosts)

    def line(*specs: ProbeSpec) -> str | None:
        scenario = Scenario(name="s", source="s.yaml", inventory="i.yaml", hosts=hosts, phases=(Phase("p", specs),))
        return out_of_reach_line(scenario, inventory, {"h100-ndr": Baseline("h100-ndr", "b", tuple(limits))})

    told = line(LoopbackSpec(), RnicToRnicSpec(), TorAllReduceSpec(algorithm="TREE")) or ""
    assert "judge nothing: platform duo, baseline h100-ndr: loopback pix: limit 500 Gb/s is above" in told
    assert "; and 1 more limits; INCONCLUSIVE unless" in told
    assert "\n" not in told
    assert "tor_all_reduce: limit" in (line(TorAllReduceSpec()) or "")
    assert line(LoopbackSpec(size_bytes=1 << 10)) is None
    assert line(AllToAllSpec()) is None


ALL = [
    Limit("loopback", 100, "x"),
    Limit("rnic_to_rnic", 384, "x"),
    Limit("all_to_all", 100, "x"),
    Limit("tor_all_reduce", 100, "x", algorithm="RING"),
]
SPECS = (LoopbackSpec(), RnicToRnicSpec(), AllToAllSpec(), TorAllReduceSpec())


@pytest.mark.parametrize("kind", [limit.kind for limit in ALL])
def test_a_kind_without_limit_is_said(inventory: Inventory, kind: str) -> None:
    """What is asked for and has no limit at all will be INCONCLUSIVE, and that is said once."""
    limits = [limit for limit in ALL if limit.kind != kind]
    assert notes(inventory, limits, *SPECS) == [f"no limit for {kind}: will be INCONCLUSIVE"]
    assert notes(inventory, ALL, *SPECS) == []


def test_a_limit_for_another_key_is_none(inventory: Inventory) -> None:
    """Other algorithm, other link class, other size: the key is named."""
    assert notes(inventory, ALL, TorAllReduceSpec(algorithm="TREE")) == [
        "no limit for tor_all_reduce TREE: will be INCONCLUSIVE"
    ]
    pix = Limit("loopback", 380, "x", link_class="pix")
    assert notes(inventory, [pix], LoopbackSpec()) == [
        f"no limit for loopback {name}: will be INCONCLUSIVE" for name in ("mem_local", "mem_remote", "sys", "node")
    ]
    one = Limit("rnic_to_rnic", 384, "x", size_bytes=1 << 20)
    assert notes(inventory, [one], RnicToRnicSpec()) == ["no limit for rnic_to_rnic: will be INCONCLUSIVE"]


def test_all_broken_baselines_come_at_once(folder: Path) -> None:
    """Problems of several files are reported together."""
    (folder / "baselines" / "h100-ndr.yaml").write_text("name: h100-ndr\nlimits: []\n")
    (folder / "baselines" / "other.yaml").write_text("name: other\n")
    with pytest.raises(ConfigError) as caught:
        load_baselines(["other", "h100-ndr"], folder / "inventory.yaml")
    assert [Path(problem.file).stem for problem in caught.value.problems] == ["h100-ndr", "other"]
