"""Suspects from what was measured inside hosts and in collectives: the parts that explain it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from math import comb, exp, inf, log, log1p

import numpy as np

from fabric.judge.locate.candidates import Component
from fabric.judge.locate.cells import LOST, cost_of
from fabric.judge.locate.fit import DEAD, SAME_LOSS
from fabric.judge.locate.levels import FIFTH
from fabric.judge.locate.matrix import EXTRA, LEAST_ALIKE, PlacedSample, ProbeSamples, RoundOf
from fabric.judge.locate.pairs.fitted import LEAST_SLOW
from fabric.judge.locate.search import CERTAIN, LEAST_GAIN, MOST_NAMED, MOST_RIVALS, SURE, Search, searched
from fabric.judge.locate.steps import next_step
from fabric.judge.locate.structure import FaultyPart
from fabric.judge.normal.keys import grouped, series_key
from fabric.judge.normal.series import NORMAL
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.probe import Probe, ProbeResult
from fabric.model.text import change_text, fold, gbps_text
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Suspect
from fabric.probes.all_to_all import AllToAllSpec

EQUAL = 0.5
"""Nats within which explanations count as equal."""

_MOST_LINES = 5
_SHARED = (
    "what they share first: firmware, BIOS and PCIe settings (ACS, IOMMU), a power cap, switch configuration, or a "
    "limit that is meant for other hardware"
)


@dataclass(frozen=True, slots=True)
class Located:
    """
    What was located: *suspects*, the surest first, and *explained*, the ids of the bad probes that they explain.

    *normal_gbps*: what is normal for each measured probe that is bad or slow, Gb/s. *low*: the probes whose verdict
    rests on a number below it by more than noise; *far*: below it by so much that no healthy one of them all is.
    *congested*: what is normal for probes that were slow, or lost, because of others on the same cable.
    """

    suspects: tuple[Suspect, ...] = ()
    explained: frozenset[str] = frozenset()
    normal_gbps: Mapping[str, float] = field(default_factory=dict)
    low: frozenset[str] = frozenset()
    far: frozenset[str] = frozenset()
    congested: Mapping[str, float] = field(default_factory=dict)


def locate(
    probes: Sequence[Probe],
    verdicts: Mapping[str, ProbeVerdict],
    results: Mapping[str, ProbeResult],
    *,
    topology: Topology,
    outcome: Outcome,
    written: RoundOf | None = None,
    pairs: bool = False,
    known: AbstractSet[str] = frozenset(),
) -> Located:
    """
    Return the parts that explain the probes whose outcome is *outcome* (FAIL or ERROR); for FAIL also what is slow.

    Measured pairs of hosts are left to ``pairs/``, except that they clear parts where other probes failed; with *pairs*
    they count, too. *known*: parts that pairs named; to say that one of them is faulty costs nothing. Probes that ran
    because one part had dipped say nothing here: most of them go through that part.
    """
    if outcome is not Outcome.FAIL and all(one.outcome is not outcome for one in verdicts.values()):
        return Located()
    made = ProbeSamples(probes, verdicts, results, topology, outcome, written or {}, pairs=pairs)
    if not made.rows:
        return Located(normal_gbps=made.normal_gbps)
    matrix, columns = made.matrix(known)
    search, found = searched(matrix)
    faults = [one for one in found if search.matters(one)]
    report = _FaultReport(made, columns, search, outcome)
    # Pairs come here when they missed a limit and nothing explains it: something is bad, only what is open.
    sure = [one for one in faults if pairs or report.is_sure(one)]
    return Located(
        suspects=(*report.suspects(sure), *report.left_over(sure)),
        explained=report.explained(sure),
        normal_gbps=made.normal_gbps,
        low=made.low(),
        far=made.low(among=made.count),
        congested=report.congested(sure),
    )


class NamedParts:
    """Faulty parts by name, each with its rivals and how sure it is."""

    def __init__(self, columns: Sequence[Component], search: Search) -> None:
        self._columns, self._search = columns, search

    def _others(self, fault: FaultyPart) -> dict[str, float]:
        """Return the gain of each rival by name, without wider and narrower names of the same part."""
        mine, found = self._columns[fault.part], dict[str, float]()
        for part, gain in fault.rivals:
            if not self._is_same(mine, self._columns[part]):
                found.setdefault(shown_name(self._columns[part]), gain)
        return found

    def _is_same(self, mine: Component, other: Component) -> bool:
        return restates(mine, other)

    def _rivals(self, fault: FaultyPart) -> tuple[str, ...]:
        return tuple(self._others(fault))[:MOST_RIVALS]

    def _confidence(self, fault: FaultyPart) -> float:
        """Return the share of the likelihood that a fault has among itself, its rivals and no fault at all."""
        others = sum(exp(gain - fault.gain) for gain in self._others(fault).values())
        return min(SURE, round(1 / (1 + exp(-fault.gain) + others), 2))


class _FaultReport(NamedParts):
    """Faults of a matrix in words."""

    def __init__(self, made: ProbeSamples, columns: Sequence[Component], search: Search, outcome: Outcome) -> None:
        super().__init__(columns, search)
        self._made, self._rows, self._outcome = made, made.rows, outcome
        self._hosts = {host for row in made.rows for host in row.probe.hosts}
        self._verb = "failed" if outcome is Outcome.FAIL else "had errors"

    def is_sure(self, fault: FaultyPart) -> bool:
        """
        Return whether a part is bad, not only possibly so; if a probe measured nothing, little evidence is enough.

        A fault that was slow at one moment only, and well at others, was seen once, however many probes measured it
        then. So was one that a single number shows, however low: a tool may print anything once. Two slow tests of the
        same two hosts may be chance, as with pairs: others' traffic is on the way. Hosts are slow as a whole only if
        half of what was measured of them is.
        """
        bad = [self._rows[i] for i in self._bad(fault)]
        if any(row.value_gbps is None for row in bad):
            return fault.gain >= LEAST_GAIN
        kind, telling = self._named(fault)[0].kind, [self._rows[i] for i in self._telling(fault)]
        slow, measured = ({series_key(row.probe) for row in rows} for rows in (bad, telling))
        if (kind == "pair" and len(bad) < LEAST_SLOW) or (kind == "group" and 2 * len(slow) < len(measured)):
            return False
        at_once = bool(bad) and max(row.result.started_s for row in bad) < min(row.result.ended_s for row in bad)
        return fault.gain >= CERTAIN and not (at_once and (len(bad) == 1 or len(bad) < len(telling)))

    def _telling(self, fault: FaultyPart) -> list[int]:
        """Return the samples that could show a fault: of the classes that show it, in its time."""
        search = self._search
        return sorted({i for one in fault.losses for i in search.during(fault, one.cell).tolist()})

    def _bad(self, fault: FaultyPart) -> list[int]:
        slow = self._search.matrix.slow
        return [i for i in self._telling(fault) if slow[i]]

    def explained(self, faults: Sequence[FaultyPart]) -> frozenset[str]:
        """Return the ids of the bad probes that *faults* explain; repetitions of one series have one verdict."""
        bad = {series_key(self._rows[i].probe) for one in faults for i in self._bad(one)}
        return frozenset(row.probe.probe_id for row in self._rows if series_key(row.probe) in bad)

    def suspects(self, faults: Sequence[FaultyPart]) -> tuple[Suspect, ...]:
        """Return each fault as a suspect; the same trouble of many hosts becomes one."""
        groups = grouped(faults, lambda fault: self._alike(fault, faults)).values()
        return tuple(self._suspect(group[0]) if len(group) == 1 else self._group(group) for group in groups)

    def congested(self, faults: Sequence[FaultyPart]) -> dict[str, float]:
        """Return the probes of series that were slow only beside others on the same cable, with their normal, Gb/s."""
        beside, slow, rows = self._search.congested(faults), self._search.matrix.slow, self._rows
        by_part = {series_key(rows[i].probe) for i in np.flatnonzero(slow & ~beside).tolist()}
        found = {series_key(rows[i].probe) for i in np.flatnonzero(beside).tolist()} - by_part
        level = self._made.level
        return {one.probe.probe_id: float(level[one.of_class]) for one in rows if series_key(one.probe) in found}

    def left_over(self, faults: Sequence[FaultyPart]) -> list[Suspect]:
        """Return suspects for samples of nothing that no fault explains: the host that failed, or all of the probe."""
        explained = {i for one in faults for i in self._telling(one)}
        explained.update(np.flatnonzero(self._search.congested(faults)).tolist())
        left = [row for i, row in enumerate(self._rows) if row.value_gbps is None and i not in explained]
        where = grouped(left, lambda row: (row.result.error_host,) if row.result.error_host else row.probe.hosts)
        return [self._lone(hosts, samples) for hosts, samples in where.items()]

    def _lone(self, hosts: tuple[str, ...], bad: Sequence[PlacedSample]) -> Suspect:
        telling = [row for row in self._rows if set(hosts) <= set(row.probe.hosts)]
        kind = "host" if len(hosts) == 1 else "pair" if len(hosts) == 2 else "group"
        return Suspect(
            component="+".join(hosts) if len(hosts) < 3 else f"{hosts[0]}+{len(hosts) - 1}-more",
            kind=kind,
            outcome=self._outcome,
            confidence=self._confidence_of_lone(kind, len(bad), len(telling)),
            evidence=(
                f"{' or '.join(hosts)}" + (", or what is between them" if len(hosts) > 1 else ""),
                f"{len(bad)} of {len(telling)} probes that could show it {self._verb}",
                *evidence_lines([(row.probe.kind, row.verdict) for row in bad]),
            ),
            next_step=next_step(kind, self._outcome),
            hosts=hosts,
            probes=tuple(row.probe.probe_id for row in bad[:MOST_NAMED]),
        )

    def _confidence_of_lone(self, kind: str, bad: int, tests: int) -> float:
        """
        Return how likely a part is bad that *bad* of *tests* blame and no fault explains.

        A failed test is the fabric's own word: Laplace's rule of succession. An error may be a stray one: the odds are
        those of a bad part, of which any share of errors is as likely, against strays at the rate ``LOST`` (Bayes).
        """
        if self._outcome is Outcome.FAIL:
            return round((bad + 1) / (tests + 2), 2)
        of_part = -float(cost_of(len(self._hosts), EXTRA.get(kind, 0.0))) - log(tests + 1) - log(comb(tests, bad))
        of_strays = bad * log(LOST) + (tests - bad) * log1p(-LOST)
        return min(SURE, round(1 / (1 + exp(of_strays - of_part)), 2))

    def _alike(self, fault: FaultyPart, faults: Sequence[FaultyPart]) -> Hashable:
        """Return a key that is equal for faults of the same part of enough hosts that lose about as much."""
        mine, loss = self._within(fault), fault.loss
        same = [one for one in faults if self._within(one) == mine and abs(one.loss - loss) < SAME_LOSS]
        hosts = len({Part.of(self._columns[one.part].name).host for one in same})
        enough = hosts >= max(LEAST_ALIKE, FIFTH * len(self._hosts)) and self._outcome is Outcome.FAIL
        return (mine, min(one.part for one in same)) if enough and mine is not None else fault.part

    def _within(self, fault: FaultyPart) -> tuple[str, str] | None:
        """Return the kind of a part and its name within its host; None if of no single host, or not measured at all."""
        column = self._columns[fault.part]
        part = Part.of(column.name)
        if column.kind in ("leaf", "group", "pair") or fault.loss > DEAD:
            return None
        return column.kind, part.inside

    def _named(self, fault: FaultyPart) -> tuple[Component, tuple[str, ...]]:
        """
        Return the component that a fault is named by, and its rivals.

        Where several like hosts explain it equally well (they were measured only together), that is what they are
        together.
        """
        mine = self._columns[fault.part]
        if mine.kind == "host" and fault.loss <= DEAD and self._is_of_gpus(fault):
            mine = next((one for one in self._columns if one.name == f"{mine.name}/nvlink"), mine)
        near = [self._columns[part] for part, gain in fault.rivals if gain > fault.gain - EQUAL]
        alike = [one for one in near if one.kind == mine.kind and one.kind == "host"]
        for part, _ in fault.rivals:
            whole = self._columns[part]
            if alike and whole.kind in ("pair", "group"):
                return whole, (mine.name, *(one.name for one in alike)) if whole.kind == "pair" else ()
        return mine, self._rivals(fault)

    def _is_of_gpus(self, fault: FaultyPart) -> bool:
        """Return whether only probes of GPUs with each other show a fault."""
        return {self._rows[i].probe.kind for i in self._bad(fault)} == {AllToAllSpec.kind}

    def _suspect(self, fault: FaultyPart) -> Suspect:
        (column, rivals), bad, telling = self._named(fault), self._bad(fault), self._telling(fault)
        rows, slowest = [self._rows[i] for i in bad], sorted(bad, key=lambda i: float(self._search.matrix.y[i]))
        hosts = _hosts_of(column, [row.probe for row in rows])
        named = next((row.verdict.named for row in rows if row.verdict.named), None)
        alone = all(len(row.probe.hosts) == 1 for row in rows)
        about = "gpu" if column.kind == "host" and self._is_of_gpus(fault) else column.kind
        is_group = column.kind == "group" and not column.name.endswith("-more")
        return Suspect(
            component=fold(hosts) if is_group else column.name,
            kind=column.kind,
            outcome=self._outcome,
            confidence=self._confidence(fault),
            evidence=(
                column.text,
                f"{len(bad)} of {len(telling)} probes that could show it {self._verb}{self._since(fault)}",
                *self._routes(fault),
                *evidence_lines([(row.probe.kind, self._seen(row)) for row in rows]),
            ),
            ambiguous_with=rivals,
            next_step=next_step(about, self._outcome, named.condition if named else None, alone=alone),
            hosts=hosts,
            probes=tuple(self._rows[i].probe.probe_id for i in slowest[:MOST_NAMED]),
        )

    def _seen(self, row: PlacedSample) -> ProbeVerdict:
        """Return the verdict of a sample, with what is normal for it if it missed that and not the limit."""
        verdict = row.verdict
        if verdict.value_gbps is None or self._outcome is not Outcome.FAIL:
            return verdict
        if verdict.limit_gbps is not None and verdict.value_gbps < verdict.limit_gbps:
            return verdict
        return replace(verdict, expected_gbps=float(self._made.level[row.of_class]), against=verdict.against or NORMAL)

    def _since(self, fault: FaultyPart) -> str:
        if fault.since_s == -inf:
            return ""
        until = "" if fault.until_s == inf else f" to {fault.until_s / 3600:.1f} h"
        after = "" if fault.until_s == inf else ", and then it was well again"
        return f", from {fault.since_s / 3600:.1f} h{until} on; before that it was good{after}"

    def _routes(self, fault: FaultyPart) -> list[str]:
        """Return in words whose routes take the faulty thing of a bundle."""
        if fault.ways is None:
            return []
        ends = fold(sorted(self._columns[way].name.partition(":")[0] for way in fault.ways))
        return [f"the routes of {ends} have it in common; those of the other RNICs under the leaf do well"]

    def _group(self, faults: Sequence[FaultyPart]) -> Suspect:
        """
        Return the same part of many hosts, with the same loss, as one suspect: what they share.

        What it is, is as sure as on the host that tells it best; a rival is one on all of them.
        """
        each = sorted(map(self._suspect, faults), key=lambda one: one.component)
        first, hosts = each[0], tuple(Part.of(one.component).host for one in each)
        inside = Part.of(first.component).inside
        rivals = [
            [Part.of(name).inside for name in one.ambiguous_with if Part.of(name).host == Part.of(one.component).host]
            for one in each
        ]
        return replace(
            first,
            component=f"{fold(hosts)}{first.component[len(hosts[0]) :]}",
            kind=first.kind if inside else "group",
            confidence=max(one.confidence for one in each),
            evidence=(
                first.evidence[0],
                f"the same on {len(hosts)} hosts ({fold(hosts)}): a class of hosts, what they share, not each part",
                *first.evidence[1:],
            ),
            ambiguous_with=tuple(
                f"{fold(hosts)}/{name}" for name in rivals[0] if name and all(name in of for of in rivals)
            ),
            next_step=_SHARED,
            hosts=hosts,
            probes=tuple(name for one in each for name in one.probes)[:MOST_NAMED],
        )


def _hosts_of(column: Component, bad: Sequence[Probe]) -> tuple[str, ...]:
    """Return the hosts whose part it is; for what hosts share, and for several hosts, those of the bad probes."""
    every = tuple(sorted({host for probe in bad for host in probe.hosts}))
    own = tuple(one.host for one in Part.of(column.name).members)
    return own if set(own) <= set(every) else every


def shown_name(column: Component) -> str:
    """Return the name as shown; the way to one RNIC over cables above a leaf is shown as these: ``leaf3:uplinks``."""
    leaf, above, _ = column.name.partition(":uplinks")
    return leaf + above


def restates(best: Component, other: Component) -> bool:
    """
    Return whether *other* is another name for the same evidence: a host for its part (or back), a pair for its host.

    An RNIC and its cable are two things to whoever repairs them, and so are a leaf and all cables above it.
    """
    mine, its = Part.of(best.name), Part.of(other.name)
    if {best.kind, other.kind} == {"leaf", "uplinks"}:
        return False
    if other.kind == "pair" or best.name == other.name:
        return True
    if mine.host == its.host and not {"host", "gpus"}.isdisjoint((best.kind, other.kind)):
        return True
    if mine.is_port or its.is_port:
        return False
    return best.name.startswith((f"{other.name}:", f"{other.name}-")) or other.name.startswith(
        (f"{best.name}:", f"{best.name}-")
    )


def evidence_lines(bad: Sequence[tuple[str, ProbeVerdict]]) -> list[str]:
    """
    Return numbers as ranges per kind and limit with the worst probe, and each reason of a tool once with its count.

    *bad* holds (kind, verdict) of each bad probe.
    """
    measured: dict[tuple[str, float, str], list[ProbeVerdict]] = {}
    by_reason: dict[str, list[str]] = {}
    for kind, verdict in bad:
        if verdict.value_gbps is not None and verdict.required_gbps is not None:
            measured.setdefault((kind, verdict.required_gbps, verdict.against), []).append(verdict)
        else:
            by_reason.setdefault(verdict.reason, []).append(verdict.probe_id)
    lines = [_range(*key, group) for key, group in measured.items()]
    lines += [_quote(reason, ids) for reason, ids in sorted(by_reason.items(), key=lambda item: -len(item[1]))]
    rest = len(lines) - _MOST_LINES
    return lines if rest <= 0 else [*lines[:_MOST_LINES], f"and {rest} more lines like these in verdict.json"]


def _range(kind: str, required_gbps: float, against: str, group: Iterable[ProbeVerdict]) -> str:
    values = sorted((verdict.value_gbps or 0.0, verdict.probe_id) for verdict in group)
    (least, worst), most = values[0], values[-1][0]
    numbers = f"{gbps_text(least)}" if least == most else f"{gbps_text(least)} to {gbps_text(most)}"
    share = change_text(least / required_gbps)
    what = f"{against} is {gbps_text(required_gbps)}" if against else f"at least {required_gbps:g} required"
    return f"{len(values)} {kind}: {numbers} Gb/s, {what}; worst {share}: {worst}"


def _quote(reason: str, ids: Sequence[str]) -> str:
    return f"{ids[0]}: {reason}" if len(ids) == 1 else f"{len(ids)} times, first {ids[0]}: {reason}"
