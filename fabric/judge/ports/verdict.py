"""Adding the counters of ports and links to a verdict: bandwidth alone does not show that a link is well.

A probe whose bandwidth is good is no PASS if a counter of a port that its bytes crossed grew beyond what is allowed
while it ran. When a counter grew is known only to the spacing of the samples, so growth between two samples counts for
every probe that ran between them. Growth on a link while a change of ours was in force there is explained by that
change, and reported.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from fabric.judge.locate.search import MOST_NAMED
from fabric.judge.locate.steps import next_step
from fabric.judge.normal.keys import ends_of, grouped, leaf_of
from fabric.judge.ports.health import BER, FULL, MANY, PortHealth, Step, counted_words, joined, ports_of_run
from fabric.judge.ports.links import LinkEvidence, cables_of, coverage_of, link_health
from fabric.model import gathered
from fabric.model.change import Changes
from fabric.model.outcome import Outcome, Reason, ReasonKind
from fabric.model.probe import SHARE, Probe, Results
from fabric.model.sampling import HELD_BACK, JUDGED, LINK_DOWNED, CounterReading, Samples, ZeroGrowth, all_counters
from fabric.model.text import MOST_SHOWN, counted, duration_text, fold
from fabric.model.topology import Topology
from fabric.model.verdict import ComponentVerdict, LinkCoverage, ProbeVerdict, Suspect, Verdicts
from fabric.runs.samples import LinkSamples

INSIDE = frozenset({"loopback", "all_to_all"})
"""Kinds of probes whose bytes do not leave the host."""

A_LITTLE = 0.9
"""A failed probe that reached this share of its limit may be slow because a port lost its link for some seconds; a
slower one has another cause (a choice)."""

_Crossed = tuple[PortHealth, Sequence[Step]]
"""A port that the bytes of a probe crossed, and the steps of its counters that were too many while the probe ran."""

_Meanwhile = Mapping[str, Sequence[_Crossed]]
"""The bad ports that each probe crossed, by probe id."""

_NEXT = "clean or change the cable and the module, then measure again with `sample:` for two hours or more"


@dataclass(frozen=True, slots=True)
class SeenCounters:
    """
    The counters that were read while a run worked: of the ports of *hosts*, and of both ends of *links*.

    *links* None: nobody looked at them. *zero_growth*: what the scenario says that they must not count. *watches*: the
    run has many rounds, so its verdict says whether anybody looked.
    """

    samples: Samples = field(default_factory=lambda: Samples(0.0, {}))
    hosts: Sequence[str] = ()
    zero_growth: ZeroGrowth | None = None
    links: LinkSamples | None = None
    watches: bool = False


def wanted_for(zero_growth: ZeroGrowth | None) -> Callable[[CounterReading], bool]:
    """Return a filter for the readings that are needed here, including those of the scenario's own criterion."""
    growing = all_counters(zero_growth) if zero_growth is not None else frozenset()
    names = {*JUDGED, *HELD_BACK, "module_c"} | growing
    return lambda reading: reading.name in names


@dataclass(frozen=True, slots=True)
class PortFindings:
    """
    What the ports of a run add to its verdict: outcomes, reasons, and how much of the links was seen.

    *suspects* and *probes* (by id) are those that were given, changed by the ports; *components* are the bad ports.
    """

    suspects: Sequence[Suspect]
    probes: Verdicts
    components: Mapping[str, ComponentVerdict] = field(default_factory=dict)
    outcomes: Sequence[Outcome] = ()
    reasons: Sequence[Reason] = ()
    links: LinkCoverage | None = None


