"""
Both ends of every cable that the traffic of a run may cross, judged by what the switches counted and how they stood.

Each end is judged as a port of a host is (``health.py``). A cable that was not seen, is down, or has fewer or slower
lanes than its line FAILs: routes go around it, and no probe shows it. Where the scenario accepts links (zero growth of
symbol errors, of times down or of recoveries), both ends must have been read from the first probe to the last.
Modules that have something in common may err together: too few errors on each cable, too many on all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log

from fabric.judge.ports.health import (
    ERRORS,
    FALSE_PASSES,
    Found,
    PortHealth,
    by_port,
    joined,
    judge_ber,
    known_values,
    port_health,
    steps_of,
)
from fabric.judge.ports.optics import hot_modules, optics_of
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.sampling import LINK_DOWNED, LINK_RECOVERIES, SYMBOL_ERRORS, CounterCourse, ZeroGrowth
from fabric.model.text import duration_text, fold
from fabric.model.topology import Link, Topology
from fabric.model.verdict import LinkCoverage
from fabric.runs.samples import End, LinkModule, LinkSamples

COMMON = {"firmware": "firmware", "part_number": "part number", "vendor": "vendor"}
"""What modules may share, and its name in words."""

LEAST = 4
"""So many ends make a batch (a choice: fewer are cables)."""

Ends = Sequence[tuple[str, End, PortHealth]]
"""Each end with its cable's name and what its counters say."""


def bad_batches(ends: Ends, modules: Mapping[End, LinkModule], *, line_rate_gbps: float) -> list[PortHealth]:
    """
    Each group of modules that FAILs the Poisson test of a port by the sum of its errors, while the others do not.

    Cables that FAIL by themselves do not count: they have a cause of their own. One group of the same ends is enough.
    """
    known = [one for one in ends if one[1] in modules and one[2].ber and one[2].outcome is not Outcome.FAIL]
    groups = {
        (field, value): [one for one in known if getattr(modules[one[1]], field) == value]
        for field in COMMON
        for value in sorted({getattr(modules[one[1]], field) or "" for one in known} - {""})
    }
    found: list[PortHealth] = []
    told: set[frozenset[End]] = set()
    for (field, value), group in groups.items():
        key = frozenset(end for _, end, _ in group)
        others = [one for one in known if one[1] not in key]
        if len(group) < LEAST or not others or key in told or not _errs(group, line_rate_gbps, len(groups)):
            continue
        if _errs(others, line_rate_gbps, len(groups)):
            continue  # all of them err: it is not what these have in common
        told.add(key)
        names = list(dict.fromkeys(name for name, _, _ in group))
        counted = sum(one.ber.count for _, _, one in group if one.ber)
        text = (
            f"{counted:,} symbol errors on all {len(group)} modules with {COMMON[field]} {value}, none too many on one"
        )
        batch = f"modules with {COMMON[field]} {value}"
        found.append(PortHealth(names[0], "", ((ERRORS[0], Outcome.FAIL, f"{text}: {fold(names)}"),), cable=batch))
    return found


def _errs(group: Ends, line_rate_gbps: float, groups: int) -> bool:
    """Whether they have too many errors together."""
    bers = [one.ber for _, _, one in group if one.ber is not None]
    count, watched_s = sum(one.count for one in bers), sum(one.watched_s for one in bers)
    return judge_ber(count, watched_s, line_rate_gbps, ports=max(1, groups)).outcome is Outcome.FAIL


OF_LINKS = (SYMBOL_ERRORS, LINK_DOWNED, LINK_RECOVERIES)
"""Criteria of zero growth that a switch's port can show; of Ethernet it counts no recoveries."""

SLACK_S = 120.0
"""The first look may end so long after the first probe began, the last begin so long before its end (a choice: two
deadlines of a look), beside twice the time between two."""

MANY = 3
"""So many cables, and all that a switch has, are the switch (a choice: two may be two)."""

_DOWNED = "link_downed"
_CODED = 0.9
"""A line of 400 Gb/s has 425 on its wires: what is below this share of its rate there has lost lanes or speed."""


@dataclass(frozen=True, slots=True)
class SeenCable:
    """
    One cable of the inventory with the ports that it was found in; none: nobody saw it.

    *asked*: somebody looked at its subnet (a rail or a plane may be one), and at one of its ends. Who asks in one knows
    nothing of another.
    """

    link: Link
    ends: tuple[End, ...]
    asked: bool = True
    ethernet: bool = False

    @property
    def name(self) -> str:
        """As in a verdict, ``#1`` the second of several between the same two; an RNIC's cable is that of its port."""
        link = self.link
        if "/" in link.a:
            return f"{link.a}:port"
        return f"{link.a}--{link.b}" + (f"#{link.number}" if link.number else "")

    @property
    def names(self) -> tuple[str, ...]:
        """As changes call it."""
        a, b, number = self.link.a, self.link.b, self.link.number
        both = (f"{a}--{b}", f"{b}--{a}")
        return tuple(f"{one}#{number}" for one in both) + (both if number == 0 else ()) + ((a,) if "/" in a else ())


