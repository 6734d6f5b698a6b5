"""The settings of RoCE (how each is read, named and set right), and the rules that say what is wrong.

A rule looks at one end of a cable, or at both, whatever other ports are set to: one rule a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fabric.checks.kind import quoted
from fabric.model.finding import Severity
from fabric.model.topology import Host
from fabric.tools.roce import Marking, RocePort


@dataclass(frozen=True, slots=True)
class RoceEnd:
    """
    One port: what it reported, the *class* that is measured in (*wanted*), and the other end of its cable if known.

    *host* is None at a switch; *alike* names the group of ports that it is compared with. *heard* is False where its
    leaf reports neighbours, but not this port.
    """

    node: str
    port: str
    alike: str
    reported: RocePort
    wanted: int | None
    rate_gbps: float | None = None
    host: Host | None = None
    far: RoceEnd | None = field(default=None, compare=False)
    cnp_dscp: int | None = None
    slowed_down: bool = True
    heard: bool = True

    @property
    def name(self) -> str:
        """Return the name of the end: ``gpu003/mlx5_2``, ``su0-leaf2/swp3``."""
        return f"{self.node}/{self.port}"

    @property
    def priority(self) -> int:
        """Return the priority of the measured class; the kernel and Cumulus Linux map DSCP / 8 by default."""
        wanted = self.wanted or 0
        return self.reported.priority_of.get(wanted >> 2, wanted >> 5)


_PROFILE = "; where it follows a profile of its own: nv unset interface {port} qos "


@dataclass(frozen=True, slots=True)
class RoceSetting:
    """
    One setting; *of* reads it from an end, and is None where ends need not be alike in it.

    *at_host* and *at_switch* tell people how to set it right ({port} and {priority} are filled in): we set nothing.
    """

    name: str
    of: Callable[[RoceEnd], object] | None
    at_host: str = ""
    at_switch: str = ""


def _gid_type(end: RoceEnd) -> object:
    return end.reported.gid_types.get((end.host.platform.gid_index if end.host else None) or 0)


def _marked(marks: Mapping[int, Marking]) -> str:
    """Return thresholds by queue, to two digits: ``nv show`` rounds them (146.48 KB), ``nv config show`` does not."""
    thresholds = {queue: tuple(map(_about, (one.kmin_bytes, one.kmax_bytes))) for queue, one in sorted(marks.items())}
    return ", ".join(f"queue {queue} from {kmin} to {kmax}" for queue, (kmin, kmax) in thresholds.items()) or "off"


def _about(size_bytes: int | None) -> str:
    return "a size not told" if size_bytes is None else f"{float(f'{size_bytes:.2g}') / 1000:g} kB"


SETTINGS: Mapping[str, RoceSetting] = {
    "mtu": RoceSetting(
        "MTU", lambda end: end.reported.mtu, "ip link set {port} mtu 9000", "nv set interface {port} link mtu 9216"
    ),
    "trust": RoceSetting(
        "trust",
        lambda end: end.reported.trust,
        "mlnx_qos -i {port} --trust dscp (of mlnx-tools)",
        "nv set qos mapping PROFILE trust both" + _PROFILE + "mapping",
    ),
    "priority": RoceSetting(
        "priority",
        lambda end: end.priority if end.wanted is not None else None,
        "mlnx_qos -i {port} --dscp2prio set,DSCP,PRIORITY; or correct traffic_class in the inventory",
        "nv set qos mapping PROFILE dscp N switch-priority P" + _PROFILE + "mapping",
    ),
    "pfc": RoceSetting(
        "PFC on priorities",
        lambda end: end.reported.pfc,
        "mlnx_qos -i {port} --pfc with a 1 in the place of priority {priority}",
        "nv set qos roce" + _PROFILE + "pfc",
    ),
    "far": RoceSetting("other end", None, "systemctl enable --now lldpd; or have the RNIC's firmware send LLDP"),
    "buffer": RoceSetting("buffer", None, "mlnx_qos -i {port} --cable_len METRES, or --buffer_size"),
    "cable": RoceSetting(
        "cable length in m",
        lambda end: end.reported.cable_m,
        "mlnx_qos -i {port} --cable_len METRES",
        "nv set qos pfc PROFILE cable-length METRES" + _PROFILE + "pfc",
    ),
    "ecn_np": RoceSetting(
        "ECN (NP) on priorities",
        lambda end: end.reported.ecn.get("roce_np"),
        "echo 1 > /sys/class/net/{port}/ecn/roce_np/enable/{priority}",
    ),
    "ecn_rp": RoceSetting(
        "ECN (RP) on priorities",
        lambda end: end.reported.ecn.get("roce_rp"),
        "echo 1 > /sys/class/net/{port}/ecn/roce_rp/enable/{priority}",
    ),
    "ecn": RoceSetting(
        "ECN",
        lambda end: None if end.reported.marks is None else _marked(end.reported.marks),
        at_switch="nv set qos congestion-control PROFILE traffic-class N ecn enable, min-threshold BYTES, "
        "max-threshold BYTES" + _PROFILE + "congestion-control",
    ),
    "xoff": RoceSetting(
        "Xoff",
        lambda end: end.reported.xoff_bytes,
        at_switch="nv set qos pfc PROFILE xoff-threshold BYTES" + _PROFILE + "pfc",
    ),
    "cnp": RoceSetting(
        "DSCP of CNP",
        lambda end: end.reported.cnp_dscp,
        "echo 48 > /sys/class/net/{port}/ecn/roce_np/cnp_dscp",
        "nv set qos mapping PROFILE dscp N switch-priority P" + _PROFILE + "mapping",
    ),
    "host_class": RoceSetting(
        "traffic class of the host",
        lambda end: end.reported.host_class,
        "echo CLASS > /sys/class/infiniband/DEVICE/tc/1/traffic_class; or correct the inventory",
    ),
    "rdma_cm": RoceSetting(
        "traffic class of rdma_cm",
        lambda end: end.reported.rdma_cm_class,
        "cma_roce_tos -d DEVICE -t CLASS",
    ),
    "gid": RoceSetting("GID type", _gid_type, "write the right gid_index in the platform (show_gids; v2 is often 3)"),
    "dcbx": RoceSetting("DCBX", None, "mlnx_qos -i {port} -d os"),
}
"""Every setting, by the name that rules use in *about*."""


def with_knobs(found: Iterable[RoceEnd]) -> dict[str, RoceSetting]:
    """Return the settings, and one more for each knob of DCQCN that some port reported."""
    names = {name for end in found for name in end.reported.knobs}

    def knob(name: str) -> RoceSetting:
        fix = f"write {name} in cc_params (debugfs) or ecn (sysfs)"
        return RoceSetting(name, lambda end: end.reported.knobs.get(name), fix)

    return {**SETTINGS, **{name: knob(name) for name in sorted(names) if not name.endswith("cnp_dscp")}}


MTU_LEAST = 4200
"""The MTU that an interface needs for RDMA packets of 4096 bytes and their headers (NVIDIA's MLNX_OFED manual)."""
LOSSLESS_MOST = 2
"""Most priorities that the buffers of a switch can keep lossless (Guo 2016: 9 to 12 MB, links up to 300 m)."""
V1, V2 = "IB/RoCE v1", "RoCE v2"
LOSSY = "packets may be dropped under load: retries exceeded, which looks like a bad fabric"
_ROUTE = "a GID of version 1 is not routed and carries no DSCP: packets are in the default queue, or lost"
_STORM = "congestion is not slowed down: innocent hosts are paused"
_PAUSE = "queues are paused before anything is marked: nobody slows down, and innocent hosts are paused"


@dataclass(frozen=True, slots=True)
class Rule:
    """
    One row of the table.

    *about*: a name in ``SETTINGS``; of several rules about one setting, the first that is broken is reported of an end.
    *wrong* returns what is wrong; empty where nothing is, or where it is unknown. *why* it matters; *source*: who says
    so. A WARNING becomes a PROBLEM where fewer than half of the like ports have it and the setting must be alike.
    """

    about: str
    severity: Severity
    wrong: Callable[[RoceEnd], str]
    why: str
    source: str


def trusts_dscp(end: RoceEnd) -> bool | None:
    """Return whether the DSCP of a packet counts; None if not reported."""
    return None if end.reported.trust is None else "dscp" in end.reported.trust


def _decided(end: RoceEnd) -> bool:
    """Return whether the queue of the measured class is decided by its DSCP."""
    return end.wanted is not None and trusts_dscp(end) is True


def paused(end: RoceEnd) -> bool | None:
    """Return whether the class that is measured in is lossless at this end; None if not reported."""
    reported = end.reported
    if reported.pfc is None or end.wanted is None:
        return None
    return end.priority in reported.pfc and False not in (reported.sends, reported.obeys)


def _one_end(end: RoceEnd) -> str:
    """Report PFC that is on at one end only, at the end where it is off."""
    far = end.far
    if far is None or paused(end) is not False or not paused(far) or end.priority != far.priority:
        return ""
    return f"PFC for priority {end.priority} is off, and on at the other end"


def _two_priorities(end: RoceEnd) -> str:
    far = end.far
    if far is None or not _decided(end) or not trusts_dscp(far) or end.priority == far.priority:
        return ""
    if not end.reported.pfc or end.priority in end.reported.pfc:
        return ""  # it is reported of the end where the class is not lossless
    return f"{_class(end)} is priority {end.priority}, and {far.priority} at the other end"


def _two_mtus(end: RoceEnd) -> str:
    """
    Report a switch whose MTU is smaller than that of the other end, so that it drops packets.

    A larger MTU than a host's is usual (9216 and 9000).
    """
    far_mtu = end.far.reported.mtu if end.far else None
    drops = end.host is None and end.reported.mtu is not None and far_mtu is not None and end.reported.mtu < far_mtu
    return f"MTU {end.reported.mtu}, and {far_mtu} at the other end" if drops else ""


def _class(end: RoceEnd) -> str:
    wanted = end.wanted or 0
    return f"class {wanted} (DSCP {wanted >> 2})"


def _untrusted(end: RoceEnd) -> str:
    if end.wanted is None or trusts_dscp(end) is not False:
        return ""
    return f"it trusts {quoted(str(end.reported.trust))}, so that the DSCP of class {end.wanted} counts for nothing"


def _not_lossless(end: RoceEnd) -> str:
    if not _decided(end) or not end.reported.pfc or end.priority in end.reported.pfc:
        return ""
    on = ", ".join(map(str, sorted(end.reported.pfc)))
    return f"{_class(end)} is priority {end.priority}; PFC is on for {on} only"


def _no_pfc(end: RoceEnd) -> str:
    if not _decided(end) or end.reported.pfc is None or end.reported.pfc:
        return ""
    return f"{_class(end)} is priority {end.priority}, which has no PFC"


def _one_way(end: RoceEnd) -> str:
    if not end.reported.pfc or {end.reported.sends, end.reported.obeys} != {True, False}:
        return ""
    return f"PFC is on one way only: {'rx' if end.reported.sends else 'tx'} is disabled"


def _many_lossless(end: RoceEnd) -> str:
    many = len(end.reported.pfc or ())
    return f"PFC is on for {many} priorities" if many > LOSSLESS_MOST else ""


def needed_bytes(rate_gbps: float, cable_m: int, mtu: int) -> int:
    """
    Return the least receive buffer of a lossless priority for mlx5's driver (port_buffer.c), without its extra cell.
    """
    return round((301 + 2.16 * cable_m) * rate_gbps + 2.72 * mtu + mtu)


def _no_headroom(end: RoceEnd) -> str:
    reported, size = end.reported, end.reported.buffer_bytes.get(end.priority)
    if size is None or reported.cable_m is None or reported.mtu is None or end.rate_gbps is None or not paused(end):
        return ""
    needed = needed_bytes(end.rate_gbps, reported.cable_m, reported.mtu)
    if size >= needed:
        return ""
    return (
        f"priority {end.priority} has PFC and {size:,} bytes of buffer; {needed:,} are needed at {reported.cable_m} m"
    )


def _off(side: str, what: str) -> Callable[[RoceEnd], str]:
    def wrong(end: RoceEnd) -> str:
        reported = end.reported
        if not _decided(end) or not end.slowed_down or side not in reported.ecn:
            return ""
        if reported.pfc and end.priority not in reported.pfc:
            return ""  # another row reports this
        return f"ECN is off for priority {end.priority} ({what})" if end.priority not in reported.ecn[side] else ""

    return wrong


def _unmarked(end: RoceEnd) -> str:
    reported = end.reported
    if reported.marks is None or not paused(end) or not end.slowed_down:
        return ""
    queue = reported.queue_of.get(end.priority)
    return "" if queue is None or queue in reported.marks else f"ECN is off for queue {queue}, which is lossless"


def _marking(end: RoceEnd) -> Marking:
    if not end.reported.marks or end.wanted is None:
        return Marking()
    return end.reported.marks.get(end.reported.queue_of.get(end.priority, -1), Marking())


def _thresholds(end: RoceEnd) -> str:
    kmin, kmax = _marking(end).kmin_bytes, _marking(end).kmax_bytes
    wrong = kmin is not None and kmax is not None and kmin >= kmax
    return f"ECN marks from {kmin:,} bytes (Kmin), always from {kmax:,} (Kmax)" if wrong else ""


def _late(end: RoceEnd) -> str:
    xoff, kmax = end.reported.xoff_bytes, _marking(end).kmax_bytes
    if xoff is None or kmax is None or kmax <= xoff:
        return ""
    return f"ECN marks always from {kmax:,} bytes (Kmax), and PFC pauses from {xoff:,} (Xoff)"


def _cnp(end: RoceEnd) -> str:
    """Report that CNPs share the queue of data: at hosts by priority, at switches by queue."""
    if end.cnp_dscp is None or not _decided(end) or not end.slowed_down:
        return ""
    priority, queue_of = end.reported.priority_of.get(end.cnp_dscp, end.cnp_dscp >> 3), end.reported.queue_of
    shared = priority == end.priority
    if end.host is None:
        shared = priority in queue_of and queue_of[priority] == queue_of.get(end.priority)
    return f"CNP (DSCP {end.cnp_dscp}) wait in the queue of data (priority {end.priority})" if shared else ""


def _small_mtu(end: RoceEnd) -> str:
    small = end.reported.mtu is not None and end.reported.mtu < MTU_LEAST
    return f"MTU {end.reported.mtu}: packets carry less than 4096 bytes" if small else ""


def _gid(end: RoceEnd) -> str:
    types, index = end.reported.gid_types, end.host.platform.gid_index if end.host else None
    if not types or index is None or types.get(index) == V2:
        return ""
    kind = types.get(index)
    return f"GID {index} is {quoted(kind) if kind else 'empty'}, not RoCE v2"


def _default_gid(end: RoceEnd) -> str:
    wrong = end.host is not None and end.host.platform.gid_index is None and end.reported.gid_types.get(0) == V1
    return "GID 0, which perftest 4.5 takes where gid_index is left out, is RoCE v1" if wrong else ""


def _overridden(end: RoceEnd) -> str:
    if end.wanted is None or end.reported.host_class in (None, end.wanted):
        return ""
    return f"the host puts all packets into class {end.reported.host_class}, not {end.wanted}"


def _rdma_cm(end: RoceEnd) -> str:
    if end.host is None or "-R" not in end.host.platform.perftest_options:
        return ""
    reported, wanted = end.reported.rdma_cm_class, end.wanted
    wrong = wanted is not None and reported not in (None, wanted)
    return f"rdma_cm (perftest -R) puts packets into class {reported}, not {wanted}" if wrong else ""


def _firmware(end: RoceEnd) -> str:
    return "the firmware decides about priorities (DCBX)" if end.reported.dcbx == "Firmware controlled" else ""


def _trust_not_reported(end: RoceEnd) -> str:
    unreported = end.host is not None and end.reported.trust is None and end.wanted is not None
    return "whether it trusts DSCP was not told (mlnx_qos)" if unreported else ""


def _unheard(end: RoceEnd) -> str:
    return "" if end.heard else "its leaf does not hear it (LLDP): what is set at the other end was not compared"


_PROBLEM, _WARNING = Severity.PROBLEM, Severity.WARNING
_CUMULUS = "NVIDIA, Cumulus Linux 5.15 User Guide, RoCE"
_OFED = "NVIDIA, MLNX_OFED manual; mlnx_qos of mlnx-tools"
_PFC = "NVIDIA, Cumulus Linux 5.15 User Guide, Priority Flow Control"
_MLX5 = "Linux, mlx5/core/en/port_buffer.c"
_GUO = "Guo 2016 (RDMA over commodity Ethernet)"
_DCQCN = "Zhu 2015 (DCQCN)"
_NCCL = "nccl issue 2383"
_BY_DESIGN = "; fine where the fabric is lossy by design"

RULES: tuple[Rule, ...] = (
    # Rules about the two ends of a cable.
    Rule("pfc", _PROBLEM, _one_way, LOSSY, _PFC),
    Rule("pfc", _PROBLEM, _one_end, LOSSY, _PFC),
    Rule("priority", _PROBLEM, _two_priorities, LOSSY, _CUMULUS),
    Rule("mtu", _PROBLEM, _two_mtus, "larger packets are dropped here without a word", _NCCL),
    Rule("far", _WARNING, _unheard, "one end that is set otherwise is enough to drop", "IEEE 802.1AB (LLDP)"),
    # Rules about the queue that packets are in.
    Rule("trust", _WARNING, _trust_not_reported, LOSSY, _OFED),
    Rule("trust", _PROBLEM, _untrusted, LOSSY, _OFED),
    Rule("host_class", _PROBLEM, _overridden, "it overrides what programs ask for", _NCCL),
    Rule("rdma_cm", _PROBLEM, _rdma_cm, LOSSY, "cma_roce_tos of mlnx-tools"),
    Rule("priority", _PROBLEM, _not_lossless, LOSSY, _NCCL),
    # Rules about whether that queue is lossless.
    Rule("pfc", _WARNING, _no_pfc, LOSSY + _BY_DESIGN, _CUMULUS),
    Rule("buffer", _PROBLEM, _no_headroom, "what is under way when it pauses is dropped", _MLX5),
    Rule("pfc", _WARNING, _many_lossless, "each takes headroom from what all share", _GUO),
    # Rules about whether senders slow down before they are paused.
    Rule("ecn_np", _WARNING, _off("roce_np", "NP: it does not answer marks"), _STORM, _DCQCN),
    Rule("ecn_rp", _WARNING, _off("roce_rp", "RP: it does not slow down"), _STORM, _DCQCN),
    Rule("ecn", _WARNING, _unmarked, _STORM, _DCQCN),
    Rule("ecn", _PROBLEM, _thresholds, _PAUSE, _DCQCN),
    Rule("xoff", _PROBLEM, _late, _PAUSE, _DCQCN),
    Rule("cnp", _WARNING, _cnp, "they come late, when the queue is long: rates oscillate", _CUMULUS),
    # Rules about the packets themselves.
    Rule("mtu", _WARNING, _small_mtu, "more headers and more packets: limits may not be met", _OFED),
    Rule("gid", _PROBLEM, _gid, _ROUTE, "NCCL's documentation, NCCL_IB_GID_INDEX"),
    Rule("gid", _WARNING, _default_gid, _ROUTE, "NCCL's documentation, NCCL_IB_GID_INDEX"),
    Rule("dcbx", _WARNING, _firmware, "the switch may overwrite what is set here, at any time", _OFED),
)
"""The rules in order: of two rows about one setting, the first that is broken is reported."""
