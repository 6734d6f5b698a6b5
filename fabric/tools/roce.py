"""The RoCE settings of a host's ports, and their congestion counters; each is asked by one shell text.

Settings: trust, PFC and buffers (mlnx_qos), ECN, DCQCN, GID types, MTU.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fabric.tools.driver import plain, whole, whole_lines, word

NAME = "fabric-roce"
"""The name ($0) under which the text is started."""

# Uses only sh, cat, readlink, grep and mlnx_qos, or dcb of iproute2 where that is missing (dcb-pfc(8), dcb-app(8)).
# Values arrive as positional parameters. What cannot be read (an empty entry of a GID table, debugfs without root) is
# left out. The interface is that of the port's first GID: device/net lists representors, too. cma_roce_tos is not
# called: it makes folders in configfs even to read; a folder that is there is read.
_TEXT = (
    'for d; do b=/sys/class/infiniband/${d%:*} p=${d#*:}; i=$(cat "$b/ports/$p/gid_attrs/ndevs/0" 2>/dev/null);'
    ' echo "port ${d%:*} $i"; n=/sys/class/net/$i; l=$(readlink "$b/device" 2>/dev/null);'
    ' grep -sH . "$n/mtu" "$n/address" "$b/tc/$p/traffic_class" "$n"/ecn/roce_[nr]p/* "$n"/ecn/roce_[nr]p/enable/[0-7]'
    ' "$b/ports/$p"/gid_attrs/types/* "/sys/kernel/debug/mlx5/${l##*/}"/cc_params/*'
    ' "/sys/kernel/config/rdma_cm/${d%:*}/ports/$p/default_roce_tos";'
    ' if command -v mlnx_qos >/dev/null 2>&1; then mlnx_qos -i "$i"; else dcb pfc show dev "$i" prio-pfc;'
    ' dcb -N app show dev "$i" dscp-prio; fi 2>&1; done; echo whole'
)
_TRUST = re.compile(r"Priority trust state: (\w{1,16})")
_DCBX = re.compile(r"DCBX mode: ([\w ]{1,32})")
_DSCP = re.compile(r"\s+prio:([0-7]) dscp:([0-9, ]{1,200})", re.ASCII)
_ROW = r"\s+{}((?:\s+[0-9]){{8}})\s*"
_DCB_PFC = re.compile(r"prio-pfc((?: [0-7]:(?:on|off)){8})\s*", re.ASCII)
_DCB_DSCP = re.compile(r"dscp-prio((?: [0-9]{1,2}:[0-7]){1,64})\s*", re.ASCII)
_ENABLED, _BUFFER = (re.compile(_ROW.format(name), re.ASCII) for name in ("enabled", "buffer"))
_SIZES = re.compile(r"Receive buffer size \(bytes\): ((?:[0-9]{1,9},){8})", re.ASCII)
_CABLE = re.compile(r"Cable len: ([0-9]{1,4})", re.ASCII)
_CLASS = re.compile(r"Global tclass=([0-9]{1,3})", re.ASCII)
_FILE = re.compile(r"(/sys/kernel/debug/mlx5/[^/]+/cc_params/\w+|/sys/[^:]+):(.*)")  # a PCI address has colons
_GID_TYPE = re.compile(r"/gid_attrs/types/([0-9]{1,3})$", re.ASCII)
_KNOB = re.compile(r"(?:/sys/kernel/debug/mlx5/[^/]+/cc_params|/sys/class/net/[^/]+/ecn/roce_[nr]p)/(\w{1,40})")


@dataclass(frozen=True, slots=True)
class Marking:
    """How a queue is marked (ECN): from *kmin_bytes* on by chance, above *kmax_bytes* always; None: not reported."""

    kmin_bytes: int | None = None
    kmax_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RocePort:
    """
    The RoCE settings of one port of a host or a switch; None, or a missing key, means not reported.

    *trust*: what decides a packet's priority, such as ``dscp``; *priority_of*: by DSCP. *pfc*: the priorities that are
    paused, not dropped. *interface*: the name in a host's own tools.

    Only hosts report *buffer_bytes*: the receive buffer of each priority; *ecn*: the priorities that have it for
    ``roce_np`` (who answers a marked packet) and ``roce_rp`` (who slows down); *knobs*: the settings of DCQCN;
    *host_class*, which overrides what programs ask for; *rdma_cm_class*, the class of programs that use rdma_cm;
    *dcbx*: who decides about priorities.

    Only switches report *queue_of*: by priority; *marks*: by queue; *sends*, *obeys*: whether it sends pauses, and
    stops when it gets any; *xoff_bytes*: where it pauses, when that is set by hand.
    """

    interface: str = ""
    mtu: int | None = None
    trust: str | None = None
    priority_of: Mapping[int, int] = field(default_factory=dict)
    pfc: frozenset[int] | None = None
    cable_m: int | None = None
    address: str | None = None
    buffer_bytes: Mapping[int, int] = field(default_factory=dict)
    ecn: Mapping[str, frozenset[int]] = field(default_factory=dict)
    gid_types: Mapping[int, str] = field(default_factory=dict)
    host_class: int | None = None
    rdma_cm_class: int | None = None
    dcbx: str | None = None
    knobs: Mapping[str, int] = field(default_factory=dict)
    queue_of: Mapping[int, int] = field(default_factory=dict)
    marks: Mapping[int, Marking] | None = None
    sends: bool | None = None
    obeys: bool | None = None
    xoff_bytes: int | None = None

    @property
    def cnp_dscp(self) -> int | None:
        """Return the DSCP of CNPs, which ask a sender to slow down; sysfs and debugfs name it differently."""
        return self.knobs.get("cnp_dscp", self.knobs.get("np_cnp_dscp"))


def ask(ports: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Ask for these devices and ports; alters nothing."""
    return ("sh", "-c", _TEXT, NAME, *(f"{word(device, 'device')}:{port}" for device, port in ports))