def port_findings(
    seen: SeenCounters,
    probes: Sequence[Probe],
    verdicts: Verdicts,
    suspects: Sequence[Suspect],
    results: Results,
    topology: Topology,
    changes: Changes = (),
) -> PortFindings:
    """
    Judge what the ports of hosts and both ends of links counted while the probes of a run worked.

    If nothing was sampled, verdicts and suspects stay as they are; with zero growth (the scenario's criterion) that is
    INCONCLUSIVE, and a run that watches for a time says so.
    """
    samples, hosts, zero_growth, links = seen.samples, seen.hosts, seen.zero_growth, seen.links
    if not samples.courses and zero_growth is None and links is None and not seen.watches:
        return PortFindings(suspects, verdicts)
    contended = [results[probe.probe_id] for probe in probes if SHARE in probe.params and probe.probe_id in results]
    shared = sorted({(result.started_s, result.ended_s) for result in contended})
    ports = ports_of_run(samples, topology, hosts, changes, zero_growth, shared=shared)
    cables, covered = _cables(seen, results, topology, changes, ports)
    leaves = went_down(ports, topology, samples.every_s)
    well = {name for one in leaves for name in one.explains}
    bad = (port for port in (*ports, *cables, *leaves) if port.outcome is not Outcome.PASS)
    bad = (port for port in bad if port.component not in well)
    # Both ends of an RNIC's cable are one part: what its host read, and what its leaf read.
    sick = [joined(ends) for ends in grouped(bad, lambda port: port.component).values()]
    meanwhile = _meanwhile(probes, results, sick, topology)
    good = [name for name, one in verdicts.items() if one.outcome.is_good]
    unaware = gathered((port.component, name) for name in good for port, _ in _surely(meanwhile.get(name, ())))
    read = {(port.host, port.device) for port in ports}
    asked = hosts if samples.courses or zero_growth else ()
    unread = [h for h in asked if any((h, rnic.device) not in read for rnic in topology.hosts[h].platform.rnics)]
    return PortFindings(
        outcomes=[port.outcome for port in (*ports, *cables)],
        reasons=(
            *map(Reason, _sick_lines(sick, unaware)),
            *map(Reason, _unshown_lines(ports)),
            *map(Reason, _unshown_lines(cables, "cables", "" if links is None else links.failed)),
            *map(Reason, (*_notes(ports, unread), *_notes(cables, (), "cables"))),
            *([Reason(f"links: {covered}", ReasonKind.LINKS)] if covered is not None else []),
        ),
        suspects=_suspects(verdicts, suspects, sick, meanwhile, unaware),
        components={
            port.component: ComponentVerdict(
                port.component,
                port.outcome,
                "; ".join([*port.words, *([_unshown(port)] if port.unread else [])]),
            )
            for port in sick
        },
        links=covered,
        probes={name: _less_good(one, _surely(meanwhile.get(name, ()))) for name, one in verdicts.items()},
    )


def _cables(
    seen: SeenCounters, results: Results, topology: Topology, changes: Changes, ports: Sequence[PortHealth]
) -> tuple[list[PortHealth], LinkCoverage | None]:
    """Judge every cable that counts, and say how much was seen; if nobody looked, only if the scenario wants it."""
    times = [(one.started_s, one.ended_s) for one in results.values()]
    looked = LinkEvidence(
        seen.links or LinkSamples(),
        topology,
        changes,
        seen.zero_growth,
        frozenset((port.host, port.device) for port in ports if port.ber is not None),
        began_s=min((began_s for began_s, _ in times), default=0.0),
        ended_s=max((ended_s for _, ended_s in times), default=0.0),
    )
    if seen.links is None and looked.criteria_for() is None and not seen.watches:
        return [], None
    cables = cables_of(looked.links, topology, seen.hosts)
    return link_health(looked, cables), coverage_of(looked, cables)


def went_down(ports: Sequence[PortHealth], topology: Topology, every_s: float) -> list[PortHealth]:
    """
    Return the leaves of which most ports went down at once, while most ports of their hosts on other leaves stayed up.

    At once means between the same two samples, or in neighbouring ones. A leaf explains a port if all growth of its
    error counters fell into that time.
    """
    leaves = grouped(ports, lambda port: leaf_of(topology.hosts[port.host], port.device))
    found = (_went_down(leaf, own, ports, every_s) for leaf, own in leaves.items() if leaf)
    return [one for one in found if one is not None]


def _went_down(leaf: str, own: Sequence[PortHealth], ports: Sequence[PortHealth], every_s: float) -> PortHealth | None:
    down = {port.component: [s for s in port.steps if s.name == LINK_DOWNED and not s.ours] for port in own}
    events = [(step.from_s, step.at_s) for port in own for step in down[port.component]]
    at_once = [[port for port in own if any(s.touches(*one) for s in down[port.component])] for one in events]
    together, when = max(zip(at_once, events, strict=True), key=lambda pair: len(pair[0]), default=([], (0.0, 0.0)))
    hosts = tuple(sorted({port.host for port in together}))
    if len(hosts) < MANY or 2 * len(together) <= len(own):
        return None
    others = [port for port in ports if port.host in hosts and port.component not in down]
    also = [port for port in others if any(s.name == LINK_DOWNED and s.touches(*when) for s in port.steps)]
    if 2 * len(also) > len(others):
        return None  # the hosts went down, not the leaf: they lost power, or were restarted
    devices = ", ".join(sorted({port.device for port in together}))
    text = (
        f"{len(together)} of its {len(own)} ports went down within {2 * every_s / 60.0:.0f} min, "
        f"by {when[1] / 3600.0:.1f} h of the run ({devices} of {fold(hosts)})"
    )
    return PortHealth(
        leaf,
        "",
        ((LINK_DOWNED, Outcome.FAIL, text),),
        tuple(s for port in together for s in down[port.component] if s.touches(*when)),
        cable=leaf,
        under=hosts,
        explains=tuple(port.component for port in together if all(s.touches(*when) for s in port.steps)),
    )


