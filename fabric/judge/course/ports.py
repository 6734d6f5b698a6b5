"""Ports under one leaf that went down together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.judge.course.findings import CourseFinding
from fabric.judge.normal.keys import leaf_of
from fabric.judge.ports.health import Step, steps_of
from fabric.model.part import Part
from fabric.model.sampling import JUDGED, Samples
from fabric.model.text import fold
from fabric.model.topology import Topology

DOWN = "link_downed"

LEAST_HOSTS = 3
"""Two hosts under a leaf that are bad together may be chance (a choice)."""

MOST_OF = 0.5
"""More of its ports must have gone down; and of what its hosts have elsewhere no more may have (a choice)."""


def down_together(samples: Samples, topology: Topology) -> list[CourseFinding]:
    """
    Leaves of which more than ``MOST_OF`` of the ports went down at once, while other ports of their hosts stayed up.

    A port is explained by that when all that its error counters say fell into the same time.
    """
    steps: dict[str, list[Step]] = {}
    leaves: dict[str, list[str]] = {}
    for reading, course in samples.courses.items():
        name = f"{reading.host}/{reading.part}"
        if reading.name in JUDGED:
            steps.setdefault(name, []).extend(steps_of(reading.name, course, (), samples.every_s)[0])
        host = topology.hosts.get(reading.host)
        known = host is not None and reading.part in host.platform.rnic_by_device
        if host is not None and known and reading.name == DOWN and (leaf := leaf_of(host, reading.part)):
            leaves.setdefault(leaf, []).append(name)
    down = {name: [step for step in found if step.name == DOWN] for name, found in steps.items()}
    of_leaves = (_of_leaf(leaf, sorted(leaves[leaf]), down, steps, samples.every_s) for leaf in leaves)
    return [one for one in of_leaves if one is not None]


def _of_leaf(
    leaf: str,
    ports: Sequence[str],
    down: Mapping[str, Sequence[Step]],
    steps: Mapping[str, Sequence[Step]],
    every_s: float,
) -> CourseFinding | None:
    """The time at which most of its ports went down: between the same two samples, or in neighbouring ones."""
    own = [(name, step) for name in ports for step in down[name]]
    at_once = [({name for name, step in own if _near(step, first)}, first) for _, first in own]
    together, first = max(at_once, key=lambda pair: len(pair[0]), default=(set(), None))
    hosts = tuple(sorted({Part.of(name).host for name in together}))
    if first is None or len(hosts) < LEAST_HOSTS or len(together) <= MOST_OF * len(ports):
        return None
    others = [name for name in down if Part.of(name).host in hosts and name not in ports]
    if sum(any(_near(step, first) for step in down[name]) for name in others) > MOST_OF * len(others):
        return None  # the hosts themselves: they lost power, or were started again
    devices = ", ".join(sorted({Part.of(name).item for name in together}))
    return CourseFinding(
        component=leaf,
        kind="went_down",
        text=f"{len(together)} of its {len(ports)} ports went down within {2 * every_s / 60.0:.0f} min, "
        f"by {first.at_s / 3600.0:.1f} h of the run ({devices} of {fold(hosts)})",
        confidence=min(0.99, round((len(together) + 1) / (len(together) + 2), 2)),
        hosts=hosts,
        part="leaf",
        ports=tuple(f"{name}:port" for name in sorted(together) if all(_near(step, first) for step in steps[name])),
    )


def _near(one: Step, other: Step) -> bool:
    """Whether the two may have been one event."""
    return one.touches(other.from_s, other.at_s)
