"""
A verdict with what was sampled beside the probes: bandwidth alone does not say that a link is well.

A probe whose bandwidth is good is no PASS when a counter of a port that its bytes crossed grew beyond what is allowed
while it ran. The time of a sample is known only to the spacing of the samples, so what grew between two of them speaks
of every probe that ran between them. What a change of ours did on a link is explained by it, and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fabric.judge.ports.health import PortHealth, counted_words, crossed, failed_meanwhile, port_health
from fabric.judge.ports.steps import RETURN_TO_SERVICE, Step
from fabric.model.change import ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.sampling import JUDGED, CounterCourse, CounterReading, Samples, ZeroGrowth, all_counters
from fabric.model.text import duration_text, fold
from fabric.model.topology import Topology
from fabric.model.verdict import ComponentVerdict, ProbeVerdict, Suspect, Verdict

INSIDE = frozenset({"loopback", "all_to_all"})
"""Kinds of probes whose bytes do not leave the host."""

_MOST_LINES = 4
_MOST_PROBES = 20  # as ``model.verdict.Suspect``
_NEXT = "clean or change the cable and the module, then measure again with `sample:` for two hours or more"


def wanted(reading: CounterReading) -> bool:
    """What of the samples is needed here."""
    return reading.name in JUDGED or reading.name == "module_c"


def wanted_for(zero_growth: ZeroGrowth | None) -> Callable[[CounterReading], bool]:
    """The same, and what the scenario's own criterion looks at."""
    if zero_growth is None:
        return wanted
    names = all_counters(zero_growth)
    return lambda reading: wanted(reading) or reading.name in names


def with_samples(
    verdict: Verdict,
    samples: Samples,
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    topology: Topology,
    hosts: Sequence[str],
    zero_growth: ZeroGrowth | None = None,
) -> Verdict:
    """
    The verdict of a run with what the ports of its *hosts* counted meanwhile.

    The same where nothing was sampled; with *zero_growth* (the scenario's criterion) that is INCONCLUSIVE.
    """
    if not samples.courses and zero_growth is None:
        return verdict
    ports, unread = ports_in(samples, topology, hosts, verdict.changes, zero_growth)
    sick = {(port.host, port.device): port for port in ports if port.outcome is not Outcome.PASS}
    judged = _probes(verdict, probes, results, sick, topology)
    pairs = {probe.probe_id: ports_of(probe, topology) for probe in crossed(verdict.suspects, probes)}
    verdicts = {one.probe_id: one for one in verdict.probes} if pairs else {}
    explained = failed_meanwhile(verdict.suspects, results, verdicts, sick, pairs)
    left = [one for one in verdict.suspects if one.component not in explained]
    failed: dict[str, list[str]] = {}
    for port_name, names in explained.values():
        failed.setdefault(port_name, []).extend(names)
    named = _suspects(left, sick.values(), judged, failed)
    components = {one.component: one for one in verdict.components}
    for port in sick.values():
        words = (*port.words, *([_unshown(port)] if port.unread else []))
        components[port.component] = ComponentVerdict(port.component, port.outcome, "; ".join(words))
    ill = [port for port in sick.values() if port.bad]
    reasons = [*verdict.reasons, *_sick_lines(ill, judged), *_unshown_lines(ports), *_notes(ports, unread)]
    return replace(
        verdict,
        outcome=Outcome.worst([verdict.outcome, *(port.outcome for port in ports)]),
        reasons=tuple(reasons),
        suspects=tuple(named),
        components=tuple(components.values()),
        probes=tuple(judged[one.probe_id][0] for one in verdict.probes),
    )


def ports_of(probe: Probe, topology: Topology) -> list[tuple[str, str]]:
    """Host and device of every port that the bytes of a probe cross."""
    if probe.kind in INSIDE:
        return []
    params = probe.params
    if "rnic" not in params:
        return [(host, rnic.device) for host in probe.hosts for rnic in topology.hosts[host].platform.rnics]
    own, peer = str(params["rnic"]), str(params.get("peer_rnic", params["rnic"]))
    return [(probe.hosts[0], own), (probe.hosts[-1], peer)]


def ports_in(
    samples: Samples,
    topology: Topology,
    hosts: Sequence[str],
    changes: Sequence[ChangeResult],
    zero_growth: ZeroGrowth | None = None,
) -> tuple[list[PortHealth], list[str]]:
    """Every port that could be read, and the hosts of which some could not."""
    by_port: dict[tuple[str, str], dict[str, CounterCourse]] = {}
    for reading, course in samples.courses.items():
        by_port.setdefault((reading.host, reading.part), {})[reading.name] = course
    found: list[PortHealth] = []
    unread: dict[str, None] = {}
    for host in hosts:
        platform = topology.hosts[host].platform
        for rnic in platform.rnics:
            port = port_health(
                host,
                rnic.device,
                by_port.get((host, rnic.device), {}),
                changes,
                every_s=samples.every_s,
                line_rate_gbps=rnic.line_rate_gbps,
                ethernet=platform.link_layer == "ethernet",
                zero_growth=zero_growth,
            )
            if port is None:
                unread[host] = None
            else:
                found.append(port)
    return found, list(unread)


_Judged = dict[str, tuple[ProbeVerdict, tuple[str, ...]]]
"""By probe: its verdict, and the ports that made it what it is."""


def _probes(
    verdict: Verdict,
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    sick: Mapping[tuple[str, str], PortHealth],
    topology: Topology,
) -> _Judged:
    by_id = {probe.probe_id: probe for probe in probes}
    judged: _Judged = {}
    for one in verdict.probes:
        result, probe = results.get(one.probe_id), by_id.get(one.probe_id)
        judged[one.probe_id] = (one, ())
        if sick and result is not None and probe is not None and one.outcome in (Outcome.PASS, Outcome.MARGINAL):
            crossed = [sick[place] for place in ports_of(probe, topology) if place in sick]
            judged[one.probe_id] = _one(one, result, crossed)
    return judged


