"""Measure how hashes spread many queue pairs over the uplinks of a switch, by the counters of both ends of each cable.

Each queue pair has a UDP source port of its own (RoCE v2), and everything else that a switch hashes is the same for two
hosts. So every queue pair draws a cable, and each repetition draws anew. All hosts send at once to hosts of another
leaf (of another pod, where there are pods). Each switch that NVUE can read is asked before and after for what its ports
have sent and received, and for their neighbours. What that says of the hash: ``judge/normal/entropy.py``.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, ClassVar

from fabric.errors import ToolError
from fabric.model.fields.scalars import Whole
from fabric.model.probe import MIB, Answered, Command, CommandResult, Measurement, Probe, ProbeCommands
from fabric.model.sampling import growth
from fabric.model.topology import Topology
from fabric.probes.at_once import RAIL
from fabric.probes.pairwise import NO_LEAF, Plane
from fabric.probes.permutation import CircleSpec
from fabric.probes.shapes import Name, QueuePairs, Repeat, int_param
from fabric.tools import nvue

SENT, RECEIVED = "bytes sent", "bytes received"
"""Units of the bytes that went up a cable during a probe, counted at its lower end and at its upper end."""

_READ_S = 60.0  # deadline for all ports of one switch; a choice: NVUE takes seconds
_CAP_BYTES = 16 * MIB  # NVUE prints some kilobytes a port


class EntropySpec(CircleSpec):
    """How evenly queue pairs spread over uplinks, tier by tier, by the counters of both ends (ib_write_bw, RoCE)."""

    kind: ClassVar[str] = "entropy"
    needs: ClassVar[str] = "RoCE, and another leaf in the run with hosts of the same rail and line rate"

    name: Name = kind
    queue_pairs: QueuePairs = 16
    repeat: Repeat = 8
    rounds: Annotated[int, Whole(1, 64)] = 1
    """To hosts of how many other leaves, one after the other."""

    def circles(self, plane: Plane, topology: Topology) -> Iterator[tuple[Sequence[str], int]]:
        """
        Yield a circle of equally many hosts of each leaf, leaf by leaf, and a shift for each round.

        The first shift is half of all leaves; each further round shifts by one leaf more.
        """
        leaves = {leaf: hosts for leaf, hosts in plane.leaves.items() if leaf != NO_LEAF}
        if len(leaves) < 2 or not leaves.keys() <= topology.ethernet_switches:
            return
        count = min(len(hosts) for hosts in leaves.values())
        circle = [host for hosts in leaves.values() for host in hosts[:count]]
        for turn in range(min(self.rounds, len(leaves) - 1)):
            further = (len(leaves) // 2 + turn - 1) % (len(leaves) - 1) + 1
            yield circle, further * count

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """Return the commands of flows at once, and those that read ports and neighbours of each switch on the way."""
        made = super().commands(probe, topology)
        reads = [
            Command(name, argv, _READ_S, output_cap_bytes=_CAP_BYTES)
            for name in switches_of(probe, topology)
            for argv in (nvue.PORTS, nvue.NEIGHBOURS)
        ]
        return ProbeCommands(made.servers, made.client, made.beside, (*made.counters, *reads))

    @classmethod
    def counted(cls, probe: Probe, topology: Topology, answered: Answered) -> Iterator[Measurement]:
        """
        Yield what hosts counted, and how much both ends of each uplink grew; none for a switch that did not answer.
        """
        yield from super().counted(probe, topology, answered)
        before, after = (_switch_ports(answers) for answers in (answered.before, answered.after))
        grown = {end: _grown(before[end], after[end]) for end in before.keys() & after.keys()}
        for name in switches_of(probe, topology):
            for port, (far, far_port) in _heard(answered.after, name, topology).items():
                sent, received = grown.get((name, port), {}), grown.get((far, far_port), {})
                for unit, counted in ((SENT, sent), (RECEIVED, received)):
                    if unit in counted:
                        yield Measurement(probe.probe_id, f"{name} {port} {far}", float(counted[unit]), unit)


def switches_of(probe: Probe, topology: Topology) -> list[str]:
    """Return the leaves of a probe and all switches above them that NVUE can read; the lowest first."""
    rail = int_param(probe, RAIL)
    tier = list(dict.fromkeys(leaf for name in probe.hosts if (leaf := topology.hosts[name].leaf(rail))))
    found: dict[str, None] = {}
    while tier:
        found |= dict.fromkeys(tier)
        tier = list(dict.fromkeys(upper for name in tier for upper in topology.above.get(name, ())))
    logins = ((name, topology.switches[name].login) for name in found if name in topology.switches)
    return [name for name, login in logins if login is not None and login.management == "nvue"]


def _switch_ports(answers: Sequence[CommandResult]) -> dict[tuple[str, str], nvue.SwitchPort]:
    """Return what each port reported, by switch and port; a switch that cannot be read is left out."""
    found: dict[tuple[str, str], nvue.SwitchPort] = {}
    for answer in answers:
        if answer.command.argv == nvue.PORTS and not answer.truncated:
            with suppress(ToolError):
                ports = nvue.read_ports(answer.stdout, answer.stderr, answer.exit_status)
                found |= {(answer.command.host, name): port for name, port in ports.items()}
    return found


def _heard(answers: Sequence[CommandResult], switch: str, topology: Topology) -> dict[str, tuple[str, str]]:
    """Return for each port of a switch the switch above that it hears, and that switch's port."""
    for answer in answers:
        if answer.command.host == switch and answer.command.argv == nvue.NEIGHBOURS and not answer.truncated:
            with suppress(ToolError):
                heard = nvue.read_neighbours(answer.stdout, answer.stderr, answer.exit_status)
                above = topology.above.get(switch, {})
                return {one.interface: (far, one.port) for one in heard if (far := one.called(above))}
    return {}


def _grown(first: nvue.SwitchPort, last: nvue.SwitchPort) -> dict[str, int]:
    """Return how much a port's bytes grew; nothing for a counter that is missing or was cleared meanwhile."""
    pairs = {SENT: (first.sent_bytes, last.sent_bytes), RECEIVED: (first.received_bytes, last.received_bytes)}
    found = {unit: growth("sent_bytes", a, b) for unit, (a, b) in pairs.items() if a is not None and b is not None}
    return {unit: one.by for unit, one in found.items() if not one.reset}
