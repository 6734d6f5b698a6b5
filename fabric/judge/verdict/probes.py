"""Judge each probe against its limit and its recorded baseline: the worse counts, and neither is no PASS.

- The absolute limit, with a source: a number below it is a FAIL. Only this finds a rack that is slow as a whole. A
  limit that asks for more than the line carries is for other hardware, and judges nothing (``model/verdict.py``).
- What good runs recorded for the key (``normal/baseline.py``), if the baseline holds it.

Then the other probes of the run are weighed (``confirmed``). A low number that a faulty part explains is a FAIL. A
number below its limit that is as good as its peers within their noise is MARGINAL. A low number that nothing explains,
seen once, must be measured again before a part is blamed: it is INCONCLUSIVE below the limit, MARGINAL above it.

Without a limit and a record a number is never PASS. Repetitions of one series are judged by their median; samples that
lie far apart are MARGINAL at least, whatever the median. Two samples have no meaningful median: if they lie far apart
and one meets the limit, the series is INCONCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from fabric.judge.normal.baseline import against_recorded, key_text, required
from fabric.judge.normal.interval import LEAST_SAMPLES
from fabric.judge.normal.keys import ProbeLayouts, floor_of, key_of, series_key
from fabric.judge.normal.kinds import accusing_nobody, congestion_verdicts, latency_verdicts
from fabric.judge.normal.series import NORMAL, ProbeSeries, series_of, steadiness
from fabric.model.outcome import Outcome
from fabric.model.probe import SHARE, Probe, ProbeResult, Results
from fabric.model.recorded import Key, Recorded
from fabric.model.scenario import JudgeSettings
from fabric.model.text import change_text, gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import Baseline, ProbeVerdict, Recurrence, Verdicts, most_specific
from fabric.probes import pairwise

if TYPE_CHECKING:
    from fabric.judge.locate.matrix import RoundOf
    from fabric.judge.locate.suspects import Located


class Judge:
    """A judge of the probes of one run, with the limits and records of its baselines."""

    def __init__(self, baselines: Mapping[str, Baseline], settings: JudgeSettings, topology: Topology) -> None:
        self.topology, self._settings, self._baselines = topology, settings, baselines
        self._required: dict[Hashable, tuple[float | None, str]] = {}  # within one call of ``judge``
        self._recorded: dict[str, Mapping[Key, Recorded]] = {
            name: {entry.key: entry for entry in one.recorded} for name, one in baselines.items() if one.recorded
        }
        self._asked: list[tuple[Probe, ProbeResult]] = []
        self._answer: tuple[Verdicts, Located] | None = None

    def judge(self, pairs: Iterable[tuple[Probe, ProbeResult]]) -> list[ProbeVerdict]:
        """Return one verdict per probe; *pairs* are a whole phase or run, because they are each other's peers."""
        listed = list(pairs)
        self._required.clear()
        series, belongs = series_of(listed, ProbeLayouts(self.topology))
        judged = {one: self._judged(one) for one in series}
        verdicts = [
            _unmeasured(probe, result) if one is None else _of_probe(judged[one], probe)
            for (probe, result), one in zip(listed, belongs, strict=True)
        ]
        own = latency_verdicts(listed, self.topology) | congestion_verdicts(listed, self.topology)
        return [own.get(verdict.probe_id, verdict) for verdict in verdicts] if own else verdicts

    def confirmed(self, probes: Sequence[Probe], results: Results) -> tuple[Verdicts, Located]:
        """
        Return the verdicts by probe id, each in the light of the other probes, and the parts that explain bad probes.

        The last answer is cached: at the end of a phase the follow-ups and the gate ask the same question.
        """
        pairs = [(probe, results[probe.probe_id]) for probe in probes]
        if self._answer is None or self._asked != pairs:
            verdicts = {one.probe_id: one for one in self.judge(pairs)}
            alone = accusing_nobody(probes, results)
            telling = [probe for probe in probes if probe.probe_id not in alone]
            found, located = confirmed(telling, verdicts, results, topology=self.topology)
            self._asked, self._answer = pairs, ({**verdicts, **found}, located)
        return self._answer

    def _judged(self, one: ProbeSeries) -> ProbeVerdict:
        verdict = self._against_record(self._against_limit(one), one)
        return _steadied(verdict, one) if len(one.values) > 1 else verdict

    def _baseline_of(self, probe: Probe) -> str:
        """Return the name of the baseline that judges a probe: the override, or that of its first host's platform."""
        return self._settings.baseline or self.topology.hosts[probe.hosts[0]].platform.baseline

    def _required_of(self, one: ProbeSeries) -> tuple[float | None, str]:
        """
        Return what a probe must reach at its message size, Gb/s; None, and why, if no limit can judge it.

        The answer is cached: it is the same for all probes that are alike on hosts of the same platforms.
        """
        probe = one.probe
        key: Hashable = one.layout  # hosts of one platform share it
        if len(probe.hosts) > 1:
            makes = [id(self.topology.hosts[name].platform) for name in probe.hosts]
            key = one.layout.alike, probe.params.get(SHARE), *makes
        known = self._required.get(key)
        if known is None:
            limit = most_specific(self._baselines[self._baseline_of(probe)].limits, _asked(one))
            known = self._required[key] = (None, "") if limit is None else required(limit, probe, self.topology)
        return known

    def _against_limit(self, one: ProbeSeries) -> ProbeVerdict:
        probe, value, size_bytes = one.probe, one.value, one.layout.size_bytes
        least, unfit = self._required_of(one)
        if least is None:
            why = f": {unfit}" if unfit else ""
            missing = f"no baseline for {key_text(probe, size_bytes)}{why}"
            reason = f"{gbps_text(value)} Gb/s, {missing}"
            return ProbeVerdict(probe.probe_id, Outcome.INCONCLUSIVE, reason, value, missing=missing)
        if value < least:
            reason = f"{gbps_text(value)} Gb/s, at least {least:g} required ({change_text(value / least)})"
            return ProbeVerdict(probe.probe_id, Outcome.FAIL, reason, value, least)
        if value < least * (1 + self._settings.marginal):
            reason = f"{gbps_text(value)} Gb/s, just above the {least:g} required"
            return ProbeVerdict(probe.probe_id, Outcome.MARGINAL, reason, value, least)
        return ProbeVerdict(probe.probe_id, Outcome.PASS, "", value, least)

    def _against_record(self, verdict: ProbeVerdict, one: ProbeSeries) -> ProbeVerdict:
        """
        Combine the verdict of the limit with the comparison to what good runs recorded.

        A FAIL of the limit stays. A series slower than the record is MARGINAL until confirmed, or stays INCONCLUSIVE
        if it has no limit. Without a limit, the record alone can PASS it. With a limit, too few samples to compare
        leave its verdict as it is; enough samples that still cannot tell turn a PASS into MARGINAL.
        """
        known = self._recorded.get(self._baseline_of(one.probe)) if self._recorded else None
        recorded = known.get(key_of(one.probe, one.layout.size_bytes, self.topology)) if known else None
        if recorded is None or verdict.outcome is Outcome.FAIL:
            return verdict
        found = against_recorded(one.values, recorded)
        if found.outcome is Outcome.FAIL:
            normal_gbps, against = recorded.median_gbps, f"the recorded median of {recorded.n} samples"
            return replace(
                verdict,
                outcome=Outcome.worst((verdict.outcome, Outcome.MARGINAL)),
                reason=_below(one.value, normal_gbps, against),
                expected_gbps=normal_gbps,
                against=against,
                recurrence=Recurrence.SEEN_ONCE,
            )
        reason = f"{gbps_text(one.value)} Gb/s, {found.reason}"
        passes = found.outcome is Outcome.PASS
        if verdict.limit_gbps is None and passes:
            return replace(verdict, outcome=Outcome.PASS, reason="")
        if verdict.limit_gbps is None:
            return replace(verdict, reason=reason, missing=found.reason)
        if passes or len(one.values) < LEAST_SAMPLES or verdict.outcome is not Outcome.PASS:
            return verdict
        return replace(verdict, outcome=Outcome.MARGINAL, reason=reason)


