"""Whether RNICs are those of the inventory, up and as fast as they should be, and not in loopback."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks.ask import Argv, HostAnswer, excuse, quoted
from fabric.checks.kind import HostCheck, Looked, problem, unknown, warning
from fabric.checks.needs import HostNeeds
from fabric.errors import ToolError
from fabric.model.finding import Finding
from fabric.model.topology import Host, Rnic
from fabric.tools import mlxlink, sysfs
from fabric.tools.infiniband import PortState

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
# Both as text and as JSON; the driver's own reader does not keep this row.
_MODE = re.compile(r"^\s*\"?Loopback Mode\"?\s*: *\"?([^\"\r\n]*?)\"?,?\s*$", re.MULTILINE)
_NO_LOOPBACK = ("No Loopback", "N/A")


def _ask_rnics(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """The devices that the kernel has, and four files of each that the inventory has."""
    return (LIST, _files_argv(host)) if needs.measured and host.platform.rnics else ()


def _read_rnics(looked: Looked) -> Iterator[Finding]:
    """Missing devices and devices of other names; links that are down, slow or of the other kind."""
    host, listed = looked.host, looked.answers[LIST]
    devices = _devices_there(listed)
    if devices is None:
        what = f"which RDMA devices there are was not said: {excuse(listed)}"
        yield unknown(what, "an RNIC that is missing fails every test with it", f"ls {sysfs.ROOT}")
    else:
        yield from _compared(host, devices)
    yield from _links(host, looked.answers[_files_argv(host)], devices)


def _files_argv(host: Host) -> Argv:
    """``grep -H .`` says each line with its file."""
    return ("grep", "-H", ".", *(f"{_folder(rnic)}/{name}" for rnic in host.platform.rnics for name in _FILES))


def _folder(rnic: Rnic) -> str:
    return f"{sysfs.ROOT}/{rnic.device}/ports/{rnic.port}"


def _devices_there(answer: HostAnswer) -> set[str] | None:
    """The devices by name, None when that was not said; no folder: no RDMA driver, no device."""
    if not answer.lost and answer.exit_status == 2 and "No such file or directory" in answer.stderr:
        return set()
    lines = answer.stdout.split()
    if answer.lost or answer.exit_status != 0 or not all(_DEVICE.fullmatch(line) for line in lines):
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
    """Every port that is there; one whose device is missing was spoken of."""
    said = dict(line.split(":", 1) for line in answer.stdout.splitlines() if ":" in line)
    for rnic in host.platform.rnics:
        if devices is not None and rnic.device not in devices:
            continue
        files = {name: said.get(f"{_folder(rnic)}/{name}", "") for name in _FILES}
        state = None if answer.lost else _state(files)
        if state is None:
            seen = (
                excuse(answer)
                if answer.lost or answer.exit_status > 1
                else quoted(files["state"] + files["phys_state"])
            )
            yield _unread(rnic, seen or "nothing was said")
            continue
        if not state.active:
            advice = _ADVICE.get(state.state, "mlxlink says why a port does not come up")
            why = "no traffic passes: every test through it would fail"
            yield problem(f"{rnic.device} is {state}, not ACTIVE/LinkUp", why, advice)
        else:
            # The kernel does not say the rate of some ports that are down.
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
    """Each RNIC; through sudo where changes go through it and use mlxlink anyway."""
    if not needs.measured or not host.platform.rnics:
        return ()
    return (LIST, *(_show(host, needs, rnic) for rnic in host.platform.rnics))


def _read_loopback(looked: Looked) -> Iterator[Finding]:
    """RNICs in loopback, where they measure well and carry nothing; and, once a host, that it was not looked at."""
    unseen: list[HostAnswer] = []
    there = _devices_there(looked.answers[LIST])
    for rnic in looked.host.platform.rnics:
        if there is not None and rnic.device not in there:
            continue  # it is missing: check "rnics" says so
        answer = looked.answers[_show(looked.host, looked.needs, rnic)]
        match = None if answer.lost else _MODE.search(answer.text)
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


def _show(host: Host, needs: HostNeeds, rnic: Rnic) -> Argv:
    root = ("sudo", "-n") if needs.sudo and "mlxlink" in needs.alters.programs else ()
    return (*root, *mlxlink.show(rnic.device, tool=host.platform.program("mlxlink")))


LOOPBACK = HostCheck("loopback", _ask_loopback, _read_loopback)
