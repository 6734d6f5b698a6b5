"""Every probe of a run as a level over time: its share of what is normal for it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from fabric.model.outcome import Outcome
from fabric.model.probe import ProbeResult
from fabric.model.scenario import Where
from fabric.report.html.follow_up_rounds import TargetedRounds
from fabric.report.html.shares import over_hosts
from fabric.report.shown_run import Row, ShownRun


class Level(NamedTuple):
    """
    One probe: its share of what its own key has without a fault (median), seconds of the run's clock.

    *line* numbers the written phase it is of, so that the rounds of one are one line; -1: of a targeted round, which
    looks where something is slow and so says nothing of the fabric as a whole.

    A tuple: 300,000 of them are made in a third of the time.
    """

    began_s: float
    ended_s: float
    share: float | None
    line: int = 0


_FLOWS = "link_burn"
"""Its flows are all alike, also those that begin and end on one host: each is measured by all the others."""

_Key = tuple[str, str, tuple[str, ...], Where]
_PeerKey = tuple[str, str, Where]


def levels(run: ShownRun) -> list[Level]:
    """
    Every probe that ran; share None where nothing was measured. A step that went well and has no number by its nature
    (routes that were read) is none.

    The reference of a probe that one host makes alone is the median of the hosts, with at least three of them. Else,
    and of those of several hosts, it is the median of the same probe with the same matrix values in phases without a
    fault, or in all phases. One that was measured once has its peers, else what is required: over itself it would
    always be 1.
    """
    verdict = run.judged.verdict
    faulty = {result.change.phase for result in verdict.changes if result.change.is_fault}
    wheres = {phase.name: phase.where for phase in run.judged.scenario.phases}
    known = _Known({}, {}, {}, altered=bool(verdict.changes))
    ran: list[tuple[Row, ProbeResult, _PeerKey, float | None]] = []
    for row in run.rows:
        probe, _, result = row
        if result is None or result.attempt == 0 or result.outcome is Outcome.PASS:
            continue
        value = _value(result)
        alone = len(probe.hosts) == 1 and probe.kind != _FLOWS
        peer = (probe.kind, row.series if alone else "", wheres.get(probe.phase, ()))
        ran.append((row, result, peer, value))
        if value is not None and probe.phase not in faulty:
            known.peers.setdefault(peer, []).append((probe.hosts, value))
    usual = {peer: over_hosts(found) for peer, found in known.peers.items()}
    # Most probes have peers enough, and nothing else of them is needed.
    by_peers = {} if known.altered else {peer: normal for peer, normal in usual.items() if normal is not None}
    for row, _, peer, value in ran:
        if value is not None and (len(row.probe.hosts) > 1 or peer not in by_peers):
            known.add(_key(row, peer), value, faulty=row.probe.phase in faulty)
    lines, targeted = _lines(run), TargetedRounds(run)
    found = []
    for row, result, peer, value in ran:
        probe = row.probe
        if len(probe.hosts) == 1 and peer in by_peers:
            normal: float | None = by_peers[peer]
        else:
            normal = known.normal(row, _key(row, peer), usual.get(peer))
        number = -1 if probe.phase in targeted.phases and targeted.has(probe) else lines.get(probe.phase, 0)
        found.append(Level(result.started_s, result.ended_s, _share(value, normal), number))
    return found


def _key(row: Row, peer: _PeerKey) -> _Key:
    return row.probe.kind, row.series, row.probe.hosts, peer[2]


@dataclass(slots=True)
class _Known:
    """What was measured: of each probe without and with faults, and of its peers; *altered*: changes were made."""

    good: dict[_Key, list[float]]
    every: dict[_Key, list[float]]
    peers: dict[_PeerKey, list[tuple[tuple[str, ...], float]]]
    altered: bool

    def add(self, key: _Key, value: float, *, faulty: bool) -> None:
        """Of what is not measured by its peers alone."""
        (self.every if faulty else self.good).setdefault(key, []).append(value)

    def normal(self, row: Row, key: _Key, usual: float | None) -> float | None:
        """What a probe of several hosts, or without enough peers, is measured by; None: nothing is known."""
        own = self.good.get(key) or self.every.get(key) or ()
        if len(own) > 1 and (self.altered or len(row.probe.hosts) > 1):
            return median(own)
        return usual or row.verdict.limit_gbps or (median(own) if own else None)


def _lines(run: ShownRun) -> dict[str, int]:
    """By phase the number of the phase that is written in the file, with its matrix values."""
    numbers: dict[tuple[str, Where], int] = {}
    return {
        phase.name: numbers.setdefault((phase.written, phase.where), len(numbers))
        for phase in run.judged.scenario.phases
    }


def _value(result: ProbeResult) -> float | None:
    """Of the largest size the lower number, as limits are judged."""
    if result.outcome is not None or not result.measurements:
        return None
    if len(result.measurements) == 1:
        return result.measurements[0].value
    largest = max(m.size_bytes or 0 for m in result.measurements)
    return min(m.value for m in result.measurements if (m.size_bytes or 0) == largest)


def _share(value: float | None, normal: float | None) -> float | None:
    return value / normal if value is not None and normal else None
