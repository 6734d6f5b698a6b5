"""Parts in words, where they stand, and the answer of a resilience run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.model.outcome import Outcome
from fabric.model.verdict import ComponentVerdict, Suspect, Verdict
from fabric.report.meaning import faults_line, kept_line, part_words
from fabric.report.shown_run import ShownRun


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("gpu003/mlx5_2->numa1-gpus", "path", "gpu003 PCIe path mlx5_2 to the GPUs of NUMA 1"),
        ("gpu003/mlx5_2->numa1", "path", "gpu003 PCIe path mlx5_2 to the memory of NUMA 1"),
        ("gpu003/mlx5_2->numa0-side", "path", "gpu003 PCIe path mlx5_2 to NUMA 0 and its GPUs"),
        ("gpu003/mlx5_2->gpu5", "path", "gpu003 PCIe path mlx5_2 to GPU 5"),
        ("gpu006/gpu5:nvlink", "nvlink", "gpu006 GPU 5 NVLink"),
        ("gpu006/gpu5", "gpu", "gpu006 GPU 5"),
        ("gpu006/gpu5", "gpu_pcie", "gpu006 GPU 5 PCIe"),
        ("gpu006/numa1", "numa", "gpu006 NUMA 1"),
        ("gpu006/cpu-interconnect", "cpu_interconnect", "gpu006 link between its CPUs"),
        ("gpu002/mlx5_1", "rnic", "gpu002 RNIC mlx5_1"),
        ("gpu002/mlx5_1:port", "link", "gpu002 port and cable of mlx5_1"),
        ("gpu002/mlx5_1:tx", "link", "gpu002 port and cable of mlx5_1 (sending)"),
        ("gpu005", "host", "host gpu005"),
        ("su0-leaf3", "leaf", "leaf switch su0-leaf3"),
        ("su0-leaf3--spine02#1", "link", "cable su0-leaf3--spine02#1"),
        ("gpu001+gpu002", "pair", "the pair gpu001 and gpu002"),
        ("what nobody knows", "", "what nobody knows"),
    ],
)
def test_a_part_has_words(name: str, kind: str, words: str) -> None:
    assert part_words(name, kind) == words


def suspect(name: str, kind: str, outcome: Outcome = Outcome.FAIL) -> Suspect:
    """A suspect."""
    return Suspect(name, kind, outcome, 0.9, ())


def test_faults_are_counted_and_what_could_not_be_measured_is_said(bad_run: ShownRun) -> None:
    found = (suspect("gpu006/gpu5:nvlink", "nvlink"), suspect("gpu005", "host", Outcome.ERROR))
    verdict: Verdict = replace(bad_run.judged.verdict, suspects=found)
    assert faults_line(verdict) == "1 fault: gpu006 GPU 5 NVLink; could not be measured: host gpu005"
    many = tuple(suspect(f"gpu00{number}", "host") for number in range(5))
    assert faults_line(replace(verdict, suspects=many)).endswith("host gpu002; and 2 more")
    assert faults_line(replace(verdict, suspects=())) == ""


def test_a_host_that_was_left_out_is_in_the_headline(bad_run: ShownRun) -> None:
    """Nobody knows how it is: it is no good host. One that missed a job of all hosts alone was measured."""
    names = ("gpu003", "gpu003/mlx5_0", "gpu004")
    left_out = tuple(ComponentVerdict(name, Outcome.SKIPPED, "not measured in soak") for name in names)
    found = (suspect("gpu006/gpu5:nvlink", "nvlink"),)
    verdict: Verdict = replace(bad_run.judged.verdict, suspects=found, components=left_out)
    assert faults_line(verdict) == "1 fault: gpu006 GPU 5 NVLink; not measured to the end: gpu003"


def test_a_run_without_a_fault_made_has_no_such_answer(bad_run: ShownRun) -> None:
    assert kept_line(bad_run.judged) == ""


def test_the_answer_of_a_run_under_bit_errors(changed_run: ShownRun) -> None:
    said = kept_line(changed_run.judged)
    assert said.startswith("with adaptive routing the job kept 99.")
    assert ", without 3" in said
