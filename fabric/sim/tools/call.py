"""The call of a simulated tool, its options as getopt_long reads them, its output, and the job that runs it."""

from __future__ import annotations

import getopt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fabric.model.topology import Rnic
from fabric.sim.hosts.site import Site
from fabric.sim.hosts.timeline import Process
from fabric.sim.phy import Ports
from fabric.sim.phy.cabling import Node
from fabric.sim.phy.port import Port
from fabric.sim.rack import Rack

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _T = TypeVar("_T", bound=DataclassInstance)

SAY_S = 0.01  # choice: a process start
ANSWER_S = 0.05  # choice: one register or a few management packets take milliseconds
NODE_S = 0.003
"""Time that a walk over the whole fabric takes a node: 60 switches and 900 hosts about 3 s (infiniband-exporter)."""


class Program(Protocol):
    """A program with its arguments; one job may run many times, on many hosts."""

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Start on the process's host; results go to the rack's timeline."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a program: its environment, the node its memory is bound to, and whether its CPUs are too."""

    env: Mapping[str, str] = field(default_factory=dict)
    numa: int | None = None
    cpus_bound: bool = False
    hosts: tuple[str, ...] = ()  # one name per rank when a launcher starts it, in rank order
    tag: str | None = None  # "mpirun" or "srun" when the launcher marks every line with its rank

    def marked(self, text: str, rank: int) -> str:
        """Put the launcher's mark before each line, where marks were asked for."""
        mark = {"mpirun": f"[1,{rank}]<stdout>:", "srun": f"{rank}: "}.get(self.tag or "")
        return "".join(mark + line for line in text.splitlines(keepends=True)) if mark else text


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: on which host, with which words, when; some tools print *pid*."""

    rack: Rack
    site: Site
    words: tuple[str, ...]
    at_s: float
    pid: int

    @property
    def ports(self) -> Ports:
        """Return the ports of the rack."""
        return self.rack.ports

    @property
    def rnics(self) -> tuple[Rnic, ...]:
        """Return the RNICs that this host's kernel sees."""
        found = self.site.layout.platform.rnics
        return tuple(rnic for rnic in found if self.site.trouble_of(rnic.device) != "absent")

    def port_of(self, device: str) -> Port:
        """Return the port of one of this host's RNICs."""
        return self.ports.of_adapter(self.site.host.name, device)

    def local_port(self, name: str) -> Port | None:
        """Return the port of an RNIC by its device; None when there is none."""
        return self.port_of(name) if any(rnic.device == name for rnic in self.rnics) else None

    def by_lid(self, start: Port, lid: int) -> Node | None:
        """Return the node with a LID; None when packets from *start* do not reach it."""
        node = self.ports.cabling.by_lid.get(lid)
        return node if node is not None and node in self.ports.reached(start) else None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """How a tool ended."""

    stdout: str = ""
    stderr: str = ""
    status: int = 0


Tool = ToolOutput | Callable[[ToolCall], ToolOutput | None]
"""A tool: either a fixed output, or a function that answers a call, or returns None when it never answers."""


