"""The settings of RoCE that ends of cables are compared in: what each is called, how it is read, what sets it right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from fabric.checks.roce.ends import RoceEnd
from fabric.tools.roce import RocePort
from fabric.tools.switch_qos import Marking, PortQos

_Told = TypeVar("_Told", RocePort, PortQos)
_PROFILE = "; where it follows a profile of its own: nv unset interface {port} qos "


@dataclass(frozen=True, slots=True)
class RoceSetting:
    """
    One of them; *of* is None where ends need not be alike in it.

    *at_host* and *at_switch* are what sets it right, for people, {port} and {priority} put in: we set nothing.
    """

    name: str
    of: Callable[[RoceEnd], object] | None
    at_host: str = ""
    at_switch: str = ""


def _told(kind: type[_Told], read: Callable[[_Told], object]) -> Callable[[RoceEnd], object]:
    """What only ports of one kind tell."""
    return lambda end: read(end.told) if isinstance(end.told, kind) else None


def _gid_type(end: RoceEnd) -> object:
    index = (end.host.platform.gid_index if end.host else None) or 0
    return end.told.gid_types.get(index) if isinstance(end.told, RocePort) else None


def _marked(marks: Mapping[int, Marking]) -> str:
    """By queue, thresholds to two digits: ``nv show`` rounds them (146.48 KB), ``nv config show`` does not."""
    said = {queue: tuple(map(_about, (one.kmin_bytes, one.kmax_bytes))) for queue, one in sorted(marks.items())}
    return ", ".join(f"queue {queue} from {kmin} to {kmax}" for queue, (kmin, kmax) in said.items()) or "off"


def _about(size_bytes: int | None) -> str:
    return "a size not told" if size_bytes is None else f"{float(f'{size_bytes:.2g}') / 1000:g} kB"


SETTINGS: Mapping[str, RoceSetting] = MappingProxyType(
    {
        "mtu": RoceSetting(
            "MTU", lambda end: end.mtu, "ip link set {port} mtu 9000", "nv set interface {port} link mtu 9216"
        ),
        "trust": RoceSetting(
            "trust",
            lambda end: end.told.trust,
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
            lambda end: end.told.pfc,
            "mlnx_qos -i {port} --pfc with a 1 in the place of priority {priority}",
            "nv set qos roce" + _PROFILE + "pfc",
        ),
        "far": RoceSetting("other end", None, "systemctl enable --now lldpd; or have the RNIC's firmware send LLDP"),
        "buffer": RoceSetting("buffer", None, "mlnx_qos -i {port} --cable_len METRES, or --buffer_size"),
        "cable": RoceSetting(
            "cable length in m",
            lambda end: end.told.cable_m,
            "mlnx_qos -i {port} --cable_len METRES",
            "nv set qos pfc PROFILE cable-length METRES" + _PROFILE + "pfc",
        ),
        "ecn_np": RoceSetting(
            "ECN (NP) on priorities",
            _told(RocePort, lambda port: port.ecn.get("roce_np")),
            "echo 1 > /sys/class/net/{port}/ecn/roce_np/enable/{priority}",
        ),
        "ecn_rp": RoceSetting(
            "ECN (RP) on priorities",
            _told(RocePort, lambda port: port.ecn.get("roce_rp")),
            "echo 1 > /sys/class/net/{port}/ecn/roce_rp/enable/{priority}",
        ),
        "ecn": RoceSetting(
            "ECN",
            _told(PortQos, lambda port: None if port.marks is None else _marked(port.marks)),
            at_switch="nv set qos congestion-control PROFILE traffic-class N ecn enable, min-threshold BYTES, "
            "max-threshold BYTES" + _PROFILE + "congestion-control",
        ),
        "xoff": RoceSetting(
            "Xoff",
            _told(PortQos, lambda port: port.xoff_bytes),
            at_switch="nv set qos pfc PROFILE xoff-threshold BYTES" + _PROFILE + "pfc",
        ),
        "cnp": RoceSetting(
            "DSCP of CNP",
            _told(RocePort, lambda port: port.cnp_dscp),
            "echo 48 > /sys/class/net/{port}/ecn/roce_np/cnp_dscp",
            "nv set qos mapping PROFILE dscp N switch-priority P" + _PROFILE + "mapping",
        ),
        "host_class": RoceSetting(
            "traffic class of the host",
            _told(RocePort, lambda port: port.host_class),
            "echo CLASS > /sys/class/infiniband/DEVICE/tc/1/traffic_class; or correct the inventory",
        ),
        "rdma_cm": RoceSetting(
            "traffic class of rdma_cm",
            _told(RocePort, lambda port: port.rdma_cm_class),
            "cma_roce_tos -d DEVICE -t CLASS",
        ),
        "gid": RoceSetting(
            "GID type", _gid_type, "write the right gid_index in the platform (show_gids; v2 is often 3)"
        ),
        "dcbx": RoceSetting("DCBX", None, "mlnx_qos -i {port} -d os"),
    }
)
"""By the word that rules call them."""


def with_knobs(found: Iterable[RoceEnd]) -> dict[str, RoceSetting]:
    """These, and each knob of DCQCN that some port told, by itself."""
    names = {name for end in found if isinstance(end.told, RocePort) for name in end.told.knobs}

    def knob(name: str) -> RoceSetting:
        fix = f"write {name} in cc_params (debugfs) or ecn (sysfs)"
        return RoceSetting(name, _told(RocePort, lambda port: port.knobs.get(name)), fix)

    return {**SETTINGS, **{name: knob(name) for name in sorted(names) if not name.endswith("cnp_dscp")}}
