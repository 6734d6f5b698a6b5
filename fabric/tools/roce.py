"""How a host's ports treat RoCE: trust, priorities and PFC (mlnx_qos), ECN, GID types, MTU; by one shell text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fabric.tools.driver import plain, word

NAME = "fabric-roce"
"""The name ($0) under which the text is started."""

# Only sh, cat, grep and mlnx_qos; values arrive as positional parameters. An entry of a GID table that is empty cannot
# be read, which is no error. The interface is that of the port's first GID: device/net lists representors, too.
_TEXT = (
    'for d; do b=/sys/class/infiniband/${d%:*} p=${d#*:}; i=$(cat "$b/ports/$p/gid_attrs/ndevs/0" 2>/dev/null);'
    ' echo "port ${d%:*} $i"; n=/sys/class/net/$i;'
    ' grep -sH . "$n/mtu" "$b/tc/$p/traffic_class" "$n"/ecn/roce_[nr]p/enable/[0-7] "$b/ports/$p"/gid_attrs/types/*;'
    ' mlnx_qos -i "$i" 2>&1; done; echo whole'
)
_TRUST = re.compile(r"Priority trust state: (\w{1,16})")
_DSCP = re.compile(r"\s+prio:([0-7]) dscp:([0-9, ]{1,200})", re.ASCII)
_ENABLED = re.compile(r"\s+enabled((?:\s+[01]){8})\s*", re.ASCII)
_CLASS = re.compile(r"Global tclass=([0-9]{1,3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class RocePort:
    """
    What one port told; None, or a key that is missing, is what it did not tell.

    *pfc* are the priorities that are paused, not dropped. *ecn*: for ``roce_np`` (who answers a marked packet) and
    ``roce_rp`` (who slows down) the priorities with it. *host_class* overrides what programs ask for.
    """

    device: str
    mtu: int | None = None
    trust: str | None = None
    pfc: frozenset[int] | None = None
    priority_of: Mapping[int, int] = field(default_factory=dict)
    ecn: Mapping[str, frozenset[int]] = field(default_factory=dict)
    gid_types: Mapping[int, str] = field(default_factory=dict)
    host_class: int | None = None


def ask(ports: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Ask of these devices and ports; it alters nothing."""
    return ("sh", "-c", _TEXT, NAME, *(f"{word(device, 'device')}:{port}" for device, port in ports))


def read(stdout: str) -> dict[str, RocePort] | None:
    """By device what each port told; None when the answer does not reach its end. Raises nothing for any text."""
    lines = plain(stdout).splitlines()
    if lines[-1:] != ["whole"]:
        return None
    blocks: dict[str, list[str]] = {}
    for line in lines[:-1]:
        if re.fullmatch(r"port [\w.-]{1,64} \S{0,64}", line):
            blocks[line.split()[1]] = block = []
        elif blocks:
            block.append(line)
    return {device: _port(device, block) for device, block in blocks.items()}


def _port(device: str, lines: list[str]) -> RocePort:
    text = "\n".join(lines)
    files = dict(line.split(":", 1) for line in lines if line.startswith("/sys/") and ":" in line)
    named = {name.rpartition("/")[2]: value for name, value in files.items()}
    enabled = _ENABLED.search(text)
    trust, host_class = _TRUST.search(text), _CLASS.search(named.get("traffic_class", ""))
    return RocePort(
        device,
        mtu=int(named["mtu"]) if re.fullmatch("[0-9]{2,5}", named.get("mtu", ""), re.ASCII) else None,
        trust=trust[1] if trust else None,
        pfc=frozenset(at for at, bit in enumerate(enabled[1].split()) if bit == "1") if enabled else None,
        priority_of={int(dscp): int(prio) for prio, listed in _DSCP.findall(text) for dscp in _numbers(listed)},
        ecn={side: frozenset(on) for side in ("roce_np", "roce_rp") if (on := _ecn(files, side)) is not None},
        gid_types={int(at): kind for at, kind in _types(files)},
        host_class=int(host_class[1]) if host_class else None,
    )


def _numbers(listed: str) -> list[str]:
    return re.findall("[0-9]{1,2}", listed)


def _ecn(files: Mapping[str, str], side: str) -> list[int] | None:
    told = {name[-1]: value for name, value in files.items() if f"/ecn/{side}/enable/" in name}
    return [int(priority) for priority, value in told.items() if value.strip() == "1"] if told else None


def _types(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, kind in files.items():
        found = re.search(r"/gid_attrs/types/([0-9]{1,3})$", name, re.ASCII)
        if found:
            yield found[1], kind.strip()
