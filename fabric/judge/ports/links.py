"""Judging both ends of every cable that a run's traffic may cross, by counters of the switches, link state and optics.

Each end is judged like a port of a host (``health.py``). A cable that was not seen, is down, or has fewer or slower
lanes than its line FAILs: routes go around it, so no probe shows it. If the scenario accepts links (zero growth of
symbol errors, of times down or of recoveries), both ends must have been read from the first probe to the last. Modules
that have something in common may err together: too few errors on each cable, too many on all of them.

Light and raw bit errors go wrong before a packet is lost. A lane outside the alarm limits of its module, or 3 dB and
more below its siblings (sound ones lie within 0.4 dB), FAILs: one fibre of a ribbon is dirty, or one laser dies. A lane
below the module's own warning limit, if it has one (NVUE), is MARGINAL. So are a raw bit error ratio above 1e-5 (the
limit of OCI's dr-hpc), blocks with as many wrong symbols as the error correction can mend, and a module 10 C hotter
than its peers. Peers have the same part number, in switches of one tier or in the same place of other hosts. A module
is compared at its coolest and its hottest with the median of its peers. If the third hottest became 10 C warmer than
peers at rest, it is also compared with that one: a module that is busy while others wait is no outlier. Copper has no
light.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log
from statistics import median

from fabric.judge.normal.keys import grouped
from fabric.judge.ports.health import (
    ERRORS,
    FALSE_PASSES,
    MANY,
    BerVerdict,
    Found,
    PortHealth,
    by_port,
    joined,
    judge_ber,
    known_values,
    port_health,
    steps_of,
)
from fabric.judge.ports.waiting import label, lagging
from fabric.model import gathered
from fabric.model.change import Changes
from fabric.model.outcome import Outcome
from fabric.model.sampling import LINK_DOWNED, LINK_RECOVERIES, SYMBOL_ERRORS, CounterCourse, ZeroGrowth
from fabric.model.text import duration_text, fold
from fabric.model.topology import Link, Topology
from fabric.model.verdict import LinkCoverage
from fabric.runs.samples import End, LinkModule, LinkSamples

OFF_DB = 3.0
"""A lane so far below the median lane of its module is dark: half of the light."""

RAW_BER = 1e-5

HOTTER_C = 10.0
"""A choice: NVIDIA's UFM plugin for packet drop rates isolates a port whose temperature changes by more from look to
look (D_TMAX)."""

LANES = 8
"""The most lanes that a module has (OSFP)."""

Courses = Mapping[str, CounterCourse]


def light(courses: Courses, way: str, *, least: bool = True) -> dict[int, float]:
    """Return the power of each lane in dBm: the least that was read, or the last."""
    read = {lane: known_values(courses.get(f"{way}{lane}_dbm")) for lane in range(LANES)}
    return {lane: min(known) if least else known[-1] for lane, known in read.items() if known}


def dark_lanes(courses: Courses, way: str) -> dict[int, float]:
    """Return the lanes that lie ``OFF_DB`` or more below the median lane, each with the difference in dB."""
    lanes = light(courses, way)
    off = {lane: median(lanes.values()) - dbm for lane, dbm in lanes.items()} if len(lanes) > 2 else {}
    return {lane: below_db for lane, below_db in off.items() if below_db >= OFF_DB}


def optics_of(courses: Courses, module: LinkModule | None, far: Courses, *, line_rate_gbps: float) -> Iterator[Found]:
    """Yield what is wrong with the light and raw errors of one end; *far* are the courses of the other end."""
    one = module or LinkModule()
    for way, does, low, high, warn in (
        ("rx", "receives", one.rx_low_dbm, one.rx_high_dbm, one.rx_warn_dbm),
        ("tx", "sends", one.tx_low_dbm, one.tx_high_dbm, one.tx_warn_dbm),
    ):
        dark = dark_lanes(courses, way)
        for lane, dbm in light(courses, way).items():
            wrong = f"{dark[lane]:.1f} dB below its siblings" if lane in dark else ""
            if low is not None and high is not None and not low <= dbm <= high:
                wrong = f"its module wants {low:g} to {high:g}"
            if wrong:
                yield f"{way}{lane}_dbm", Outcome.FAIL, f"lane {lane} {does} {dbm:.1f} dBm, {wrong}"
            elif warn is not None and dbm < warn:
                text = f"lane {lane} {does} {dbm:.1f} dBm, its module warns below {warn:g}"
                yield f"{way}{lane}_dbm", Outcome.MARGINAL, text
        if way == "rx" and dark:
            sent = "sends as little: its laser" if dark_lanes(far, "tx") else "sends well: fibre or connector"
            yield "rx", Outcome.FAIL, f"the other end {sent}"
    blocks = known_values(courses.get("full_blocks"))
    if blocks and blocks[-1] > blocks[0]:
        full = f"{blocks[-1] - blocks[0]:,.0f} blocks with as many wrong symbols as the error correction can mend"
        yield "full_blocks", Outcome.MARGINAL, full
    if (ber := raw_ber(courses, line_rate_gbps)) is not None and ber > RAW_BER:
        yield "raw_errors", Outcome.MARGINAL, f"raw bit error ratio {ber:.1e}, OCI wants at most {RAW_BER:g}"


def hot_modules(courses: Mapping[End, Courses], likes: Mapping[End, Hashable]) -> dict[End, str]:
    """Return a text for each end whose module is hotter than its peers: the ends with an equal value in *likes*."""
    known = {end: known_values(courses.get(end, {}).get("module_c")) for end in likes}
    found: dict[End, str] = {}
    for ends in grouped((end for end in likes if known[end]), likes.__getitem__).values():
        hottest = sorted(max(known[end]) for end in ends)
        rest_c, busy_c = median(min(known[end]) for end in ends), median(hottest)
        for end in ends if len(ends) > MANY else ():
            above_c = min(min(known[end]) - rest_c, max(known[end]) - busy_c)
            if hottest[-MANY] - rest_c >= HOTTER_C:
                above_c = max(above_c, max(known[end]) - hottest[-MANY])
            if above_c >= HOTTER_C:
                found[end] = f"its module is {above_c:.0f} C hotter than others of {len(ends)} like it"
    return found


def raw_ber(courses: Courses, line_rate_gbps: float, name: str = "raw_errors") -> float | None:
    """
    Return the ratio of wrong bits to all bits between the first and the last reading, before error correction.

    With another *name*, return the ratio behind the correction. Both are read together, so the time of the raw errors
    counts for both: a counter behind the correction that shows no new value has not grown.
    """
    counted, course = known_values(courses.get(name)), courses.get("raw_errors", CounterCourse())
    times_s = [at_s for at_s, value in zip(course.at_s, course.values, strict=True) if value is not None]
    lasted_s = times_s[-1] - times_s[0] if times_s else 0.0
    if lasted_s <= 0.0 or not counted or counted[-1] < counted[0]:  # read once, or cleared meanwhile
        return None
    return (counted[-1] - counted[0]) / (lasted_s * line_rate_gbps * 1e9)


COMMON = ("firmware", "part_number", "vendor")
"""The fields by which modules are grouped."""

Ends = Sequence[tuple[str, End, PortHealth]]
"""Ends of cables, each as the name of the cable, the end, and what its counters say."""


def bad_batches(ends: Ends, modules: Mapping[End, LinkModule], *, line_rate_gbps: float) -> list[PortHealth]:
    """
    Return each group of modules whose summed errors FAIL the Poisson test of a port, while other modules' do not.

    Cables that FAIL by themselves do not count: they have a cause of their own. Of groups with the same ends the first
    is enough.
    """
    known = [
        (name, end, one.ber)
        for name, end, one in ends
        if end in modules and one.ber and one.outcome is not Outcome.FAIL
    ]
    groups = gathered(
        ((field, value), one) for field in COMMON for one in known if (value := getattr(modules[one[1]], field))
    )

    def errs(group: Sequence[tuple[str, End, BerVerdict]]) -> bool:
        count, watched_s = sum(ber.count for *_, ber in group), sum(ber.watched_s for *_, ber in group)
        return judge_ber(count, watched_s, line_rate_gbps, ports=len(groups)).outcome is Outcome.FAIL

    found: dict[frozenset[End], PortHealth] = {}
    for (field, value), group in groups.items():
        key = frozenset(end for _, end, _ in group)
        others = [one for one in known if one[1] not in key]
        # If all modules err, the cause is not what this group has in common.
        if len(group) > MANY and others and key not in found and errs(group) and not errs(others):
            names = list(dict.fromkeys(name for name, *_ in group))
            batch = f"modules with {field.replace('_', ' ')} {value}"
            counted = sum(ber.count for *_, ber in group)
            text = f"{counted:,} symbol errors on all {len(group)} {batch}, none too many on one: {fold(names)}"
            found[key] = PortHealth(names[0], "", ((ERRORS[0], Outcome.FAIL, text),), cable=batch)
    return list(found.values())


OF_LINKS = (SYMBOL_ERRORS, LINK_DOWNED, LINK_RECOVERIES)
"""The criteria of zero growth that a port of a switch can show; on Ethernet it counts no recoveries."""

SLACK_S = 120.0
"""The first look may end so long after the first probe began, and the last begin so long before the last probe ended
(a choice: two deadlines of a look). Twice the time between two looks is added."""


@dataclass(frozen=True, slots=True)
class SeenCable:
    """
    One cable of the inventory; *ends* are the ports in which it was found, none if nobody saw it.

    *asked*: its subnet (a rail or a plane may be one) was looked at, and one of its ends. A look in one subnet says
    nothing of another.
    """

    link: Link
    ends: tuple[End, ...]
    asked: bool = True
    ethernet: bool = False

    @property
    def host(self) -> str:
        """Return the host whose RNIC it joins to a leaf; empty for a cable between switches."""
        return self.link.a.partition("/")[0] if "/" in self.link.a else ""

    @property
    def name(self) -> str:
        """Return its name in a verdict: ``#1`` is the second between two switches; an RNIC's cable is named by port."""
        return f"{self.link.name}:port" if self.host else self.link.name

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that changes use for it."""
        a, b, number = self.link.a, self.link.b, self.link.number
        both = (f"{a}--{b}", f"{b}--{a}")
        return tuple(f"{one}#{number}" for one in both) + (both if number == 0 else ()) + ((a,) if "/" in a else ())


def cables_of(links: LinkSamples, topology: Topology, hosts: Iterable[str]) -> list[SeenCable]:
    """Return every cable that counts, with its ends as they were found; parallel cables in the order of their ports."""

    def between(ends: tuple[End, End]) -> tuple[str, str]:
        near, far = ends
        return "/".join(near) if near[0] in topology.hosts else near[0], far[0]

    found = grouped(links.both_ways, between)
    cables: list[SeenCable] = []
    for link in topology.links_between(hosts):
        pairs = sorted(found.get((link.a, link.b), ()), key=lambda ends: (len(ends[0][1]), ends[0][1]))
        ends = pairs[link.number] if link.number < len(pairs) else ()
        cables.append(SeenCable(link, ends, ethernet=link.b in topology.ethernet_switches))
    read = {reading.host for reading in links.samples.courses}
    # If the inventory does not say what joins the leaves, each switch counts as a subnet of its own.
    part = topology.switch_parts if topology.uplinks else {name: name for name in topology.switches}
    seen = {part.get(one.link.b) for one in cables if one.ends}
    # A cable of an RNIC would have been reported by its host: on Ethernet the host hears the leaf.
    reportable = {
        one.name for one in cables if not read.isdisjoint((one.host,) if one.host else (one.link.a, one.link.b))
    }
    return [replace(one, asked=part.get(one.link.b) in seen and one.name in reportable) for one in cables]


@dataclass(frozen=True)
class LinkEvidence:
    """
    The evidence by which the links of a run are judged.

    *read*: ports of hosts that were read on the host itself. *began_s*: when the first probe began, *ended_s*: when the
    last one ended.
    """

    links: LinkSamples
    topology: Topology
    changes: Changes
    zero_growth: ZeroGrowth | None
    read: frozenset[End]
    began_s: float
    ended_s: float

    @cached_property
    def courses(self) -> dict[End, dict[str, CounterCourse]]:
        """Return the courses of the counters that were read, by end."""
        return by_port(self.links.samples)

    def criteria_for(self, *, ethernet: bool = False) -> ZeroGrowth | None:
        """Return the scenario's criteria that a switch can show; None if it has none of them."""
        if self.zero_growth is None:
            return None
        shown = [name for name in OF_LINKS if not (ethernet and name == LINK_RECOVERIES)]
        criteria = tuple(name for name in self.zero_growth.criteria if name in shown)
        return replace(self.zero_growth, criteria=criteria) if criteria else None


