"""What a simulated tool is asked, what it answers, and the jobs that let it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from fabric.model.topology import Rnic
from fabric.sim.hosts.hosts import pci_address
from fabric.sim.hosts.site import Site
from fabric.sim.hosts.timeline import Process
from fabric.sim.phy.cabling import Node
from fabric.sim.phy.port import Port
from fabric.sim.phy.ports import Ports
from fabric.sim.rack import Rack

SAY_S = 0.01  # choice: a process start
ANSWER_S = 0.05  # choice: one register or a few management packets take milliseconds


class Program(Protocol):
    """A program with its arguments; one job may run many times, on many hosts."""

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Start on the process's host; what becomes of it goes to the rack's timeline."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What surrounds a program: its environment, the memory node it is bound to, the text it was given."""

    env: Mapping[str, str] = field(default_factory=dict)
    numa: int | None = None
    hosts: tuple[str, ...] = ()  # one name per rank when a launcher starts it, in rank order
    tag: str | None = None  # "mpirun" or "srun" when the launcher marks every line with its rank

    def marked(self, text: str, rank: int) -> str:
        """The launcher's mark before each line where it was asked for."""
        mark = {"mpirun": f"[1,{rank}]<stdout>:", "srun": f"{rank}: "}.get(self.tag or "")
        return "".join(mark + line for line in text.splitlines(keepends=True)) if mark else text


@dataclass(frozen=True, slots=True)
class ToolCall:
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


Tool = Callable[[ToolCall], Said | None]
"""Answers, or never does (None)."""


@dataclass(frozen=True, slots=True)
class ToolJob:
    """One command line of such a tool; it acts and answers a moment after it starts, unless killed before."""

    tool: Tool
    words: tuple[str, ...]
    setting: Surroundings

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Run it, on the first host of a launcher where one starts it."""
        site = rack.hosts.site(self.setting.hosts[0]) if self.setting.hosts else process.site

        def answer(now_s: float) -> None:
            said = self.said_on(rack, site, now_s, process.pid) if process.pid in rack.timeline.alive else None
            if said is not None:
                rack.timeline.exit(process, now_s, status=said.status, stdout=said.stdout, stderr=said.stderr)

        rack.timeline.at(at_s + ANSWER_S, answer)

    def said_on(self, rack: Rack, site: Site, at_s: float, pid: int) -> Said | None:
        """Act at this very instant, and say how that ended."""
        return self.tool(ToolCall(rack, site, self.words, at_s, pid))


@dataclass(frozen=True, slots=True)
class Say:
    """Prints and ends; under a launcher once a rank."""

    setting: Surroundings
    stdout: str | Callable[[Site], str] = ""
    stderr: str = ""
    status: int = 0
    after_s: float = SAY_S

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Say it, a moment later."""
        names = self.setting.hosts
        sites = [rack.hosts.site(name) for name in names] if names else [process.site]
        said = "".join(self.setting.marked(self.said_on(site).stdout, rank) for rank, site in enumerate(sites))
        rack.timeline.exit_later(process, at_s + self.after_s, status=self.status, stdout=said, stderr=self.stderr)

    def said_on(self, site: Site) -> Said:
        """What it says on one host, at once."""
        stdout = self.stdout if isinstance(self.stdout, str) else self.stdout(site)
        return Said(stdout, self.stderr, self.status)


def whole_number(text: str) -> int | None:
    """The number that decimal digits stand for, None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None
