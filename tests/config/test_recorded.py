"""The recorded section: decoded strictly, written back without touching what people wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric import config
from fabric.config.baselines import Candidate
from fabric.errors import ConfigError
from fabric.model.recorded import ALGORITHMS, LEAF_CLASSES, LINK_CLASSES, Key, Recorded
from fabric.probes.kinds import ASKED

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
    Key("loopback", "perftest", "pix", 8 << 20, direction="one_way", line_rate_gbps=400.0),
    397.6,
    0.8,
    128,
    0.003,
    ("self-check/20260101-000000",),
)


def baseline(folder: Path, text: str) -> Path:
    """A file of that text."""
    path = folder / "h100-ndr.yaml"
    path.write_text(text)
    return path


def test_recorded_numbers_are_read_beside_the_limits(tmp_path: Path) -> None:
    """One entry, in the model's words; a file without the section has none."""
    found = config.load_baseline(baseline(tmp_path, f"{LIMITS}recorded:\n{ENTRY}\n"))
    assert found.recorded == (RECORDED,)
    assert config.load_baseline(baseline(tmp_path, LIMITS)).recorded == ()


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
        config.load_baseline(path)
    assert any(f"{problem.line}: {problem.text}".startswith(said) for problem in caught.value.problems)


def test_the_section_is_appended_and_nothing_else_changes(tmp_path: Path) -> None:
    """Comments, quotes and order stay as they were written, byte for byte."""
    text = config.with_recorded(LIMITS, [RECORDED])
    assert text.startswith(LIMITS)
    assert config.load_baseline(baseline(tmp_path, text)).recorded == (RECORDED,)


@pytest.mark.parametrize(
    "after", ["", "\n# The end.\n", "\n# About the limits.\nlimits2: x\n", "# Right below.\nx: y\n"]
)
@pytest.mark.parametrize(
    "section", [f"recorded:\n{ENTRY}\n", "recorded: [\n]\n", "recorded:\n# odd\n- {a: b}\n- {c: d}\n"]
)
def test_only_the_section_is_replaced(section: str, after: str) -> None:
    """What stands after it stays too, with the comments that belong to it."""
    text = config.with_recorded(f"{LIMITS}{section}{after}", [RECORDED])
    assert text == config.with_recorded(LIMITS, [RECORDED]) + after


_POSITIVE = st.floats(0.01, 99_999.0)
_KEYS = st.builds(
    Key,
    st.sampled_from(tuple(ASKED)),
    st.sampled_from(("perftest", "nccl-tests")),
    st.none() | st.sampled_from(LINK_CLASSES + LEAF_CLASSES),
    st.none() | st.integers(1, 1 << 40),
    st.none() | st.integers(1, 10_000),
    st.none() | st.sampled_from(ALGORITHMS),
    st.none() | st.sampled_from(("one_way", "both_ways")),
    st.none() | st.sampled_from((100.0, 200.0, 400.0)),
)


@given(
    st.lists(
        st.builds(
            Recorded,
            _KEYS,
            _POSITIVE,
            _POSITIVE,
            st.integers(2, 10**6),
            st.floats(0, 9.9),
            st.just(("a/1",)),
            st.integers(0, 9),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda entry: entry.key,
    )
)
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, entries: list[Recorded]) -> None:
    """Every key as it was, every number to at least four digits."""
    path = tmp_path_factory.mktemp("candidate") / "x.candidate.yaml"
    path.write_text(config.candidate_text(Candidate("h100-ndr", "ssh", tuple(entries))))
    found = {entry.key: entry for entry in config.load_candidate(path).recorded}
    assert set(found) == {entry.key for entry in entries}
    for entry in entries:
        assert found[entry.key].median_gbps == pytest.approx(entry.median_gbps, rel=1e-4)
        assert found[entry.key].mad_gbps == pytest.approx(entry.mad_gbps, rel=1e-3)
        assert (found[entry.key].n, found[entry.key].trimmed) == (entry.n, entry.trimmed)


def test_a_candidate_is_no_baseline_and_the_other_way_round(tmp_path: Path) -> None:
    """Each is refused as the other, with what is missing or unknown."""
    path = tmp_path / "h100-ndr.yaml"
    path.write_text(config.candidate_text(Candidate("h100-ndr", "ssh", (RECORDED,))))
    with pytest.raises(ConfigError, match="'limits' is required here"):
        config.load_baseline(path)
    path.write_text(LIMITS)
    with pytest.raises(ConfigError, match="'backend' is required here"):
        config.load_candidate(path)