def cables_of(links: LinkSamples, topology: Topology, hosts: Iterable[str]) -> list[SeenCable]:
    """Every cable that counts, with its ends as they were found; parallel ones in the order of their ports."""
    found: dict[tuple[str, str], set[tuple[End, End]]] = {}
    for one, other in links.cables:
        for near, far in ((one, other), (other, one)):
            name = "/".join(near) if near[0] in topology.hosts else near[0]
            found.setdefault((name, far[0]), set()).add((near, far))
    cables: list[SeenCable] = []
    for link in topology.links_between(hosts):
        pairs = sorted(found.get((link.a, link.b), ()), key=lambda ends: (len(ends[0][1]), ends[0][1]))
        ends = pairs[link.number] if link.number < len(pairs) else ()
        cables.append(SeenCable(link, ends, ethernet=link.b in topology.ethernet_switches))
    read = {reading.host for reading in links.samples.courses}
    # Where nobody says what joins the leaves, one that was seen knows nothing of another.
    part = topology.switch_parts if topology.uplinks else {name: name for name in topology.switches}
    seen = {part.get(one.link.b) for one in cables if one.ends}
    return [replace(one, asked=part.get(one.link.b) in seen and _told(one, read)) for one in cables]


def _told(cable: SeenCable, read: Collection[str]) -> bool:
    """Somebody would have told of it; of an RNIC's cable on Ethernet that is its host, which hears the leaf."""
    a, _, device = cable.link.a.partition("/")
    return a in read or (not device and cable.link.b in read)


@dataclass(frozen=True)
class LinkEvidence:
    """
    What the links of a run are judged with.

    *read*: hosts' own ports that were read on the host. *began_s*, *ended_s*: of the first and the last probe.
    """

    links: LinkSamples
    topology: Topology
    changes: Sequence[ChangeResult]
    zero_growth: ZeroGrowth | None
    read: frozenset[End]
    began_s: float
    ended_s: float

    @cached_property
    def courses(self) -> dict[End, dict[str, CounterCourse]]:
        """What was read, end by end."""
        return by_port(self.links.samples)

    def wanted(self, *, ethernet: bool = False) -> ZeroGrowth | None:
        """What of the scenario's criteria a switch can show; None where it accepts no links."""
        if self.zero_growth is None:
            return None
        shown = [name for name in OF_LINKS if not (ethernet and name == LINK_RECOVERIES)]
        criteria = tuple(name for name in self.zero_growth.criteria if name in shown)
        return replace(self.zero_growth, criteria=criteria) if criteria else None


def coverage_of(looked: LinkEvidence, cables: Sequence[SeenCable]) -> LinkCoverage:
    """How much of it all was seen."""
    courses = looked.courses
    ends = {end for cable in cables for end in cable.ends}
    whole = [cable for cable in cables if _covered(cable, looked)]
    looks = courses.get(NOBODY, {}).get("looks")
    lasted_s = 0.0 if looks is None else looks.until_s - looks.at_s[0]
    slowest_gbps = min((cable.link.line_rate_gbps for cable in whole), default=0.0)
    hides = -log(FALSE_PASSES) / (slowest_gbps * 1e9 * lasted_s) if slowest_gbps * lasted_s > 0.0 else None
    return LinkCoverage(
        cables=len(cables),
        whole=len(whole),
        looks=0 if looks is None else int(looks.values[-1] or 0),
        ends=2 * len(cables),
        lit=sum("rx0_dbm" in courses.get(end, {}) for end in ends),
        least_ber=hides,
    )


NOBODY: End = ("", "")
"""Of whom the reading is how often all links were looked at."""


def link_health(looked: LinkEvidence, cables: Sequence[SeenCable]) -> list[PortHealth]:
    """Every cable as one port of which both ends are seen, in the order of the inventory."""
    dark = _hosts_that_are_off(cables, looked.courses) if looked.courses else set()
    gone = _hosts_going_down(cables, looked.courses)
    counted = [one for one in cables if one.link.a.partition("/")[0] not in dark]
    told = [(one, _ends(one, looked, gone, ends=2 * len(cables))) for one in counted]
    likes = {end: _like(end, looked) for one in counted for end in one.ends}
    hot = hot_modules(looked.courses, likes)
    ends = [(one.name, end, health) for one, found in told for end, health in found]
    rate_gbps = max((one.link.line_rate_gbps for one in counted), default=1.0)
    batches = bad_batches(ends, looked.links.modules, line_rate_gbps=rate_gbps)
    return _as_switches([_cable(one, found, looked, hot) for one, found in told], counted) + batches


