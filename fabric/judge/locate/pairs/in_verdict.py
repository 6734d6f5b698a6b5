"""The pair tests of a run in its verdict: suspects, the probes that they explain, and what stays open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from fabric.judge.locate.candidates import host_side
from fabric.judge.locate.concurrency import as_congested
from fabric.judge.locate.pairs.against_limit import Below
from fabric.judge.locate.pairs.components import LINKS
from fabric.judge.locate.pairs.findings import FAR, some, unexplained
from fabric.judge.locate.pairs.fitted import ALL, Fitted
from fabric.judge.locate.pairs.judged import DRAW_AGAIN, LEAST_HOSTS, VerdictLine, judged
from fabric.judge.locate.pairs.rounds import not_crossed, targeted
from fabric.judge.locate.pairs.run_planes import fitted_planes, measured_in, run_planes
from fabric.judge.locate.pairs.uplinks import down, look_at, unused
from fabric.judge.normal.keys import begun, ends_of, grouped
from fabric.model.outcome import Outcome, Reason, note
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.text import gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect
from fabric.probes import pairwise

_MOST_CLASSES = 8  # classes in a line
_LEAST_PEERS = 4  # loopbacks of one link class that say what is normal; a choice
_BLIND = (
    "which uplinks and spine a pair crossed is not known (adaptive routing or ECMP, or the tables were not read): "
    "they are not in the model, only all uplinks of a leaf together"
)


@dataclass(frozen=True, slots=True)
class PairFindings:
    """
    What the pair tests of a run say of it.

    *suspects* are FAIL, or INCONCLUSIVE where more samples are needed, or where a cable is not up and no pair shows it.
    *verdicts* replace those of probes that suspects explain, or that were measured too little. *open* is what else was
    found, with its effect on the outcome of the run; *notes* have no effect. *lost*: probes without a number that are
    judged only here. *to_read*: the ports to read where nobody looked at both ends of every cable.
    """

    suspects: tuple[Suspect, ...]
    verdicts: Mapping[str, ProbeVerdict]
    open: tuple[VerdictLine, ...]
    notes: tuple[str, ...]
    lost: frozenset[str] = frozenset()
    to_read: tuple[str, ...] = ()

    def lines(self, *, looked: bool) -> tuple[Reason, ...]:
        """Return what is open and the notes as reasons of a verdict; *looked*: both ends of every cable were seen."""
        reasons = (Reason(f"{outcome.name}: pairs: {text}") for outcome, text in self.open)
        return (*reasons, *(note(f"pairs: {text}") for text in (*self.notes, *(() if looked else self.to_read))))


def pair_findings(
    probes: Sequence[Probe],
    results: Mapping[str, ProbeResult],
    verdicts: Mapping[str, ProbeVerdict],
    *,
    topology: Topology,
    inside: Sequence[Suspect],
) -> PairFindings:
    """
    Decode every plane of every phase with pair tests.

    *inside* are the suspects of probes that stay within a host. If they name a part of a host, it explains what pairs
    say of this host's side.
    """
    phases = dict.fromkeys(probe.phase for probe in probes if probe.kind == pairwise.KIND)
    seen = {phase: measured_in(phase, probes, results) for phase in phases}
    every = [one for phase, measured in seen.items() for one in run_planes(phase, measured, topology)]
    if not every:
        return PairFindings((), {}, (), ())
    fitted = list(zip((one.phase for one in every), fitted_planes(every), strict=True))
    of_phases = [(phase, _judged_by(one, verdicts)) for phase, one in fitted if len(one.samples.hosts) >= LEAST_HOSTS]
    enough = [one for _, one in of_phases]
    found = judged(enough, limit_alone=False, phases=[phase for phase, _ in of_phases])
    within = Inside(inside, probes, results, topology)
    losses = {one.components.names[b.component]: b.loss for one in enough for b in one.blamed}
    suspects = [
        _with_deciding_test(within.refined(one, losses.get(one.component, 0.0)), enough)
        for one in found.suspects
        if not within.explains(one)
    ]
    unsure = [one.component for one in suspects if one.outcome is not Outcome.FAIL]
    open_ = [(Outcome.INCONCLUSIVE, f"{name} may be bad: more samples are needed") for name in unsure]
    open_ += [*found.open, *(line for one in enough for line in _not_crossed(one))]
    of_ports = [down(measured, topology) for measured in seen.values()]
    not_up = sorted({text for texts, _ in of_ports for text in texts})
    open_ += [(Outcome.INCONCLUSIVE, text) for text in not_up]
    suspects += {one.component: one for _, dead in of_ports for one in dead}.values()
    blind = any(one.samples.drawn.any() and not one.samples.spines for one in enough)
    return PairFindings(
        suspects=tuple(suspects),
        verdicts={
            name: verdict
            for one, low in zip(enough, found.below, strict=True)
            for name, verdict in _verdicts(one, low, verdicts).items()
        },
        open=tuple(dict.fromkeys(open_)),
        notes=(
            *class_lines(enough),
            *([_BLIND] if blind else []),
            *(() if not_up else unused(every, topology)),
        ),
        lost=frozenset(name for one in enough for name in _lost(one)),
        to_read=tuple(look_at(every, topology)) if blind else (),
    )


def _judged_by(fitted: Fitted, verdicts: Mapping[str, ProbeVerdict]) -> Fitted:
    """Return *fitted* with the limits of its probes; a probe that was judged by a record has none."""
    own = [verdicts[name] for name in fitted.samples.probe_ids]
    limits = np.array([np.nan if one.limit_gbps is None or one.against else one.limit_gbps for one in own])
    return replace(fitted, samples=replace(fitted.samples, limit_gbps=limits))


def class_lines(planes: Sequence[Fitted]) -> tuple[str, ...]:
    """
    Return in a line the classes, what a good pair of each reaches (Gb/s, the median over rails), and their samples.

    Nothing where all samples are of one class.
    """
    every = (one for plane in planes for one in plane.classes)
    found = grouped(every, lambda one: one.test if one.name == ALL else f"{one.test}, {one.name}")
    texts = [
        f"{label} {gbps_text(median(one.gbps for one in alike))} Gb/s ({sum(one.samples for one in alike)} samples)"
        for label, alike in found.items()
    ]
    if len(texts) < 2:
        return ()
    return (f"{len(texts)} classes, each compared with itself alone: {some(texts, most=_MOST_CLASSES, apart='; ')}",)


class Inside:
    """Suspects of probes within hosts, and how fast each RNIC's loopbacks were beside those of its peers."""

    def __init__(
        self,
        suspects: Sequence[Suspect],
        probes: Sequence[Probe],
        results: Mapping[str, ProbeResult],
        topology: Topology,
    ) -> None:
        self._named = frozenset(suspect.component for suspect in suspects)
        self._topology = topology
        self._ratios = _loopback_ratios(probes, results, topology)

    def explains(self, suspect: Suspect) -> bool:
        """Return whether a part of this very host's side was found bad inside the host."""
        if suspect.kind == "host" and len(suspect.hosts) == 1:
            host = suspect.hosts[0]
            return any(Part.of(name).host == host for name in self._named)
        end = _end(suspect)
        return end is not None and any(part.name in self._named for part in host_side(*end, self._topology))

    def refined(self, suspect: Suspect, loss: float) -> Suspect:
        """
        Narrow a host's side whose loopback is as fast as others' to what is left: the port, the cable or the leaf port.

        *loss* is what pairs lose on it, 0 where not known: a loopback tells only if it would show half of that.
        """
        end = _end(suspect)
        ratio = None if end is None else self._ratios.get(end)
        if end is None or ratio is None or loss <= 0.0 or ratio < 1 - loss / 2:
            return suspect
        host, device = end
        return replace(
            suspect,
            component=f"{host}/{device}:port",
            kind="link",
            evidence=(
                f"the port, cable or leaf port of {device}: inside the host its loopback reaches {ratio:.0%} of others",
                *suspect.evidence[1:],
            ),
            next_step="read both ports of the cable (mlxlink -d ... -c: BER, width, FEC); swap the cable first",
        )