def read(stdout: str) -> dict[str, RocePort] | None:
    """
    Return what each port reported, by device; None when the answer does not reach its end. Raises nothing for any text.
    """
    lines = plain(stdout).splitlines()
    if lines[-1:] != ["whole"]:
        return None
    blocks: dict[tuple[str, str], list[str]] = {}
    for line in lines[:-1]:
        if re.fullmatch(r"port [\w.-]{1,64} \S{0,64}", line):
            _, device, interface = line.split(" ")
            blocks[device, interface] = block = []
        elif blocks:
            block.append(line)
    return {device: _port(interface, block) for (device, interface), block in blocks.items()}


def _port(interface: str, lines: list[str]) -> RocePort:
    text = "\n".join(lines)
    files = {found[1]: found[2] for line in lines if (found := _FILE.fullmatch(line))}
    named = {name.rpartition("/")[2]: value.strip() for name, value in files.items()}
    enabled, buffers, sizes = _ENABLED.search(text), _BUFFER.search(text), _SIZES.search(text)
    places = [int(at) for at in buffers[1].split()] if buffers else []
    size = [int(one) for one in sizes[1].split(",")[:-1]] if sizes else []
    knobs = {found[1]: value.strip() for name, value in files.items() if (found := _KNOB.fullmatch(name))}
    # mlnx_qos, or dcb where that is missing.
    pfc = dict(enumerate(enabled[1].split())) if enabled else _dcb(_DCB_PFC, text)
    return RocePort(
        interface,
        address=named.get("address"),
        mtu=_whole(re.fullmatch("([0-9]{2,5})", named.get("mtu", ""), re.ASCII)),
        trust=found[1] if (found := _TRUST.search(text)) else None,
        pfc=frozenset(at for at, state in pfc.items() if state in ("1", "on")) if pfc else None,
        priority_of={
            int(dscp): int(prio) for prio, listed in _DSCP.findall(text) for dscp in re.findall("[0-9]{1,2}", listed)
        }
        or {dscp: int(prio) for dscp, prio in _dcb(_DCB_DSCP, text).items()},
        ecn={side: frozenset(on) for side in ("roce_np", "roce_rp") if (on := _ecn(files, side)) is not None},
        gid_types={int(at[1]): kind.strip() for name, kind in files.items() if (at := _GID_TYPE.search(name))},
        host_class=_whole(_CLASS.search(named.get("traffic_class", ""))),
        rdma_cm_class=_whole(re.fullmatch("([0-9]{1,3})", named.get("default_roce_tos", ""), re.ASCII)),
        dcbx=found[1].strip() if (found := _DCBX.search(text)) else None,
        cable_m=_whole(_CABLE.search(text)),
        buffer_bytes={prio: size[at] for prio, at in enumerate(places) if at < len(size)},
        knobs={name: int(value) for name, value in knobs.items() if re.fullmatch("[0-9]{1,10}", value, re.ASCII)},
    )


