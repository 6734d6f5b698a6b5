"""The network from the side: hosts by leaf group, leaves, spines; suspects and changes marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.part import PORT, Part
from fabric.model.topology import Topology
from fabric.model.verdict import Suspect
from fabric.report.html.svg import line, mark, picture, rect, tag, text
from fabric.report.shown_run import ShownRun

WIDTH = 1080.0
MARGIN = 10.0  # a mark at the first or last one must not be cut
_MOST_EDGES = 700
"""More cables than this are not drawn one by one; only those that something happened to."""

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Tier:
    """Hosts or switches of one tier, and where each is drawn."""

    name: str
    y: float
    names: tuple[str, ...]
    places: Mapping[str, Place]


def draw(run: ShownRun) -> Markup | None:
    """None where the inventory knows no switches."""
    topology, hosts = run.inventory.topology, run.judged.scenario.hosts
    if not topology.switches:
        return None
    tiers = _tiers(topology, hosts)
    places = {name: place for tier in tiers for name, place in tier.places.items()}
    sizes = {tier.name: _step(len(tier.names)) for tier in tiers}
    parts = list(_cables(topology, hosts, places))
    for tier in tiers:
        size = min(max(sizes[tier.name] - 1.5, 1.0), 16.0)
        parts += [rect(x - size / 2, y - size / 2, size, size, "switch", name) for name, (x, y) in tier.places.items()]
    parts += _changed(run.judged.verdict.changes, places, topology)
    parts += _suspected(run.judged.verdict.suspects, places, topology)
    # After the cables, which may run through them.
    parts += [text(6, tier.y - 14, f"{tier.name}: {len(tier.names):,}", cls="halo") for tier in tiers]
    height = max(tier.y for tier in tiers) + 62
    parts += _legend(height)
    return picture(WIDTH, height, parts, "topology with suspects and changes marked")


def _tiers(topology: Topology, hosts: Sequence[str]) -> list[Tier]:
    """Spines above, leaves in the middle, hosts below; leaves stand over their hosts."""
    order: dict[str, None] = {}
    for host in hosts:
        order.update(dict.fromkeys(topology.hosts[host].leaves))
    by_tier: dict[str, list[str]] = {}
    for name, switch in topology.switches.items():
        if switch.tier != "leaf":
            by_tier.setdefault(switch.tier, []).append(name)
    above = [(f"{tier} switches", names) for tier, names in reversed(by_tier.items())]
    listed = [*above, ("leaf switches", list(order)), ("hosts", list(hosts))]
    return [spread_tier(name, 30.0 + 80.0 * level, names) for level, (name, names) in enumerate(listed) if names]


def spread_tier(name: str, y: float, names: Sequence[str]) -> Tier:
    """A tier at height *y* whose places stand at equal steps within the margins."""
    step = _step(len(names))
    return Tier(name, y, tuple(names), {one: (MARGIN + step * (index + 0.5), y) for index, one in enumerate(names)})


def _step(count: int) -> float:
    return (WIDTH - 2 * MARGIN) / max(count, 1)


def _cables(topology: Topology, hosts: Sequence[str], places: Mapping[str, Place]) -> Iterator[Markup]:
    """Each pair of ends once, while they can be told apart."""
    drawn: dict[tuple[str, str], None] = {}
    for host in hosts:
        drawn.update({(host, leaf): None for leaf in topology.hosts[host].leaves})
    for uplinks in topology.uplinks:
        if len(drawn) > _MOST_EDGES:
            break
        drawn.update({(low, high): None for low in uplinks.lower for high in uplinks.upper})
    if len(drawn) > _MOST_EDGES:
        yield text(WIDTH - 6, 14, "only cables that something happened to are drawn", anchor="end", cls="tick")
        return
    for low, high in drawn:
        if low in places and high in places:
            yield line(*places[low], *places[high], "cable")


def _changed(changes: Sequence[ChangeResult], places: Mapping[str, Place], topology: Topology) -> Iterator[Markup]:
    seen: set[str] = set()
    for result in changes:
        name = result.change.component
        ends = _ends(name, places, topology)
        if name in seen or not result.change.is_fault:
            continue
        seen.add(name)
        said = f"{result.change.kind} on {name}, {result.state}"
        if len(ends) == 2:
            yield tag("g", line(*ends[0], *ends[1], "changed"), tag("title", said))
        for x, y in ends:
            yield tag("path", tag("title", said), d=f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z", class_="change")


def _suspected(suspects: Sequence[Suspect], places: Mapping[str, Place], topology: Topology) -> Iterator[Markup]:
    """A suspect inside a host is marked at its host."""
    labelled = 0
    signs: list[Place] = []
    for suspect in suspects:
        ends = _ends(suspect.component, places, topology)
        if not ends:
            ends = [places[host] for host in suspect.hosts[:4] if host in places]
        elif len(ends) == 2:
            yield line(*ends[0], *ends[1], f"suspected b-{suspect.outcome.value}")
            if labelled < 8 and "--" not in suspect.component:
                yield _leaf_name(ends[1], places)
            ends = [sign_place(suspect.component, *ends)]
        ends = [free_place(end, signs) for end in ends]
        for x, y in ends:
            said = f"{suspect.component}: {suspect.kind}, {suspect.confidence:.0%}"
            yield rect(x - 8, y - 8, 16, 16, "under-sign")
            yield mark(x, y, 11, suspect.outcome.value, said)
        if ends and labelled < 8 and suspect.outcome in (Outcome.FAIL, Outcome.ERROR):
            labelled += 1
            x, y = ends[0]
            anchor = "end" if x > WIDTH - 160 else "start"
            yield text(
                x + (-10 if anchor == "end" else 10),
                y + 20 + labelled % 2 * 11,
                suspect.component,
                anchor=anchor,
                cls="tiny",
                most=36,
            )


def _leaf_name(leaf: Place, places: Mapping[str, Place]) -> Markup:
    """Beside the leaf that a suspected RNIC is joined to: who pulls the cable goes to both ends."""
    x, y = leaf
    name = next((name for name, place in places.items() if place == leaf), "")
    left = x > WIDTH - 160
    return text(x + (-10 if left else 10), y - 11, name, anchor="end" if left else "start", cls="tiny", most=36)


def free_place(place: Place, signs: list[Place]) -> Place:
    """A place for a sign that hides none before it, toward the middle of the picture; it is added to *signs*."""
    x, y = place
    step = 17.0 if x < WIDTH / 2 else -17.0
    for _ in range(2 * len(signs)):  # one sign stands in the way of two steps at most
        if not any(abs(x - left) < 17.0 and abs(y - top) < 17.0 for left, top in signs):
            break
        x += step
    signs.append((x, y))
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


def _legend(height: float) -> list[Markup]:
    y = height - 8
    return [
        mark(12, y - 4, 9, "fail"),
        text(22, y, "suspect", cls="tick"),
        mark(92, y - 4, 9, "error"),
        text(102, y, "could not be measured", cls="tick"),
        tag("path", d=f"M242 {y - 11:.1f}l7 7l-7 7l-7 -7z", class_="change"),
        text(255, y, "changed on purpose", cls="tick"),
    ]