def _end(suspect: Suspect) -> tuple[str, str] | None:
    """Return host and device of a suspect that is one host's side on one rail; else None."""
    part = Part.of(suspect.component)
    return part.place if part.item and suspect.kind == "rnic" else None


def _loopback_ratios(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], topology: Topology
) -> dict[tuple[str, str], float]:
    """Return by host and RNIC the median of its loopbacks, each over the median of its link class on like hosts."""

    def alike(one: tuple[Probe, float]) -> tuple[object, ...]:
        params = one[0].params
        return topology.hosts[one[0].hosts[0]].platform.name, params["link_class"], params["size_bytes"]

    measured = [
        (probe, result.measurements[0].value)
        for probe, result in begun((probe for probe in probes if probe.kind == "loopback"), results)
        if result.outcome is None and result.measurements
    ]
    ratios: dict[tuple[str, str], list[float]] = {}
    for peers in grouped(measured, alike).values():
        normal = median(value for _, value in peers)
        if len(peers) >= _LEAST_PEERS and normal > 0:
            for probe, value in peers:
                ratios.setdefault(ends_of(probe)[0], []).append(value / normal)
    return {end: median(found) for end, found in ratios.items()}


def _lost(fitted: Fitted) -> list[str]:
    """Return probes of nothing that a blamed part explains, or whose way is not known: no host is to blame."""
    samples = fitted.samples
    excused = (samples.gbps == 0) & ((fitted.explained > 0) | samples.drawn)
    return [samples.probe_ids[i] for i in np.flatnonzero(excused).tolist()]