def ports_of(probe: Probe, topology: Topology) -> list[tuple[str, str]]:
    """Return host and device of every port that the bytes of a probe cross."""
    if probe.kind in INSIDE:
        return []
    rnics = ((host, rnic.device) for host in probe.hosts for rnic in topology.hosts[host].platform.rnics)
    return list(ends_of(probe) or rnics)


def _meanwhile(probes: Iterable[Probe], results: Results, sick: Iterable[PortHealth], topology: Topology) -> _Meanwhile:
    """
    Return by probe the ports that it crossed while they counted too much, and the cables that it may have crossed.

    A cable of a leaf can be crossed only by hosts under that leaf. Which of several cables a probe crossed is not
    known: so they may explain a probe that failed, but do not change one that was good.
    """
    found: dict[str, list[_Crossed]] = defaultdict(list)
    counting = [(port, port.bad_steps) for port in sick if port.bad_steps]
    of_hosts = {(port.host, port.device): (port, steps) for port, steps in counting if not port.cable}
    between = [(port, steps) for port, steps in counting if port.cable and port.host in topology.switches]
    upper = {name for name, one in topology.switches.items() if one.tier != "leaf"}
    for probe in probes if counting else ():
        result = results.get(probe.probe_id)
        if result is None:
            continue
        crossed = [of_hosts[place] for place in ports_of(probe, topology) if place in of_hosts]
        if between and len(probe.hosts) > 1:
            leaves = {leaf for host in probe.hosts for leaf in topology.hosts[host].leaves}
            crossed += [one for one in between if one[0].host in leaves or one[0].host in upper]
        for port, steps in crossed:
            if grown := [step for step in steps if step.touches(result.started_s, result.ended_s)]:
                found[probe.probe_id].append((port, grown))
    return found


def _surely(crossed: Iterable[_Crossed]) -> list[_Crossed]:
    """Return the ports that a probe crossed for certain, without the cables that it may have crossed."""
    return [one for one in crossed if not one[0].cable]


def _less_good(verdict: ProbeVerdict, crossed: Sequence[_Crossed]) -> ProbeVerdict:
    """Worsen the verdict of a good probe by what the ports that it crossed counted."""
    if not crossed or not verdict.outcome.is_good:
        return verdict
    words = [f"{_counted(grown)} on {port.host}/{port.device}" for port, grown in crossed]
    gbps = "" if verdict.value_gbps is None else f" ({verdict.value_gbps:.1f} Gb/s)"
    summary = f"bandwidth good{gbps}, {', '.join(words)}"
    reason = f"{summary}; {verdict.reason}" if verdict.reason else summary
    outcomes = [port.bad[step.name] for port, grown in crossed for step in grown]
    return replace(verdict, outcome=Outcome.worst([verdict.outcome, *outcomes]), reason=reason)


def _counted(steps: Sequence[Step]) -> str:
    numbers = {name: sum(step.by for step in steps if step.name == name) for name in JUDGED}
    return ", ".join(counted_words(number, name) for name, number in numbers.items() if number)


def _explained(
    verdicts: Verdicts, suspects: Sequence[Suspect], meanwhile: _Meanwhile
) -> dict[str, tuple[str, Sequence[str]]]:
    """
    Return, by component, the port that explains a suspect pair (two hosts or what is between them), and its probes.

    While each of these probes ran, a counter for which that port FAILs must have grown; and none of the probes may have
    been much too slow (``A_LITTLE``).
    """
    found: dict[str, tuple[str, Sequence[str]]] = {}
    for one in suspects:
        if one.kind != "pair" or one.outcome is not Outcome.FAIL or not one.probes:
            continue
        guilty = []
        for name in one.probes:
            judged, crossed = verdicts[name], meanwhile.get(name, ())
            value_gbps = inf if judged.value_gbps is None else judged.value_gbps
            a_little = judged.outcome is Outcome.FAIL and value_gbps >= A_LITTLE * (judged.required_gbps or 0.0)
            fails = {port.component for port, steps in crossed if any(port.bad[s.name] is Outcome.FAIL for s in steps)}
            guilty.append(fails if a_little else set())
        if alike := set.intersection(*guilty):
            found[one.component] = min(alike), one.probes
    return found


