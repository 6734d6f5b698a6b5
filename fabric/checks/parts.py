"""Whether GPUs and RNICs are those of the inventory, up, as fast as they should be, and free of other jobs."""

import re
from collections.abc import Iterator, Sequence

from fabric.checks.kind import Argv, HostAnswer, HostCheck, HostNeeds, Looked, excuse, problem, quoted, unknown, warning
from fabric.errors import ToolError
from fabric.model.finding import Finding
from fabric.model.text import counted
from fabric.model.topology import Host, Rnic
from fabric.tools import mlxlink, sysfs
from fabric.tools.driver import as_root
from fabric.tools.infiniband import PortState

GPU_LIST = ("nvidia-smi", "--query-gpu=index,name,mig.mode.current,persistence_mode", "--format=csv,noheader")
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
    """Ask the driver's tool for GPUs and for jobs, where the inventory has GPUs."""
    asked = (AMD_LIST, AMD_JOBS) if host.platform.amd else (GPU_LIST, JOBS)
    return asked if needs.measured and host.platform.gpus else ()


def _read_gpus(looked: Looked) -> Iterator[Finding]:
    """Report GPUs that are missing, unexpected, partitioned (MIG) or in use."""
    if looked.host.platform.amd:
        yield from _read_amd(looked)
        return
    listed, jobs = looked.answers[GPU_LIST], looked.answers[JOBS]
    rows = _rows(listed, _ROW)
    if rows is None or (not rows and _lines(listed) != [_NONE]):
        yield _unusable(listed)
    else:
        yield from _gpus_compared(looked.host, {int(row[1]) for row in rows})
        if split := {int(row[1]) for row in rows if row[3].strip() == "Enabled"}:
            why = "CUDA sees parts of these GPUs, under other numbers"
            yield problem(f"MIG is on: GPU {_numbers(split)}", why, "nvidia-smi -mig 0")
        if rows and all(row[4].strip() == "Disabled" for row in rows):
            why = "the driver starts anew for every program, which takes seconds a GPU and deadlines do not count"
            yield warning("persistence mode is off", why, "start nvidia-persistenced, or nvidia-smi -pm 1")
    if rows or jobs.lost:
        yield from _occupied(jobs)


def _read_amd(looked: Looked) -> Iterator[Finding]:
    """Report the same from rocm-smi, which reports no partitions."""
    listed, jobs = looked.answers[AMD_LIST], looked.answers[AMD_JOBS]
    found = re.findall(r"^card([0-9]{1,3}),", listed.stdout, re.MULTILINE | re.ASCII)
    if listed.exit_status != 0 or not found:
        yield unknown(f"which GPUs there are was not said: {excuse(listed)}", _DISTURBED, "run rocm-smi there by hand")
        return
    # rocm-smi numbers cards by PCI address, HIP from 0.
    yield from _gpus_compared(looked.host, set(range(len(found))))
    if names := re.findall(r"^PID[0-9]{1,10},\"?([^\",\n]{1,64})", jobs.stdout, re.MULTILINE | re.ASCII):
        yield _in_use(names)


def _in_use(names: Sequence[str]) -> Finding:
    what = f"{len(names)} GPU process{'' if len(names) == 1 else 'es'}: {quoted(', '.join(sorted(set(names))))}"
    return problem(what, _DISTURBED, "drain the host first, or take it out with --hosts")


def _lines(answer: HostAnswer) -> list[str]:
    return [line for line in answer.stdout.splitlines() if line.strip()]


def _rows(answer: HostAnswer, row: re.Pattern[str]) -> list[re.Match[str]] | None:
    """Return a match for every line of the answer; None when one cannot be read."""
    lines = _lines(answer)
    if lines == [_NONE]:
        return []
    found = [match for match in map(row.fullmatch, lines) if match]
    return None if answer.exit_status != 0 or len(found) < len(lines) else found


def _unusable(answer: HostAnswer) -> Finding:
    if answer.absent:
        return problem("nvidia-smi is not there", "GPUs are measured here", "install the NVIDIA driver's tools")
    complaint = next(
        (line for line in answer.text.splitlines() if "has failed" in line or "device handle" in line), None
    )
    if complaint is not None:
        advice = "look at dmesg for Xid errors; reload the driver or reboot; a GPU that is lost needs service"
        return problem(f"nvidia-smi: {quoted(complaint)}", "CUDA programs do not start on this host", advice)
    return unknown(
        f"which GPUs there are was not said: {excuse(answer)}",
        "a GPU that is missing fails every test with it",
        "run nvidia-smi there by hand; one that hangs points at the driver or a sick GPU",
    )