def _like(end: End, looked: LinkEvidence) -> tuple[str | None, str]:
    """Which modules its own is like: part number, and the tier of the switch or the place in the host."""
    module, switch = looked.links.modules.get(end), looked.topology.switches.get(end[0])
    return None if module is None else module.part_number, end[1] if switch is None else switch.tier


def _as_switches(found: Sequence[PortHealth], cables: Sequence[SeenCable]) -> list[PortHealth]:
    """A switch whose cables are all down, or all went down, is one part and not many."""
    sick = {one.component: one for one in found if one.bad.get("up", one.bad.get("link_downed")) is Outcome.FAIL}
    of_switch: dict[str, set[str]] = {}
    for cable in cables:
        for name in {cable.link.a, cable.link.b}.difference([cable.link.a] if "/" in cable.link.a else []):
            of_switch.setdefault(name, set()).add(cable.name)
    dead = {name: own for name, own in of_switch.items() if len(own) >= MANY and own <= sick.keys()}
    inside = {cable for own in dead.values() for cable in own}
    left = [one for one in found if one.component not in inside]
    return left + [
        replace(first, cable=name, found=(("", Outcome.PASS, f"all {len(own)} cables of it: the switch"), *worst[:2]))
        for name, own in dead.items()
        for first in (sick[min(own)],)
        for worst in (sorted(first.found, key=lambda one: -one[1].rank),)
    ]


def _hosts_that_are_off(cables: Sequence[SeenCable], courses: Mapping[End, Mapping[str, CounterCourse]]) -> set[str]:
    """Of which no leaf that was read saw a cable up when last looked at: that is the host, and its probes say so."""
    of_hosts = [(one.link.a.partition("/")[0], one.ends) for one in cables if "/" in one.link.a]
    up = {end for end, read in courses.items() if "up" in read and read["up"].values[-1] == 1}
    lit = {host for host, ends in of_hosts if any(end[0] != host and end in up for end in ends)}
    told = {node for node, _ in courses}
    return {one.link.a.partition("/")[0] for one in cables if "/" in one.link.a and one.link.b in told} - lit


def _hosts_going_down(
    cables: Iterable[SeenCable], courses: Mapping[End, Mapping[str, CounterCourse]]
) -> dict[End, set[float]]:
    """
    When each leaf port of a host went down together with all others of it, between the same two looks.

    That is the host going down (a boot), not its cables. A host with one cable cannot be told from it.
    """
    far: dict[str, list[End]] = {}
    for cable in cables:
        host, _, device = cable.link.a.partition("/")
        if device:
            far.setdefault(host, []).extend(end for end in cable.ends if end[0] != host)
    found: dict[End, set[float]] = {}
    for ends in far.values():
        own = [courses.get(end, {}).get(_DOWNED, CounterCourse()) for end in ends]
        grown = [{step.at_s for step in steps_of(_DOWNED, one, (), 0.0)[0]} for one in own]
        if len(grown) > 1:
            found.update(dict.fromkeys(ends, set.intersection(*grown)))
    return found


_Told = list[tuple[End, PortHealth]]
"""The ends of a cable, each with what its counters say."""


def _ends(cable: SeenCable, looked: LinkEvidence, gone: Mapping[End, Collection[float]], *, ends: int) -> _Told:
    told: _Told = []
    for end in cable.ends:
        if end in looked.read:
            continue  # as its own host has it
        health = port_health(
            *end,
            looked.courses.get(end, {}),
            looked.changes,
            every_s=looked.links.samples.every_s,
            line_rate_gbps=cable.link.line_rate_gbps,
            ethernet=cable.ethernet,
            zero_growth=looked.wanted(ethernet=cable.ethernet),
            ports=ends,
            also=cable.names,
            with_host_s=gone.get(end, ()),
        )
        if health is not None:
            told.append((end, health))
    return told


def _cable(cable: SeenCable, told: _Told, looked: LinkEvidence, hot: Mapping[End, str]) -> PortHealth:
    """Both ends as one part, with how the cable itself stands, and whether it was seen all the time."""
    wanted = looked.wanted(ethernet=cable.ethernet)
    warm = [one for end in cable.ends if end in hot for one in _at(end, [("module_c", Outcome.MARGINAL, hot[end])])]
    found = (*_accused(told), *_seen_light(cable, looked), *warm, *_standing(cable, looked))
    unread = wanted.criteria if wanted is not None and not _covered(cable, looked) else ()
    a, _, device = cable.link.a.partition("/")
    itself = PortHealth(a, device, found, unread=unread, cable="" if device else cable.name)
    whole = joined([*(replace(health, found=_at(end, health.found)) for end, health in told), itself])
    return replace(whole, found=(*whole.found, *_plugged(cable, looked))) if whole.found else whole


