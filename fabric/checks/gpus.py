"""Whether the GPUs are those of the inventory, whether somebody uses them, and whether RNICs can reach their memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks.ask import Argv, HostAnswer, excuse, quoted
from fabric.checks.kind import HostCheck, Looked, problem, unknown, warning
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding
from fabric.model.topology import Host

LIST = ("nvidia-smi", "--query-gpu=index,name,mig.mode.current,persistence_mode", "--format=csv,noheader")
JOBS = ("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader")
AMD_LIST = ("rocm-smi", "--showid", "--csv")
AMD_JOBS = ("rocm-smi", "--showpids", "--csv")
MODULES = ("cat", "/proc/modules", "/proc/driver/nvidia/version")

_ROW = re.compile(r"\s*([0-9]{1,4}), ([^,]+), ([^,]+), ([^,]+)", re.ASCII)
_JOB = re.compile(r"\s*(?:GPU|MIG)-[0-9A-Fa-f/-]+, ([0-9]+|\[[^\]]*\]), (.*)", re.ASCII)
_NONE = "No devices were found"
_PEERMEM = re.compile(r"^(?:nvidia_peermem|nv_peer_mem) [0-9]+ ", re.MULTILINE | re.ASCII)
_MODULE = re.compile(r"^[a-z0-9_]+ [0-9]+ -?[0-9]+ ", re.MULTILINE | re.ASCII)
_OPEN = "Open Kernel Module"
_DISTURBED = "a job beside the measurement makes its numbers wrong, and is disturbed by it"


def _ask_gpus(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Two questions to the driver's tool, where the inventory has GPUs."""
    asked = (AMD_LIST, AMD_JOBS) if host.platform.amd else (LIST, JOBS)
    return asked if needs.measured and host.platform.gpus else ()


def _read_gpus(looked: Looked) -> Iterator[Finding]:
    """Missing, more, partitioned or occupied GPUs."""
    if looked.host.platform.amd:
        yield from _read_amd(looked)
        return
    listed, jobs = looked.answers[LIST], looked.answers[JOBS]
    rows = _rows(listed, _ROW)
    if rows is None or (not rows and _lines(listed) != [_NONE]):
        rows = None
        yield _unusable(listed)
    else:
        yield from _compared(looked.host, {int(row[1]) for row in rows})
        if split := {int(row[1]) for row in rows if row[3].strip() == "Enabled"}:
            why = "CUDA sees parts of these GPUs, under other numbers"
            yield problem(f"MIG is on: GPU {_numbers(split)}", why, "nvidia-smi -mig 0")
        if rows and all(row[4].strip() == "Disabled" for row in rows):
            why = "the driver starts anew for every program, which takes seconds a GPU and deadlines do not count"
            yield warning("persistence mode is off", why, "start nvidia-persistenced, or nvidia-smi -pm 1")
    if rows or jobs.lost:
        yield from _occupied(jobs)


def _read_amd(looked: Looked) -> Iterator[Finding]:
    """The same by rocm-smi, which says nothing of partitions."""
    listed, jobs = looked.answers[AMD_LIST], looked.answers[AMD_JOBS]
    found = [] if listed.lost else re.findall(r"^card([0-9]{1,3}),", listed.stdout, re.MULTILINE | re.ASCII)
    if listed.exit_status != 0 or not found:
        yield unknown(f"which GPUs there are was not said: {excuse(listed)}", _DISTURBED, "run rocm-smi there by hand")
        return
    yield from _compared(looked.host, set(range(len(found))))  # cards are counted by PCI address, HIP counts from 0
    if names := re.findall(r"^PID[0-9]{1,10},\"?([^\",\n]{1,64})", jobs.stdout, re.MULTILINE | re.ASCII):
        what = f"{len(names)} GPU process{'' if len(names) == 1 else 'es'}: {quoted(', '.join(sorted(set(names))))}"
        yield problem(what, _DISTURBED, "drain the host first, or take it out with --hosts")


def _lines(answer: HostAnswer) -> list[str]:
    return [line for line in answer.stdout.splitlines() if line.strip()]


def _rows(answer: HostAnswer, row: re.Pattern[str]) -> list[re.Match[str]] | None:
    """Every line of the answer; None when it cannot be read."""
    lines = _lines(answer)
    if not answer.lost and lines == [_NONE]:
        return []
    found = [match for match in map(row.fullmatch, lines) if match]
    return None if answer.lost or answer.exit_status != 0 or len(found) < len(lines) else found