def _asked(one: ProbeSeries) -> tuple[str, object, object, object, object]:
    """Return the fields by which a limit says what it is for: kind, link class, size, ranks and algorithm."""
    get = one.probe.params.get
    return one.probe.kind, get("link_class"), one.layout.size_bytes, get("ranks"), get("algorithm")


def _steadied(verdict: ProbeVerdict, one: ProbeSeries) -> ProbeVerdict:
    """
    Add to a verdict how far its repetitions lie apart.

    Two samples far apart, one on either side of the limit, are INCONCLUSIVE: nobody knows which is right. An unsteady
    series is MARGINAL, not PASS; one without a limit stays INCONCLUSIVE, which is worse.
    """
    if verdict.outcome is Outcome.INCONCLUSIVE:
        return verdict
    spread = steadiness(one.values, floor=floor_of(one.probe.kind), noise=one.noise)
    least_gbps = verdict.limit_gbps or 0.0
    if verdict.outcome is Outcome.FAIL and spread.two_far_apart and max(one.values) >= least_gbps:
        text = f"unstable: {spread.text}, {max(one.values):.1f} meets the {least_gbps:g} required"
        return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=f"{text}: too few to tell, measure it again")
    if verdict.outcome.is_good and spread.unstable and not verdict.against:
        before = f"; {verdict.reason}" if verdict.reason else ""
        return replace(verdict, outcome=Outcome.MARGINAL, reason=f"unstable: {spread.text}{before}")
    return verdict if verdict.outcome is Outcome.PASS else replace(verdict, reason=f"{verdict.reason} ({spread.text})")


