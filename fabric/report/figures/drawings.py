"""Drawings of what an inventory describes, with what is suspected: the network from the side, and a host's inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Rectangle
from matplotlib.path import Path as Outline

from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.part import PORT, Part
from fabric.model.topology import Platform, Topology
from fabric.model.verdict import Suspect
from fabric.report.figures.style import COLOURS, figure, key, said, sign_key, signs, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Place = tuple[float, float]

_DPI = 96.0  # places below are in pixels, as a page has them
_BOX_W, _BOX_H, _STEP = 62.0, 38.0, 68.0
_ROWS = (60.0, 130.0, 200.0)  # memory nodes, PCIe switches, RNICs and GPUs
_DEEP = 30.0  # how far a curve hangs below the boxes that it joins

WIDTH, MARGIN = 1080.0, 10.0  # of the network: a sign at the first or last place must not be cut
_MOST_CABLES = 700
"""More cables than this are not drawn one by one; only those that something happened to."""
_MOST_NAMED = 8
_APART = 17.0  # so far are signs apart that do not hide each other

_BEHIND = {"facecolor": COLOURS["paper"], "edgecolor": "none", "pad": 1.0}
"""Of a name, so that no line runs through it; a rim would make outlines of its letters."""

INSIDE = frozenset({"rnic", "gpu", "gpu_pcie", "nvlink", "numa", "pcie_switch", "cpu_interconnect", "path", "link"})
"""Kinds of suspects that are parts of one host."""


class Tally(NamedTuple):
    """How many probes used a part, and how many of them passed."""

    passed: int = 0
    ran: int = 0


@styled
def inside(host: str, platform: Platform, tallies: Mapping[str, Tally], suspects: Sequence[Suspect]) -> Figure:
    """
    Memory nodes, PCIe switches, RNICs and GPUs of a host with its *suspects*: a curve is a bad path.

    Below each part how many of the probes through it passed; what passed has a full edge, what was not tried a broken
    one.
    """
    places = tree_places(platform)
    width = max(max(x for x, _ in places.values()) + _BOX_W + 8, 660.0)
    made, ax = _canvas(f"the inside of {host}, suspects marked", width, _ROWS[2] + _BOX_H + _DEEP + 6)
    _lines(ax, _wires(platform, places), COLOURS["muted"], 0.8)
    blamed = _blamed(host, suspects, platform)
    marks = [
        (places[name][0] + _BOX_W - 3, places[name][1] + 3, blamed[name].value) for name in blamed if name in places
    ]
    for suspect, start, ends in _bad_paths(host, suspects, platform, places):
        for end in ends:
            curve = Outline(path_between(start, end), [Outline.MOVETO, *[Outline.CURVE4] * 3])
            colour = COLOURS[suspect.outcome.value] if suspect.outcome is Outcome.ERROR else COLOURS["fail"]
            ax.add_patch(PathPatch(curve, fill=False, edgecolor=colour, linewidth=1.8))
        marks.append((start[0] + _BOX_W / 2, start[1] + _BOX_H + 9, suspect.outcome.value))
    for name, place in places.items():
        _box(ax, name, place, tallies.get(name), blamed.get(name))
    signs(ax, marks, 7)
    ax.text(8, 46, said(host), fontweight="bold")
    key(
        ax,
        Patch(facecolor=COLOURS["field"], edgecolor=COLOURS["pass"], linewidth=1.5, label="a probe through it passed"),
        Patch(facecolor=COLOURS["field"], edgecolor=COLOURS["muted"], linestyle=":", label="not tried alone"),
        Patch(facecolor=COLOURS["field"], edgecolor=COLOURS["fail"], linewidth=2, label="suspected"),
    )
    return made


def tree_places(platform: Platform) -> dict[str, Place]:
    """Left upper corner of each box; leaves of the tree side by side, what is above in their middle."""
    places: dict[str, Place] = {}
    x = 8.0
    for node in range(platform.numa_nodes):
        start = x
        for group in [*(switch.name for switch in platform.pcie_switches if switch.numa == node), None]:
            begin = x
            here = [r.device for r in platform.rnics if r.numa == node and r.pcie_switch == group]
            here += [g.name for g in platform.gpus if g.numa == node and g.pcie_switch == group]
            for name in here:
                places[name] = (x, _ROWS[2])
                x += _STEP
            if group is not None:
                x = x if here else x + _STEP
                places[group] = ((begin + x - _STEP) / 2, _ROWS[1])
                x += 6
        x = x if x > start else x + _STEP
        places[f"numa{node}"] = ((start + x - _STEP) / 2, _ROWS[0])
        x += 14
    return places


def path_between(start: Place, end: Place) -> list[Place]:
    """A curve below the boxes to another one of the lowest row; to a memory node up to the side of its box."""
    x1, y1 = start[0] + _BOX_W / 2, start[1] + _BOX_H
    if end[1] == _ROWS[2]:
        x2, deep = end[0] + _BOX_W / 2, y1 + _DEEP * 4 / 3  # a cubic reaches three quarters of the way
        return [(x1, y1), (x1, deep), (x2, deep), (x2, y1)]
    x2, y2 = end[0] + (_BOX_W if x1 > end[0] + _BOX_W / 2 else 0), end[1] + _BOX_H / 2
    return [(x1, start[1]), (x1, y2 + 20), (x1, y2 + 10), (x2, y2)]


def _wires(platform: Platform, places: Mapping[str, Place]) -> Iterator[tuple[Place, Place]]:
    """From each part up to what it hangs on, and from socket to socket."""
    joined = [(rnic.device, rnic.pcie_switch, rnic.numa) for rnic in platform.rnics]
    joined += [(gpu.name, gpu.pcie_switch, gpu.numa) for gpu in platform.gpus]
    joined += [(switch.name, None, switch.numa) for switch in platform.pcie_switches]
    for name, switch_name, numa in joined:
        (x1, y1), (x2, y2) = places[name], places[switch_name or f"numa{numa}"]
        yield (x1 + _BOX_W / 2, y1), (x2 + _BOX_W / 2, y2 + _BOX_H)
    for (left, y), (right, _) in pairwise(places[f"numa{node}"] for node in range(platform.numa_nodes)):
        yield (left + _BOX_W, y + _BOX_H / 2), (right, y + _BOX_H / 2)


def _box(ax: Axes, name: str, place: Place, tally: Tally | None, blamed: Outcome | None) -> None:
    edge, width, line = COLOURS["muted"], 0.8, ":" if tally is None else "-"
    if blamed is not None:
        edge, width, line = COLOURS.get(blamed.value, COLOURS["fail"]), 2.2, "-"
    elif tally is not None and tally.passed:
        edge, width = COLOURS["pass"], 1.5
    box = Rectangle(place, _BOX_W, _BOX_H, facecolor=COLOURS["field"], edgecolor=edge, linewidth=width, linestyle=line)
    ax.add_patch(box)
    middle = place[0] + _BOX_W / 2
    ax.text(middle, place[1] + (13 if tally else _BOX_H / 2), said(name, 9), ha="center", va="center")
    if tally:
        ax.text(middle, place[1] + 28, f"{tally.passed}/{tally.ran}", ha="center", va="center", color=COLOURS["muted"])


def _blamed(host: str, suspects: Iterable[Suspect], platform: Platform) -> dict[str, Outcome]:
    """Parts that a suspect names as such: ``gpu003/mlx5_2``, ``gpu003/gpu5:nvlink``, ``gpu003/pcie0:uplink``."""
    found: dict[str, Outcome] = {}
    for suspect in suspects:
        part = Part.of(suspect.component)
        if part.host == host and part.item == "cpu-interconnect":
            found.update({f"numa{node}": suspect.outcome for node in range(platform.numa_nodes)})
        elif part.host == host and not part.end:
            found[part.item] = suspect.outcome
    return found


def _bad_paths(
    host: str, suspects: Iterable[Suspect], platform: Platform, places: Mapping[str, Place]
) -> Iterator[tuple[Suspect, Place, list[Place]]]:
    """From the RNIC of a bad path to each of its ends."""
    for suspect in suspects:
        part = Part.of(suspect.component)
        if part.host != host or not part.end or part.device not in places:
            continue
        node = part.end.removeprefix("numa").partition("-")[0]
        ends = [gpu.name for gpu in platform.gpus if str(gpu.numa) == node]
        if part.end.endswith("-side"):
            ends = [f"numa{node}", *ends]
        elif not part.end.endswith("-gpus"):
            ends = [part.end]
        yield suspect, places[part.device], [places[end] for end in ends if end in places]


@styled
def network(
    topology: Topology, hosts: Sequence[str], suspects: Sequence[Suspect] = (), changes: Sequence[ChangeResult] = ()
) -> Figure | None:
    """
    Hosts by leaf group, leaves, spines, from the side, with suspects, and cables that were changed on purpose.

    None where the inventory knows no switches.
    """
    if not topology.switches:
        return None
    tiers = _tiers(topology, hosts)
    places = {name: place for tier in tiers.values() for name, place in tier.items()}
    made, ax = _canvas(
        "topology with suspects and changes marked", WIDTH, (125.0 if suspects else 95.0) + 80.0 * (len(tiers) - 1)
    )
    _cables(ax, _joined(topology, hosts), places)
    for tier in tiers.values():
        size = min(max((WIDTH - 2 * MARGIN) / len(tier) - 1.5, 1.0), 16.0) * 72 / _DPI
        ax.plot(*zip(*tier.values(), strict=True), "s", color=COLOURS["muted"], ms=size, mew=0)
    for name in dict.fromkeys(one.change.component for one in changes if one.change.is_fault):
        ends = _ends(name, places, topology)
        joined = "-" if len(ends) == 2 else ""
        ax.plot(*_xy(ends), f"D{joined}", color=COLOURS["marginal"], ms=7, mfc=COLOURS["paper"], mew=1.8, clip_on=False)
    _suspected(ax, suspects, places, topology)
    for name, tier in tiers.items():  # after the cables, which may run through them
        y = next(iter(tier.values()))[1]
        ax.text(6, y - 16, f"{name}: {len(tier):,}", bbox=_BEHIND, zorder=8)
    seen = {one.outcome.value for one in suspects}
    known = {"fail": "suspect", "error": "could not be measured"}
    handles = [sign_key(outcome, words) for outcome, words in known.items() if outcome in seen]
    if any(one.change.is_fault for one in changes):
        diamond = Line2D([], [], linestyle="none", marker="D", label="changed on purpose")
        diamond.set(markerfacecolor="none", markeredgecolor=COLOURS["marginal"], markeredgewidth=1.8)
        handles.append(diamond)
    if handles:
        key(ax, *handles)
    return made


def _tiers(topology: Topology, hosts: Sequence[str]) -> dict[str, dict[str, Place]]:
    """Where each host and switch is drawn, by tier: spines above, leaves over their hosts, hosts below."""
    by_tier: dict[str, list[str]] = {}
    for name, switch in topology.switches.items():
        by_tier.setdefault(switch.tier, []).append(name)
    by_tier.pop("leaf", None)
    leaves = list(dict.fromkeys(leaf for host in hosts for leaf in topology.hosts[host].leaves))
    above = {f"{tier} switches": names for tier, names in reversed(by_tier.items())}
    listed = {name: names for name, names in {**above, "leaf switches": leaves, "hosts": hosts}.items() if names}
    return {name: spread(names, 70.0 + 80.0 * level) for level, (name, names) in enumerate(listed.items())}


def spread(names: Sequence[str], y: float) -> dict[str, Place]:
    """Places at equal steps within the margins, at height *y*."""
    step = (WIDTH - 2 * MARGIN) / max(len(names), 1)
    return {name: (MARGIN + step * (index + 0.5), y) for index, name in enumerate(names)}


def _joined(topology: Topology, hosts: Sequence[str]) -> set[tuple[str, str]]:
    """Each pair of ends once."""
    found = {(host, leaf) for host in hosts for leaf in topology.hosts[host].leaves}
    for uplinks in topology.uplinks:
        if len(found) <= _MOST_CABLES:
            found.update((low, high) for low in uplinks.lower for high in uplinks.upper)
    return found


def _cables(ax: Axes, ends: Iterable[tuple[str, str]], places: Mapping[str, Place]) -> None:
    found = sorted((places[low], places[high]) for low, high in ends if low in places and high in places)
    if len(found) > _MOST_CABLES:
        words = "only cables that something happened to are drawn"
        ax.text(WIDTH - 6, 42, words, ha="right", color=COLOURS["muted"])
        return
    _lines(ax, found, COLOURS["line"], 0.6)


def _lines(ax: Axes, pairs: Iterable[tuple[Place, Place]], colour: str, width: float) -> None:
    """All of them as one outline."""
    points = [point for pair in pairs for point in pair]
    if points:
        outline = Outline(points, [Outline.MOVETO, Outline.LINETO] * (len(points) // 2))
        ax.add_patch(PathPatch(outline, fill=False, edgecolor=colour, linewidth=width))


def _suspected(ax: Axes, suspects: Sequence[Suspect], places: Mapping[str, Place], topology: Topology) -> None:
    """A suspect inside a host is marked at its host, a cable in its middle."""
    taken: list[Place] = []
    marks, labelled = [], 0
    for suspect in suspects:
        ends = _ends(suspect.component, places, topology)
        colour = COLOURS.get(suspect.outcome.value, COLOURS["fail"])
        named = suspect.outcome in (Outcome.FAIL, Outcome.ERROR) and labelled < _MOST_NAMED
        if len(ends) == 2:
            ax.plot(*_xy(ends), color=colour, linewidth=2)
            if named and "--" not in suspect.component:  # who pulls the cable goes to both ends
                _name(ax, next(name for name, place in places.items() if place == ends[1]), ends[1], -16)
            ends = [sign_place(suspect.component, *ends)]
        ends = ends or [places[host] for host in suspect.hosts[:4] if host in places]
        ends = [free_place(end, taken) for end in ends]
        marks += [(x, y, suspect.outcome.value) for x, y in ends]
        if ends and named:
            labelled += 1
            _name(ax, suspect.component, ends[0], 20 + labelled % 2 * 14)
    ax.plot(
        *_xy([(x, y) for x, y, _ in marks]), "s", ms=12, mfc=COLOURS["paper"], mec=COLOURS["muted"], mew=0.8, zorder=6
    )
    signs(ax, marks, 7)


def _name(ax: Axes, name: str, place: Place, below: float) -> None:
    left = place[0] > WIDTH - 200
    x, y = place[0] + (-10 if left else 10), place[1] + below
    ax.text(x, y, said(name, 36), ha="right" if left else "left", va="center", bbox=_BEHIND, zorder=8)


def free_place(place: Place, taken: list[Place]) -> Place:
    """A place for a sign that hides none before it, toward the middle of the picture; it is added to *taken*."""
    x, y = place
    step = _APART if x < WIDTH / 2 else -_APART
    for _ in range(2 * len(taken)):  # one sign stands in the way of two steps at most
        if not any(abs(x - left) < _APART and abs(y - top) < _APART for left, top in taken):
            break
        x += step
    taken.append((x, y))
    return x, y


def sign_place(component: str, low: Place, high: Place) -> Place:
    """The middle of a cable, so that no end of it looks bad itself; an RNIC is at its host."""
    part = Part.of(component)
    if part.link_ends or part.is_port:
        return (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
    return low


def _ends(component: str, places: Mapping[str, Place], topology: Topology) -> list[Place]:
    """A switch, a cable between two switches (``a--b``), the cable of an RNIC (``host/mlx5_0``), or a host."""
    if component in places:
        return [places[component]]
    part = Part.of(component)
    if part.link_ends:
        return [places[end] for end in part.link_ends if end in places]
    if not part.item or part.host not in places:
        return []
    known = topology.hosts[part.host].platform.rnic_by_device.get(part.item)
    leaves = topology.hosts[part.host].leaves
    if known is not None and part.aspect in ("", PORT) and known.rail < len(leaves) and leaves[known.rail] in places:
        return [places[part.host], places[leaves[known.rail]]]
    return [places[part.host]]


def _canvas(label: str, width: float, height: float) -> tuple[Figure, Axes]:
    """An empty drawing whose places are pixels, from its left upper corner."""
    made = figure(label, width / _DPI, height / _DPI)
    ax = made.add_axes((0, 0, 1, 1))
    ax.axis("off")
    ax.set_xlim(0, width)
    ax.set_ylim(height, 0)
    return made, ax


def _xy(places: Sequence[Place]) -> tuple[list[float], list[float]]:
    return [x for x, _ in places], [y for _, y in places]
