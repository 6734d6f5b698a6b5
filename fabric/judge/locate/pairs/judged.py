"""What decoded planes say together: the suspects, and what else keeps a fabric from being clean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from fabric.judge.locate.description import beyond_chance
from fabric.judge.locate.pairs.against_limit import (
    Below,
    LowPairs,
    as_a_whole,
    below_limit,
    low_pairs,
    single_low_lines,
)
from fabric.judge.locate.pairs.findings import good_again, possible, some, suspects_of, unexplained
from fabric.judge.locate.pairs.fitted import Fitted
from fabric.judge.locate.search import CHANCE, MOST_NAMED
from fabric.judge.locate.structure import Bools, Ints
from fabric.judge.normal.keys import grouped
from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.part import Part
from fabric.model.text import fold
from fabric.model.verdict import Suspect

LEAST_HOSTS = 4
"""The fewest hosts that have peers to be compared with: among fewer only a limit can judge."""

DIPS = 0.01
"""Share of single slow samples that is normal (transient dips); more is a trouble that was not localised."""

DRAW_AGAIN = "measure more rounds: each draws other ways"
"""What to do about samples over ways that are not known."""

_EVIDENCE_MOST = 8
_LEAST_RAILS = 2

VerdictLine = tuple[Outcome, str]
"""A line of the verdict, and its effect on the outcome."""


@dataclass(frozen=True, slots=True)
class _Open:
    """
    What keeps a plane from being clean: *odd* of its samples, or with 0 some of its hosts.

    The kind of test and the *rail* stand between *before* and *after* in the line.
    """

    outcome: Outcome
    before: str
    after: str
    kind: str
    rail: str
    odd: int = 0


@dataclass(frozen=True)
class Judged:
    """
    What planes say together: *suspects* of all planes; *open*, what else was found; *below* its limits, by plane.

    *pairs*, by plane: pairs below the limit, if no sample was judged by its limit before.
    """

    suspects: tuple[Suspect, ...]
    open: tuple[VerdictLine, ...]
    below: tuple[Below, ...]
    pairs: tuple[LowPairs, ...]


def judged(
    planes: Sequence[Fitted], *, limit_alone: bool, more: Sequence[Suspect] = (), phases: Sequence[str] | None = None
) -> Judged:
    """
    Return the suspects of every plane: bad parts, pairs that are always slow, and what is below the limit.

    *phases* are those in which the planes were measured: only what was good in the same one shows that hosts are well.

    *limit_alone*: no sample was judged by its limit before, so one pair below it is a suspect at once. *more*: suspects
    that are known already.
    """
    below = tuple(below_limit(one) for one in planes)
    both = list(zip(planes, below, strict=True))
    of_phases = ["" for _ in planes] if phases is None else phases
    meanwhile = gathered(zip(of_phases, both, strict=True))
    suspects, lines, pairs, open_ = list[Suspect](), list[VerdictLine](), list[LowPairs](), list[_Open]()
    for phase, (one, low) in zip(of_phases, both, strict=True):
        well = [other.samples.hosts for other, its in meanwhile[phase] if not its.classes]
        leaves = {other.samples.only_leaf for other, its in meanwhile[phase] if its.classes}
        compared = len(one.samples.hosts) >= LEAST_HOSTS
        found = suspects_of(one) if compared else []
        found += [as_a_whole(one, low, well, one_leaf=len(leaves) == 1)] if low.classes else []
        found += low.hosts
        reported: Bools = np.zeros(len(one.ratio), dtype=np.bool_)
        if limit_alone:
            single = low_pairs(one, found, named_parts=compared)
            pairs.append(single)
            found += single.suspects
            lines += [(Outcome.INCONCLUSIVE, text) for text in low.near] + single_low_lines(one, single.once)
            reported = single.low
        if compared:
            shared = shared_parts(one, slow_alone(one), len(planes))
            found += [possible(component, samples, one) for component, samples in shared.items()]
            open_ += _open(one, shared.values(), reported)
        suspects += found
    lines += _once_for_all(open_, planes)
    return Judged(tuple(merged([*suspects, *more], rails_of(planes))), tuple(lines), below, tuple(pairs))


def rails_of(planes: Sequence[Fitted]) -> dict[str, int]:
    """Return on how many rails each host was measured."""
    of_rails = (one.samples for one in planes if one.samples.rail is not None)
    rails = gathered((host, samples.rail) for samples in of_rails for host in samples.hosts)
    return {host: len(set(found)) for host, found in rails.items()}


def merged(suspects: Sequence[Suspect], rails: Mapping[str, int]) -> list[Suspect]:
    """
    Name the same part once, and a host of which every measured rail is bad (two at least) for all of them.

    FAIL comes first, then higher confidence; equal ones stay in order, the most evident of a plane first. *rails* says
    on how many rails each host was measured.
    """
    by_name: dict[str, Suspect] = {}
    for suspect in suspects:
        known = by_name.get(suspect.component)
        by_name[suspect.component] = suspect if known is None else _joined(known, suspect)
    of_rnics = [suspect for suspect in by_name.values() if suspect.kind == "rnic"]
    for host, parts in grouped(of_rnics, lambda suspect: suspect.hosts[0]).items():
        if len({Part.of(part.component).both_ways for part in parts}) >= max(rails.get(host, 0), _LEAST_RAILS):
            others = {name: one for name, one in by_name.items() if one not in parts}
            by_name = {host: _host(host, parts), **others}
    return sorted(by_name.values(), key=lambda one: (one.outcome is not Outcome.FAIL, -one.confidence))


def _joined(first: Suspect, second: Suspect) -> Suspect:
    """Join the same part of two kinds of test: the surer verdict, the evidence of both, only rivals that both allow."""
    surer, other = (first, second) if first.confidence >= second.confidence else (second, first)
    rivals = tuple(name for name in surer.ambiguous_with if name in other.ambiguous_with or not other.ambiguous_with)
    return replace(
        surer,
        outcome=Outcome.worst((first.outcome, second.outcome)),
        ambiguous_with=rivals,
        evidence=tuple(dict.fromkeys((*surer.evidence, *other.evidence)))[:_EVIDENCE_MOST],
        probes=(*first.probes, *second.probes)[:MOST_NAMED],
    )


def _host(host: str, parts: Sequence[Suspect]) -> Suspect:
    names = ", ".join(sorted(part.component.split("/")[-1] for part in parts))
    return Suspect(
        component=host,
        kind="host",
        outcome=Outcome.worst(part.outcome for part in parts),
        confidence=max(part.confidence for part in parts),
        evidence=(f"all measured rails of the host are slow: {names}", *parts[0].evidence[1:])[:_EVIDENCE_MOST],
        next_step="what all rails share first: power, BIOS, PCIe settings, firmware; then loopback on each RNIC",
        hosts=(host,),
        probes=tuple(name for part in parts for name in part.probes)[:MOST_NAMED],
    )


def _once_for_all(every: Iterable[_Open], planes: Sequence[Fitted]) -> list[VerdictLine]:
    """Return a line for what is open, with the rails of all planes in which it is the same, and all their samples."""
    lines, samples = list[VerdictLine](), Counter[tuple[str, str]]()
    for plane in planes:
        samples[plane.samples.kind, plane.samples.rail or ""] += len(plane.samples.a)
    for alike in grouped(every, lambda one: (one.outcome, one.before, one.after, one.kind)).values():
        first, odd = alike[0], sum(one.odd for one in alike)
        count = sum(samples[of] for of in dict.fromkeys((one.kind, one.rail) for one in alike))
        rails = dict.fromkeys(one.rail for one in alike if one.rail)
        where = ", ".join(word for word in (first.kind, fold(rails) if rails else "") if word)
        text = f"{first.before} ({where}){first.after}" if where else f"{first.before}{first.after}"
        lines.append((first.outcome, f"{odd} of {count} samples {text}" if odd else text))
    return lines


def _open(fitted: Fitted, shared: Iterable[Ints], reported: Bools) -> list[_Open]:
    """Return what keeps a plane from being clean besides suspects and samples that *shared* parts or are *reported*."""
    samples, count, slow = fitted.samples, len(fitted.samples.a), slow_alone(fitted)
    for mine in shared:
        slow[mine] = False
    single = slow & ~reported
    odd, lost = int(single.sum()), int((single & (samples.gbps == 0)).sum())
    drawn = bool(odd and samples.drawn[single].all())
    again = DRAW_AGAIN if drawn else "test again"
    outcome, number = Outcome.INCONCLUSIVE, lost or odd
    if lost:
        before, after = "were lost and no part explains them", f": {again}"
    elif odd > 2 * max(DIPS * count, 1):
        before, after = "are slow and no part explains them", ": detected, not localised"
        after += f"; {again}" if drawn else ""
    elif odd:
        again = "good when measured again" if good_again(fitted, single).sum() == odd else again
        outcome, before, after = Outcome.MARGINAL, "are slow once", f": transient, {again}"
    else:
        return _not_cleared(fitted)
    return [_Open(outcome, before, after, samples.kind, samples.rail or "", number), *_not_cleared(fitted)]


def _not_cleared(fitted: Fitted) -> list[_Open]:
    """Return hosts with too few good samples, or with none."""
    samples, count, needed = fitted.samples, fitted.good, fitted.needed
    blamed = {int(fitted.components.hosts[one.component]) for one in fitted.blamed}
    reaching = fitted.reaching > 0
    weak = [samples.hosts[host] for host in np.flatnonzero(reaching & (count < needed))]
    hidden = [samples.hosts[host] for host in np.flatnonzero(count == 0) if host not in blamed]
    slow = [samples.hosts[host] for host in np.flatnonzero((count > 0) & ~reaching) if host not in blamed]
    found = list[tuple[str, str]]()
    if weak:
        before = f"{len(weak)} hosts have too few samples to rule out {fitted.floor:.0%}"
        found.append((before, f": {needed} each are needed at a noise of {fitted.noise:.1%} ({some(weak)})"))
    if hidden:
        found.append(("not cleared", f", measured only over parts that are bad: {some(hidden)}"))
    if slow:
        found.append(("not cleared", f", no sample reaches what is usual: {some(slow)}"))
    return [_Open(Outcome.INCONCLUSIVE, *both, samples.kind, samples.rail or "") for both in found]


def slow_alone(fitted: Fitted) -> Bools:
    """Return which slow samples nothing explains and pass no part that is bad for certain."""
    components = fitted.components
    certain = [int(components.part[one.component]) for one in fitted.blamed if one.certain]
    bad = np.append(np.isin(components.part, certain), False)  # the last place stands for no component
    return unexplained(fitted) & ~bad[components.paths].any(axis=1)


_LEAST = 2  # slow samples that share a part
_PARTS_MOST = 4


def shared_parts(fitted: Fitted, odd: Bools, planes: int = 1) -> dict[int, Ints]:
    """
    Return the components that *odd* samples share beyond chance, the least likely first, with these samples.

    A sample (an index) counts for one of them only. *planes* is how many are judged for one verdict, this one among
    them.
    """
    components, left = fitted.components, odd.copy()
    least = log(len(set(components.part.tolist())) * planes / CHANCE)
    through = components.through(np.ones(len(odd), dtype=np.bool_))
    found: dict[int, Ints] = {}
    while left.sum() >= _LEAST and len(found) < _PARTS_MOST:
        slow = components.through(left)
        nats = np.where(slow >= _LEAST, beyond_chance(slow, through, int(left.sum()), len(odd)), 0.0)
        best = int(nats.argmax())  # of equally unlikely ones the whole part: its directions come after it
        if nats[best] < least:
            break
        mine = left & (components.paths == best).any(axis=1)
        found[best] = np.flatnonzero(mine)
        left &= ~mine
    return found
