"""What the pair tests of a run say of it: suspects, the probes that they explain, and what stays open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from fabric.judge.locate.candidates import host_side
from fabric.judge.locate.pairs.against_limit import Below, below_limit, only_leaf, whole_suspects
from fabric.judge.locate.pairs.components import LINKS
from fabric.judge.locate.pairs.diagnose import DRAW_AGAIN, LEAST_HOSTS, doubts, merged, rails_of, where_text
from fabric.judge.locate.pairs.findings import of_paths, suspects_of, unexplained
from fabric.judge.locate.pairs.fitted import ALL, Fitted
from fabric.judge.locate.pairs.schedule import RunPlane, fitted_planes, measured_in, run_planes
from fabric.judge.locate.pairs.settle import not_crossed, to_settle
from fabric.judge.locate.pairs.targeted import targeted
from fabric.judge.locate.pairs.uplinks import dead, look_at, not_up, unused
from fabric.judge.locate.structure import Floats
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.text import gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect
from fabric.probes import pairwise

_MOST = 8  # classes in a line


def classes_said(planes: Iterable[tuple[str, Fitted]]) -> tuple[str, ...]:
    """
    The classes with what a good pair of them reaches (Gb/s, the median over rails) and their samples.

    Each plane comes with its name, which says the line rate where a rail has several. Nothing where all is one class.
    """
    found: dict[str, list[tuple[float, int]]] = {}
    for name, fitted in planes:
        counts = np.bincount(fitted.of_class, minlength=len(fitted.classes)).tolist()
        for one, reference, count in zip(fitted.classes, fitted.references, counts, strict=True):
            label = name if one == ALL else f"{name}, {one.name}"
            found.setdefault(label, []).append((reference.gbps, count))
    if len(found) < 2:
        return ()
    said = [
        f"{label} {gbps_text(median(gbps for gbps, _ in levels))} Gb/s ({sum(count for _, count in levels)} samples)"
        for label, levels in found.items()
    ]
    more = f"; and {len(said) - _MOST} more" if len(said) > _MOST else ""
    return (f"{len(said)} classes, each compared with itself alone: {'; '.join(said[:_MOST])}{more}",)


_LEAST_PEERS = 4  # loopbacks of one link class that say what is normal; a choice


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
        """Whether a part of this very host's side was found bad inside the host."""
        if suspect.kind == "host" and len(suspect.hosts) == 1:
            host = suspect.hosts[0]
            return any(Part.of(name).host == host for name in self._named)
        end = _end(suspect)
        return end is not None and any(part.name in self._named for part in host_side(*end, self._topology))

    def refined(self, suspect: Suspect, loss: float) -> Suspect:
        """
        A host's side whose loopback is as fast as others': what is left is the port, the cable or the leaf port.

        *loss* is what pairs lose on it, 0 where that is not known: a loopback tells only if it would show half of it.
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
    """Host and device of a suspect that is one host's side on one rail."""
    part = Part.of(suspect.component)
    return part.place if part.item and suspect.kind == "rnic" else None


def _loopback_ratios(
    probes: Sequence[Probe], results: Mapping[str, ProbeResult], topology: Topology
) -> dict[tuple[str, str], float]:
    """By host and RNIC: the median of its loopbacks, each over the median of its link class on hosts of its make."""
    by_class: dict[tuple[object, ...], list[tuple[tuple[str, str], float]]] = {}
    for probe in probes:
        result = results.get(probe.probe_id)
        if probe.kind != "loopback" or result is None or result.outcome is not None or not result.measurements:
            continue
        host = probe.hosts[0]
        platform = topology.hosts[host].platform.name
        key = (platform, probe.params["link_class"], probe.params["size_bytes"])
        end = (host, str(probe.params["rnic"]))
        by_class.setdefault(key, []).append((end, result.measurements[0].value))
    ratios: dict[tuple[str, str], list[float]] = {}
    for measured in by_class.values():
        normal = median(value for _, value in measured)
        if len(measured) >= _LEAST_PEERS and normal > 0:
            for end, value in measured:
                ratios.setdefault(end, []).append(value / normal)
    return {end: median(found) for end, found in ratios.items()}


_MOST_PROBES, _NAMES_MOST = 20, 6
_BLIND = (
    "which uplinks and spine a pair crossed is not known (adaptive routing or ECMP, or the tables were not read): "
    "they are not in the model, only all uplinks of a leaf together"
)


@dataclass(frozen=True, slots=True)
class PairFindings:
    """
    *suspects* are FAIL, or INCONCLUSIVE where a cable is not up and no pair shows it. *verdicts* replace those of
    probes that they explain, or that were measured too little. *open* is what else was found, with what it does to the
    outcome of the run; *notes* do nothing to it. *lost*: probes without a number that are judged here alone.
    """

    suspects: tuple[Suspect, ...]
    verdicts: Mapping[str, ProbeVerdict]
    open: tuple[tuple[Outcome, str], ...]
    notes: tuple[str, ...]
    lost: frozenset[str] = frozenset()

    @property
    def lines(self) -> tuple[str, ...]:
        """What is open and the notes, as reasons of a verdict."""
        said = (f"{outcome.name}: pairs: {text}" for outcome, text in self.open)
        return (*said, *(f"note: pairs: {note}" for note in self.notes))


