"""
How every repeated probe stands against its peers and its record (``sequential.py``), and which need more samples.

Peers are a class: what they share is in ``series.py``. Their noise is pooled; a probe without peers is judged by its
own, which takes nine samples to know. A record whose median is itself not known to a sixth of the loss that matters is
not used here: it would shift every decision (its interval is judged in ``against_recorded.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median

from fabric.judge.normal.keys import floor_of
from fabric.judge.normal.peers import LEAST_SPREAD, Peers, levels, peers_of
from fabric.judge.normal.sequential import (
    IMPORTANT,
    SequentialAnswer,
    SequentialResult,
    above,
    noise_of,
    own_noise,
    standing,
)
from fabric.judge.normal.series import MEDIAN_EFFICIENCY, ProbeSeries
from fabric.model.recorded import Recorded
from fabric.model.scenario import MOST_SAMPLES
from fabric.probes.kinds import REPEATED_KINDS

RECORD_ERROR = 1 / 6
"""Standard error of a recorded median that is small enough, as a share of the loss that matters (a choice)."""

_WORST = (SequentialAnswer.SLOW, SequentialAnswer.SLOW_ONCE, SequentialAnswer.OPEN, SequentialAnswer.HEALTHY)


@dataclass(frozen=True, slots=True)
class Against:
    """
    The worst standing of one probe, what is normal there (Gb/s), and against what in words.

    *noise* is that of one sample, as a share; *by_record*: a record was among what it was compared with.
    """

    standing: SequentialResult
    normal_gbps: float
    text: str
    noise: float
    by_record: bool


class Standings:
    """
    Of the series of one phase or run; *record_of* is what good runs measured for a series, where that is known.

    *asked* are those that are judged by samples at all: that carried something and can be measured again alone.
    *known* are those among them whose noise is known.
    """

    def __init__(self, series: Sequence[ProbeSeries], record_of: Callable[[ProbeSeries], Recorded | None]) -> None:
        self._record_of = record_of
        self.asked = [one for one in series if one.probe.kind in REPEATED_KINDS and min(one.values) > 0.0]
        classes: dict[Hashable, list[ProbeSeries]] = {}
        for one in self.asked:
            # Peers share their noise; a series without any has its own.
            classes.setdefault(one if one.group is None else one.group, []).append(one)
        self._peers: dict[ProbeSeries, Peers | None] = {}
        self._level: dict[ProbeSeries, float] = {}  # of its host, of series that lie below their peers with it
        for members in classes.values():
            noise, peers = noise_of(one.values for one in members), _peers(members)
            for one in members:
                one.noise = noise
                self._peers[one] = peers
            if peers is not None:
                self._level |= _levels(members, peers)
        self.known = frozenset(one for one in self.asked if one.noise is not None and len(one.values) > 1)
        self._found: dict[ProbeSeries, Against | None] = {}

    def of(self, one: ProbeSeries) -> Against | None:
        """The worst that is said of a series; None where nothing is normal for it, or its noise is not known."""
        if one not in self._found:
            self._found[one] = self._worst(one) if one in self.known else None
        return self._found[one]

    def above(self, one: ProbeSeries, least_gbps: float) -> SequentialAnswer:
        """Whether a series is surely above its limit (HEALTHY), or below (SLOW); OPEN also where no noise is known."""
        return above(one.values, least_gbps, noise=self._noise(one)) if one in self.known else SequentialAnswer.OPEN

    def wants_more(self, one: ProbeSeries, least_gbps: float | None) -> bool:
        """Whether another sample may settle it, also against its limit; not where there is nothing to settle."""
        if len(one.values) >= MOST_SAMPLES:
            return False
        if least_gbps is not None:
            if self._limit_is_open(one, least_gbps):
                return True
            if one.value < least_gbps:
                return False  # surely bad, whatever else is normal
        if not any(self._normals(one)):
            return False
        found = self.of(one)
        return found is None or found.standing.wants_more

    def _limit_is_open(self, one: ProbeSeries, least_gbps: float) -> bool:
        """Whether a limit is so near that more samples are worth it; within what matters, where no noise is known."""
        if one not in self.known:
            return abs(one.value / least_gbps - 1) < floor_of(one.probe.kind)
        return self.above(one, least_gbps) is SequentialAnswer.OPEN

    def _noise(self, one: ProbeSeries) -> float:
        """To judge a series by; that of its class is known of all of ``known``."""
        return own_noise(one.values, one.noise or LEAST_SPREAD)

    def _worst(self, one: ProbeSeries) -> Against | None:
        loss, noise = floor_of(one.probe.kind), self._noise(one)
        normals = list(self._normals(one))
        by_record = any(is_record for _, _, is_record in normals)
        found = [
            Against(standing(one.values, normal_gbps, loss=loss, noise=noise), normal_gbps, text, noise, by_record)
            for normal_gbps, text, _ in normals
        ]
        return min(found, key=lambda each: _WORST.index(each.standing.answer), default=None)

    def _normals(self, one: ProbeSeries) -> Iterator[tuple[float, str, bool]]:
        """What is normal for a series, against what that is in words, and whether it was recorded."""
        peers, level = self._peers[one], self._level.get(one, 1.0)
        less = f" less the {1 - level:.1%} that its whole host lacks" if level < 1.0 else ""
        if peers is not None:
            yield level * peers.median_gbps, f"the median of {peers.n} peers{less}", False
        recorded = self._record_of(one)
        if recorded is not None and known_well(recorded, floor_of(one.probe.kind)):
            yield recorded.median_gbps, f"the recorded median of {recorded.n} samples", True


def _peers(members: Sequence[ProbeSeries]) -> Peers | None:
    """
    What is normal in a class, from as many samples of each as all of them have: the first ones.

    Later ones were asked for because the first were low. Whoever was lucky at first has no others, and the median over
    all samples would be half a percent too high at a CV of 2 %.
    """
    return None if members[0].group is None else peers_of(_early(members))


def _early(members: Sequence[ProbeSeries]) -> list[float]:
    count = min(len(one.values) for one in members)
    return [median(one.values[:count]) for one in members]


def _levels(members: Sequence[ProbeSeries], peers: Peers) -> dict[ProbeSeries, float]:
    """By series, of those inside one host."""
    by_host: dict[str, list[float]] = {}
    for one, value in zip(members, _early(members), strict=True):
        if len(one.probe.hosts) == 1:
            by_host.setdefault(one.probe.hosts[0], []).append(value)
    found = levels(by_host, peers, excused=IMPORTANT * floor_of(members[0].probe.kind))
    return {one: found[host] for one in members if (host := one.probe.hosts[0]) in found}


def known_well(recorded: Recorded, loss: float) -> bool:
    """Whether the standard error of a recorded median is small beside the loss that matters."""
    return MEDIAN_EFFICIENCY * max(recorded.cv, LEAST_SPREAD) / sqrt(recorded.n) <= RECORD_ERROR * loss