def coverage_of(looked: LinkEvidence, cables: Sequence[SeenCable]) -> LinkCoverage:
    """Return how much of the links was seen."""
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
"""The end under which the number of looks at all links is recorded."""


def link_health(looked: LinkEvidence, cables: Sequence[SeenCable]) -> list[PortHealth]:
    """Judge every cable as one port seen from both ends, in the order of the inventory; then add bad batches."""
    dark = _hosts_that_are_off(cables, looked.courses)
    gone = _hosts_going_down(cables, looked.courses)
    counted = [one for one in cables if one.host not in dark]
    with_ends = [(one, _ends(one, looked, gone, ends=2 * len(cables))) for one in counted]
    likes = {end: _like(end, looked) for one in counted for end in one.ends}
    hot = hot_modules(looked.courses, likes)
    waiting = _waiting(counted, looked)
    ends = [(one.name, end, health) for one, found in with_ends for end, health in found]
    rate_gbps = max((one.link.line_rate_gbps for one in counted), default=1.0)
    batches = bad_batches(ends, looked.links.modules, line_rate_gbps=rate_gbps)
    return _as_switches([_cable(one, found, looked, hot, waiting) for one, found in with_ends], counted) + batches


def _like(end: End, looked: LinkEvidence) -> tuple[str | None, str]:
    """Return a key that the peers of a module share: part number, and tier of the switch or place in the host."""
    module, switch = looked.links.modules.get(end), looked.topology.switches.get(end[0])
    return None if module is None else module.part_number, end[1] if switch is None else switch.tier


