"""Platforms, the layouts of hosts: the keys a file may write, how tools are called there, and whether the parts fit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from fabric.config.problems import KeyPath, Problems
from fabric.model.fields.entry import Entry
from fabric.model.fields.folded import Folded, FoldedNames
from fabric.model.fields.quantities import Indexes
from fabric.model.fields.scalars import (
    BASELINE_NAME,
    DEVICE,
    OPTION_WORD,
    SAFE_NAME,
    Choice,
    Decimal,
    Flag,
    Whole,
    Word,
)
from fabric.model.fields.wording import nearest, one_of, quoted, shown
from fabric.model.scenario import Env
from fabric.model.topology import GPU_MAKERS, USE_CUDA, Gpu, PcieSwitch, Platform, Rnic

LINK_LAYERS = ("infiniband", "ethernet")

LineRate = Annotated[float, Decimal(0.01, 10_000)]


PROGRAM_PATH = Word(
    r"(/[A-Za-z0-9._+@-]{1,255}){1,32}",
    "an absolute path such as /opt/perftest/bin/ib_write_bw (letters, digits, '.', '_', '+', '@', '-')",
)
OptionWords = tuple[Annotated[str, OPTION_WORD], ...]
ProgramPath = Annotated[str, PROGRAM_PATH]


class ToolsEntry(Entry):
    """Programs that are not on the path of the account on the hosts."""

    ib_write_bw: ProgramPath | None = Field(None, description="perftest's ib_write_bw, built with CUDA.")
    numactl: ProgramPath | None = Field(None, description="numactl, which binds ib_write_bw to a memory node.")
    alltoall_perf: ProgramPath | None = Field(None, description="nccl-tests' alltoall_perf.")
    all_reduce_perf: ProgramPath | None = Field(None, description="nccl-tests' all_reduce_perf, built with MPI.")
    mpirun: ProgramPath | None = Field(None, description="Open MPI's mpirun.")
    srun: ProgramPath | None = Field(None, description="Slurm's srun, with launcher srun.")

    def given(self) -> tuple[tuple[str, str], ...]:
        """Each program that is given, and its path."""
        paths = ((name, getattr(self, name)) for name in type(self).model_fields)
        return tuple((name, path) for name, path in paths if path is not None)


_OURS = {
    "NCCL_ALGO": "the scenario says it (tor_all_reduce: algorithm)",
    "NCCL_IB_HCA": "it is made from this platform's rnics",
    "NCCL_IB_GID_INDEX": "write gid_index in this platform instead",
    "CUDA_VISIBLE_DEVICES": "each probe has its own GPUs",
    "HIP_VISIBLE_DEVICES": "each probe has its own GPUs",
}
_LAYOUT = (
    *("-np", "--np", "-n", "--n", "-c", "-N", "--npernode", "-npernode", "-H", "-host", "--host", "-hostfile"),
    *("--hostfile", "-machinefile", "--machinefile", "-map-by", "--map-by", "-bind-to", "--bind-to"),
)
_PAIRS = ("-mca", "--mca", "-gmca", "--gmca", "--prtemca", "--pmixmca")


# What the probe itself says, by key: the program, and its options of which a word begins with one of these.
_OURS_OF = {
    "srun_options": (
        "srun",
        ("-N", "--nodes", "-n", "--ntasks", "--ntasks-per-node", "-w", "--nodelist", "-F", "--nodefile", "-r"),
    ),
    "nccl_tests_options": (
        "nccl-tests",
        (
            *("-b", "--minbytes", "-e", "--maxbytes", "-i", "--stepbytes", "-f", "--stepfactor", "-n", "--iters"),
            *("-w", "--warmup_iters", "-g", "--ngpus", "-t", "--nthreads", "-m", "--agg_iters", "-c", "--check"),
            *("-o", "--op", "-d", "--datatype", "-r", "--root", "-G", "--cudagraph", "-J", "-h", "--help"),
        ),
    ),
    "perftest_options": (
        "perftest",
        (
            *("-d", "--ib-dev", "-i", "--ib-port", "-p", "--port", "-s", "--size", "-D", "--duration", "-n", "--iters"),
            *("-q", "--qp", "-x", "--gid-index", "-T", "--tos", "--tclass", "-b", "--bidirectional", "-a", "--all"),
            *("-c", "--connection", "-O", "--dualport", "-h", "--help", "-V", "--version", "--run_infinitely"),
            *("--use_cuda", "--use_cuda_dmabuf", "--report_gbits", "--output", "--out_json", "--out_json_file"),
        ),
    ),
}


def words_problems(words: Sequence[str], called: str, ours: Sequence[str], path: KeyPath, problems: Problems) -> None:
    """Note what would not reach a program as it is meant, or what the probe says itself."""
    if words and not words[0].startswith("-"):
        problems.add((*path, 0), f"expected an option first, got {quoted(words[0])}, which {called} would not take")
    for position, word in enumerate(words):
        option = word.partition("=")[0] if word.startswith("--") else word[:2]
        if word.startswith("-") and option in ours:
            problems.add((*path, position), f"{quoted(word)} cannot be set here: the probe says it")


def env_problems(env: Mapping[str, str], path: KeyPath, problems: Problems) -> None:
    """Note the variables that the testbench itself sets."""
    for name in env:
        if name in _OURS:
            problems.add((*path, name), f"{quoted(name)} cannot be set here: {_OURS[name]}")


def option_problems(words: Sequence[str], path: KeyPath, problems: Problems) -> None:
    """Note what would not reach ``mpirun`` as it is meant."""
    if words and not words[0].startswith("-"):
        problems.add((*path, 0), f"expected an option first, got {quoted(words[0])}, which mpirun would run")
    after = 0  # where the values of an option before end
    for position, word in enumerate(words):
        if position < after:
            continue
        if word in _PAIRS:
            after = position + 3
            if after > len(words):
                problems.add((*path, position), f"expected a name and a value after {quoted(word)}")
        elif word == "-x":
            problems.add((*path, position), "'-x' is not taken here: write variables under 'env'")
        elif word in _LAYOUT:
            problems.add((*path, position), f"{quoted(word)} cannot be set here: the probe sets hosts and ranks")


class PcieSwitchEntry(Entry):
    """One PCIe switch of a host, or several alike."""

    name: Annotated[Folded, FoldedNames(64)] = Field(description="Its name; pcie[0-1] makes two alike.")
    numa: Annotated[int, Whole(0, 63)] = Field(description="The NUMA node it hangs off.")


class GpuEntry(Entry):
    """One GPU of a host, or several alike."""

    index: Annotated[tuple[int, ...], Indexes()] = Field(description="Its CUDA index; 0-3 makes four alike.")
    numa: Annotated[int, Whole(0, 63)] | None = Field(None, description="Its NUMA node; else that of its PCIe switch.")
    pcie_switch: Annotated[str, SAFE_NAME] | None = Field(
        None, description="Its PCIe switch; none: straight off the CPU."
    )


class RnicEntry(Entry):
    """One RDMA port of a host."""

    device: Annotated[str, DEVICE] = Field(description="Its RDMA device, as ibv_devices lists it.")
    port: Annotated[int, Whole(1, 8)] = Field(1, description="The port of that device.")
    rail: Annotated[int, Whole(0, 63)] = Field(description="Its rail, counted from 0; decides its leaf switch.")
    numa: Annotated[int, Whole(0, 63)] | None = Field(None, description="Its NUMA node; else that of its PCIe switch.")
    pcie_switch: Annotated[str, SAFE_NAME] | None = Field(
        None, description="Its PCIe switch; none: straight off the CPU."
    )
    line_rate_gbps: LineRate = Field(description="What the link signals, in decimal Gb/s: 400 for NDR, 200 for HDR.")
    nearest_gpus: tuple[Annotated[int, Whole(0, 99)], ...] | None = Field(
        None, description="The GPUs it serves; else those on its PCIe switch."
    )


class PlatformEntry(Entry):
    """A host layout, described once."""

    baseline: Annotated[str, BASELINE_NAME] = Field(description="What is normal for it: baselines/<this>.yaml.")
    link_layer: Annotated[str, Choice(LINK_LAYERS)] = Field(description="infiniband or ethernet (RoCE).")
    numa_nodes: Annotated[int, Whole(1, 64)] = Field(description="How many memory nodes a host has.")
    pcie_switches: tuple[PcieSwitchEntry, ...] = Field((), max_length=64, description="The PCIe switches of a host.")
    gpus: tuple[GpuEntry, ...] = Field((), max_length=64, description="The GPUs of a host.")
    rnics: tuple[RnicEntry, ...] = Field(min_length=1, max_length=64, description="The RDMA ports of a host.")
    gid_index: Annotated[int, Whole(0, 255)] | None = Field(
        None, description="RoCE: which entry of the GID table packets carry (show_gids); else the tools choose."
    )
    traffic_class: Annotated[int, Whole(0, 255)] | None = Field(
        None, description="RoCE: the traffic class of every probe (106 is DSCP 26); else NCCL_IB_TC of env, if any."
    )
    tools: ToolsEntry = Field(ToolsEntry(), description="Programs that are not on the path, as absolute paths.")
    env: Env = Field({}, max_length=64, description="Variables that every collective is given: NCCL_SOCKET_IFNAME.")
    mpirun_options: OptionWords = Field(
        (), max_length=64, description="Words put right after mpirun, such as --allow-run-as-root."
    )
    perftest_options: OptionWords = Field(
        (), max_length=64, description="Words that every test of perftest is given, such as -R."
    )
    srun_options: OptionWords = Field(
        (), max_length=64, description="Words put after srun's own, such as --gres=gpu:8 or --partition=burnin."
    )
    nccl_tests_options: OptionWords = Field(
        (), max_length=64, description="Options that every program of nccl-tests is given, such as -R 1."
    )
    cross_rail: Annotated[bool, Flag()] = Field(
        False, description="RoCE: whether RNICs of one host reach each other by the leaves of other rails."
    )
    wrapper: OptionWords = Field(
        (), max_length=64, description="What every program that measures is called by: [apptainer, exec, --nv, IMAGE]."
    )
    nvlink_domain: Annotated[str, Choice(("host", "rack"))] = Field(
        "host", description="Which GPUs NVLink joins: those of a host, or of all hosts of one rack (GB200 NVL72)."
    )
    gpu_maker: Annotated[str, Choice(GPU_MAKERS)] = Field(
        "nvidia", description="nvidia, or amd: RCCL, rocm-smi and perftest built with ROCm."
    )
    use_cuda: Annotated[str, Choice(USE_CUDA)] = Field(
        "auto", description="How ib_write_bw reaches GPU memory: auto, dmabuf, peermem; or no: host memory only."
    )


_ENDPOINT = re.compile(r"(gpu|numa)[0-9]+")


def platform(name: str, entry: PlatformEntry, path: KeyPath, problems: Problems) -> Platform:
    """The platform; what does not fit together is noted."""
    switches = _pcie_switches(entry.pcie_switches, (*path, "pcie_switches"), problems)
    numa_of = {switch.name: switch.numa for switch in switches}
    gpus = _gpus(entry.gpus, numa_of, (*path, "gpus"), problems)
    rnics = _rnics(entry.rnics, (numa_of, gpus), (*path, "rnics"), problems)
    _numa_nodes_exist(entry, path, problems)
    _names_differ(switches, rnics, (*path, "pcie_switches"), problems)
    env_problems(entry.env, (*path, "env"), problems)
    option_problems(entry.mpirun_options, (*path, "mpirun_options"), problems)
    if entry.traffic_class is not None and entry.link_layer != "ethernet":
        text = "'traffic_class' is for link_layer ethernet: InfiniBand has service levels (NCCL_IB_SL)"
        problems.add((*path, "traffic_class"), text)
    for key, (called, ours) in _OURS_OF.items():
        words_problems(getattr(entry, key), called, ours, (*path, key), problems)
    if entry.wrapper and (entry.wrapper[0].startswith("-") or "=" in entry.wrapper[0]):
        problems.add((*path, "wrapper", 0), f"expected a program first, got {quoted(entry.wrapper[0])}")
    own = {
        "name": name,
        "gpus": gpus,
        "rnics": rnics,
        "pcie_switches": switches,
        "tools": entry.tools.given(),
        "env": tuple(entry.env.items()),
        "traffic_class": _traffic_class(entry),
    }
    return Platform(**{key: getattr(entry, key) for key in type(entry).model_fields} | own)


def _traffic_class(entry: PlatformEntry) -> int | None:
    """What bandwidth is measured in: the queue of collectives, unless another is asked for."""
    nccl = entry.env.get("NCCL_IB_TC", "")
    if entry.traffic_class is None and entry.link_layer == "ethernet" and re.fullmatch("[0-9]{1,3}", nccl, re.ASCII):
        return int(nccl) if int(nccl) < 256 else None
    return entry.traffic_class


def _pcie_switches(entries: Iterable[PcieSwitchEntry], path: KeyPath, problems: Problems) -> tuple[PcieSwitch, ...]:
    found: dict[str, PcieSwitch] = {}
    for position, entry in enumerate(entries):
        try:
            names = entry.name.names()
        except ValueError as exc:
            problems.add((*path, position, "name"), shown(str(exc)))
            continue
        for name in names:
            if name in found:
                problems.add((*path, position, "name"), f"PCIe switch {quoted(name)} is there twice")
            elif _ENDPOINT.fullmatch(name) or not re.fullmatch(SAFE_NAME.pattern, name):
                problems.add((*path, position, "name"), f"{quoted(name)} cannot name a PCIe switch")
            found.setdefault(name, PcieSwitch(name, entry.numa))
    return tuple(found.values())


def _numa(entry: GpuEntry | RnicEntry, numa_of: dict[str, int], path: KeyPath, problems: Problems) -> int:
    """The NUMA node of a part: said, or that of its PCIe switch; the two must agree."""
    switch = entry.pcie_switch
    if switch is None:
        if entry.numa is None:
            problems.add(path, "'numa' or 'pcie_switch' is required here")
        return entry.numa or 0
    if switch not in numa_of:
        hint = nearest(switch, numa_of)
        problems.add((*path, "pcie_switch"), f"no PCIe switch {quoted(switch)} in this platform{hint}")
        return entry.numa or 0
    if entry.numa is not None and entry.numa != numa_of[switch]:
        problems.add((*path, "numa"), f"expected numa {numa_of[switch]}, that of {quoted(switch)}; got '{entry.numa}'")
    return numa_of[switch]


def _gpus(entries: Iterable[GpuEntry], numa_of: dict[str, int], path: KeyPath, problems: Problems) -> tuple[Gpu, ...]:
    found: dict[int, Gpu] = {}
    for position, entry in enumerate(entries):
        numa = _numa(entry, numa_of, (*path, position), problems)
        for index in entry.index:
            if index in found:
                problems.add((*path, position, "index"), f"GPU index {index} is there twice")
            found.setdefault(index, Gpu(index, numa, entry.pcie_switch))
    return tuple(found[index] for index in sorted(found))


def _rnics(
    entries: tuple[RnicEntry, ...],
    parts: tuple[dict[str, int], tuple[Gpu, ...]],
    path: KeyPath,
    problems: Problems,
) -> tuple[Rnic, ...]:
    numa_of, gpus = parts
    indexes = {gpu.index for gpu in gpus}
    rnics = []
    for position, entry in enumerate(entries):
        here = (*path, position)
        numa = _numa(entry, numa_of, here, problems)
        nearest_gpus = entry.nearest_gpus
        for index in nearest_gpus or ():
            if index not in indexes:
                problems.add((*here, "nearest_gpus"), f"no GPU with index {index} in this platform")
        if nearest_gpus is None:
            behind = entry.pcie_switch
            nearest_gpus = tuple(gpu.index for gpu in gpus if behind is not None and gpu.pcie_switch == behind)
        rnics.append(
            Rnic(entry.device, entry.port, entry.rail, numa, entry.pcie_switch, entry.line_rate_gbps, nearest_gpus)
        )
    _devices_and_rails(entries, path, problems)
    return tuple(rnics)


def _devices_and_rails(entries: tuple[RnicEntry, ...], path: KeyPath, problems: Problems) -> None:
    """Devices are unique; rails are counted from 0 without a gap."""
    used = {entry.rail for entry in entries}
    seen: Counter[str] = Counter()
    for position, entry in enumerate(entries):
        seen[entry.device] += 1
        if entry.device.startswith("rdma"):
            text = (
                f"{quoted(entry.device)} is no RNIC that can be measured: devices of this name have no reliable "
                "connections (AWS EFA takes perftest's -c SRD only, and NCCL reaches it by a plug-in)"
            )
            problems.add((*path, position, "device"), text)
        if seen[entry.device] == 2:
            problems.add((*path, position, "device"), f"RNIC {quoted(entry.device)} is there twice")
        missing = next((rail for rail in range(entry.rail) if rail not in used), None)
        if missing is not None:
            text = f"rail {entry.rail} is used and rail {missing} is not: rails count from 0 without a gap"
            problems.add((*path, position, "rail"), text)


def _numa_nodes_exist(entry: PlatformEntry, path: KeyPath, problems: Problems) -> None:
    """Every NUMA number is below ``numa_nodes``."""
    valid = one_of(str(number) for number in range(entry.numa_nodes))
    groups: dict[str, tuple[PcieSwitchEntry | GpuEntry | RnicEntry, ...]] = {
        "pcie_switches": entry.pcie_switches,
        "gpus": entry.gpus,
        "rnics": entry.rnics,
    }
    for key, parts in groups.items():
        for position, part in enumerate(parts):
            if part.numa is not None and part.numa >= entry.numa_nodes:
                problems.add((*path, key, position, "numa"), f"no NUMA node {part.numa}: expected {valid} (numa_nodes)")


def _names_differ(switches: tuple[PcieSwitch, ...], rnics: tuple[Rnic, ...], path: KeyPath, problems: Problems) -> None:
    """A PCIe switch named like an RNIC would make ``gpu003/mlx5_2`` mean two things."""
    for name in {switch.name for switch in switches} & {rnic.device for rnic in rnics}:
        problems.add(path, f"{quoted(name)} names a PCIe switch and an RNIC")
