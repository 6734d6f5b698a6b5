"""Read the static routes of an InfiniBand fabric from its switches: all ports (iblinkinfo), then one switch's table.

No scenario asks for these probes: a phase that localises does, if it is told that paths are static. They alter nothing.
The numbers they read are kept as measurements: LIDs of RNICs and switches, switches above their ports, ports by LID.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fabric.errors import ToolError, UnreadableOutput
from fabric.model.change import ChangeSettings
from fabric.model.outcome import Outcome
from fabric.model.probe import MIB, Answered, Command, Measurement, ParamValue, Probe, ProbeCommands, Reading
from fabric.model.scenario import ProbeSpec
from fabric.model.topology import Topology
from fabric.probes.pairwise import Plane
from fabric.probes.shapes import int_param, numbers_param
from fabric.tools import infiniband
from fabric.tools.driver import as_root

KIND = "routes"

LID, PEER, ROUTE = "lid", "peer", "route"
"""First words of metrics: ``lid gpu001/mlx5_0``, ``peer su0-leaf3:17 spine05``, ``route 812``."""

_LINKS_S, _TABLE_S = 60.0, 30.0  # deadlines (a choice): thousands of ports take some ten seconds
_CAP_BYTES = 64 * MIB


@dataclass(frozen=True, slots=True)
class RouteAsker:
    """How the routes of a *plane* are read in a *phase*: by the host *asker*, through its RNIC of the plane's rail."""

    plane: Plane
    phase: str
    asker: str
    topology: Topology
    settings: ChangeSettings


def links_probe(by: RouteAsker) -> Probe:
    """Return the probe that reads LIDs and cables."""
    plane, topology = by.plane, by.topology
    rnics = [
        f"{host} {rnic.device}"
        for host in plane.hosts
        for rnic in topology.hosts[host].platform.rnics
        if rnic.rail == plane.rail
    ]
    above = _below_others(plane, topology)
    node_lists = {"wanted": (*plane.leaves, *above, *rnics), "leaves": plane.leaves, "above": above}
    return _probe(by, "links", {"lid": 0, **{name: "\n".join(nodes) for name, nodes in node_lists.items()}})


def _below_others(plane: Plane, topology: Topology) -> list[str]:
    """
    Return switches above the plane's leaves with others above them: with three levels their tables are needed, too.
    """
    upper = dict.fromkeys(name for leaf in plane.leaves for name in topology.above.get(leaf, ()))
    return [name for name in upper if name in topology.above]


def table_probe(by: RouteAsker, leaf: str, lid: int, lids: Sequence[int]) -> Probe:
    """Return the probe that reads through which port a leaf sends to each of *lids*."""
    return _probe(by, leaf, {"lid": lid, "leaf": leaf, "lids": tuple(lids)})


def _probe(by: RouteAsker, what: str, own: Mapping[str, ParamValue]) -> Probe:
    rnic, settings = by.topology.hosts[by.asker].rnic(by.plane.rail), by.settings
    name = f"{by.plane.name.replace(' ', '-')}.{what}"
    way: dict[str, ParamValue]
    way = {"plane": by.plane.name, "device": rnic.device, "device_port": rnic.port, "sudo": int(settings.sudo)}
    key = {} if settings.m_key is None else {"m_key": settings.m_key}
    return Probe(
        probe_id=f"{by.phase}/{by.asker}/routes.{name}",
        kind=KIND,
        phase=by.phase,
        hosts=(by.asker,),
        claims=(),
        duration_s=_deadline_s(own) / 10,
        params={"name": KIND, "series": name, **way, **key, **own},
    )


def _deadline_s(params: Mapping[str, ParamValue]) -> float:
    return _TABLE_S if params["lid"] else _LINKS_S


class RoutesSpec(ProbeSpec):
    """Static routes, read from the switches; no scenario asks for it."""

    kind: ClassVar[str] = KIND
    needs: ClassVar[str] = "an InfiniBand fabric"
    some: ClassVar[bool] = True

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """Return iblinkinfo or ibroute, through the named RNIC."""
        host = topology.hosts[probe.hosts[0]]
        lid, m_key = int_param(probe, "lid"), str(probe.params.get("m_key", "")) or None
        through = infiniband.through(str(probe.params["device"]), int_param(probe, "device_port"), m_key)
        words = infiniband.routes(lid, through=through) if lid else infiniband.all_ports(through=through)
        argv = as_root(words, sudo=bool(probe.params["sudo"]))
        return ProbeCommands((), Command(host.name, argv, _deadline_s(probe.params), output_cap_bytes=_CAP_BYTES))

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """Return the numbers with PASS, because none of them is to be judged; INCONCLUSIVE if they cannot be read."""
        client = answered.client
        if client is None:
            return Reading((), Outcome.INCONCLUSIVE, "the command was never started")
        output = (client.stdout, client.stderr, client.exit_status)
        try:
            if probe.params["lid"]:
                ports = infiniband.read_routes(*output)
                rows = [(f"{ROUTE} {lid}", ports[lid]) for lid in numbers_param(probe, "lids") if lid in ports]
            else:
                rows = _links(probe, infiniband.read_ports(*output))
        except (ToolError, UnreadableOutput) as exc:
            return Reading((), Outcome.INCONCLUSIVE, f"{client.command.host}: routes cannot be read: {exc}")
        found = tuple(Measurement(probe.probe_id, metric, float(value), "number") for metric, value in rows)
        return Reading(found, Outcome.PASS)


def _links(probe: Probe, lines: Sequence[infiniband.PortLine]) -> list[tuple[str, int]]:
    wanted = frozenset(str(probe.params["wanted"]).split("\n"))
    leaves, above = (frozenset(str(probe.params.get(key, "")).split("\n")) for key in ("leaves", "above"))
    found: dict[str, int] = {}
    for line in lines:
        name = infiniband.switch_name(line.end.description)
        if name in wanted:
            found[f"{LID} {name.replace(' ', '/')}"] = line.end.lid
        if (name in leaves or name in above) and line.peer is not None and line.state.active:
            peer = infiniband.switch_name(line.peer.description)
            if (peer in above or peer not in wanted) and " " not in peer:
                found[f"{PEER} {name}:{line.end.port} {peer}"] = line.end.port
    return list(found.items())