@dataclass(frozen=True, slots=True)
class ToolJob:
    """One command line of a ``Tool``; it acts and answers a moment after it starts, unless killed before."""

    tool: Tool
    words: tuple[str, ...]
    setting: Surroundings
    after_s: float = ANSWER_S
    walks: bool = False

    @classmethod
    def at_once(cls, tool: Tool, words: tuple[str, ...], setting: Surroundings) -> ToolJob:
        """Return the job of a tool that ends as soon as it has begun."""
        return cls(tool, words, setting, after_s=SAY_S)

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Run the tool, under a launcher once a rank; a tool that *walks* sees every node first."""
        sites = [rack.hosts.site(name) for name in self.setting.hosts] or [process.site]

        def answer(now_s: float) -> None:
            if process.pid not in rack.timeline.alive:
                return
            found = [self.run_on(rack, site, now_s, process.pid) for site in sites]
            outputs = [one for one in found if one is not None]
            if len(outputs) == len(sites):
                status = max(one.status for one in outputs)
                stdout = "".join(self.setting.marked(one.stdout, rank) for rank, one in enumerate(outputs))
                stderr = "".join(dict.fromkeys(one.stderr for one in outputs))
                rack.timeline.exit(process, now_s, status=status, stdout=stdout, stderr=stderr)

        took_s = self.after_s + (NODE_S * len(rack.ports.cabling.nodes) if self.walks else 0.0)
        rack.timeline.at(at_s + took_s, answer)

    def run_on(self, rack: Rack, site: Site, at_s: float, pid: int) -> ToolOutput | None:
        """Act at this instant, and return the output."""
        return (
            self.tool if isinstance(self.tool, ToolOutput) else self.tool(ToolCall(rack, site, self.words, at_s, pid))
        )


class BadOption(Exception):
    """The tool would refuse this command line; the message is what glibc's getopt prints after the program's name."""


Table = Mapping[str, str]
"""``--name`` and ``-n`` to the field that the option sets; the field ends in "=" where the option takes a value."""


def options(text: str) -> Table:
    """
    Read a table of options, one field a line: its name (``device=`` takes a value, ``json`` none), then its options.
    """
    lines = (line.split() for line in text.strip().splitlines())
    return {name: field for field, *names in lines for name in names}


def number(text: str, *, least: int = 0, most: int = 1 << 63) -> int:
    """Return a whole number within bounds; raises BadOption in words of our own."""
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise BadOption(f"invalid value '{text}'")
    return int(text)


def parse_options(words: Sequence[str], table: Table, *, stop_early: bool = False) -> tuple[dict[str, str], list[str]]:
    """
    Return fields and positional words; a field without a value holds "".

    With *stop_early* the first positional word ends the options (as launchers do). Raises BadOption.
    """
    short = "".join(name[1] + ":" * field.endswith("=") for name, field in table.items() if len(name) == 2)
    long = [name[2:] + "=" * field.endswith("=") for name, field in table.items() if len(name) > 2]
    fields: dict[str, str] = {}
    rest: list[str] = []
    left = list(words)
    while left:  # gnu_getopt would look at the environment
        try:
            found, left = getopt.getopt(left, short, long)
        except getopt.GetoptError as bad:
            raise BadOption(_as_glibc(bad.opt, bad.msg)) from None
        fields |= {table[name].rstrip("="): value for name, value in found}
        upto = len(left) if stop_early else 1
        rest, left = rest + left[:upto], left[upto:]
    return fields, rest


def parse_command(kind: type[_T], words: Sequence[str], ignored: Table) -> tuple[_T, list[str]]:
    """
    Read the command line of a program whose options are the fields of *kind* (``option``); also return other words.
    """
    mine = [(one, one.metadata) for one in fields(kind) if one.metadata]
    table = {name: one.name + "=" * (about["read"] is not None) for one, about in mine for name in about["names"]}
    found, rest = parse_options(words, {**ignored, **table})
    read = {one.name: about["read"] or bool for one, about in mine}
    return kind(**{name: read[name](text or True) for name, text in found.items() if name in read}), rest


def option(names: str, default: object = None, read: Callable[[str], object] | None = number) -> Any:
    """
    Declare a field of such a class: its names on the command line; *read* reads its value, None where it takes none.
    """
    return field(default=default, metadata={"names": names.split(), "read": read})


def within(least: int, most: int = 1 << 31) -> Callable[[str], int]:
    """Return a reader of whole numbers from *least* to *most*."""
    return partial(number, least=least, most=most)


def _as_glibc(option: str, message: str) -> str:
    is_long = len(option) > 1
    if "requires argument" in message:
        return f"option '--{option}' requires an argument" if is_long else f"option requires an argument -- '{option}'"
    if "must not have" in message:
        return f"option '--{option}' doesn't allow an argument"
    return f"unrecognized option '--{option}'" if is_long else f"invalid option -- '{option}'"