def _below(value_gbps: float, normal_gbps: float, against: str) -> str:
    loss = value_gbps / normal_gbps - 1
    return f"{gbps_text(value_gbps)} Gb/s, {loss:+.1%} against {against}, {gbps_text(normal_gbps)}"


def _unmeasured(probe: Probe, result: ProbeResult) -> ProbeVerdict:
    outcome = result.outcome or Outcome.INCONCLUSIVE
    reason = result.reason if result.outcome else "nothing was measured"
    ran = result.outcome is None or result.attempt > 0
    return ProbeVerdict(probe.probe_id, outcome, reason, named=result.named, ran=ran, failure=result.failure)


def _of_probe(verdict: ProbeVerdict, probe: Probe) -> ProbeVerdict:
    """Return the verdict of the series of *probe*, under the id of *probe*."""
    return verdict if verdict.probe_id == probe.probe_id else replace(verdict, probe_id=probe.probe_id)


def confirmed(
    probes: Sequence[Probe],
    verdicts: Verdicts,
    results: Results,
    *,
    topology: Topology,
    written: RoundOf | None = None,
    known: AbstractSet[str] = frozenset(),
) -> tuple[dict[str, ProbeVerdict], Located]:
    """Return the confirmed verdicts by probe id, and the faulty parts that explain them; *known*: already named."""
    from fabric.judge.locate.suspects import locate  # loads numpy: only if something was measured

    verdicts = measured_again(probes, verdicts, results)
    found = locate(probes, verdicts, results, topology=topology, outcome=Outcome.FAIL, written=written, known=known)
    pairs = {probe.probe_id for probe in probes if probe.kind == pairwise.KIND}  # judged elsewhere, plane by plane
    return as_confirmed(verdicts, found, but=pairs), found


def as_confirmed(verdicts: Verdicts, found: Located, *, but: AbstractSet[str] = frozenset()) -> dict[str, ProbeVerdict]:
    """Return the verdicts, changed for each probe of which *found* knows the normal bandwidth; *but* stay as is."""
    from fabric.judge.locate.concurrency import as_congested

    anew = {name: as_congested(verdicts[name], gbps) for name, gbps in found.congested.items() if name in verdicts}
    anew |= {
        name: _confirmed(verdicts[name], normal_gbps, found)
        for name, normal_gbps in found.normal_gbps.items()
        if name in verdicts and name not in found.congested
    }
    return {**verdicts, **{name: one for name, one in anew.items() if name not in but}}


def measured_again(probes: Sequence[Probe], verdicts: Verdicts, results: Results) -> dict[str, ProbeVerdict]:
    """Turn an ERROR into MARGINAL if the probe was measured when it was run again; the reason says so."""
    found = dict(verdicts)
    errors = [probe for probe in probes if verdicts[probe.probe_id].outcome is Outcome.ERROR]
    if not errors:
        return found
    measured_s = {series_key(probe): -inf for probe in errors}  # when the last good run of a series began
    for probe in probes:
        key = series_key(probe)
        if key in measured_s and verdicts[probe.probe_id].value_gbps is not None:
            measured_s[key] = max(measured_s[key], results[probe.probe_id].started_s)
    for probe in errors:
        verdict = verdicts[probe.probe_id]
        if verdict.ran and results[probe.probe_id].started_s < measured_s[series_key(probe)]:
            reason = f"{verdict.reason}; measured when it was run again"
            found[probe.probe_id] = replace(verdict, outcome=Outcome.MARGINAL, reason=reason, named=None)
    return found


def _confirmed(verdict: ProbeVerdict, normal_gbps: float, found: Located) -> ProbeVerdict:
    value, far, fails = verdict.value_gbps or 0.0, verdict.probe_id in found.far, verdict.outcome is Outcome.FAIL
    below = _below(value, normal_gbps, NORMAL)
    anew = replace(verdict, expected_gbps=normal_gbps)
    if verdict.probe_id in found.explained and verdict.probe_id in found.low:
        if fails:
            return replace(verdict, expected_gbps=verdict.expected_gbps or normal_gbps)
        if verdict.against:
            return replace(verdict, outcome=Outcome.FAIL, recurrence=Recurrence.CONFIRMED)
        return replace(anew, outcome=Outcome.FAIL, reason=below, against=NORMAL, recurrence=Recurrence.CONFIRMED)
    if verdict.against:
        return verdict  # judged by its own samples against the record, which is more than one number
    if fails and far:
        return replace(anew, outcome=Outcome.INCONCLUSIVE, recurrence=Recurrence.SEEN_ONCE)
    if fails:
        reason = f"{verdict.reason}, which is within the noise of its like"
        return replace(anew, outcome=Outcome.MARGINAL, reason=reason)
    if far and verdict.outcome.is_good:
        return replace(anew, outcome=Outcome.MARGINAL, reason=below, against=NORMAL, recurrence=Recurrence.SEEN_ONCE)
    return verdict
