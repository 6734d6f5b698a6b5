"""Several flows at once, each an ib_write_bw between two hosts of a rail, and the congestion counters of their ports.

The sum at the receivers is judged, and how evenly the senders share it (``judge/normal/kinds.py``). Congestion counters
are read before and after: marks, CNPs and pauses are normal on a good fabric; lost packets are not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Annotated, ClassVar

from fabric.model.fields.scalars import Decimal
from fabric.model.probe import Answered, Command, CommandResult, Measurement, ParamValue, Probe, ProbeCommands, Reading
from fabric.model.sampling import growth
from fabric.model.scenario import LimitKey
from fabric.model.topology import Platform, Topology
from fabric.probes.pairwise import Plane, planes_of
from fabric.probes.perftest_pair import PerftestSpec
from fabric.probes.shapes import Seconds, int_param, repeated, through_switch
from fabric.tools import roce

FLOWS, RAIL = "flows", "rail"
"""Parameters: how many flows run at once, and on which rail."""
SHARE_OF_SUM, COUNT = "share of the sum", "count"
"""Units of measurements: one sender's share of the sum, and how much a counter grew."""

MOST_SENDERS = 256
FIRST_PORT = 24_000
"""
First TCP port of these probes' servers, above those counted from ``kinds.FIRST_PORT``.

The next probe uses another bank of as many ports, so that a server that lingers is not in its way.
"""

_READ_S = 15.0  # deadline for the counters of one port; a choice
_SETTLE_S = 1.0  # expected time for reading them twice

Least = Annotated[float, Decimal(0.01, 1)]

Flows = Sequence[tuple[str, str]]
"""(sender, receiver) of all flows that run at once."""

Draw = tuple[Flows, str, str, dict[str, ParamValue]]
"""Flows; the hosts they are about; a label that tells them from other flows about these hosts; own parameters."""


