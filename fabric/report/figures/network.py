"""The network from the side, with what is suspected and what was changed on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from fabric.model.change import ChangeResult
from fabric.model.part import PORT, Part
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.report.figures.style import COLOURS, axes, figure, halo, key, no_frame, said, sign_key, signs, styled, ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Place = tuple[float, float]

_MOST_CABLES = 700
"""More cables than this are not drawn one by one; only those that something happened to."""
_MOST_NAMED = 8
_NONE = (float("nan"), float("nan"))  # matplotlib lifts its pen there: many cables are one line


@styled
def network(
    topology: Topology, hosts: Sequence[str], suspects: Sequence[Suspect] = (), changes: Sequence[ChangeResult] = ()
) -> Figure | None:
    """
    Spines, leaves and hosts from the side, with suspects, and cables that were changed on purpose.

    A suspect inside a host is marked at its host, a cable in its middle: no end of it looks bad itself. None where the
    inventory knows no switches, and where there are too many cables to draw and nothing happened to any.
    """
    cables = sorted(_cables(topology, hosts))
    few = len(cables) <= _MOST_CABLES
    changed = dict.fromkeys(one.change.component for one in changes if one.change.is_fault)
    if not topology.switches or not (few or suspects or changed):
        return None
    tiers = _tiers(topology, hosts)
    places = {
        name: ((number + 0.5) / len(names), float(level))
        for level, names in enumerate(tiers.values())
        for number, name in enumerate(names)
    }
    made = figure("topology with suspects and changes marked", 9.8, 1.4 + 0.8 * (len(tiers) - 1))
    ax = axes(made, left=1.75, right=0.2, top=0.45, bottom=0.65)
    points = [place for ends in cables if few for place in (*(places[end] for end in ends if end in places), _NONE)]
    ax.plot(*_xy(points), color=COLOURS["line"], linewidth=0.6)
    for level, names in enumerate(tiers.values()):
        size = min(max(560 / len(names), 0.8), 12.0)
        ax.plot(*_xy([places[name] for name in names]), "s", color=COLOURS["muted"], ms=size, mew=0)
        ax.axhline(level, color="none")
    for name in changed:
        ends = _ends(name, places, topology)
        ax.plot(*_xy(ends), "D-", color=COLOURS["marginal"], ms=7, mfc=COLOURS["paper"], mew=1.8, clip_on=False)
    _suspected(ax, suspects, places, topology)
    ticks(ax.yaxis, [f"{name}: {len(names):,}" for name, names in tiers.items()], range(len(tiers)))
    ax.set_xticks([])
    no_frame(ax)
    ax.set(xlim=(0, 1), ylim=(len(tiers) - 0.75, -0.2))
    if not few:
        ax.set_xlabel("only cables that something happened to are drawn", labelpad=18)
    diamond = Line2D([], [], linestyle="none", marker="D", label="changed on purpose")
    diamond.set(markerfacecolor="none", markeredgecolor=COLOURS["marginal"], markeredgewidth=1.8)
    key(ax, *([sign_key("fail", "suspect")] if suspects else []), *([diamond] if changed else []))
    return made


def _tiers(topology: Topology, hosts: Sequence[str]) -> dict[str, Sequence[str]]:
    """What stands in a row, from above: spines, the leaves of these hosts, the hosts."""
    above: dict[str, list[str]] = {}
    for name, switch in topology.switches.items():
        if switch.tier != "leaf":
            above.setdefault(f"{switch.tier} switches", []).append(name)
    leaves = list(dict.fromkeys(leaf for host in hosts for leaf in topology.hosts[host].leaves))
    rows = {**dict(reversed(above.items())), "leaf switches": leaves, "hosts": hosts}
    return {name: names for name, names in rows.items() if names}


def _cables(topology: Topology, hosts: Sequence[str]) -> set[tuple[str, str]]:
    """Each pair of ends once; no more than one knows there are too many."""
    found = {(host, leaf) for host in hosts for leaf in topology.hosts[host].leaves}
    for uplinks in topology.uplinks:
        if len(found) <= _MOST_CABLES:
            found.update((low, high) for low in uplinks.lower for high in uplinks.upper)
    return found


def _ends(component: str, places: Mapping[str, Place], topology: Topology) -> list[Place]:
    """A switch, a cable between two switches (``a--b``), the cable of an RNIC (``host/mlx5_0``), or a host."""
    part = Part.of(component)
    names = [*(part.link_ends or ((component,) if component in places else (part.host,)))]
    host = topology.hosts.get(part.host)
    known = host.platform.rnic_by_device.get(part.item) if host is not None else None
    if host is not None and known is not None and part.aspect in ("", PORT) and known.rail < len(host.leaves):
        names.append(host.leaves[known.rail])
    return [places[name] for name in names if name in places]


def _suspected(ax: Axes, suspects: Sequence[Suspect], places: Mapping[str, Place], topology: Topology) -> None:
    """A sign for each, and the names of the first."""
    marks: list[tuple[float, float, str]] = []
    for one in suspects:
        part, ends = Part.of(one.component), _ends(one.component, places, topology)
        ends = ends or [places[host] for host in one.hosts[:1] if host in places]
        if not ends:
            continue
        if len(ends) == 2:
            ax.plot(*_xy(ends), color=COLOURS.get(one.outcome.value, COLOURS["fail"]), linewidth=2)
        cable = len(ends) == 2 and (part.link_ends is not None or part.is_port)
        x, y = ((ends[0][0] + ends[1][0]) / 2, (ends[0][1] + ends[1][1]) / 2) if cable else ends[0]
        if len(marks) < _MOST_NAMED:
            left = x > 0.7
            away = (-8 if left else 8, -14 - 13 * (len(marks) % 2))
            name = ax.annotate(said(one.component, 36), (x, y), away, textcoords="offset points", zorder=8)
            name.set(ha="right" if left else "left", path_effects=[halo()])
        marks.append((x, y, one.outcome.value))
    signs(ax, marks, 8)


def _xy(places: Sequence[Place]) -> tuple[list[float], list[float]]:
    return [x for x, _ in places], [y for _, y in places]
