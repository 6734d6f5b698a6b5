"""Whether the GPUs are those of the inventory, and whether somebody uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks.answer import Answer, Answers, Argv, excuse, quoted
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host

NAME = "gpus"
LIST = ("nvidia-smi", "--query-gpu=index,name,mig.mode.current", "--format=csv,noheader")
JOBS = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader")

_ROW = re.compile(r"\s*([0-9]{1,4}), ([^,]+), ([^,]+)", re.ASCII)
_JOB = re.compile(r"\s*(?:GPU|MIG)-[0-9A-Fa-f/-]+, ([0-9]+|\[[^\]]*\]), (.*)", re.ASCII)
_NONE = "No devices were found"


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Two questions to nvidia-smi, where the inventory has GPUs."""
    return (LIST, JOBS) if needs.measured and host.platform.gpus else ()


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """Missing, more, partitioned or occupied GPUs."""
    del needs
    listed = answers[LIST]
    indexes = _indexes(listed)
    if indexes is None:
        yield _unusable(host, listed)
    else:
        yield from _compared(host, indexes)
        yield from _partitioned(host, listed)
    if indexes or answers[JOBS].lost:
        yield from _occupied(host, answers[JOBS])


def _lines(answer: Answer) -> list[str]:
    return [line for line in answer.stdout.splitlines() if line.strip()]


def _indexes(answer: Answer) -> list[int] | None:
    """The CUDA indexes that are there; None when that was not said."""
    lines = _lines(answer)
    if not answer.lost and lines == [_NONE]:
        return []
    rows = [_ROW.fullmatch(line) for line in lines]
    if answer.lost or answer.status != 0 or not rows or not all(rows):
        return None
    return [int(row[1]) for row in rows if row]


def _unusable(host: Host, answer: Answer) -> Finding:
    text = answer.text
    if answer.absent:
        why, advice = "GPUs are measured here", "install the NVIDIA driver's tools"
        return Finding(NAME, Severity.PROBLEM, (host.name,), "nvidia-smi is not there", why, advice)
    told = next((line for line in text.splitlines() if "has failed" in line or "device handle" in line), None)
    if told is not None and not answer.lost:
        return Finding(
            NAME,
            Severity.PROBLEM,
            (host.name,),
            f"nvidia-smi: {quoted(told)}",
            "CUDA programs do not start on this host",
            "look at dmesg for Xid errors; reload the driver or reboot; a GPU that is lost needs service",
        )
    return Finding(
        NAME,
        Severity.UNKNOWN,
        (host.name,),
        f"which GPUs there are was not said: {excuse(answer)}",
        "a GPU that is missing fails every test with it",
        "run nvidia-smi there by hand; one that hangs points at the driver or a sick GPU",
    )


def _compared(host: Host, indexes: list[int]) -> Iterator[Finding]:
    wanted, there = {gpu.index for gpu in host.platform.gpus}, set(indexes)
    if wanted - there:
        # The driver numbers those that are there from 0: which one is missing cannot be told by number.
        yield Finding(
            NAME,
            Severity.PROBLEM,
            (host.name,),
            f"{_many(len(there))}, the inventory has {len(wanted)}",
            "the driver numbers those that are left anew, so that wrong paths would be measured",
            "look at lspci and dmesg (Xid 79: fallen off the bus); or correct gpus: of the platform",
        )
    elif there - wanted:
        yield Finding(
            NAME,
            Severity.WARNING,
            (host.name,),
            f"{_many(len(there))}, the inventory has {len(wanted)}: GPU {_numbers(there - wanted)} is not measured",
            "a part that is not measured is not accepted either",
            "add it to gpus: of the platform",
        )


def _partitioned(host: Host, answer: Answer) -> Iterator[Finding]:
    rows = [_ROW.fullmatch(line) for line in _lines(answer)]
    split = {int(row[1]) for row in rows if row and row[3].strip() == "Enabled"}
    if split:
        yield Finding(
            NAME,
            Severity.PROBLEM,
            (host.name,),
            f"MIG is on: GPU {_numbers(split)}",
            "CUDA sees parts of these GPUs, under other numbers",
            "nvidia-smi -mig 0",
        )


def _occupied(host: Host, answer: Answer) -> Iterator[Finding]:
    lines = [] if _lines(answer) == [_NONE] else _lines(answer)
    jobs = [_JOB.fullmatch(line) for line in lines]
    if answer.lost or answer.status != 0 or not all(jobs):
        yield Finding(
            NAME,
            Severity.UNKNOWN,
            (host.name,),
            f"whether jobs use the GPUs was not said: {excuse(answer)}",
            "a job beside the measurement makes its numbers wrong, and is disturbed by it",
            "look with nvidia-smi there",
        )
    elif jobs:
        names = sorted({quoted(job[2]).rpartition("/")[2] for job in jobs if job})
        yield Finding(
            NAME,
            Severity.PROBLEM,
            (host.name,),
            f"{len(jobs)} GPU process{'' if len(jobs) == 1 else 'es'}: {quoted(', '.join(names))}",
            "a job beside the measurement makes its numbers wrong, and is disturbed by it",
            "drain the host first, or take it out with --hosts",
        )


def _numbers(indexes: set[int]) -> str:
    return ", ".join(str(index) for index in sorted(indexes))


def _many(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
