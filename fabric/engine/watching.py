"""Counters, temperatures and light of every host, sampled beside the probes from the first phase to the last."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fabric.model.sampling import SampleSettings, Value
from fabric.model.topology import Host
from fabric.ports import Executor, Happening, Lost, Sampled, Source, Ticket
from fabric.probes.sources import SLOWLY, meaning, sources_of
from fabric.runs.samples import SAMPLES as FILE
from fabric.runs.samples import SampleLog

STEPS = {"asic_c": 2.0, "module_c": 2.0, "gpu_c": 2.0, "sm_mhz": 50.0, "rx_dbm": 0.5, "tx_dbm": 0.5}
"""By how much a reading that wavers must move to be written down again (choice); what counts is written exactly."""

AGAIN_S = 60.0
"""After so long a host that could not be sampled is tried once more, or after five periods if that is longer."""

_Key = tuple[str, str]


@dataclass(slots=True)
class _Series:
    """One sampling of one host: the names that came last, what they mean, and the last row of each set of names."""

    host: str
    sources: tuple[Source, ...]
    period_s: float
    rows: dict[tuple[str, ...], tuple[Value, ...]] = field(default_factory=dict)


class Beside:
    """Hands everything on to another executor; what looks on while probes run is made of it."""

    def __init__(self, executor: Executor) -> None:
        self._inner = executor
        self.now, self.go_on, self.wake = executor.now, executor.go_on, executor.wake
        self.start, self.cancel = executor.start, executor.cancel
        self.start_sampling, self.stop_sampling = executor.start_sampling, executor.stop_sampling
        self.samples = executor.samples

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the executor's."""
        return self._inner.wait(until_s)

    def end(self) -> None:
        """Stop looking and make what was seen durable; safe to call twice. Raises StoreError when the disk says no."""
        if isinstance(self._inner, Beside):
            self._inner.end()

    def close(self) -> None:
        """End what is done beside, and close the executor."""
        try:
            self.end()
        finally:
            self._inner.close()


class Watch(Beside):
    """
    Samples on some hosts.

    ``begin`` starts it, ``end`` makes what was sampled durable. A host that cannot be sampled is no trouble of the run:
    nothing is known of it meanwhile, and it is tried again.
    """

    def __init__(self, executor: Executor, folder: Path, settings: SampleSettings, *, sudo: bool = False) -> None:
        super().__init__(executor)
        self._settings, self._sudo = settings, sudo
        self._log = SampleLog(folder / FILE, settings.every_s)
        self._series: dict[Ticket, _Series] = {}
        self._again: list[tuple[float, int, _Series]] = []
        self._tries = 0
        self._kept: dict[tuple[str, _Key], float] = {}  # of what wavers: as it was last written
        self._meanings: dict[tuple[str, ...], list[tuple[_Key, float, float] | None]] = {}

    def begin(self, hosts: Sequence[Host]) -> None:
        """Start to sample on each of these hosts."""
        every_s = self._settings.every_s
        of_platform = {id(host.platform): sources_of(host.platform, self._settings, sudo=self._sudo) for host in hosts}
        for host in hosts:
            often, slowly = of_platform[id(host.platform)]
            for sources, period_s in ((often, every_s), (slowly, SLOWLY * every_s)):
                if sources:
                    self._start(_Series(host.name, sources, period_s))

    def end(self) -> None:
        """Stop sampling and write everything down; safe to call twice. Raises StoreError when the disk says no."""
        for ticket in list(self._series):
            self._inner.stop_sampling(ticket)
        self.take_samples()
        self._series.clear()
        self._again.clear()
        self._log.close()
        super().end()

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the executor's; also returns, with nothing, when something was sampled."""
        if self._again:
            until_s = min(until_s, self._again[0][0])
        found = [happening for happening in self._inner.wait(until_s) if not self._is_ours(happening)]
        self.take_samples()
        now_s = self._inner.now()
        while self._again and self._again[0][0] <= now_s:
            self._start(heapq.heappop(self._again)[2])
        return found

    def take_samples(self) -> None:
        """Write down what has arrived."""
        for sampled in self._inner.samples():
            series = self._series.get(sampled.ticket)
            if series is not None:
                self._take(series, sampled)

    def _start(self, series: _Series) -> None:
        series.rows.clear()
        self._series[self._inner.start_sampling(series.host, series.sources, series.period_s)] = series

    def _is_ours(self, happening: Happening) -> bool:
        """Of what we started only the loss is told."""
        series = self._series.pop(happening.ticket, None)
        if series is None:
            return False
        if isinstance(happening, Lost):
            self._log.gone(series.host, happening.at_s)
            self._kept = {key: value for key, value in self._kept.items() if key[0] != series.host}
            for other in self._series.values():
                if other.host == series.host:
                    other.rows.clear()  # what did not change since is written down again
            self._tries += 1
            again_s = self._inner.now() + max(AGAIN_S, SLOWLY * self._settings.every_s)
            heapq.heappush(self._again, (again_s, self._tries, series))
        return True

    def _take(self, series: _Series, sampled: Sampled) -> None:
        means = self._means(sampled.names)
        before: tuple[Value, ...] = series.rows.get(sampled.names, ())
        for at_s, row in zip(sampled.at_s, sampled.rows, strict=True):
            keys: list[_Key] = []
            values: list[Value] = []
            places = (
                [place for place, (now, old) in enumerate(zip(row, before, strict=True)) if now != old]
                if before
                else range(len(row))
            )
            for place in places:
                found, value = means[place], row[place]
                if found is None:
                    continue
                key, scale, step = found
                if value is not None and step:
                    value = self._moved(series.host, key, value * scale, step)
                keys.append(key)
                values.append(value)
            self._log.add(series.host, at_s, keys, values)
            before = row
        series.rows[sampled.names] = before

    def _moved(self, host: str, key: _Key, value: float, step: float) -> float:
        """What is written of something that wavers: the same until it has moved far enough."""
        kept = self._kept.get((host, key))
        if kept is not None and abs(value - kept) < step:
            return kept
        kept = self._kept[host, key] = float(round(value)) if step >= 1.0 else round(value, 1)
        return kept

    def _means(self, names: tuple[str, ...]) -> list[tuple[_Key, float, float] | None]:
        found = self._meanings.get(names)
        if found is None:
            means = [meaning(name) for name in names]
            found = self._meanings[names] = [
                None if one is None else ((one.part, one.name), one.scale, STEPS.get(one.name, 0.0)) for one in means
            ]
        return found