class AtOnceSpec(PerftestSpec):
    """
    Flows of one plane at once; a kind says who sends to whom (``draws``), and in which order its hosts are listed.
    """

    some: ClassVar[bool] = True

    duration_s: Seconds = 10
    at_least: Least = 0.9
    """The least of the receivers' line rates that the sum must be."""
    even: Least = 0.9
    """Jain's index of the senders' bandwidths: 1 is even; below it is MARGINAL."""

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """Yield nothing: its limits are keys of its own."""
        return iter(())

    def own_params(self) -> dict[str, ParamValue]:
        """Return the limits on the sum."""
        return {"at_least": f"{self.at_least:g}", "even": f"{self.even:g}"}

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Yield all flows of every plane, as often as they are repeated."""
        for plane in planes_of(hosts, topology):
            for flows, about, what, own in self.draws(plane, topology):
                own |= {RAIL: plane.rail, FLOWS: len(flows), **self.own_params()}
                names, claims = self.order(flows), claims_of(flows, plane.rail, topology)
                for number, label in enumerate(repeated(f"rail{plane.rail}.{what}", self.repeat)):
                    bank = 2 * plane.rail + (len(flows) + number) % 2
                    port = FIRST_PORT + bank * (MOST_SENDERS + 1)
                    yield self.probe(phase, about, label, hosts=names, claims=claims, port=port, **own)

    def draws(self, plane: Plane, topology: Topology) -> Iterator[Draw]:
        """Yield what is measured in a plane, one after the other."""
        raise NotImplementedError

    @property
    def expected_s(self) -> float:
        """Return the expected time, with that of reading the counters."""
        return super().expected_s + _SETTLE_S

    @classmethod
    def order(cls, flows: Flows) -> tuple[str, ...]:
        """Return the hosts of a probe, in the kind's order."""
        raise NotImplementedError

    @classmethod
    def flows(cls, probe: Probe) -> list[tuple[str, str]]:
        """Return (sender, receiver) of each flow of a probe; the first flow is its client."""
        raise NotImplementedError

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """
        Return a server for each flow on its receiver, then all clients at once; counters of all ports before and after.
        """
        pairs = [super(AtOnceSpec, cls).commands(one, topology) for one in cls.pairs(probe, topology)]
        servers = tuple(server for pair in pairs for server in pair.servers)
        client, *beside = (pair.client for pair in pairs)
        reads = tuple(_counters(name, int_param(probe, RAIL), topology) for name in dict.fromkeys(probe.hosts))
        return ProbeCommands(servers=servers, client=client, beside=tuple(beside), counters=reads)

    @classmethod
    def pairs(cls, probe: Probe, topology: Topology) -> list[Probe]:
        """Return each flow as a probe of two hosts."""
        rail, first = int_param(probe, RAIL), int_param(probe, "port")
        found = []
        for number, ends in enumerate(cls.flows(probe)):
            rnic, peer = (topology.hosts[name].rnic(rail).device for name in ends)
            own: dict[str, ParamValue] = {"rnic": rnic, "peer_rnic": peer, "port": first + number}
            found.append(replace(probe, hosts=ends, params={**probe.params, **own}))
        return found

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """Return what the flows reached and how much the counters grew; or why one of the flows failed."""
        clients = [] if answered.client is None else [answered.client]
        ended = {(one.command.host, one.command.argv): one for one in (*answered.servers, *clients, *answered.beside)}
        readings: list[tuple[bool, Reading]] = []
        for pair in cls.pairs(probe, topology):
            asked = super().commands(pair, topology)
            servers = [one for server in asked.servers if (one := ended.get((server.host, server.argv)))]
            client = ended.get((asked.client.host, asked.client.argv))
            reading = super().read(pair, topology, Answered(servers, client))
            readings.append((not servers and client is None, reading))
        failed = [one for one in readings if not one[1].measurements]
        if failed:  # flows that were ended because of another one have said nothing
            return min(failed, key=lambda one: one[0])[1]
        gbps = [reading.measurements[0].value for _, reading in readings]
        return Reading((*cls.measured(probe, gbps), *cls.counted(probe, topology, answered)))

    @classmethod
    def measured(cls, probe: Probe, gbps: Sequence[float]) -> Iterator[Measurement]:
        """Yield the sum of the flows, and each sender's share of it."""
        total = sum(gbps)
        yield Measurement(probe.probe_id, "bandwidth", total, "Gb/s", int_param(probe, "size_bytes"))
        for (sender, _), value in zip(cls.flows(probe), gbps, strict=True):
            yield Measurement(probe.probe_id, sender, value / total if total else 0.0, SHARE_OF_SUM)

    @classmethod
    def counted(cls, probe: Probe, topology: Topology, answered: Answered) -> Iterator[Measurement]:
        """Yield how much counters grew, over all receivers and over all senders; none if a host lacks it."""
        receivers = {receiver for _, receiver in cls.flows(probe)}
        groups = {"receivers": receivers, "senders": set(probe.hosts) - receivers}
        after = {one.command.host: one for one in answered.after}
        before = {one.command.host: one for one in answered.before}
        grown = {host: _grown(before[host], after[host]) for host in before.keys() & after.keys()}
        for group, hosts in groups.items():
            mine = [grown.get(host, {}) for host in sorted(hosts)]
            for name in dict.fromkeys(chain.from_iterable(mine)):
                if all(name in one for one in mine):
                    total = sum(one[name] for one in mine)
                    yield Measurement(probe.probe_id, f"{group} {name}", float(total), COUNT)


def _counters(name: str, rail: int, topology: Topology) -> Command:
    host = topology.hosts[name]
    rnic = host.rnic(rail)
    return Command(name, (*host.platform.wrapper, *roce.ask_congestion(rnic.device, rnic.port)), _READ_S)


def claims_of(flows: Flows, rail: int, topology: Topology) -> tuple[str, ...]:
    """Return the claims of all flows: RNICs, the ways through their PCIe switches, and all uplinks of their leaves."""
    claims: dict[str, None] = {}
    leaves: dict[str, None] = {}
    for name, way in chain.from_iterable(((sender, "down"), (receiver, "up")) for sender, receiver in flows):
        host = topology.hosts[name]
        rnic = host.rnic(rail)
        claims |= dict.fromkeys(f"{name}/{part}" for part in (rnic.device, *through_switch(rnic, way)))
        leaves |= dict.fromkeys(host.leaves[rail : rail + 1])
    return (*claims, *(f"{leaf}:up" for leaf in leaves if len(leaves) > 1))


_PAUSES = ("rx_prio", "tx_prio")


def _grown(before: CommandResult, after: CommandResult) -> Mapping[str, int]:
    """Return how much one port counted, priorities added up; without counters that were missing or cleared."""
    first, last = (roce.read_congestion(result.stdout) or {} for result in (before, after))
    grown: dict[str, int] = {}
    for name in first.keys() & last.keys():
        found = growth(name, first[name], last[name])
        if not found.reset:
            plain = f"{name[:7]}{name[8:]}" if name.startswith(_PAUSES) else name
            grown[plain] = grown.get(plain, 0) + found.by
    return dict(sorted(grown.items()))