def _dcb(pattern: re.Pattern[str], text: str) -> dict[int, str]:
    """Read an answer of ``dcb``: ``0:off 3:on`` of the priorities, ``26:3`` of the DSCPs; empty where there is none."""
    found = pattern.search(text)
    pairs = (one.split(":") for one in found[1].split()) if found else ()
    return {int(number): said for number, said in pairs}


def _whole(found: re.Match[str] | None) -> int | None:
    return int(found[1]) if found else None


def _ecn(files: Mapping[str, str], side: str) -> list[int] | None:
    enabled = {name[-1]: value for name, value in files.items() if f"/ecn/{side}/enable/" in name}
    return [int(priority) for priority, value in enabled.items() if value.strip() == "1"] if enabled else None


CONGESTION_NAME = "fabric-congestion"
"""The name ($0) under which the text is started."""

CONGESTION = (
    "np_ecn_marked_roce_packets",
    "np_cnp_sent",
    "rp_cnp_handled",
    "out_of_sequence",
    "packet_seq_err",
    "roce_adp_retrans",
)
"""
Files of ``ports/N/hw_counters`` (linux: mlx5/counters.c).

The first three have 64 bits and cover all ports of a LAG, the others have 32 and wrap. np: who gets marked packets and
answers them, rp: who then slows down.
"""

# Uses only sh, cat, printf, ethtool and grep; values arrive as positional parameters. What is missing is not printed:
# PFC counters exist only for priorities that have PFC. The interface is that of the port's first GID.
_CONGESTION_TEXT = (
    'b="/sys/class/infiniband/$1/ports/$2"; i=$(cat "$b/gid_attrs/ndevs/0" 2>/dev/null); shift 2;'
    ' for f; do v=$(cat "$b/hw_counters/$f" 2>/dev/null) && printf "%s: %s\\n" "$f" "$v"; done;'
    ' ethtool -S "$i" 2>/dev/null |'
    ' grep -E "^ *([rt]x_prio[0-7]_pause(_duration)?|[rt]x_discards_phy): [0-9]+$"; echo whole'
)
_COUNTER = re.compile(r" *([a-z0-9_]{1,64}): ([0-9]{1,20})", re.ASCII)


def ask_congestion(device: str, port: int) -> tuple[str, ...]:
    """Ask for what one port has counted: marks, CNPs, pauses, and losses; alters nothing."""
    place = word(device, "device"), str(whole(port, "port", at_least=1, at_most=255))
    return ("sh", "-c", _CONGESTION_TEXT, CONGESTION_NAME, *place, *CONGESTION)


def read_congestion(stdout: str) -> dict[str, int] | None:
    """Return the counters by name, without missing ones; None when the answer does not reach its end."""
    lines = whole_lines(stdout)
    if lines[-1:] != ["whole"]:
        return None
    return {found[1]: int(found[2]) for line in lines[:-1] if (found := _COUNTER.fullmatch(line))}