def _verdicts(fitted: Fitted, below: Below, verdicts: Mapping[str, ProbeVerdict]) -> dict[str, ProbeVerdict]:
    """
    Return new verdicts of probes that missed their limit, or that a part slows which is certainly bad.

    The latter FAIL, against what the other pairs reach. A miss that nothing bad explains is INCONCLUSIVE, to be
    measured again: one low sample does not tell who is bad, as every part on its way would explain it, and so would a
    dip of no part.
    """
    samples = fitted.samples
    sure = [blamed.component for blamed in fitted.blamed if blamed.certain]
    by_part = np.isin(fitted.components.paths, sure).any(axis=1) & (fitted.ratio < 1 - fitted.explained / 2)
    by_part &= fitted.explained > 0
    confirmed, odd = below.explained, unexplained(fitted)
    found = dict[str, ProbeVerdict]()
    for i, name in enumerate(samples.probe_ids):
        verdict, value = verdicts[name], float(samples.gbps[i])
        if by_part[i]:
            normal = value / float(fitted.ratio[i])
            found[name] = replace(verdict, expected_gbps=normal)
            if verdict.outcome is not Outcome.FAIL:
                change = f"{fitted.ratio[i] - 1:+.1%} against the {gbps_text(normal)} of other pairs"
                reason, against = f"{gbps_text(value)} Gb/s, {change}", "what other pairs reach"
                found[name] = replace(found[name], outcome=Outcome.FAIL, reason=reason, against=against)
        elif fitted.together[i]:
            found[name] = as_congested(verdict, value / float(fitted.ratio[i]))
        elif verdict.outcome is Outcome.FAIL and verdict.limit_gbps is not None:
            found[name] = verdict
            if not confirmed[i]:
                like = fitted.classes[fitted.of_class[i]]
                why = f"within the noise of {like.noise:.1%} of what such pairs reach"
                if like.gbps * (1 + FAR * like.noise) < verdict.limit_gbps:
                    why = f"no slower than all {like.samples} tests like it, of too few pairs to say what is bad"
                if odd[i] or fitted.explained[i]:
                    why = "no part that is bad for certain explains it"
                limit, again = verdict.limit_gbps, DRAW_AGAIN if samples.drawn[i] else "measure this pair again"
                change = f"{value / limit - 1:+.1%} against the {limit:g} required"
                reason = f"{gbps_text(value)} Gb/s, {change}: {why}; {again}"
                found[name] = replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=reason)
    return found


def _not_crossed(fitted: Fitted) -> list[VerdictLine]:
    """Return a line for uplinks that are in use and that no good pair crossed, in one direction or both."""
    components = fitted.components
    missing = [c for c in not_crossed(fitted) if components.kinds[c] in LINKS]
    if not missing:
        return []
    names = some(list(dict.fromkeys(components.names[c] for c in missing)))
    text = f"{len(missing)} directions of uplinks are not cleared{fitted.samples.where}"
    return [(Outcome.INCONCLUSIVE, f"{text}, for no good pair crossed them: {names}; more rounds are needed")]


def _with_deciding_test(suspect: Suspect, planes: Sequence[Fitted]) -> Suspect:
    """Return the suspect with the test that would tell it from others that explain as much, if there are any."""
    names = {suspect.component, *suspect.ambiguous_with}
    for fitted in planes if suspect.ambiguous_with else ():
        tests = targeted(fitted) if names & {fitted.components.names[b.component] for b in fitted.blamed} else []
        for test in tests[:1]:
            over = f" over {test.via}" if test.via else ""
            text = f"{suspect.next_step}; {test.a} with {test.b}{over} would tell them apart"
            return replace(suspect, next_step=text)
    return suspect
