"""What a port of the simulated rack tells of RoCE: the kernel's files, and ``mlnx_qos`` as mlnx-tools prints it."""

from __future__ import annotations

from fabric.sim.tools.call import Said, ToolCall
from fabric.sim.tools.interfaces import interfaces

NAME = "fabric-roce"
_V1, _V2 = "IB/RoCE v1", "RoCE v2"


def roce_settings(asked: ToolCall, words: tuple[str, ...]) -> Said:
    """Of each ``DEVICE:PORT``: MTU, ECN and GID types, then priorities; an RNIC that is ``misset`` is as delivered."""
    names = {port: name for name, port in interfaces(asked).items()}
    said = ""
    for text in words:
        device = text.partition(":")[0]
        rnic = next((one for one in asked.rnics if one.device == device), None)
        name = names[asked.port_of(device)] if rnic is not None else ""
        said += f"port {device} {name}\n" + ("" if rnic is None else _port(asked, device, name))
    return Said(f"{said}whole\n")


def _port(asked: ToolCall, device: str, name: str) -> str:
    lossless = asked.rack.lossless_class
    misset = asked.site.faults is not None and device in asked.site.faults.felt["misset"]
    on = set[int]() if misset or lossless is None else {lossless >> 5}
    net, types = f"/sys/class/net/{name}", f"/sys/class/infiniband/{device}/ports/1/gid_attrs/types"
    ecn = "".join(f"{net}/ecn/roce_{side}/enable/{at}:{int(at in on)}\n" for side in ("np", "rp") for at in range(8))
    gids = "".join(f"{types}/{at}:{kind}\n" for at, kind in enumerate((_V1, _V2, _V1, _V2)))
    maps = "".join(f"\tprio:{at} dscp:{','.join(f'{8 * at + n:02d}' for n in range(7, -1, -1))},\n" for at in range(8))
    bits = "   ".join(str(int(at in on)) for at in range(8))
    return (
        f"{net}/mtu:{1500 if misset else 9000}\n{ecn}{gids}"
        f"DCBX mode: OS controlled\nPriority trust state: {'pcp' if misset else 'dscp'}\ndscp2prio mapping:\n{maps}"
        f"PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n\tenabled     {bits}   \n"
    )