def _gpus_compared(host: Host, there: set[int]) -> Iterator[Finding]:
    wanted = {gpu.index for gpu in host.platform.gpus}
    what = f"{counted(len(there), 'GPU')}, the inventory has {len(wanted)}"
    if wanted - there:
        # The driver numbers the GPUs that are there from 0: the number does not tell which one is missing.
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
        yield _in_use([quoted(job[2]).rpartition("/")[2] for job in jobs])


def _numbers(indexes: set[int]) -> str:
    return ", ".join(str(index) for index in sorted(indexes))


GPUS = HostCheck("gpus", _ask_gpus, _read_gpus)


def _ask_gpudirect(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Ask for the loaded modules and the kind of driver, where GPU memory goes through RNICs."""
    platform = host.platform
    return (MODULES,) if needs.gpudirect and platform.gpus and platform.rnics and not platform.amd else ()


def _read_gpudirect(looked: Looked) -> Iterator[Finding]:
    """
    Report a driver that lacks GPUDirect: ib_write_bw needs nvidia-peermem, or DMA-BUF if configured.

    NCCL takes either; only the open driver gives DMA-BUF.
    """
    answer, cuda = looked.answers[MODULES], looked.needs.cuda
    dmabuf = looked.host.platform.use_cuda == "dmabuf"
    is_open = _OPEN in answer.stdout
    if not _MODULE.search(answer.stdout):
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


_FILES = ("state", "phys_state", "rate", "link_layer")
_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec \(([0-9]{1,2}X)[^)]*\)", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_TOLERANCE = 0.05
"""Relative tolerance of rates, because the kernel rounds: 54.5 Gb/s of FDR are "56 Gb/sec"."""
_LAYERS = {"infiniband": "InfiniBand", "ethernet": "Ethernet"}
_ADVICE = {
    "DOWN": "check the cable and the switch port; mlxlink says why a port does not come up",
    "INIT": "no subnet manager has reached this port: check that one runs (sminfo)",
    "ARMED": "the subnet manager has not finished: ask again in a moment",
}
# Matches both text and JSON; the driver's own reader does not keep this row.
_MODE = re.compile(r"^\s*\"?Loopback Mode\"?\s*: *\"?([^\"\r\n]*?)\"?,?\s*$", re.MULTILINE)
_NO_LOOPBACK = ("No Loopback", "N/A")


def _ask_rnics(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Ask for the devices that the kernel has, and for four files of each RNIC that the inventory has."""
    return (sysfs.DEVICES, _files_argv(host)) if needs.measured and host.platform.rnics else ()


def _read_rnics(looked: Looked) -> Iterator[Finding]:
    """Report missing and unexpected devices, and links that are down, slow or of the wrong link layer."""
    host, listed = looked.host, looked.answers[sysfs.DEVICES]
    devices = _devices_there(listed)
    if devices is None:
        what = f"which RDMA devices there are was not said: {excuse(listed)}"
        yield unknown(what, "an RNIC that is missing fails every test with it", f"ls {sysfs.ROOT}")
    else:
        yield from _compared(host, devices)
    yield from _links(host, looked.answers[_files_argv(host)], devices)


def _files_argv(host: Host) -> Argv:
    """Return the command that prints the files; ``grep -H .`` puts the file's name before each line."""
    return ("grep", "-H", ".", *(f"{_folder(rnic)}/{name}" for rnic in host.platform.rnics for name in _FILES))


def _folder(rnic: Rnic) -> str:
    return f"{sysfs.ROOT}/{rnic.device}/ports/{rnic.port}"


def _devices_there(answer: HostAnswer) -> set[str] | None:
    """
    Return the names of the devices, None when the answer is unreadable. No folder means: no RDMA driver, no device.
    """
    if answer.exit_status == 2 and "No such file or directory" in answer.stderr:
        return set()
    lines = answer.stdout.split()
    if answer.exit_status != 0 or not all(_DEVICE.fullmatch(line) for line in lines):
        return None
    return set(lines)


def _compared(host: Host, devices: set[str]) -> Iterator[Finding]:
    wanted = {rnic.device for rnic in host.platform.rnics}
    missing, more = sorted(wanted - devices), sorted(devices - wanted)
    if missing:
        instead = f"; there is {quoted(', '.join(more))}, which the inventory does not have" if more else ""
        yield problem(
            f"no RNIC {', '.join(missing)}{instead}",
            "every test with it would fail",
            "check lspci, the driver and the names (ibdev2netdev, udev rules); or correct rnics: of the platform"
            if more
            else "check lspci, dmesg and the driver (mlx5_core); reseat or replace the adapter",
        )
    elif more:
        what = f"RDMA devices that the inventory does not have: {quoted(', '.join(more))}"
        advice = "fine for storage and management; else add them to rnics: of the platform"
        yield warning(what, "they are not measured", advice)


def _links(host: Host, answer: HostAnswer, devices: set[str] | None) -> Iterator[Finding]:
    """Report every port whose device is there; missing devices were already reported."""
    contents = dict(line.split(":", 1) for line in answer.stdout.splitlines() if ":" in line)
    for rnic in host.platform.rnics:
        if devices is not None and rnic.device not in devices:
            continue
        files = {name: contents.get(f"{_folder(rnic)}/{name}", "") for name in _FILES}
        state = _state(files)
        if state is None:
            seen = quoted(files["state"] + files["phys_state"]) if answer.exit_status in (0, 1) else excuse(answer)
            yield _unread(rnic, seen or "nothing was said")
            continue
        if not state.active:
            advice = _ADVICE.get(state.state, "mlxlink says why a port does not come up")
            why = "no traffic passes: every test through it would fail"
            yield problem(f"{rnic.device} is {state}, not ACTIVE/LinkUp", why, advice)
        else:
            # For some ports that are down the kernel reports no rate.
            yield from _speed(rnic, files["rate"])
        wanted = _LAYERS.get(host.platform.link_layer, host.platform.link_layer)
        if files["link_layer"].strip() != wanted:
            yield problem(
                f"{rnic.device} is {quoted(files['link_layer'])}, the inventory has {wanted}",
                "the programs would be called with the wrong options",
                "correct link_layer of the platform, or LINK_TYPE of the adapter (mlxconfig)",
            )


def _state(files: dict[str, str]) -> PortState | None:
    try:
        return sysfs.read_port_state(f"{files['state']}\n{files['phys_state']}\n")
    except ToolError:
        return None


def _speed(rnic: Rnic, rate: str) -> Iterator[Finding]:
    match = _RATE.fullmatch(rate.strip())
    if not match:
        yield _unread(rnic, f"rate is {quoted(rate)!r}")
        return
    rate_gbps, wanted_gbps = float(match[1]), rnic.line_rate_gbps
    what = f"{rnic.device} runs at {rate_gbps:g} Gb/s ({match[2]}), the inventory has {wanted_gbps:g}"
    if rate_gbps < wanted_gbps * (1 - _TOLERANCE):
        advice = "check cable, transceiver and switch port (mlxlink -m); lanes are missing where the width is not 4X"
        yield problem(what, "the link itself is slow: the limits cannot be met", advice)
    elif rate_gbps > wanted_gbps * (1 + _TOLERANCE):
        advice = "correct line_rate_gbps of the platform, and its baseline"
        yield warning(what, "the limits are too low for this link", advice)


def _unread(rnic: Rnic, seen: str) -> Finding:
    what = f"the state of {rnic.device} port {rnic.port} cannot be read: {seen}"
    return unknown(what, "a link that is down fails every test with it", "ibstat there")


RNICS = HostCheck("rnics", _ask_rnics, _read_rnics)


def _ask_loopback(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Ask for the loopback mode of each RNIC; through sudo where changes use mlxlink through sudo anyway."""
    if not needs.measured or not host.platform.rnics:
        return ()
    return (sysfs.DEVICES, *(_show(needs, rnic) for rnic in host.platform.rnics))


def _read_loopback(looked: Looked) -> Iterator[Finding]:
    """Report RNICs in loopback, which measure well and carry nothing; and, once a host, that the mode is not known."""
    unseen: list[HostAnswer] = []
    there = _devices_there(looked.answers[sysfs.DEVICES])
    for rnic in looked.host.platform.rnics:
        if there is not None and rnic.device not in there:
            continue  # it is missing: check "rnics" reports it
        answer = looked.answers[_show(looked.needs, rnic)]
        match = _MODE.search(answer.text)
        mode = quoted(match[1]) if match else ""
        if not mode:
            unseen.append(answer)
        elif mode not in _NO_LOOPBACK:
            yield problem(
                f"{rnic.device} is in loopback mode: {mode}",
                "it talks to itself: bandwidth looks good and nothing reaches the network",
                f"mlxlink -d {rnic.device} --loopback NO",
            )
    if unseen:
        seen = "mlxlink is not there" if unseen[0].absent else excuse(unseen[0])
        why = "an adapter that somebody left in loopback measures well and carries nothing"
        advice = "install NVIDIA MFT and run as root to have it looked at"
        yield (unknown if unseen[0].lost else warning)(f"loopback mode was not looked at: {seen}", why, advice)


def _show(needs: HostNeeds, rnic: Rnic) -> Argv:
    return as_root(mlxlink.show(rnic.device), sudo=needs.sudo and "mlxlink" in needs.alters.programs)


LOOPBACK = HostCheck("loopback", _ask_loopback, _read_loopback)