def _as_switches(found: Sequence[PortHealth], cables: Sequence[SeenCable]) -> list[PortHealth]:
    """Merge the cables of a switch into one part, the switch, if all are down, went down, or are slow."""
    of_all = ("up", LINK_DOWNED, "waits")
    sick = {one.component: one for one in found if Outcome.FAIL in map(one.bad.get, of_all)}
    ends = {(end, one.name) for one in cables for end in (one.link.a, one.link.b) if "/" not in end}
    of_switch = {switch: set(names) for switch, names in gathered(sorted(ends)).items()}
    dead = {switch: names for switch, names in of_switch.items() if len(names) >= MANY and names <= sick.keys()}
    left = [one for one in found if all(one.component not in names for names in dead.values())]
    for switch, names in dead.items():
        first = sick[min(names)]
        worst = sorted(first.found, key=lambda one: -one[1].rank)
        summary = "", Outcome.PASS, f"all {len(names)} cables of it: the switch"
        left.append(replace(first, cable=switch, found=(summary, *worst[:2])))
    return left


def _hosts_that_are_off(cables: Sequence[SeenCable], courses: Mapping[End, Courses]) -> set[str]:
    """Return the hosts none of whose cables was up at the last look: the host itself is off, as its probes show."""
    up = {end for end, read in courses.items() if "up" in read and read["up"].values[-1] == 1}
    lit = {one.host for one in cables if any(end[0] != one.host and end in up for end in one.ends)}
    read_nodes = {node for node, _ in courses}
    return {one.host for one in cables if one.host and one.link.b in read_nodes} - lit