def _suspects(
    verdicts: Verdicts,
    suspects: Sequence[Suspect],
    sick: Sequence[PortHealth],
    meanwhile: _Meanwhile,
    unaware: Mapping[str, Sequence[str]],
) -> list[Suspect]:
    """
    Return the suspects with each link whose counters FAIL; one that is suspected already gets the evidence.

    A suspect pair is dropped if such a link explains all its failed probes.
    """
    explained = _explained(verdicts, suspects, meanwhile)
    found = [one for one in suspects if one.component not in explained]
    places = {one.component: place for place, one in enumerate(found)}
    for port in (port for port in sick if port.outcome is Outcome.FAIL):
        name, seen = port.component, max(len(port.bad_steps), len(port.bad))
        failed = [probe for by, probes in explained.values() if by == name for probe in probes]
        evidence = [f"counters: {text}" for text in port.words]
        evidence += [f"meanwhile {counted(len(failed), 'probe')} over it failed"] if failed else []
        if name in places:
            one = found[places[name]]
            found[places[name]] = replace(one, evidence=(*one.evidence, *evidence))
            continue
        found.append(
            Suspect(
                component=name,
                kind="leaf" if port.under else "link",
                outcome=Outcome.FAIL,
                confidence=(seen + 1) / (seen + 2),
                evidence=tuple(evidence),
                next_step=next_step("leaf", Outcome.FAIL) if port.under else _NEXT,
                hosts=port.hosts,
                probes=tuple([*failed, *unaware.get(name, ())][:MOST_NAMED]),
            )
        )
    return found


def _sick_lines(sick: Sequence[PortHealth], unaware: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield lines about the worst ports: what is wrong, and how many probes had good bandwidth meanwhile."""
    worst = sorted((port for port in sick if port.bad), key=lambda port: -port.outcome.rank)
    for port in worst[:MOST_SHOWN]:
        good = unaware.get(port.component, ())
        seen = [f"bandwidth good in {counted(len(good), 'probe')} meanwhile"] if good else []
        yield f"{port.outcome.name}: {port.component}: {'; '.join([*port.words, *seen])}"
    if worst[MOST_SHOWN:]:
        yield f"and {len(worst) - MOST_SHOWN} more ports, in verdict.json"


def _unshown(port: PortHealth) -> str:
    return f"zero growth of {', '.join(port.unread)} is not shown: not read, only once, or too few to tell"


def _unshown_lines(ports: Sequence[PortHealth], what: str = "ports", why: str = "") -> Iterator[str]:
    """Yield a line for each set of criteria that some ports did not show; *why*: the reason why a look failed."""
    of, because = f"of {len(ports)} {what}, of", f" (a look at them failed: {why})" if why else ""
    for text, alike in grouped((port for port in ports if port.unread), _unshown).items():
        hosts = fold(dict.fromkeys(port.host for port in alike))
        yield f"{Outcome.INCONCLUSIVE.name}: {text} on {len(alike)} {of} {hosts}{because}"


def _notes(ports: Sequence[PortHealth], unread: Sequence[str], what: str = "ports") -> list[str]:
    """Return notes on what could not be judged and on what our own changes did; none of them changes the outcome."""
    lines = [f"counters not readable on {fold(unread)}: nothing is said of those ports"] if unread else []
    open_ = [(port, port.ber) for port in ports if port.ber and port.ber.outcome is Outcome.INCONCLUSIVE]
    if open_:
        left = duration_text(max(ber.left_s for _, ber in open_))
        lines.append(
            f"bit errors: INCONCLUSIVE for {len(open_)} of {len(ports)} {what}: to say that they are below {BER:g} "
            f"takes {left} more"
        )
    some = sorted((one for one in open_ if one[1].count), key=lambda one: -one[1].left_s)
    lines += [
        f"{port.component}: {ber.reason}: INCONCLUSIVE, {duration_text(ber.left_s)} more without another would do"
        for port, ber in some[:MOST_SHOWN]
    ]
    cleared = [port.component for port in ports if port.resets]
    if cleared:
        lines.append(f"counters were cleared meanwhile on {fold(cleared[:50])}: what they had counted is not known")
    for name, alike in gathered((name, port.component) for port in ports for name in port.full).items():
        lines.append(f"{fold(alike[:50])}: {name} {FULL}")
    for port in ports:
        own = [step for step in port.steps if step.ours]
        if own:
            counts = _counted(own)
            lines.append(f"{port.component}: {counts} while a change of ours was in force there: explained by it")
    return lines[: 2 * MOST_SHOWN]
