"""The inside of a suspect's host: memory nodes, PCIe switches, RNICs and GPUs, coloured by what was inferred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.topology import Platform
from fabric.model.verdict import Suspect
from fabric.report.html.svg import line, mark, picture, rect, tag, text
from fabric.report.shown_run import ShownRun

_BOX_W, _BOX_H, _STEP = 62.0, 36.0, 68.0
_ROWS = (34.0, 104.0, 174.0)  # memory nodes, PCIe switches, RNICs and GPUs
_DEEP = 30.0  # how far a curve hangs below the boxes that it joins
INSIDE = frozenset({"rnic", "gpu", "gpu_pcie", "nvlink", "numa", "pcie_switch", "cpu_interconnect", "path", "link"})
"""Kinds of suspects that are parts of one host."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many probes used a part, and how many of them passed."""

    passed: int = 0
    ran: int = 0


def tallies(host: str, run: ShownRun) -> Mapping[str, Tally]:
    """By part of *host* (``mlx5_0``, ``gpu3``, ``numa1``), over the probes of this host alone that were reached."""
    found: dict[str, Tally] = {}
    for row in run.rows:
        if row.probe.hosts != (host,) or not row.verdict.ran or row.result is None:
            continue
        good = row.verdict.outcome in (Outcome.PASS, Outcome.MARGINAL)
        for part in _parts(row.probe.params):
            old = found.get(part, Tally())
            found[part] = Tally(old.passed + good, old.ran + 1)
    return found


def _parts(params: Mapping[str, object]) -> Iterator[str]:
    for key in ("rnic", "peer_rnic", "endpoint"):
        if key in params:
            yield str(params[key])
    gpus = params.get("gpus")
    if isinstance(gpus, tuple):
        yield from (f"gpu{index}" for index in gpus)


def draw(host: str, platform: Platform, suspects: Sequence[Suspect], run: ShownRun) -> Markup:
    """The tree with every suspect of this host in it; what passed has a full edge, what was not tried a broken one."""
    counted = tallies(host, run)
    blamed = _blamed(host, suspects, platform)
    places = _layout(platform)
    width = max(x for x, _ in places.values()) + _BOX_W + 12
    parts = list(_edges(platform, places))
    curves = list(_paths(host, suspects, platform, places))
    parts += curves  # before the boxes: what is written in these stays readable
    parts += [_box(name, place, counted, blamed) for name, place in places.items()]
    parts.append(text(8, 16, host, cls="head"))
    parts += _legend(width)
    return picture(
        max(width, 660),
        _ROWS[2] + _BOX_H + (_DEEP if curves else 0) + 6,
        parts,
        f"the inside of {host}, suspects marked",
    )


def _layout(platform: Platform) -> dict[str, tuple[float, float]]:
    """Left upper corner of each box; leaves of the tree side by side, what is above in their middle."""
    places: dict[str, tuple[float, float]] = {}
    x = 8.0
    switches = [*platform.pcie_switches]
    for node in range(platform.numa_nodes):
        start = x
        groups: list[str | None] = [switch.name for switch in switches if switch.numa == node]
        for group in [*groups, None]:
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


def _edges(platform: Platform, places: Mapping[str, tuple[float, float]]) -> Iterator[Markup]:
    ends = [(rnic.device, rnic.pcie_switch, rnic.numa) for rnic in platform.rnics]
    ends += [(gpu.name, gpu.pcie_switch, gpu.numa) for gpu in platform.gpus]
    for name, switch_name, numa in ends:
        yield _joined(places[name], places.get(switch_name or "", places[f"numa{numa}"]))
    for switch in platform.pcie_switches:
        yield _joined(places[switch.name], places[f"numa{switch.numa}"])
    nodes = [places[f"numa{node}"] for node in range(platform.numa_nodes)]
    for (left, y), (right, _) in pairwise(nodes):
        yield line(left + _BOX_W, y + _BOX_H / 2, right, y + _BOX_H / 2, "wire")


def _joined(below: tuple[float, float], above: tuple[float, float]) -> Markup:
    return line(below[0] + _BOX_W / 2, below[1], above[0] + _BOX_W / 2, above[1] + _BOX_H, "wire")