@dataclass(frozen=True)
class _Decoded:
    """One plane with what its samples say; *kind* as it is called in evidence."""

    run: RunPlane
    kind: str
    fitted: Fitted


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

    *inside* are the suspects of probes that stay within a host: a part of a host that they name explains what pairs
    say of this host's side.
    """
    phases = dict.fromkeys(probe.phase for probe in probes if probe.kind == pairwise.KIND)
    planes = [one for phase in phases for one in _decoded(phase, probes, results, topology)]
    if not planes:
        return PairFindings((), {}, (), ())
    enough = [one for one in planes if len(one.fitted.samples.hosts) >= LEAST_HOSTS]
    wheres = {id(one): where_text(one.kind, one.fitted.samples) for one in enough}
    found = [suspect for one in enough for suspect in suspects_of(one.fitted, wheres[id(one)], one.run.probe_ids)]
    losses = _losses(enough)
    within = Inside(inside, probes, results, topology)
    suspects = [
        _placed(within.refined(suspect, losses.get(suspect.component, 0.0)), enough)
        for suspect in merged(found, rails_of([(one.kind, one.fitted) for one in enough]))
        if not within.explains(suspect)
    ]
    below = [_below(one, wheres[id(one)], verdicts, topology) for one in enough]
    better = [one.fitted.samples.hosts for one, low in zip(enough, below, strict=True) if low.classes is None]
    suspects += whole_suspects([low.classes for low in below if low.classes is not None], better)
    suspects += [suspect for low in below for suspect in low.hosts]
    unsure = [one.component for one in suspects if one.outcome is not Outcome.FAIL]
    open_ = [(Outcome.INCONCLUSIVE, f"{name} may be bad: more samples are needed") for name in unsure]
    for one in enough:
        open_ += doubts(one.fitted, wheres[id(one)], _floor(one), planes=len(enough))
        open_ += _not_crossed(one, wheres[id(one)])
    seen = [measured_in(phase, probes, results) for phase in phases]
    down = sorted({text for one in seen for text in not_up(one, topology)})
    open_ += [(Outcome.INCONCLUSIVE, text) for text in down]
    suspects += {suspect.component: suspect for one in seen for suspect in dead(one, topology)}.values()
    blind = any(one.fitted.samples.crosses.any() and not one.fitted.samples.spines for one in enough)
    return PairFindings(
        suspects=tuple(suspects),
        verdicts={
            name: verdict
            for one, low in zip(enough, below, strict=True)
            for name, verdict in (_unblamed(one, low, verdicts) | _explained(one, verdicts)).items()
        },
        open=tuple(dict.fromkeys(open_)),
        notes=(
            *classes_said((one.kind, one.fitted) for one in enough),
            *([_BLIND, *look_at([one.run for one in enough], topology)] if blind else []),
            *(() if down else unused([one.run for one in enough], topology)),
        ),
        lost=frozenset(name for one in enough for name in _lost(one)),
    )


def _lost(one: _Decoded) -> list[str]:
    """Probes that measured nothing and that a blamed part explains, or whose way is not known: no host is to blame."""
    samples = one.fitted.samples
    told = (samples.gbps == 0) & ((one.fitted.decoded.explained > 0) | samples.drawn)
    return [one.run.probe_ids[i] for i in np.flatnonzero(told).tolist()]


def _limits(one: _Decoded, verdicts: Mapping[str, ProbeVerdict]) -> Floats:
    """The limit of each sample, NaN where it has none."""
    judged = [verdicts[name] for name in one.run.probe_ids]
    return np.array([np.nan if v.limit_gbps is None or v.against else v.limit_gbps for v in judged], dtype=np.float64)


def _below(one: _Decoded, where: str, verdicts: Mapping[str, ProbeVerdict], topology: Topology) -> Below:
    leaf = only_leaf(one.fitted.samples.hosts, one.run.plane.rail, topology)
    return below_limit(one.fitted, _limits(one, verdicts), where, leaf=leaf, probe_ids=one.run.probe_ids)


def _unblamed(one: _Decoded, below: Below, verdicts: Mapping[str, ProbeVerdict]) -> dict[str, ProbeVerdict]:
    """
    The probes that missed their limit: INCONCLUSIVE where nothing bad explains them, to be measured again.

    One low sample says nothing of who is bad: every part on its way would explain it, and so would a dip of nobody.
    """
    fitted, samples = one.fitted, one.fitted.samples
    told = of_paths(fitted)
    told |= np.isin(fitted.of_class, below.classes.classes if below.classes else ())
    hosts = {host for suspect in below.hosts for host in suspect.hosts}
    odd, found = unexplained(fitted), dict[str, ProbeVerdict]()
    for i, name in enumerate(one.run.probe_ids):
        verdict = verdicts[name]
        if verdict.outcome is not Outcome.FAIL or verdict.limit_gbps is None:
            continue
        found[name] = verdict
        if told[i] or hosts & {samples.hosts[samples.a[i]], samples.hosts[samples.b[i]]}:
            continue
        value, limit = float(samples.gbps[i]), verdict.limit_gbps
        noise = fitted.references[fitted.of_class[i]].noise
        why = "no part that is bad for certain explains it" if odd[i] or fitted.decoded.explained[i] else (
            f"within the noise of {noise:.1%} of what such pairs reach"
        )  # fmt: skip
        reason = f"{gbps_text(value)} Gb/s, {value / limit - 1:+.1%} against the {limit:g} required: {why}; "
        again = DRAW_AGAIN if samples.drawn[i] else "measure this pair again"
        found[name] = replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=f"{reason}{again}")
    return found


def _not_crossed(one: _Decoded, where: str) -> list[tuple[Outcome, str]]:
    """Uplinks that are in use and that no good pair crossed, in one direction or both."""
    components = one.fitted.components
    missing = [c for c in not_crossed(one.fitted) if components.kinds[c] in LINKS]
    if not missing:
        return []
    names = list(dict.fromkeys(components.names[c] for c in missing))
    more = f" and {len(names) - _NAMES_MOST} more" if len(names) > _NAMES_MOST else ""
    text = f"{len(missing)} directions of uplinks are not cleared{where}, for no good pair crossed them: "
    return [(Outcome.INCONCLUSIVE, f"{text}{', '.join(names[:_NAMES_MOST])}{more}; more rounds are needed")]


def _floor(one: _Decoded) -> float:
    return one.run.state.floor


def _decoded(
    phase: str, probes: Sequence[Probe], results: Mapping[str, ProbeResult], topology: Topology
) -> list[_Decoded]:
    planes = run_planes(phase, measured_in(phase, probes, results), topology)
    rates = {(one.name, one.plane.rail): set[float]() for one in planes}
    for one in planes:
        rates[one.name, one.plane.rail].add(one.plane.line_rate_gbps)
    return [
        _Decoded(
            one,
            f"{one.name} {one.plane.line_rate_gbps:g}G" if len(rates[one.name, one.plane.rail]) > 1 else one.name,
            fitted,
        )
        for one, fitted in zip(planes, fitted_planes(planes), strict=True)
        if fitted is not None
    ]


def _losses(planes: Sequence[_Decoded]) -> dict[str, float]:
    """By blamed component: the share of bandwidth that it costs."""
    return {
        one.fitted.components.names[blamed.component]: blamed.loss
        for one in planes
        for blamed in one.fitted.decoded.blamed
    }


def _placed(suspect: Suspect, planes: Sequence[_Decoded]) -> Suspect:
    """With no more probes than are shown, and where others explain as much, the test that would tell them apart."""
    suspect = replace(suspect, probes=suspect.probes[:_MOST_PROBES])
    if not suspect.ambiguous_with:
        return suspect
    names = {suspect.component, *suspect.ambiguous_with}
    for one in planes:
        blamed = {one.fitted.components.names[b.component] for b in one.fitted.decoded.blamed}
        if not names & blamed or not to_settle(one.fitted):
            continue
        for test in targeted(one.fitted):
            over = f" over {test.via}" if test.via else ""
            text = f"{suspect.next_step}; {test.a} with {test.b}{over} would tell them apart"
            return replace(suspect, next_step=text)
    return suspect


def _explained(one: _Decoded, verdicts: Mapping[str, ProbeVerdict]) -> dict[str, ProbeVerdict]:
    """Probes that are slow because of a part that is certainly bad: FAIL, against what the other pairs reach."""
    fitted = one.fitted
    sure = {blamed.component for blamed in fitted.decoded.blamed if blamed.gain >= 6.0}
    if not sure:
        return {}
    found = {}
    for i in np.flatnonzero(fitted.decoded.explained > 0).tolist():
        if not sure.intersection(fitted.components.paths[i].tolist()):
            continue
        ratio = float(fitted.ratio[i])
        if ratio >= 1 - float(fitted.decoded.explained[i]) / 2:
            continue
        name = one.run.probe_ids[i]
        value = float(fitted.samples.gbps[i])
        normal = value / ratio
        reason = f"{gbps_text(value)} Gb/s, {ratio - 1:+.1%} against the {gbps_text(normal)} of other pairs"
        before = verdicts[name]
        found[name] = replace(
            before,
            outcome=Outcome.FAIL,
            reason=before.reason if before.outcome is Outcome.FAIL else reason,
            expected_gbps=normal,
            against=before.against if before.outcome is Outcome.FAIL else "what other pairs reach",
        )
    return found
