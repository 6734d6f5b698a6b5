"""A hall at a glance: every rack a box, every host a square of its worst measurement; a rack unfolds on a click."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, sqrt

from markupsafe import Markup

from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from fabric.report.html.shares import colour_class
from fabric.report.html.svg import mark, picture, rect, tag, text

_SQUARE = 12.0
_WIDTH = 1080.0


def racks_of(topology: Topology, hosts: Sequence[str]) -> dict[str, list[str]]:
    """Hosts by rack, in inventory order; where no rack is written, by their leaves."""
    racks: dict[str, list[str]] = {}
    for name in hosts:
        host = topology.hosts[name]
        racks.setdefault(host.rack or (host.leaves[0] if host.leaves else "hosts"), []).append(name)
    return racks


def draw(racks: Mapping[str, Sequence[str]], worst: Mapping[str, tuple[float | None, Outcome]]) -> Markup:
    """One box a rack, as square as it goes; its name below, and a sign on each host that did not pass."""
    across = max((ceil(sqrt(len(hosts))) for hosts in racks.values()), default=1)
    down = max((ceil(len(hosts) / across) for hosts in racks.values()), default=1)
    step_x, step_y = max(across * _SQUARE + 8, 34.0), down * _SQUARE + 18
    columns = max(int(_WIDTH // step_x), 1)
    parts = []
    for number, (rack, hosts) in enumerate(racks.items()):
        left, top = (number % columns) * step_x + 2, (number // columns) * step_y + 2
        inside = [rect(left - 2, top - 2, across * _SQUARE + 4, down * _SQUARE + 4, "rack")]
        for index, host in enumerate(hosts):
            x, y = left + index % across * _SQUARE, top + index // across * _SQUARE
            share, outcome = worst.get(host, (None, Outcome.PASS))
            inside.append(rect(x + 0.5, y + 0.5, _SQUARE - 1, _SQUARE - 1, colour_class(share)))
            inside.append(mark(x + _SQUARE / 2, y + _SQUARE / 2, 7, outcome.value, f"{host}: {outcome.name}"))
        inside.append(
            text(left + across * _SQUARE / 2, top + down * _SQUARE + 11, rack, anchor="middle", cls="tiny", most=8)
        )
        parts.append(tag("g", *inside, class_="unfold", data_rack=str(number), tabindex="0", role="button"))
    rows = ceil(len(racks) / columns)
    return picture(_WIDTH, rows * step_y + 4, parts, f"{len(racks)} racks, hosts coloured by their worst measurement")
