"""How each end of a simulated RoCE cable is set: lossless priority, ECN, trust, buffers, and wrong settings."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from types import MappingProxyType

from fabric.model.inventory import MockSettings
from fabric.sim.phy.cabling import Mark, Node


@dataclass(frozen=True, slots=True)
class Qos:
    """
    The settings of one end; defaults are those of a fabric that is set well (``nv set qos roce``, NVIDIA's hosts).

    *dscp*: that of the lossless class, None where no class is lossless. *mapped*: its DSCP goes to its priority.
    *buffer_bytes* None: what the driver would choose. *marks*: the switch marks its queue (ECN); *answers* and *slows*
    are NP and RP at hosts. *selective*: an RNIC resends only the lost packets.
    """

    dscp: int | None
    mtu: int
    cable_m: int
    pfc: bool = True
    trust: str = "dscp"
    mapped: bool = True
    marks: bool = True
    answers: bool = True
    slows: bool = True
    kmin_bytes: int = 150_000
    kmax_bytes: int = 1_500_000
    xoff_bytes: int | None = None
    buffer_bytes: int | None = None
    cnp_apart: bool = True
    host_class: int | None = None
    gid_types: tuple[str, str] = ("IB/RoCE v1", "RoCE v2")
    dcbx: str = "OS controlled"
    selective: bool = False

    @property
    def priority(self) -> int:
        """Return the priority of the lossless class; eight DSCPs are one priority until the map is altered."""
        return 0 if self.dscp is None else self.dscp >> 3

    @property
    def cnp_dscp(self) -> int:
        """Return the DSCP of CNPs, the packets that ask a sender to slow down: NVIDIA's 48, or that of data."""
        return 48 if self.cnp_apart or self.dscp is None else self.dscp

    @property
    def lossless(self) -> frozenset[int]:
        """Return the priorities that are paused."""
        return frozenset() if self.dscp is None or not self.pfc else frozenset({self.priority})

    def priority_of_dscp(self, dscp: int) -> int:
        """Return the priority of a packet with this DSCP."""
        return 0 if dscp == self.dscp and not self.mapped else dscp >> 3

    def headroom_bytes(self, rate_gbps: float) -> int:
        """Return the least buffer of mlx5's driver (port_buffer.c), and some more: choice."""
        xoff = (301 + 2.16 * self.cable_m) * rate_gbps + 2.72 * self.mtu
        return self.buffer_bytes or 128 * ceil((xoff + 2 * self.mtu) / 128)


_DELIVERED = dict(pfc=False, trust="pcp", answers=False, slows=False, mtu=1500)
MISSET: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "misset": _DELIVERED,
        "pfc_off": dict(pfc=False),
        "short_cable": dict(cable_m=1),
        "trusts_pcp": dict(trust="pcp"),
        "small_mtu": dict(mtu=1500),
        "unmapped": dict(mapped=False),
        "no_headroom": dict(buffer_bytes=20_016),
        "np_off": dict(answers=False),
        "rp_off": dict(slows=False),
        "other_class": dict(host_class=0),
        "gid_v1": dict(gid_types=("IB/RoCE v1", "IB/RoCE v1")),
        "firmware_dcbx": dict(dcbx="Firmware controlled"),
        "cnp_in_data": dict(cnp_apart=False),
        "ecn_off": dict(marks=False),
        "kmin_over_kmax": dict(kmin_bytes=1_500_000, kmax_bytes=150_000),
        "kmax_over_xoff": dict(xoff_bytes=100_000),
    }
)
"""The settings that a fault of each kind changes."""

_HOST_MTU, SWITCH_MTU = 9000, 9216  # choice for the host; Cumulus Linux's default
_HOST_CABLE_M, SWITCH_CABLE_M = 7, 100  # the driver's default (mlx5), and that of nv set qos roce

PAUSE_BIT_TIMES = 65535 * 512
"""The longest pause that one frame asks for (IEEE 802.1Qbb)."""


def qos_at(node: Node, mark: Mark, mock: MockSettings) -> Qos:
    """Return the settings of an end: those of the mock for all ends, with the wrong settings of this one."""
    host = node.host is not None
    dscp = None if mock.lossless_class is None else mock.lossless_class >> 2
    mtu, cable_m = (_HOST_MTU, _HOST_CABLE_M) if host else (SWITCH_MTU, SWITCH_CABLE_M)
    on = dscp is not None
    found = Qos(dscp, mtu, cable_m, pfc=mock.pfc, answers=on, slows=on, marks=on and mock.ecn)
    for kind in mark.misset:
        found = replace(found, **MISSET[kind])  # type: ignore[arg-type]
    return found


SELECTIVE = "selective_repeat_forced_en"
SHORT_TIMEOUTS = "min_ack_timeout_limit_disabled"
"""Fields of an RNIC's register ROCE_ACCL that have an effect: what it resends, and whether it has a least timeout."""


def altered(qos: Qos, registers: Mapping[str, int]) -> Qos:
    """Apply what was written at a host's end: ``pfc/3``, ``np/3``, ``rp/3``, and a field of ROCE_ACCL."""
    keys = {"pfc": qos.pfc, "np": qos.answers, "rp": qos.slows}
    pfc, answers, slows = (bool(registers.get(f"{key}/{qos.priority}", was)) for key, was in keys.items())
    return replace(qos, pfc=pfc, answers=answers, slows=slows, selective=bool(registers.get(SELECTIVE)))