def _one(
    verdict: ProbeVerdict, result: ProbeResult, crossed: Iterable[PortHealth]
) -> tuple[ProbeVerdict, tuple[str, ...]]:
    outcomes, words, ports = [verdict.outcome], [], []
    for port in crossed:
        grew = [step for step in port.steps if step.name in port.bad and not step.ours]
        grew = [step for step in grew if step.touches(result.started_s, result.ended_s)]
        if grew:
            outcomes += [port.bad[step.name] for step in grew]
            words.append(f"{_counted(grew)} on {port.host}/{port.device}")
            ports.append(port.component)
    if not ports:
        return verdict, ()
    said = f"bandwidth good{_gbps(verdict)}, {', '.join(words)}"
    reason = f"{said}; {verdict.reason}" if verdict.reason else said
    return replace(verdict, outcome=Outcome.worst(outcomes), reason=reason), tuple(ports)


def _counted(steps: Sequence[Step]) -> str:
    return ", ".join(counted_words(steps, name) for name in JUDGED if any(step.name == name for step in steps))


def _gbps(verdict: ProbeVerdict) -> str:
    return "" if verdict.value_gbps is None else f" ({verdict.value_gbps:.1f} Gb/s)"


def _suspects(
    suspects: Sequence[Suspect],
    sick: Iterable[PortHealth],
    judged: _Judged,
    failed: Mapping[str, Sequence[str]],
) -> list[Suspect]:
    """
    A link whose counters FAIL is a suspect; one that is suspected already gets the evidence.

    *failed*: by port the probes of two hosts that failed because of it.
    """
    known = {suspect.component: place for place, suspect in enumerate(suspects)}
    found = list(suspects)
    for port in sick:
        if port.outcome is not Outcome.FAIL:
            continue
        evidence = tuple(f"counters: {text}" for text in port.words)
        meanwhile = failed.get(port.component, ())
        if meanwhile:
            evidence = (*evidence, f"meanwhile {_probes_of(len(meanwhile))} over it failed")
        if port.component in known:
            place = known[port.component]
            found[place] = replace(found[place], evidence=(*found[place].evidence, *evidence))
            continue
        seen = sum(step.name in port.bad and not step.ours for step in port.steps)
        probes = [*meanwhile, *(name for name, (_, ports) in judged.items() if port.component in ports)]
        found.append(
            Suspect(
                component=port.component,
                kind="link",
                outcome=Outcome.FAIL,
                confidence=(seen + 1) / (seen + 2),
                evidence=evidence,
                next_step=_NEXT,
                hosts=(port.host,),
                probes=tuple(probes[:_MOST_PROBES]),
            )
        )
    return found


def _probes_of(number: int) -> str:
    return "1 probe" if number == 1 else f"{number} probes"


def _sick_lines(sick: Sequence[PortHealth], judged: _Judged) -> list[str]:
    """What is wrong with the worst ports, and how many probes did not notice it."""
    worst = sorted(sick, key=lambda port: -port.outcome.rank)
    unaware = Counter(name for _, ports in judged.values() for name in ports)
    lines = []
    for port in worst[:_MOST_LINES]:
        number = unaware[port.component]
        good = f"; bandwidth good in {number} probe{'s' if number != 1 else ''} meanwhile" if number else ""
        lines.append(f"{port.outcome.name}: {port.component}: {'; '.join(port.words)}{good}")
    return lines + ([f"and {len(worst) - _MOST_LINES} more ports, in verdict.json"] if worst[_MOST_LINES:] else [])


def _unshown(port: PortHealth) -> str:
    return f"zero growth of {', '.join(port.unread)} is not shown: not read, or only once"


def _unshown_lines(ports: Sequence[PortHealth]) -> list[str]:
    """What the scenario wants to be seen and nobody saw, one line for all ports alike."""
    alike: dict[str, list[PortHealth]] = {}
    for port in ports:
        if port.unread:
            alike.setdefault(_unshown(port), []).append(port)
    return [
        f"{Outcome.INCONCLUSIVE.name}: {text} on {len(group)} of {len(ports)} ports, of "
        f"{fold(dict.fromkeys(port.host for port in group))}"
        for text, group in alike.items()
    ]


def _notes(ports: Sequence[PortHealth], unread: Sequence[str]) -> list[str]:
    """What could not be said, and what was our own doing; none of it changes the outcome."""
    lines = []
    if unread:
        lines.append(f"counters not readable on {fold(unread)}: nothing is said of those ports")
    short = [port.ber for port in ports if port.ber is not None and port.ber.outcome is Outcome.INCONCLUSIVE]
    if short:
        left_s = max(ber.left_s for ber in short)
        least = min(window.ber for window in RETURN_TO_SERVICE)
        lines.append(
            f"bit errors: INCONCLUSIVE for {len(short)} of {len(ports)} ports: to say that they are below {least:g} "
            f"takes {duration_text(left_s)} more"
        )
    cleared = [port.component for port in ports if port.resets]
    if cleared:
        lines.append(f"counters were cleared meanwhile on {fold(cleared[:50])}: what they had counted is not known")
    for port in ports:
        own = [replace(step, ours=False) for step in port.steps if step.ours]
        if own:
            lines.append(
                f"{port.component}: {_counted(own)} while a change of ours was in force there: explained by it"
            )
    return lines[: 2 * _MOST_LINES]