def _at(end: End, found: Iterable[Found]) -> tuple[Found, ...]:
    """The same, each with its end."""
    return tuple((name, outcome, f"{label(end)}: {text}") for name, outcome, text in found)


def label(end: End) -> str:
    """``spine02 port 4``; an RNIC by its name."""
    return f"{end[0]} port {end[1]}" if end[1].isdigit() else "/".join(end)


def _accused(told: _Told) -> Iterator[Found]:
    """Which end it looks like: errors are counted by who receives them."""
    counting = [end for end, health in told if any(name in health.bad for name in ERRORS)]
    others = [end for end, _ in told if end not in counting]
    if len(counting) == 1 and others:
        near, far = label(counting[0]), label(others[0])
        yield "", Outcome.PASS, f"only {near} counts errors: what {far} sends, the cable, or the receiver of {near}"


def _seen_light(cable: SeenCable, looked: LinkEvidence) -> Iterator[Found]:
    """What is wrong with the light of either end."""
    for end, far in zip(cable.ends, reversed(cable.ends), strict=True):
        found = optics_of(
            looked.courses.get(end, {}),
            looked.links.modules.get(end),
            looked.courses.get(far, {}),
            line_rate_gbps=cable.link.line_rate_gbps,
        )
        yield from _at(end, found)


def _plugged(cable: SeenCable, looked: LinkEvidence) -> list[Found]:
    """Where its ends are and what is plugged in there, for whoever goes and looks."""
    told = []
    for end in cable.ends:
        host, module = looked.topology.hosts.get(end[0]), looked.links.modules.get(end)
        said = [f"rack {host.rack}"] if host is not None and host.rack else []
        if module is not None:
            said += [f"{module.part_number or 'module'} serial {module.serial or 'unknown'}"]
            said += [f"firmware {module.firmware}"] if module.firmware else []
        told += [f"{label(end)} ({', '.join(said)})"] if said else []
    return [("", Outcome.PASS, f"ends: {' and '.join(told)}")] if told else []


def _standing(cable: SeenCable, looked: LinkEvidence) -> Iterator[Found]:
    """What is wrong with it stands: not there, down at the end, fewer or slower lanes than its line has."""
    link = cable.link
    if not cable.ends:
        if looked.links.samples.courses and cable.asked:
            yield "up", Outcome.FAIL, f"no cable between {link.a} and {link.b} was seen up in all the run"
        return
    up = {end: course for end in cable.ends if (course := looked.courses.get(end, {}).get("up")) is not None}
    down = [end for end, one in up.items() if one.values[-1] == 0 and not _ours(cable, looked, one.at_s[-1])]
    if down:
        where = " and ".join(label(end) for end in down)
        yield "up", Outcome.FAIL, f"down since {duration_text(up[down[0]].at_s[-1])} at {where}"
    for end in cable.ends:
        own, least_gbps = looked.courses.get(end, {}), _CODED * link.line_rate_gbps
        lanes, lane_gbps, speed_gbps = (
            min((value for value in known_values(own.get(name)) if value), default=inf)
            for name in ("width", "lane_gbps", "speed_gbps")
        )
        if lanes * lane_gbps < least_gbps:
            name, seen = "width", f"{lanes} lanes of {lane_gbps:g} Gb/s"
        elif speed_gbps < least_gbps:
            name, seen = "speed", f"{speed_gbps:g} Gb/s"
        else:
            continue
        yield name, Outcome.FAIL, f"{label(end)}: {seen}, the line has {link.line_rate_gbps:g}"
        return


def _ours(cable: SeenCable, looked: LinkEvidence, at_s: float) -> bool:
    """A change of ours was in force there."""
    windows = [one for result in looked.changes if result.change.component in cable.names for one in result.windows]
    return any(one.began_s <= at_s <= (one.ended_s or at_s) + SLACK_S for one in windows)


def _covered(cable: SeenCable, looked: LinkEvidence) -> bool:
    """Both ends were looked at from the first probe to the last."""
    slack_s = SLACK_S + 2 * looked.links.samples.every_s
    for end in (NOBODY, *cable.ends):
        seen = looked.courses.get(end, {}).get("looks" if end == NOBODY else "link_downed")
        if end in looked.read:
            continue
        if seen is None or seen.at_s[0] > looked.began_s + slack_s or seen.until_s < looked.ended_s - slack_s:
            return False
    return bool(cable.ends)