def _hosts_going_down(cables: Iterable[SeenCable], courses: Mapping[End, Courses]) -> dict[End, set[float]]:
    """
    Return when each leaf port of a host went down together with all its other ports, between the same two looks.

    Then the host went down (a boot), not its cables. For a host with one cable the two cannot be told apart.
    """
    found: dict[End, set[float]] = {}
    for host, own in grouped((one for one in cables if one.host), lambda one: one.host).items():
        far = [end for one in own for end in one.ends if end[0] != host]
        down = [courses.get(end, {}).get(LINK_DOWNED, CounterCourse()) for end in far]
        if len(far) > 1:
            at_s = set.intersection(*({step.at_s for step in steps_of(LINK_DOWNED, one, (), 0.0)[0]} for one in down))
            found |= dict.fromkeys(far, at_s)
    return found


_EndHealths = list[tuple[End, PortHealth]]
"""The ends of a cable, each with what its counters say."""


def _ends(cable: SeenCable, looked: LinkEvidence, gone: Mapping[End, Collection[float]], *, ends: int) -> _EndHealths:
    healths: _EndHealths = []
    for end in cable.ends:
        if end in looked.read:
            continue  # its own host has already read it
        health = port_health(
            *end,
            looked.courses.get(end, {}),
            looked.changes,
            every_s=looked.links.samples.every_s,
            line_rate_gbps=cable.link.line_rate_gbps,
            ethernet=cable.ethernet,
            zero_growth=looked.criteria_for(ethernet=cable.ethernet),
            ports=ends,
            also=cable.names,
            with_host_s=gone.get(end, ()),
        )
        if health is not None:
            healths.append((end, health))
    return healths


