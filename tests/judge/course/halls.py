"""Eight hosts of eight RNICs in units, each unit with a leaf for each rail."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.measured_rack import rack_topology
from fabric.judge.course.located import Course
from fabric.model.topology import Topology

BARE = rack_topology(8)
NAMES = tuple(BARE.hosts)


def hall(units: int) -> Topology:
    """The hosts in so many units."""
    size = len(NAMES) // units
    return Topology(
        hosts={
            name: replace(host, leaves=tuple(f"su{place // size}-leaf{rail}" for rail in range(8)))
            for place, (name, host) in enumerate(BARE.hosts.items())
        },
        switches={},
    )


@dataclass(frozen=True)
class Told:
    """A part that a course accuses, or of which it tells something (its *kind*), without what nobody asks for here."""

    component: str
    kind: str
    text: str
    part: str = ""
    confidence: float = 0.0
    rivals: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    explains: int = 0


def told(course: Course) -> list[Told]:
    """Everybody who is accused, then the notes."""
    found = [
        Told(
            one.suspect.component,
            one.suspect.course,
            one.text,
            one.suspect.kind,
            one.suspect.confidence,
            one.suspect.ambiguous_with,
            one.suspect.hosts,
            len(one.explains),
        )
        for one in course.found
    ]
    return found + [Told(name, kind, text) for kind, name, text in course.notes]
