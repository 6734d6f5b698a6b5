"""What a tool that looks at ports is asked, what it answers, and the job that lets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fabric.model.topology import Rnic
from fabric.sim.cabling import Node
from fabric.sim.job import Setting
from fabric.sim.nvidia import PCI_BUSES
from fabric.sim.ports import Port, Ports
from fabric.sim.process import Process
from fabric.sim.rack import Rack
from fabric.sim.site import Site

ANSWER_S = 0.05  # choice: one register or a few management packets take milliseconds

# An HGX H100's RNICs (DGX H100 user guide); more than eight: choice, the next PCI domain.
_RNIC_BUSES = ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc")


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a tool: on which host, with which words, when; *pid* is in the messages of some."""

    rack: Rack
    site: Site
    words: tuple[str, ...]
    at_s: float
    pid: int

    @property
    def ports(self) -> Ports:
        """The ports of the rack."""
        return self.rack.ports

    @property
    def rnics(self) -> tuple[Rnic, ...]:
        """The RNICs that this host's kernel sees."""
        found = self.site.layout.platform.rnics
        return tuple(rnic for rnic in found if self.site.trouble_of(rnic.device) != "absent")

    def port_of(self, device: str) -> Port:
        """The port of one of this host's RNICs."""
        return self.ports.of_adapter(self.site.host.name, device)

    def local_port(self, name: str) -> Port | None:
        """The port of an RNIC by ``mlx5_N``, PCI address or mst device; None when there is none."""
        for number, rnic in enumerate(self.site.layout.platform.rnics):
            address = pci_address(number)
            names = (rnic.device, address, address.removeprefix("0000:"), f"/dev/mst/mt4129_pciconf{number}")
            if name in names and self.site.trouble_of(rnic.device) != "absent":
                return self.port_of(rnic.device)
        return None

    def reached(self, start: Port) -> list[Node]:
        """The nodes that management packets sent from a port find, itself first."""
        return self.ports.cabling.reached(start.end, self.ports.has_link)

    def by_lid(self, start: Port, lid: int) -> Node | None:
        """The node with a LID, None when packets from *start* do not get there."""
        node = self.ports.cabling.by_lid.get(lid)
        return node if node is not None and node in self.reached(start) else None


@dataclass(frozen=True, slots=True)
class Said:
    """How a tool ended."""

    stdout: str = ""
    stderr: str = ""
    status: int = 0


Tool = Callable[[Asked], Said]


class Ask:
    """One command line of such a tool; it acts and answers a moment after it starts, unless killed before."""

    def __init__(self, tool: Tool, words: tuple[str, ...], setting: Setting) -> None:
        self._tool = tool
        self._words = words
        self._setting = setting

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Run it, on the first host of a launcher where one starts it."""
        site = rack.site(self._setting.hosts[0]) if self._setting.hosts else process.site

        def answer(now_s: float) -> None:
            if process.pid in rack.timeline.alive:
                said = self.said_on(rack, site, now_s, process.pid)
                rack.timeline.exit(process, now_s, status=said.status, stdout=said.stdout, stderr=said.stderr)

        rack.timeline.at(at_s + ANSWER_S, answer)

    def said_on(self, rack: Rack, site: Site, at_s: float, pid: int) -> Said:
        """Act at this very instant, and say how that ended."""
        return self._tool(Asked(rack, site, self._words, at_s, pid))


def whole_number(text: str) -> int | None:
    """The number that decimal digits stand for, None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def pci_address(number: int) -> str:
    """Where the *number*-th RNIC of a host sits on its PCI buses."""
    return f"{number // 8:04x}:{_RNIC_BUSES[number % 8]}:00.0"


def gpu_pci_address(number: int) -> str:
    """Where a GPU sits."""
    return f"0000:{PCI_BUSES[number % len(PCI_BUSES)]}:00.0"
