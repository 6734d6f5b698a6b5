"""The ports of repaired hosts, by what they counted while the run worked, and how long they were watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric.analysis.port_health import ERRORS, PortHealth, port_health
from fabric.model.change import ChangeResult
from fabric.model.sampling import Course, Samples
from fabric.model.topology import Topology


@dataclass(frozen=True, slots=True)
class Watched:
    """The ports that could be read; *watched_s* is the shortest time of them all, None where none was read."""

    ports: tuple[PortHealth, ...] = ()
    watched_s: float | None = None


def watched_ports(
    samples: Samples, topology: Topology, hosts: Sequence[str], changes: Sequence[ChangeResult]
) -> Watched:  # fmt: skip
    """Every port of *hosts*, judged as in the verdict of a run."""
    by_port: dict[tuple[str, str], dict[str, Course]] = {}
    for reading, course in samples.courses.items():
        by_port.setdefault((reading.host, reading.part), {})[reading.name] = course
    found: list[PortHealth] = []
    times_s: list[float] = []
    for host in hosts:
        platform = topology.hosts[host].platform
        for rnic in platform.rnics:
            courses = by_port.get((host, rnic.device), {})
            port = port_health(
                host,
                rnic.device,
                courses,
                changes,
                every_s=samples.every_s,
                line_rate_gbps=rnic.line_rate_gbps,
                ethernet=platform.link_layer == "ethernet",
            )
            if port is not None:
                found.append(port)
                times_s += [courses[name].until_s - courses[name].at_s[0] for name in ERRORS if name in courses]
    return Watched(tuple(found), min(times_s, default=None))
