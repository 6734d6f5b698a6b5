"""``ibstat``: the RNICs of a host and their ports, as its kernel sees them."""

from __future__ import annotations

from fabric.model.topology import Rnic
from fabric.sim.phy.port import PHYSICAL_TEXT, Port
from fabric.sim.tools.call import Asked, Said
from fabric.sim.tools.ib import STATES, subnet_manager
from fabric.sim.tools.options import BadOption, options, taken_apart

_OPTIONS = options("list -l --list_of_cas\nshort -s --short\nversion -V --version")


def ibstat(asked: Asked) -> Said:
    """One call: ``ibstat [-l] [CA [port]]``; a host without RNICs prints nothing and ends well."""
    try:
        fields, rest = taken_apart(asked.words, _OPTIONS)
    except BadOption as bad:
        return Said(stderr=f"ibstat: {bad}\n", status=255)
    if "version" in fields:
        return Said("ibstat BUILD VERSION: 44.0\n")
    if "list" in fields:
        return Said("".join(f"{rnic.device}\n" for rnic in asked.rnics))
    wanted = [rnic for rnic in asked.rnics if not rest or rnic.device == rest[0]]
    if rest and not wanted:
        return Said(stderr=f"ibpanic: [{asked.pid + 20000}] main: '{rest[0]}' IB device can't be found: \n", status=255)
    return Said("".join(_adapter(asked, rnic) for rnic in wanted))


def rate_text(port: Port) -> str:
    """What the kernel says about the rate: a port that is down stands at the slowest."""
    if port.kernel_up:
        return port.line.rate
    return "40 Gb/sec (4X QDR)" if port.node.ethernet else "10 Gb/sec (4X SDR)"


def _adapter(asked: Asked, rnic: Rnic) -> str:
    port = asked.port_of(rnic.device)
    ethernet, up = port.node.ethernet, port.kernel_up
    manager = subnet_manager(asked, port) if up and not ethernet else None
    guid = f"0x{port.node.guid:016x}"
    lid = 0 if ethernet else port.node.lid if up else 65535
    rows = (
        ("State", STATES[port.kernel_logical].replace("Initialize", "Initializing")),
        ("Physical state", PHYSICAL_TEXT[port.kernel_physical]),
        ("Rate", rate_text(port).partition(" ")[0]),
        ("Base lid", lid),
        ("LMC", 0),
        ("SM lid", manager.lid if manager else 0),
        ("Capability mask", "0x00010000" if ethernet else "0xa751e848"),
        ("Port GUID", guid),
        ("Link layer", "Ethernet" if ethernet else "InfiniBand"),
    )
    return (
        f"CA '{rnic.device}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.41.1000\n"
        f"\tHardware version: 0\n\tNode GUID: {guid}\n\tSystem image GUID: {guid}\n\tPort {rnic.port}:\n"
        + "".join(f"\t\t{name}: {value}\n" for name, value in rows)
    )
