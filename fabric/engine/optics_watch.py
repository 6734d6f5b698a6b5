"""Modules and raw bit errors of both ends of every cable: ``mlxlink`` takes its time port by port, so seldom."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fabric.changes.procedure import Procedure, ask
from fabric.errors import ExecutorError, ToolError
from fabric.model.command import MIB, CommandResult
from fabric.model.sampling import Value
from fabric.runs.samples import End, LinkLog, LinkModule
from fabric.tools.mlxlink import Optics

EVERY_S = 7200.0
"""How often (a choice: light drifts over days, and a pod's 1,536 switch ports take some two minutes)."""

THROUGH_FABRIC = 8
"""Ports of switches asked at once (nvibt's berquery asks 5; more than 8 perfquery led to time-outs)."""

ASK_S = 30.0
"""Deadline of one (a choice: one takes less than a second)."""

IN_VAIN = 3
"""After so many failures in a row a host is not asked further this time: the tool is not there, or not allowed."""

_STEP_DBM, _STEP_C = 0.25, 2.0  # by how much it must move to be written again (choice)


_CAP_BYTES = 64 * MIB  # NVUE prints some kilobytes a port, UFM about one of each port of the fabric


@dataclass(frozen=True, slots=True)
class OpticsAsk:
    """The host or switch that asks for one port or many, how, and how its answer is read (ToolError: it is none)."""

    host: str
    argv: tuple[str, ...]
    read: Callable[[CommandResult], Mapping[End, Optics]]


class OpticsWatch:
    """Rounds of questions, a few at a time, which a conductor carries out; what is answered goes into the log."""

    def __init__(self, log: LinkLog) -> None:
        self._log = log
        self._kept: dict[tuple[End, str], float] = {}
        self.busy = 0
        """So many are still to ask in this round."""

    def round(self, asks: Iterable[OpticsAsk], *, through: Collection[str]) -> Iterator[Procedure[None]]:
        """Who asks for all of these; hosts that ask *through* the fabric ask for several at once."""
        waiting: dict[str, deque[OpticsAsk]] = {}
        for one in asks:
            waiting.setdefault(one.host, deque()).append(one)
        for host, queue in waiting.items():
            failures = [0]
            for _ in range(min(len(queue), THROUGH_FABRIC if host in through else 1)):
                self.busy += 1
                yield self._asking(queue, failures)

    def _asking(self, queue: deque[OpticsAsk], failures: list[int]) -> Procedure[None]:
        """One after the other; *failures* in a row are counted by all who ask on a host."""
        while queue:
            one = queue.popleft()
            try:
                said = yield from ask(one.host, one.argv, timeout_s=ASK_S, output_cap_bytes=_CAP_BYTES)
                found = one.read(said)
            except (ExecutorError, ToolError) as exc:
                failures[0] += 1
                if failures[0] == IN_VAIN:
                    self._log.failed(f"{one.host}: {exc}"[:300])
                    queue.clear()
                continue
            failures[0] = 0
            for end, optics in found.items():
                self._write(end, optics, said.started_s)
        self.busy -= 1

    def _write(self, end: End, found: Optics, at_s: float) -> None:
        rx, tx = found.rx, found.tx
        limits = [bound for light in (rx, tx) for bound in ((light.low_dbm, light.high_dbm) if light else (None, None))]
        limits += [light.warn_dbm if light else None for light in (rx, tx)]
        if (one := found.module) is not None:
            self._log.plugged(end, LinkModule(one.vendor, one.part_number, one.serial, one.firmware, *limits))
        counts = ("raw_errors", "effective_errors", "full_blocks")
        values: dict[str, Value] = {name: getattr(found, name) for name in counts}
        for way, light in (("rx", rx), ("tx", tx)):
            for lane, dbm in enumerate(light.lanes_dbm if light else ()):
                values[f"{way}{lane}_dbm"] = self._moved(end, f"{way}{lane}", dbm, _STEP_DBM)
        if found.temperature_c is not None:
            values["module_c"] = self._moved(end, "module", found.temperature_c, _STEP_C)
        known = {name: value for name, value in values.items() if value is not None}
        self._log.add(end[0], at_s, [(end[1], name) for name in known], list(known.values()))

    def _moved(self, end: End, name: str, value: float, step: float) -> float:
        """What is written of something that wavers: the same until it has moved far enough."""
        kept = self._kept.get((end, name))
        if kept is None or abs(value - kept) >= step:
            kept = self._kept[end, name] = round(value, 2)
        return kept