def _box(name: str, place: tuple[float, float], counted: Mapping[str, Tally], blamed: Mapping[str, Outcome]) -> Markup:
    tally = counted.get(name)
    cls = "part untried" if tally is None and name not in blamed else "part"
    said = f"{name}: {tally.passed} of {tally.ran} probes through it passed" if tally else f"{name}: not tried alone"
    if name in blamed:
        cls = f"part s-{blamed[name].value}"
    elif tally is not None and tally.passed:
        cls = "part good"
    inside = [rect(*place, _BOX_W, _BOX_H, cls, said)]
    middle = place[0] + _BOX_W / 2
    inside.append(text(middle, place[1] + (15 if tally else 22), name, anchor="middle", cls="name", most=9))
    if tally is not None:
        inside.append(text(middle, place[1] + 29, f"{tally.passed}/{tally.ran}", anchor="middle", cls="tiny"))
    if name in blamed:
        inside.append(mark(place[0] + _BOX_W - 3, place[1] + 3, 10, blamed[name].value))
    return tag("g", *inside)


def _blamed(host: str, suspects: Iterable[Suspect], platform: Platform) -> dict[str, Outcome]:
    """Parts that a suspect names as such: ``gpu003/mlx5_2``, ``gpu003/gpu5:nvlink``, ``gpu003/pcie0:uplink``."""
    found: dict[str, Outcome] = {}
    for suspect in suspects:
        part = Part.of(suspect.component)
        if part.host != host:
            continue
        if part.item == "cpu-interconnect":
            found.update({f"numa{node}": suspect.outcome for node in range(platform.numa_nodes)})
        elif not part.end:
            found[part.item] = suspect.outcome
    return found


def _paths(
    host: str, suspects: Iterable[Suspect], platform: Platform, places: Mapping[str, tuple[float, float]]
) -> Iterator[Markup]:
    """A bad path is a thick curve from its RNIC to each of its ends, with its sign where it leaves the RNIC."""
    for suspect in suspects:
        part = Part.of(suspect.component)
        start = part.device
        if part.host != host or not part.end or start not in places:
            continue
        for target in _ends(part.end, platform):
            if target in places:
                yield _curve(places[start], places[target], suspect.outcome)
        yield mark(places[start][0] + _BOX_W / 2, places[start][1] + _BOX_H + 9, 10, suspect.outcome.value)


def _ends(end: str, platform: Platform) -> list[str]:
    node = end.removeprefix("numa").partition("-")[0]
    gpus = [gpu.name for gpu in platform.gpus if str(gpu.numa) == node]
    if end.endswith("-gpus"):
        return gpus
    return [f"numa{node}", *gpus] if end.endswith("-side") else [end]


def _curve(start: tuple[float, float], end: tuple[float, float], outcome: Outcome) -> Markup:
    """Below the boxes to another one of the lowest row; to a memory node up to the side of its box."""
    x1, y1 = start[0] + _BOX_W / 2, start[1] + _BOX_H
    if end[1] == _ROWS[2]:
        x2, y2, deep = end[0] + _BOX_W / 2, y1, y1 + _DEEP * 4 / 3  # a cubic reaches three quarters of the way
        d = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {deep:.1f} {x2:.1f} {deep:.1f} {x2:.1f} {y2:.1f}"
    else:
        x2, y2 = end[0] + (_BOX_W if x1 > end[0] + _BOX_W / 2 else 0), end[1] + _BOX_H / 2
        d = f"M{x1:.1f} {start[1]:.1f}C{x1:.1f} {y2 + 20:.1f} {x1:.1f} {y2 + 10:.1f} {x2:.1f} {y2:.1f}"
    return tag("path", d=d, class_=f"bad b-{outcome.value}")


def _legend(width: float) -> list[Markup]:
    x = max(width, 660) - 420
    return [
        rect(x, 5, 14, 14, "part good"),
        text(x + 20, 16, "a probe through it passed", cls="tick"),
        rect(x + 170, 5, 14, 14, "part untried"),
        text(x + 190, 16, "not tried alone", cls="tick"),
        rect(x + 290, 5, 14, 14, "part s-fail"),
        mark(x + 304, 6, 8, "fail"),
        text(x + 312, 16, "suspected", cls="tick"),
    ]
