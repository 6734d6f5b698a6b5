"""Parts that many RNICs share, of tracks that become low over the hours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fabric.judge.course.gather import CourseFinding
from fabric.judge.course.shapes import LEAST_POINTS, is_low
from fabric.judge.course.shared import INSIDE, LowThrough, SharedCause, shared_parts
from fabric.judge.course.tracks import Track, Tracks
from fabric.judge.locate.candidates import crosses_leaves
from fabric.model.part import Part
from fabric.model.probe import Probe
from fabric.model.text import fold
from fabric.model.topology import Topology

NEXT = {
    "leaf": "look at the leaf switch first, and at its log of that time: all RNICs on it show the same; if nothing is "
    "there, at what was changed on all of them then",
    "pcie_switch": "run loopback on this host: if that of its RNICs to memory is slow, it is the PCIe switch (lspci "
    "-vv: width and speed of its uplink); if it is well, look at their cables",
    "numa": "run loopback and all-to-all on this host; check DIMM population and speed of this memory node "
    "(dmidecode -t memory)",
}
"""What to do next, by the kind of the part."""


def shared_in_tracks(found: Tracks, probes: Sequence[Probe], topology: Topology) -> list[CourseFinding]:
    """The same by shares of the normal: also losses that meet the limit; ``LEAST_POINTS`` probes must show each."""
    points = [(track, point) for track in (*found.rnics.values(), *found.hosts.values()) for point in track.points]
    by_id: dict[str, LowThrough] = {}
    named = {probe.probe_id: probe for probe in probes} if points else {}
    for track, point in points:
        probe, known = named[point.probe_id], by_id.get(point.probe_id)
        low = is_low(point.share, floor=track.floor, sigma=track.sigma) or (known is not None and known.bad)
        hosts = tuple(dict.fromkeys(probe.hosts))
        level = point.share or None
        by_id[point.probe_id] = LowThrough(
            point.probe_id, point.kind, point.began_s, point.ended_s, hosts, _rnics(probe), low, level
        )
    return [
        CourseFinding(
            component=one.group.component,
            kind="shared",
            text=words_of(one),
            chance=0.0,
            weight=len(one.bad) * (1.0 - one.share),
            probes=one.bad,
            rivals=one.rivals,
            hosts=one.hosts,
            explains={name: by_id[name].hosts for name in one.explains},
            part=one.group.kind,
        )
        for one in shared_parts(by_id.values(), topology)
        if len(one.bad) >= LEAST_POINTS
    ]


def without(found: Tracks, explained: Iterable[str]) -> Tracks:
    """The tracks without these probes."""
    gone = frozenset(explained)
    if not gone:
        return found

    def left(tracks: Mapping[str, Track]) -> dict[str, Track]:
        kept = {
            name: replace(track, points=[point for point in track.points if point.probe_id not in gone])
            for name, track in tracks.items()
        }
        return {name: track for name, track in kept.items() if track.points}

    return Tracks(left(found.rnics), left(found.hosts))


def words_of(one: SharedCause) -> str:
    """When it became bad, for how many RNICs, and how bad it was."""
    over = "" if one.over_s is None else f", and was well again by {one.over_s / 3600.0:.1f} h"
    level = f"about {one.share:.0%} of what they carried before" if one.share else "none carried anything"
    return (
        f"bad from between {one.after_s / 3600.0:.1f} h and {one.by_s / 3600.0:.1f} h of the run on{over}: "
        f"{len(one.bad)} of {one.telling} probes through it, of {len(one.rnics)} RNICs ({_names(one)}): {level}"
    )


def _names(one: SharedCause) -> str:
    devices = sorted({Part.of(name).item for name in one.rnics})
    return f"{', '.join(devices)} of {fold(one.hosts)}"


def _rnics(probe: Probe) -> tuple[str, ...]:
    """
    The RNICs that a probe names and whose way to the network or to memory it uses.

    A loopback to a GPU may stay below the PCIe switch, and none of them sees a cable: they say nothing here.
    """
    if not crosses_leaves(probe) or probe.kind in INSIDE or "rnic" not in probe.params:
        return ()
    own = str(probe.params["rnic"])
    ends = (f"{probe.hosts[0]}/{own}", f"{probe.hosts[-1]}/{probe.params.get('peer_rnic', own)}")
    return tuple(dict.fromkeys(ends))
