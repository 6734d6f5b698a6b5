"""Whether the RNICs are those of the inventory, and whether their links are up and as fast as they should be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks.answer import Answer, Answers, Argv, excuse, quoted
from fabric.checks.needs import HostNeeds
from fabric.errors import ToolError
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host, Rnic
from fabric.tools import sysfs

NAME = "rnics"
LIST = ("ls", sysfs.ROOT)
_FILES = ("state", "phys_state", "rate", "link_layer")
_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec \(([0-9]{1,2}X)[^)]*\)", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_TOLERANCE = 0.05
"""The kernel rounds: 54.5 Gb/s of FDR are "56 Gb/sec"."""
_LAYERS = {"infiniband": "InfiniBand", "ethernet": "Ethernet"}
_ADVICE = {
    "DOWN": "check the cable and the switch port; mlxlink says why a port does not come up",
    "INIT": "no subnet manager has reached this port: check that one runs (sminfo)",
    "ARMED": "the subnet manager has not finished: ask again in a moment",
}


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """The devices that the kernel has, and four files of each that the inventory has."""
    if not needs.measured or not host.platform.rnics:
        return ()
    return (LIST, _files_argv(host))


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """Missing devices and devices of other names; links that are down, slow or of the other kind."""
    del needs
    devices = devices_there(answers[LIST])
    if devices is None:
        yield _finding(
            host,
            Severity.UNKNOWN,
            f"which RDMA devices there are was not said: {excuse(answers[LIST])}",
            "an RNIC that is missing fails every test with it",
            f"ls {sysfs.ROOT}",
        )
    else:
        yield from _compared(host, devices)
    yield from _links(host, answers[_files_argv(host)], devices)


def _files_argv(host: Host) -> Argv:
    """``grep -H .`` says each line with its file."""
    return (
        "grep",
        "-H",
        ".",
        *(f"{_folder(rnic)}/{name}" for rnic in host.platform.rnics for name in _FILES),
    )


def _folder(rnic: Rnic) -> str:
    return f"{sysfs.ROOT}/{rnic.device}/ports/{rnic.port}"


def devices_there(answer: Answer) -> set[str] | None:
    """The devices by name, None when that was not said; no folder: no RDMA driver, no device."""
    if not answer.lost and answer.status == 2 and "No such file or directory" in answer.stderr:
        return set()
    lines = answer.stdout.split()
    if answer.lost or answer.status != 0 or not all(_DEVICE.fullmatch(line) for line in lines):
        return None
    return set(lines)


def _compared(host: Host, devices: set[str]) -> Iterator[Finding]:
    wanted = {rnic.device for rnic in host.platform.rnics}
    missing, more = sorted(wanted - devices), sorted(devices - wanted)
    if missing:
        instead = f"; there is {quoted(', '.join(more))}, which the inventory does not have" if more else ""
        yield _finding(
            host,
            Severity.PROBLEM,
            f"no RNIC {', '.join(missing)}{instead}",
            "every test with it would fail",
            "check lspci, the driver and the names (ibdev2netdev, udev rules); or correct rnics: of the platform"
            if more
            else "check lspci, dmesg and the driver (mlx5_core); reseat or replace the adapter",
        )
    elif more:
        yield _finding(
            host,
            Severity.WARNING,
            f"RDMA devices that the inventory does not have: {quoted(', '.join(more))}",
            "they are not measured",
            "fine for storage and management; else add them to rnics: of the platform",
        )


def _links(host: Host, answer: Answer, devices: set[str] | None) -> Iterator[Finding]:
    """Every port that is there; one whose device is missing was spoken of."""
    said = dict(line.split(":", 1) for line in answer.stdout.splitlines() if ":" in line)
    for rnic in host.platform.rnics:
        if devices is not None and rnic.device not in devices:
            continue
        files = {name: said.get(f"{_folder(rnic)}/{name}", "") for name in _FILES}
        state = None if answer.lost else _state(files)
        if state is None:
            seen = excuse(answer) if answer.lost or answer.status > 1 else quoted(files["state"] + files["phys_state"])
            yield _unread(host, rnic, seen or "nothing was said")
            continue
        if not state.active:
            advice = _ADVICE.get(state.state, "mlxlink says why a port does not come up")
            why = "no traffic passes: every test through it would fail"
            yield _finding(host, Severity.PROBLEM, f"{rnic.device} is {state}, not ACTIVE/LinkUp", why, advice)
        else:
            # The kernel does not say the rate of some ports that are down.
            yield from _speed(host, rnic, files["rate"])
        yield from _layer(host, rnic, files["link_layer"])


def _state(files: dict[str, str]) -> sysfs.PortState | None:
    try:
        return sysfs.read_port_state(f"{files['state']}\n{files['phys_state']}\n")
    except ToolError:
        return None


def _speed(host: Host, rnic: Rnic, rate: str) -> Iterator[Finding]:
    match = _RATE.fullmatch(rate.strip())
    if not match:
        yield _unread(host, rnic, f"rate is {quoted(rate)!r}")
        return
    rate_gbps, width, wanted_gbps = float(match[1]), match[2], rnic.line_rate_gbps
    if rate_gbps < wanted_gbps * (1 - _TOLERANCE):
        yield _finding(
            host,
            Severity.PROBLEM,
            f"{rnic.device} runs at {rate_gbps:g} Gb/s ({width}), the inventory has {wanted_gbps:g}",
            "the link itself is slow: the limits cannot be met",
            "check cable, transceiver and switch port (mlxlink -m); lanes are missing where the width is not 4X",
        )
    elif rate_gbps > wanted_gbps * (1 + _TOLERANCE):
        yield _finding(
            host,
            Severity.WARNING,
            f"{rnic.device} runs at {rate_gbps:g} Gb/s ({width}), the inventory has {wanted_gbps:g}",
            "the limits are too low for this link",
            "correct line_rate_gbps of the platform, and its baseline",
        )


def _layer(host: Host, rnic: Rnic, layer: str) -> Iterator[Finding]:
    wanted = _LAYERS.get(host.platform.link_layer, host.platform.link_layer)
    if layer.strip() != wanted:
        yield _finding(
            host,
            Severity.PROBLEM,
            f"{rnic.device} is {quoted(layer)}, the inventory has {wanted}",
            "the programs would be called with the wrong options",
            "correct link_layer of the platform, or LINK_TYPE of the adapter (mlxconfig)",
        )


def _unread(host: Host, rnic: Rnic, seen: str) -> Finding:
    what = f"the state of {rnic.device} port {rnic.port} cannot be read: {seen}"
    return _finding(host, Severity.UNKNOWN, what, "a link that is down fails every test with it", "ibstat there")


def _finding(host: Host, severity: Severity, what: str, why: str, advice: str) -> Finding:
    return Finding(NAME, severity, (host.name,), what, why, advice)
