"""Platforms, the layouts of hosts: their keys in a file, how tools are called, and whether the parts fit together."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fabric.config.problems import KeyPath, Problems
from fabric.model import gathered
from fabric.model.fields.entry import Entry, key
from fabric.model.fields.folded import Folded, FoldedNames
from fabric.model.fields.scalars import BASELINE_NAME, DEVICE, SAFE_NAME, Choice, Decimal, Indexes, Whole
from fabric.model.fields.wording import nearest, one_of, quoted, shown
from fabric.model.topology import Gpu, PcieSwitch, Platform, Rnic, ToolSettings

LineRate = Annotated[float, Decimal(0.01, 10_000)]


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
_OURS_OF_MPIRUN = {"-x": "write variables under 'env'", **dict.fromkeys(_LAYOUT, "the probe sets hosts and ranks")}
_PAIRS = ("-mca", "--mca", "-gmca", "--gmca", "--prtemca", "--pmixmca")


# Options that the probe itself sets, by key: the program, and the words with which such options begin.
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
    """Note words that would not reach a program as meant, and options that the probe sets itself."""
    if words and not words[0].startswith("-"):
        problems.add((*path, 0), f"expected an option first, got {quoted(words[0])}, which {called} would not take")
    for position, word in enumerate(words):
        option = word.partition("=")[0] if word.startswith("--") else word[:2]
        if word.startswith("-") and option in ours:
            problems.add((*path, position), f"{quoted(word)} cannot be set here: the probe says it")


def program_first(words: Sequence[str], path: KeyPath, problems: Problems) -> None:
    """Note words meant as a command that begin with an option or a variable."""
    if words and (words[0].startswith("-") or "=" in words[0]):
        problems.add((*path, 0), f"expected a program first, got {quoted(words[0])}")


def env_problems(env: Mapping[str, str], path: KeyPath, problems: Problems) -> None:
    """Note the variables that the testbench itself sets."""
    for name in env:
        if name in _OURS:
            problems.add((*path, name), f"{quoted(name)} cannot be set here: {_OURS[name]}")


def option_problems(words: Sequence[str], path: KeyPath, problems: Problems) -> None:
    """Note words that would not reach ``mpirun`` as meant."""
    if words and not words[0].startswith("-"):
        problems.add((*path, 0), f"expected an option first, got {quoted(words[0])}, which mpirun would run")
    for position, word in enumerate(words):
        if word in _PAIRS and position + 2 >= len(words):
            problems.add((*path, position), f"expected a name and a value after {quoted(word)}")
        elif word in _OURS_OF_MPIRUN:
            problems.add((*path, position), f"{quoted(word)} cannot be set here: {_OURS_OF_MPIRUN[word]}")


def unfolded(folded: Folded, path: KeyPath, problems: Problems) -> tuple[str, ...]:
    """Return the names of a folded set; note what ClusterShell refuses."""
    try:
        return folded.names()
    except ValueError as exc:
        problems.add(path, shown(str(exc)))
        return ()


class PcieSwitchEntry(Entry):
    """One PCIe switch of a host, or several alike."""

    name: Annotated[Folded, FoldedNames(64)]
    """Its name; pcie[0-1] makes two alike."""
    numa: Annotated[int, Whole(0, 63)]
    """The NUMA node it hangs off."""


class GpuEntry(Entry):
    """One GPU of a host, or several alike."""

    index: Annotated[tuple[int, ...], Indexes()]
    """Its CUDA index; 0-3 makes four alike."""
    numa: Annotated[int, Whole(0, 63)] | None = None
    """Its NUMA node; else that of its PCIe switch."""
    pcie_switch: Annotated[str, SAFE_NAME] | None = None
    """Its PCIe switch; none: straight off the CPU."""


class RnicEntry(Entry):
    """One RDMA port of a host."""

    device: Annotated[str, DEVICE]
    """Its RDMA device, as ibv_devices lists it."""
    port: Annotated[int, Whole(1, 8)] = 1
    """The port of that device."""
    rail: Annotated[int, Whole(0, 63)]
    """Its rail, counted from 0; decides its leaf switch."""
    numa: Annotated[int, Whole(0, 63)] | None = None
    """Its NUMA node; else that of its PCIe switch."""
    pcie_switch: Annotated[str, SAFE_NAME] | None = None
    """Its PCIe switch; none: straight off the CPU."""
    line_rate_gbps: LineRate
    """What the link signals, in decimal Gb/s: 400 for NDR, 200 for HDR."""
    nearest_gpus: tuple[Annotated[int, Whole(0, 99)], ...] | None = None
    """The GPUs it serves; else those on its PCIe switch."""


@dataclass(frozen=True, kw_only=True)
class PlatformEntry(ToolSettings):
    """A host layout, described once."""

    baseline: Annotated[str, BASELINE_NAME]
    """What is normal for it: baselines/<this>.yaml."""
    link_layer: Annotated[str, Choice(("infiniband", "ethernet"))]
    """infiniband or ethernet (RoCE)."""
    numa_nodes: Annotated[int, Whole(1, 64)]
    """How many memory nodes a host has."""
    pcie_switches: tuple[PcieSwitchEntry, ...] = key((), max_length=64)
    """The PCIe switches of a host."""
    gpus: tuple[GpuEntry, ...] = key((), max_length=64)
    """The GPUs of a host."""
    rnics: tuple[RnicEntry, ...] = key(max_length=64)
    """The RDMA ports of a host."""


_ENDPOINT = re.compile(r"(gpu|numa)[0-9]+")


def platform(name: str, entry: PlatformEntry, path: KeyPath, problems: Problems) -> Platform:
    """Return the platform; note what does not fit together."""
    env = dict(entry.env)
    env_problems(env, (*path, "env"), problems)
    option_problems(entry.mpirun_options, (*path, "mpirun_options"), problems)
    if entry.traffic_class is not None and entry.link_layer != "ethernet":
        text = "'traffic_class' is for link_layer ethernet: InfiniBand has service levels (NCCL_IB_SL)"
        problems.add((*path, "traffic_class"), text)
    for name_of, (called, ours) in _OURS_OF.items():
        words_problems(getattr(entry, name_of), called, ours, (*path, name_of), problems)
    program_first(entry.wrapper, (*path, "wrapper"), problems)
    layout = _Layout(entry, path, problems)
    own = {
        "name": name,
        "gpus": layout.gpus(),
        "rnics": layout.rnics(),
        "pcie_switches": tuple(PcieSwitch(switch, numa) for switch, numa in layout.numa_of.items()),
        "traffic_class": _traffic_class(entry, env.get("NCCL_IB_TC", "")),
    }
    return Platform(**vars(entry) | own)


def _traffic_class(entry: PlatformEntry, nccl: str) -> int | None:
    """Return the traffic class for bandwidth probes: as given, else that of collectives (NCCL_IB_TC)."""
    if entry.traffic_class is None and entry.link_layer == "ethernet" and re.fullmatch("[0-9]{1,3}", nccl, re.ASCII):
        return int(nccl) if int(nccl) < 256 else None
    return entry.traffic_class


class _Layout:
    """The parts of a host and how they are connected; problems are noted."""

    def __init__(self, entry: PlatformEntry, path: KeyPath, problems: Problems) -> None:
        self._entry, self._path, self._problems = entry, path, problems
        self.numa_of: dict[str, int] = {}  # by PCIe switch
        devices = {rnic.device for rnic in entry.rnics}
        for position, one in enumerate(entry.pcie_switches):
            here = (*path, "pcie_switches", position)
            self._node_exists(one.numa, here)
            for name in unfolded(one.name, (*here, "name"), problems):
                if name in self.numa_of:
                    problems.add((*here, "name"), f"PCIe switch {quoted(name)} is there twice")
                elif _ENDPOINT.fullmatch(name) or not re.fullmatch(SAFE_NAME.pattern, name):
                    problems.add((*here, "name"), f"{quoted(name)} cannot name a PCIe switch")
                elif name in devices:  # else gpu003/mlx5_2 would mean two things
                    problems.add((*path, "pcie_switches"), f"{quoted(name)} names a PCIe switch and an RNIC")
                self.numa_of.setdefault(name, one.numa)

    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs by index, each once."""
        found: dict[int, Gpu] = {}
        for position, entry in enumerate(self._entry.gpus):
            here = (*self._path, "gpus", position)
            numa = self._numa(entry, here)
            for index in entry.index:
                if index in found:
                    self._problems.add((*here, "index"), f"GPU index {index} is there twice")
                found.setdefault(index, Gpu(index, numa, entry.pcie_switch))
        return tuple(found[index] for index in sorted(found))

    def rnics(self) -> tuple[Rnic, ...]:
        """Return the RNICs as listed; devices must be unique, and rails counted from 0 without a gap."""
        rnics: list[Rnic] = []
        rails = {entry.rail for entry in self._entry.rnics}
        gpus = self.gpus()
        behind = gathered((gpu.pcie_switch, gpu.index) for gpu in gpus)
        there = {gpu.index for gpu in gpus}
        for position, entry in enumerate(self._entry.rnics):
            here = (*self._path, "rnics", position)
            for index in entry.nearest_gpus or ():
                if index not in there:
                    self._problems.add((*here, "nearest_gpus"), f"no GPU with index {index} in this platform")
            nearest_gpus = entry.nearest_gpus
            if nearest_gpus is None:
                nearest_gpus = tuple(behind.get(entry.pcie_switch, ()) if entry.pcie_switch is not None else ())
            if entry.device.startswith("rdma"):
                self._problems.add((*here, "device"), f"{quoted(entry.device)} {_UNRELIABLE}")
            if [rnic.device for rnic in rnics].count(entry.device) == 1:
                self._problems.add((*here, "device"), f"RNIC {quoted(entry.device)} is there twice")
            missing = next((rail for rail in range(entry.rail) if rail not in rails), None)
            if missing is not None:
                text = f"rail {entry.rail} is used and rail {missing} is not: rails count from 0 without a gap"
                self._problems.add((*here, "rail"), text)
            place = self._numa(entry, here), entry.pcie_switch
            rnics.append(Rnic(entry.device, entry.port, entry.rail, *place, entry.line_rate_gbps, nearest_gpus))
        return tuple(rnics)

    def _numa(self, part: GpuEntry | RnicEntry, path: KeyPath) -> int:
        """Return the NUMA node of a part, its own or that of its PCIe switch; the two must agree."""
        self._node_exists(part.numa, path)
        switch = part.pcie_switch
        if switch is None:
            if part.numa is None:
                self._problems.add(path, "'numa' or 'pcie_switch' is required here")
        elif switch not in self.numa_of:
            text = f"no PCIe switch {quoted(switch)} in this platform{nearest(switch, self.numa_of)}"
            self._problems.add((*path, "pcie_switch"), text)
        elif part.numa not in (None, self.numa_of[switch]):
            text = f"expected numa {self.numa_of[switch]}, that of {quoted(switch)}; got '{part.numa}'"
            self._problems.add((*path, "numa"), text)
        return self.numa_of.get(switch or "", part.numa or 0)

    def _node_exists(self, numa: int | None, path: KeyPath) -> None:
        if numa is not None and numa >= self._entry.numa_nodes:
            known = one_of(map(str, range(self._entry.numa_nodes)))
            self._problems.add((*path, "numa"), f"no NUMA node {numa}: expected {known} (numa_nodes)")


_UNRELIABLE = (
    "is no RNIC that can be measured: devices of this name have no reliable connections (AWS EFA takes perftest's "
    "-c SRD only, and NCCL reaches it by a plug-in)"
)
