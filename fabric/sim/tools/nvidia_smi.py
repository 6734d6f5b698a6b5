"""The tools ``nvidia-smi`` and ``rocm-smi``: the GPUs of a host, and the processes on them."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from fabric.model.topology import Gpu
from fabric.sim import page
from fabric.sim.hashing import mix64, word
from fabric.sim.hosts import GPU_MODELS, VBIOS, gpu_pci_address, serial_of_gpu
from fabric.sim.hosts.temperature import GPU, Warmth
from fabric.sim.life import THROTTLED
from fabric.sim.tools.call import ToolCall, ToolOutput
from fabric.sim.tools.nccl_tests import RunningCollective

GPUS = "--query-gpu=index,name,mig.mode.current,persistence_mode"
JOBS = "--query-compute-apps=gpu_uuid,pid,process_name"
"""The two questions of a pre-flight."""


def nvidia_smi(asked: ToolCall) -> ToolOutput | None:
    """Answer ``nvidia-smi --query-gpu=...``, ``--query-compute-apps=...`` or ``topo -m``."""
    if asked.site.layout.platform.amd:
        return ToolOutput(stderr="bash: line 1: nvidia-smi: command not found\n", status=127)
    if asked.words[:1] in ((GPUS,), (JOBS,)):  # with a lost GPU the driver answers nothing else
        troubles = {gpu.index: asked.site.trouble_of(gpu.name) for gpu in asked.site.layout.platform.gpus}
        if "hanging" in troubles.values():
            return None
        broken = next((index for index, trouble in troubles.items() if trouble == "broken"), None)
        if broken is not None:
            lost = "GPU is lost.  Reboot the system to recover this GPU"
            return ToolOutput(
                f"Unable to determine the device handle for GPU {gpu_pci_address(broken)}: {lost}\n", status=15
            )
    gpus = asked.site.present_gpus()
    if not gpus:
        return ToolOutput("No devices were found\n", status=6)
    refused = "nvidia-smi: simulated rack: only `--query-gpu`, `--query-compute-apps=pid`, `topo -m` are simulated\n"
    if asked.words == ("topo", "-m"):
        return ToolOutput(_matrix(asked, gpus))
    return compute_apps(asked) or gpu_query(asked, gpus) or ToolOutput(stderr=refused, status=2)


def _matrix(asked: ToolCall, gpus: Sequence[Gpu]) -> str:
    """Return the matrix of ``topo -m``: RNICs as NIC0, NIC1 with a legend, as drivers of 2023 and later print it."""
    parts: list[tuple[str, str | None, int]] = [(f"GPU{at}", gpu.pcie_switch, gpu.numa) for at, gpu in enumerate(gpus)]
    parts += [(f"NIC{at}", rnic.pcie_switch, rnic.numa) for at, rnic in enumerate(asked.rnics)]

    def cell(one: tuple[str, str | None, int], other: tuple[str, str | None, int]) -> str:
        if one is other:
            return " X "
        if one[0].startswith("GPU") and other[0].startswith("GPU"):
            return "NV18"
        if one[1] is not None and one[1] == other[1]:
            return "PIX"
        return "NODE" if one[2] == other[2] else "SYS"

    rows = [(part[0], [cell(part, other) for other in parts], part[2]) for part in parts]
    return page("nvidia-smi-topo", rows=rows, rnics=asked.rnics)


def rocm_smi(asked: ToolCall) -> ToolOutput:
    """Answer for AMD's GPUs and their users: ``--showid --csv``, ``--showpids --csv``, ``--showtoponuma --json``."""
    if not asked.site.layout.platform.amd:
        return ToolOutput(stderr="bash: line 1: rocm-smi: command not found\n", status=127)
    words = {"busy": _busy(asked), "gpus": asked.site.present_gpus(), "model": GPU_MODELS[asked.site.layout.generation]}
    printed = page("rocm-smi", question=" ".join(asked.words), **words)
    refused = "rocm-smi: simulated rack: only --showid and --showpids with --csv are simulated\n"
    return ToolOutput(printed) if printed else ToolOutput(stderr=refused, status=2)


