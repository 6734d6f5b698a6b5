"""Modules and raw bit errors of both ends of every cable: ``mlxlink`` takes its time port by port, so seldom."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from fabric.errors import ToolError
from fabric.model.command import MIB, Command, CommandResult
from fabric.model.sampling import Value
from fabric.ports import Ended, Executor, Happening, Lost, Ticket
from fabric.runs.links import End, LinkLog, LinkModule
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


_CAP_BYTES = 4 * MIB  # NVUE prints some kilobytes a port


@dataclass(frozen=True, slots=True)
class OpticsAsk:
    """The host or switch that asks for one port or many, how, and how its answer is read (ToolError: it is none)."""

    host: str
    argv: tuple[str, ...]
    read: Callable[[CommandResult], Mapping[End, Optics]]


class OpticsWatch:
    """Rounds of questions, a few at a time; what is answered goes into the log."""

    def __init__(self, executor: Executor, log: LinkLog) -> None:
        self._executor, self._log = executor, log
        self._waiting: dict[str, deque[OpticsAsk]] = {}
        self._open: dict[Ticket, OpticsAsk] = {}
        self._failed: dict[str, int] = {}
        self._kept: dict[tuple[End, str], float] = {}
        self.began_s: float | None = None

    @property
    def busy(self) -> bool:
        """A round is under way."""
        return bool(self._open)

    def begin(self, asks: Iterable[OpticsAsk], *, through: Collection[str]) -> None:
        """Ask for all of these; hosts that ask *through* the fabric ask for several at once."""
        self.began_s = self._executor.now()
        self._failed.clear()
        for ask in asks:
            self._waiting.setdefault(ask.host, deque()).append(ask)
        for host in tuple(self._waiting):
            for _ in range(THROUGH_FABRIC if host in through else 1):
                self._next(host)

    def took(self, happening: Happening) -> bool:
        """Whether it was one of ours."""
        ask = self._open.get(happening.ticket)
        if ask is None:
            return False
        if isinstance(happening, Ended | Lost):
            del self._open[happening.ticket]
            try:
                if isinstance(happening, Lost):
                    raise ToolError(str(happening.error))
                found = ask.read(happening.result)
            except ToolError as exc:
                self._in_vain(ask, exc)
            else:
                self._failed[ask.host] = 0
                for end, optics in found.items():
                    self._write(end, optics, happening.result.started_s)
            self._next(ask.host)
        return True

    def stop(self) -> None:
        """Ask no further."""
        self._waiting.clear()
        for ticket in self._open:
            self._executor.cancel(ticket)
        self._open.clear()

    def _next(self, host: str) -> None:
        if self._waiting.get(host):
            ask = self._waiting[host].popleft()
            self._open[self._executor.start(Command(ask.host, ask.argv, ASK_S, output_cap_bytes=_CAP_BYTES))] = ask

    def _in_vain(self, ask: OpticsAsk, why: ToolError) -> None:
        count = self._failed[ask.host] = self._failed.get(ask.host, 0) + 1
        if count == IN_VAIN:
            self._log.failed(f"{ask.host}: {why}"[:300])
            self._waiting.pop(ask.host, None)

    def _write(self, end: End, found: Optics, at_s: float) -> None:
        rx, tx = found.rx, found.tx
        limits = [bound for light in (rx, tx) for bound in ((light.low_dbm, light.high_dbm) if light else (None, None))]
        one = found.module
        self._log.plugged(end, LinkModule(one.vendor, one.part_number, one.serial, one.firmware, *limits))
        values: dict[str, Value] = {"raw_errors": found.raw_errors, "effective_errors": found.effective_errors}
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