def _unusable(answer: HostAnswer) -> Finding:
    if answer.absent:
        return problem("nvidia-smi is not there", "GPUs are measured here", "install the NVIDIA driver's tools")
    told = next((line for line in answer.text.splitlines() if "has failed" in line or "device handle" in line), None)
    if told is not None and not answer.lost:
        advice = "look at dmesg for Xid errors; reload the driver or reboot; a GPU that is lost needs service"
        return problem(f"nvidia-smi: {quoted(told)}", "CUDA programs do not start on this host", advice)
    return unknown(
        f"which GPUs there are was not said: {excuse(answer)}",
        "a GPU that is missing fails every test with it",
        "run nvidia-smi there by hand; one that hangs points at the driver or a sick GPU",
    )


def _compared(host: Host, there: set[int]) -> Iterator[Finding]:
    wanted = {gpu.index for gpu in host.platform.gpus}
    what = f"{len(there)} GPU{'' if len(there) == 1 else 's'}, the inventory has {len(wanted)}"
    if wanted - there:
        # The driver numbers those that are there from 0: which one is missing cannot be told by number.
        why = "the driver numbers those that are left anew, so that wrong paths would be measured"
        yield problem(
            what, why, "look at lspci and dmesg (Xid 79: fallen off the bus); or correct gpus: of the platform"
        )
    elif there - wanted:
        what = f"{what}: GPU {_numbers(there - wanted)} is not measured"
        yield warning(what, "a part that is not measured is not accepted either", "add it to gpus: of the platform")


def _occupied(answer: HostAnswer) -> Iterator[Finding]:
    jobs = None if answer.exit_status != 0 else _rows(answer, _JOB)
    if jobs is None:
        what = f"whether jobs use the GPUs was not said: {excuse(answer)}"
        yield unknown(what, _DISTURBED, "look with nvidia-smi there")
    elif jobs:
        names = sorted({quoted(job[2]).rpartition("/")[2] for job in jobs})
        what = f"{len(jobs)} GPU process{'' if len(jobs) == 1 else 'es'}: {quoted(', '.join(names))}"
        yield problem(what, _DISTURBED, "drain the host first, or take it out with --hosts")


def _numbers(indexes: set[int]) -> str:
    return ", ".join(str(index) for index in sorted(indexes))


GPUS = HostCheck("gpus", _ask_gpus, _read_gpus)


def _ask_gpudirect(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """The loaded modules and the make of the driver, where GPU memory goes through RNICs."""
    platform = host.platform
    return (MODULES,) if needs.gpudirect and platform.gpus and platform.rnics and not platform.amd else ()


def _read_gpudirect(looked: Looked) -> Iterator[Finding]:
    """ib_write_bw needs nvidia-peermem, or DMA-BUF where it is told so; NCCL takes either (the open driver's)."""
    answer, cuda = looked.answers[MODULES], looked.needs.cuda
    dmabuf = looked.host.platform.use_cuda == "dmabuf"
    is_open = _OPEN in answer.stdout
    if answer.lost or not _MODULE.search(answer.stdout):
        why = "without nvidia-peermem RNICs cannot reach GPU memory"
        yield unknown(f"the kernel modules were not said: {excuse(answer)}", why, "lsmod there")
    elif cuda and dmabuf and not is_open:
        why = "it gives no DMA-BUF (use_cuda: dmabuf)"
        yield problem("the GPU driver is not the open one", why, "load nvidia-peermem and write use_cuda: peermem")
    elif not _PEERMEM.search(answer.stdout) and ((cuda and not dmabuf) or not is_open):
        yield problem(
            "nvidia-peermem is not loaded" + ("" if cuda else ", and the driver is not the open one (no dma-buf)"),
            "ib_write_bw cannot register GPU memory (Couldn't allocate MR)"
            if cuda
            else "NCCL copies through host memory: its numbers would be those of the CPU",
            ("the driver is the open one: write use_cuda: dmabuf in the platform; or " if cuda and is_open else "")
            + "modprobe nvidia-peermem, and load it at boot (/etc/modules-load.d)",
        )


GPUDIRECT = HostCheck("gpudirect", _ask_gpudirect, _read_gpudirect)