def _uuid(asked: ToolCall, gpu: Gpu) -> str:
    bits = mix64(asked.site.name_hash ^ gpu.index ^ (1 << 32 if asked.site.feels("replaced", gpu.name) else 0))
    return f"GPU-{UUID(int=word(bits, 0) << 64 | word(bits, 1))}"


_CLOCKS_MHZ = {
    "a100": (210, 1410),
    "h100": (345, 1980),
    "b200": (120, 1965),
    "mi300x": (132, 2100),
}  # idle: choice; most: data sheets
_BUSY = 0.05  # of full load: above it a GPU runs at its highest clock; choice


_HEADERS = {"clocks.sm": "clocks.current.sm [MHz]"}
"""Fields whose header differs from their name."""


def _fields(asked: ToolCall, warmth: Warmth, number: int, gpu: Gpu) -> Mapping[str, str]:
    """Return the fields of one GPU; its clock is lowest when idle, highest under load, reduced when it runs hot."""
    site, generation, heat = asked.site, asked.site.layout.generation, asked.site.heat.get(gpu.name)
    idle_mhz, most_mhz = _CLOCKS_MHZ[generation]
    loaded_mhz = most_mhz * (THROTTLED if heat is not None and heat.target > 0.0 else 1.0)
    return {
        "index": str(number),
        "name": GPU_MODELS[generation],
        "uuid": _uuid(asked, gpu),
        "serial": serial_of_gpu(site, gpu.name),
        "vbios_version": VBIOS,
        "pci.bus_id": "0000" + gpu_pci_address(gpu.index).upper(),
        "temperature.gpu": f"{warmth.of(gpu.name, GPU):.0f}",
        "mig.mode.current": "Disabled",
        "persistence_mode": "Disabled" if "no_persistence" in asked.rack.mock.site else "Enabled",
        "clocks.sm": f"{loaded_mhz if warmth.loaded(gpu.name, GPU.constant_s) > _BUSY else idle_mhz:.0f} MHz",
    }


_NO_UUID = "GPU-00000000-0000-0000-0000-000000000000"


def gpu_query(asked: ToolCall, gpus: Sequence[Gpu]) -> ToolOutput | None:
    """Return the table for ``--query-gpu=... --format=csv,...``; None when the words ask for something else."""
    given = dict(word.split("=", 1) for word in asked.words if "=" in word)
    formats = given.get("--format", "").split(",")
    if "--query-gpu" not in given or "csv" not in formats:
        return None
    names = given["--query-gpu"].split(",")
    warmth = Warmth(asked.site, asked.at_s)
    found = [_fields(asked, warmth, number, gpu) for number, gpu in enumerate(gpus)]
    unknown = next((name for name in names if name not in found[0]), None)
    if unknown is not None:
        return ToolOutput(f'Field "{unknown}" is not a valid field to query.\n\n', status=2)
    rows = [] if "noheader" in formats else [", ".join(_HEADERS.get(name, name) for name in names)]
    texts = (", ".join(one[name] for name in names) for one in found)
    rows += (text.replace(" MHz", "") if "nounits" in formats else text for text in texts)
    return ToolOutput("".join(f"{row}\n" for row in rows))


_APPS = "--query-compute-apps="
FORMAT = "--format=csv,noheader"


def compute_apps(asked: ToolCall) -> ToolOutput | None:
    """Return a line for every collective that runs here; None when something else is asked."""
    named = next((word.removeprefix(_APPS) for word in asked.words if word.startswith(_APPS)), "")
    row = {"pid": "{0}", "pid,process_name": "{0}, {1}", "gpu_uuid,pid,process_name": "{2}, {0}, {1}"}.get(named)
    if row is None or frozenset(asked.words) != {f"{_APPS}{named}", FORMAT}:
        return None
    rows = (row.format(pid, f"/usr/bin/{name}", _NO_UUID) for pid, name in _busy(asked))
    return ToolOutput("".join(f"{text}\n" for text in rows))


def _busy(asked: ToolCall) -> list[tuple[int, str]]:
    """Return id and name of every program that uses GPUs here."""
    running = (flow for flow in asked.site.flows if isinstance(flow, RunningCollective))
    return sorted({flow.process.pid: f"{flow.job.operation}_perf" for flow in running}.items())