def _waiting(cables: Sequence[SeenCable], looked: LinkEvidence) -> dict[str, Found]:
    """Return findings on cables that wait more than their siblings from the same switch up; none on Ethernet."""
    found: dict[str, Found] = {}
    between = [one for one in cables if not one.host and one.ends and not one.ethernet]
    for own in grouped(between, lambda one: (one.link.a, one.link.line_rate_gbps)).values():
        if len(own) > MANY:
            ways = list(zip(*(one.ends for one in own), strict=True))
            waiting = lagging(ways, looked.courses, rate_gbps=own[0].link.line_rate_gbps)
            found |= {own[place].name: text for place, text in waiting.items()}
    changed = {result.change.component for result in looked.changes}
    return {one.name: found[one.name] for one in between if one.name in found and changed.isdisjoint(one.names)}


def _cable(
    cable: SeenCable, healths: _EndHealths, looked: LinkEvidence, hot: Mapping[End, str], waiting: Mapping[str, Found]
) -> PortHealth:
    """Join both ends into one part, with the state of the cable itself, and the criteria that were not shown."""
    wanted, rate_gbps = looked.criteria_for(ethernet=cable.ethernet), cable.link.line_rate_gbps
    light: list[Found] = []
    for end, far in zip(cable.ends, reversed(cable.ends), strict=True):
        own, other = (looked.courses.get(one, {}) for one in (end, far))
        light += _at(end, optics_of(own, looked.links.modules.get(end), other, line_rate_gbps=rate_gbps))
    warm = [("module_c", Outcome.MARGINAL, f"{label(end)}: {hot[end]}") for end in cable.ends if end in hot]
    unread = wanted.criteria if wanted is not None and not _covered(cable, looked) else ()
    a, _, device = cable.link.a.partition("/")
    slow = [waiting[cable.name]] if cable.name in waiting else []
    found = (*_accused(healths), *light, *warm, *slow, *_standing(cable, looked))
    itself = PortHealth(a, device, found, unread=unread, cable="" if device else cable.name)
    whole = joined([*(replace(health, found=_at(end, health.found)) for end, health in healths), itself])
    return replace(whole, found=(*whole.found, *_plugged(cable, looked))) if whole.found else whole


def _at(end: End, found: Iterable[Found]) -> tuple[Found, ...]:
    """Put the label of the end before the text of each finding."""
    return tuple((name, outcome, f"{label(end)}: {text}") for name, outcome, text in found)


def _accused(healths: _EndHealths) -> Iterator[Found]:
    """Yield which end looks bad if only one counts errors: the receiver counts them."""
    counting = [end for end, health in healths if any(name in health.bad for name in ERRORS)]
    others = [end for end, _ in healths if end not in counting]
    if len(counting) == 1 and others:
        near, far = label(counting[0]), label(others[0])
        yield "", Outcome.PASS, f"only {near} counts errors: what {far} sends, the cable, or the receiver of {near}"


def _plugged(cable: SeenCable, looked: LinkEvidence) -> list[Found]:
    """Return where the ends are and what is plugged in there, for the person who goes and looks."""
    descriptions = []
    for end in cable.ends:
        host, module = looked.topology.hosts.get(end[0]), looked.links.modules.get(end)
        details = [f"rack {host.rack}"] if host is not None and host.rack else []
        if module is not None:
            details += [f"{module.part_number or 'module'} serial {module.serial or 'unknown'}"]
            details += [f"firmware {module.firmware}"] if module.firmware else []
        descriptions += [f"{label(end)} ({', '.join(details)})"] if details else []
    return [("", Outcome.PASS, f"ends: {' and '.join(descriptions)}")] if descriptions else []


def _standing(cable: SeenCable, looked: LinkEvidence) -> Iterator[Found]:
    """Yield what is wrong with the state of a cable: not there, down at the end, too few or too slow lanes."""
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
        own, least_gbps = looked.courses.get(end, {}), link.line_rate_gbps
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
    """Return whether a change of ours was in force on the cable at *at_s*."""
    windows = [one for result in looked.changes if result.change.component in cable.names for one in result.windows]
    return any(one.began_s <= at_s <= one.until_s + SLACK_S for one in windows)


def _covered(cable: SeenCable, looked: LinkEvidence) -> bool:
    """Return whether both ends were looked at from the first probe to the last."""
    slack_s = SLACK_S + 2 * looked.links.samples.every_s
    first_s, last_s = looked.began_s + slack_s, looked.ended_s - slack_s
    ends = [end for end in (NOBODY, *cable.ends) if end not in looked.read]
    seen = [looked.courses.get(end, {}).get("looks" if end == NOBODY else LINK_DOWNED) for end in ends]
    return bool(cable.ends) and all(one and one.at_s[0] <= first_s and one.until_s >= last_s for one in seen)
