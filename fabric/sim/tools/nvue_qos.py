"""RoCE on a simulated NVUE switch: ``nv show qos roce`` as Cumulus Linux 5.15's guide prints it, and its commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fabric.sim.phy.port import Port
from fabric.sim.phy.ports import Ports
from fabric.sim.phy.qos import Qos

_CABLE_M = 100


def shown(lossless_class: int | None) -> str:
    """The whole switch: what ``nv set qos roce`` makes of it, on the priority of the lossless class."""
    if lossless_class is None:
        return _columns({"enable": "off"})
    priority = lossless_class >> 5
    tree = {
        "enable": "on",
        "mode": "lossless",
        "pfc": "",
        "  pfc-priority": f"{priority}",
        "  rx-enabled": "enabled",
        "  tx-enabled": "enabled",
        "  cable-length": f"{_CABLE_M}",
        "congestion-control": "",
        "  congestion-mode": "ECN",
        "  enabled-tc": f"0,{priority}",
        "  min-threshold": "146.48 KB",
        "  max-threshold": "1.43 MB",
        "  probability": "100",
        "trust": "",
        "  trust-mode": "pcp,dscp",
    }
    eights = [",".join(f"{8 * at + n}" for n in range(8)) for at in range(8)]
    queues = {priority: (priority, "DWRR-50%"), 6: (6, "strict-priority")}
    maps = [f"    {at}  {at}    {eights[at]:<23}  {at}" for at in range(8)]
    rows = [(at, *queues.get(at, (0, "DWRR-50%"))) for at in range(8)]
    scheduled = [f"    {at}  {at:<11}  {queue:<13}  {weight}" for at, queue, weight in rows]
    return _columns(tree) + "\n".join(
        (
            "RoCE PCP/DSCP->SP mapping configurations",
            "===========================================",
            "       pcp  dscp                     switch-prio",
            "    -  ---  -----------------------  -----------",
            *maps,
            "RoCE SP->TC mapping and ETS configurations",
            "=============================================",
            "       switch-prio  traffic-class  scheduler-weight",
            "    -  -----------  -------------  ----------------",
            *scheduled,
            "Exception List",
            "=================",
            "No Data\n",
        )
    )


def _columns(tree: dict[str, str]) -> str:
    head = f"{'':<18}  {'operational':<21}  {'applied':<21}\n{'-' * 18}  {'-' * 21}  {'-' * 21}\n"
    return head + "".join(f"{name:<18}  {value:<21}  {value}".rstrip() + "\n" for name, value in tree.items())


def commands(lossless_class: int | None, own: Iterable[Port], ports: Ports) -> Iterator[str]:
    """What the switch is configured with, ``nv set`` left out; a port that is set otherwise has profiles of its own."""
    if lossless_class is None:
        return
    yield from ("qos roce enable on", "qos roce mode lossless")
    for port in own:
        yield from _of_port(f"swp{port.end[1]}", ports.qos(port, lossless_class))


def _of_port(name: str, qos: Qos) -> Iterator[str]:
    usual, priority = Qos(qos.dscp, 9216, _CABLE_M), qos.priority
    if qos.mtu != usual.mtu:
        yield f"interface {name} link mtu {qos.mtu}"
    if (qos.pfc, qos.cable_m, qos.xoff_bytes) != (usual.pfc, usual.cable_m, usual.xoff_bytes):
        pfc = f"qos pfc pfc-{name}"
        yield from (f"{pfc} switch-priority {priority}", f"{pfc} cable-length {qos.cable_m}")
        yield from () if qos.pfc else (f"{pfc} tx disable", f"{pfc} rx disable")
        yield from () if qos.xoff_bytes is None else (f"{pfc} xoff-threshold {qos.xoff_bytes}",)
        yield f"interface {name} qos pfc profile pfc-{name}"
    if (qos.marks, qos.kmin_bytes, qos.kmax_bytes) != (usual.marks, usual.kmin_bytes, usual.kmax_bytes):
        ecn = f"qos congestion-control ecn-{name} traffic-class {priority}"
        yield from (f"{ecn} min-threshold {qos.kmin_bytes}", f"{ecn} max-threshold {qos.kmax_bytes}")
        yield f"{ecn} ecn {'enable' if qos.marks else 'disable'}"
        yield f"interface {name} qos congestion-control profile ecn-{name}"
    if (qos.trust, qos.mapped) != (usual.trust, usual.mapped):
        trust = f"qos mapping map-{name}"
        yield f"{trust} trust {'both' if qos.trust == 'dscp' else 'l2'}"
        yield from () if qos.mapped else (f"{trust} dscp {qos.dscp} switch-priority 0",)
        yield f"interface {name} qos mapping profile map-{name}"
