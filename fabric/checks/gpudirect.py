"""Whether RNICs can reach GPU memory: the kernel module nvidia-peermem, or dma-buf."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks.answer import Answers, Argv, excuse
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host

NAME = "gpudirect"
ARGV = ("cat", "/proc/modules", "/proc/driver/nvidia/version")
_PEERMEM = re.compile(r"^(?:nvidia_peermem|nv_peer_mem) [0-9]+ ", re.MULTILINE | re.ASCII)
_MODULE = re.compile(r"^[a-z0-9_]+ [0-9]+ -?[0-9]+ ", re.MULTILINE | re.ASCII)
_OPEN = "Open Kernel Module"


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """The loaded modules and the make of the driver, where GPU memory goes through RNICs."""
    return (ARGV,) if needs.gpudirect and host.platform.gpus and host.platform.rnics else ()


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """ib_write_bw needs nvidia-peermem; NCCL takes dma-buf of the open driver as well."""
    answer = answers[ARGV]
    text = answer.stdout
    if answer.lost or not _MODULE.search(text):
        what = f"the kernel modules were not said: {excuse(answer)}"
        why = "without nvidia-peermem RNICs cannot reach GPU memory"
        yield Finding(NAME, Severity.UNKNOWN, (host.name,), what, why, "lsmod there")
        return
    if _PEERMEM.search(text) or (_OPEN in text and not needs.cuda):
        return
    yield Finding(
        NAME,
        Severity.PROBLEM,
        (host.name,),
        "nvidia-peermem is not loaded" + ("" if needs.cuda else ", and the driver is not the open one (no dma-buf)"),
        "ib_write_bw cannot register GPU memory (Couldn't allocate MR)"
        if needs.cuda
        else "NCCL copies through host memory: its numbers would be those of the CPU",
        "modprobe nvidia-peermem, and load it at boot (/etc/modules-load.d)",
    )
