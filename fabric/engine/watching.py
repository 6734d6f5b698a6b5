"""Background readings of a run: counters, temperatures and light of every host, and both ends of every cable.

Links are looked at before the first probe, repeatedly while probes run, and after the last. On InfiniBand one port of
each subnet asks all its switches and adapters at once (a rail or plane that nothing joins with the others is a subnet
of its own). If a host cannot ask, another one does. On Ethernet each switch that has a login, and each host, reports
its own ports. A look that fails costs nothing but its time: counters go on counting meanwhile. Modules and raw bit
errors of both ends are read seldom, because ``mlxlink`` takes its time port by port.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import TypeVar

from fabric.changes.procedure import Conductor, Procedure, ask, pause
from fabric.engine.interruption import STOP
from fabric.engine.link_views import HostView, OpticsAsk, Subnet, SwitchView, View, askers_of, switches_of
from fabric.engine.pauses import PauseStorms
from fabric.errors import ExecutorError, StoreError, ToolError
from fabric.model import gathered
from fabric.model.inventory import Inventory
from fabric.model.probe import MIB, CommandResult
from fabric.model.sampling import SampleSettings, Value
from fabric.model.scenario import Scenario
from fabric.model.text import fold
from fabric.model.topology import Host
from fabric.ports import BATCH_S, Executor, Happening, Lost, Sampled, Source, Ticket
from fabric.probes.sources import SLOWLY, Meaning, congestion_sources, meaning, sources_of
from fabric.runs.samples import SAMPLES as FILE
from fabric.runs.samples import End, LinkLog, LinkModule, SampleLog, SampleTaker
from fabric.tools.mlxlink import Optics

_NEVER_READ = object()
What = TypeVar("What")

AGAIN_S = 60.0
"""How long after a loss a host is sampled again, unless five periods are longer."""


@dataclass(slots=True)
class _Series:
    """One sampling of one host: its sources, its period, and the last row for each set of names."""

    host: str
    sources: tuple[Source, ...]
    period_s: float
    rows: dict[tuple[str, ...], tuple[Value, ...]] = field(default_factory=dict)


def settled(kept: dict[What, float], what: What, value: float, step: float, digits: int) -> float:
    """Return the value to write for a wavering reading: the last written one (*kept*) until it has moved by *step*."""
    if what not in kept or abs(value - kept[what]) >= step:
        kept[what] = round(float(value), digits)
    return kept[what]


class ObservingExecutor:
    """An executor that passes everything on to another one; base of what observes while probes run."""

    def __init__(self, executor: Executor) -> None:
        self._inner = executor
        self.now, self.go_on, self.wake = executor.now, executor.go_on, executor.wake
        self.start, self.cancel = executor.start, executor.cancel
        self.start_sampling = executor.start_sampling
        self.samples = executor.samples

    def end(self) -> None:
        """Stop observing and make what was seen durable; safe to call twice. Raises StoreError when the disk fails."""
        if isinstance(self._inner, ObservingExecutor):
            self._inner.end()

    def close(self) -> None:
        """End the observation, and close the executor."""
        try:
            self.end()
        finally:
            self._inner.close()


class Watch(ObservingExecutor):
    """
    An executor that also samples on some hosts.

    ``begin`` starts sampling, ``end`` makes the samples durable. A storm of pauses writes the file *stop*, which ends a
    run. A host that cannot be sampled does not disturb the run: it is tried again, and has no samples meanwhile.
    """

    def __init__(
        self,
        executor: Executor,
        log: SampleTaker,
        settings: SampleSettings,
        *,
        batch_s: float = BATCH_S,
        stop: Path | None = None,
    ) -> None:
        super().__init__(executor)
        self._batch_s = batch_s
        self._settings = settings
        self._log, self._stop, self._storms = log, stop, PauseStorms()
        self._series: dict[Ticket, _Series] = {}
        self._again: deque[tuple[float, _Series]] = deque()  # all wait equally long, so in order of time
        self._kept: dict[tuple[str, Meaning], float] = {}  # last written values of wavering readings

    def begin(self, hosts: Sequence[Host]) -> None:
        """Start to sample on each of these hosts."""
        every_s, fast_s = self._settings.every_s, self._settings.congestion_s
        of_platform = {id(host.platform): sources_of(host.platform, self._settings) for host in hosts}
        for host in hosts:
            often, slowly = of_platform[id(host.platform)]
            fast = congestion_sources(host.platform) if fast_s else ()
            for sources, period_s in ((often, every_s), (slowly, SLOWLY * every_s), (fast, fast_s or every_s)):
                if sources:
                    self._start(_Series(host.name, sources, period_s))

    def end(self) -> None:
        """Stop sampling and write everything down; safe to call twice. Raises StoreError when the disk fails."""
        for ticket in list(self._series):
            self._inner.cancel(ticket)
        self.take_samples()
        self._series.clear()
        self._again.clear()
        self._log.close()
        super().end()

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Wait as the executor does; also return, with nothing, when something was sampled."""
        if self._again:
            until_s = min(until_s, self._again[0][0])
        found = [happening for happening in self._inner.wait(until_s) if not self._is_ours(happening)]
        self.take_samples()
        now_s = self._inner.now()
        while self._again and self._again[0][0] <= now_s:
            self._start(self._again.popleft()[1])
        return found

    def take_samples(self) -> None:
        """Write down what has arrived."""
        for sampled in self._inner.samples():
            series = self._series.get(sampled.ticket)
            if series is not None:
                self._take(series, sampled)

    def _start(self, series: _Series) -> None:
        series.rows.clear()
        ticket = self._inner.start_sampling(series.host, series.sources, series.period_s, self._batch_s)
        self._series[ticket] = series

    def _is_ours(self, happening: Happening) -> bool:
        """Return whether a happening belongs to a sampling; a lost one is noted and scheduled to start again."""
        series = self._series.pop(happening.ticket, None)
        if series is None:
            return False
        if isinstance(happening, Lost):
            self._log.gone(series.host, happening.at_s)
            self._kept = {key: value for key, value in self._kept.items() if key[0] != series.host}
            for other in self._series.values():
                if other.host == series.host:
                    other.rows.clear()  # so that unchanged values are written down again, too
            again_s = self._inner.now() + max(AGAIN_S, SLOWLY * self._settings.every_s)
            self._again.append((again_s, series))
        return True

    def _take(self, series: _Series, sampled: Sampled) -> None:
        means = _meanings(sampled.names)
        before: tuple[object, ...] = series.rows.get(sampled.names, (_NEVER_READ,) * len(sampled.names))
        for at_s, row in zip(sampled.at_s, sampled.rows, strict=True):
            readings: dict[tuple[str, str], Value] = {}
            for found, value, old in zip(means, row, before, strict=True):
                if value == old or found is None:
                    continue
                if value is not None and found.step:
                    value = found.level(value)
                if value is not None and found.step:
                    digits = 0 if found.step >= 1.0 else 1
                    value = settled(self._kept, (series.host, found), value, found.step, digits)
                readings[found.part, found.name] = value
            self._log.add(series.host, at_s, readings)
            if self._stop is not None and self._settings.congestion_s and not self._storms.found:
                self._look_for_storm(series.host, at_s, means, row)
            before = series.rows[sampled.names] = row

    def _look_for_storm(self, host: str, at_s: float, means: Sequence[Meaning | None], row: Sequence[Value]) -> None:
        """Feed a whole row to the storm detector: unchanged values tell it that nothing moves."""
        for found, value in zip(means, row, strict=True):
            if found is not None:
                self._storms.take(host, found.part, found.name, at_s, value)
        if self._storms.found and self._stop is not None:
            with suppress(OSError):  # a full disk is reported by what is written next
                self._stop.write_text(f"{self._storms.found}\n")


@cache
def _meanings(names: tuple[str, ...]) -> list[Meaning | None]:
    return [meaning(name) for name in names]


OPTICS_EVERY_S = 7200.0
"""How often light is read (a choice: it drifts over days, and a pod's 1,536 switch ports take some two minutes)."""

WHOLE_S = 1800.0
"""
How often counters that also grow on a good fabric (waiting, sent) are read: a switch then answers two packets a port.

A choice: twelve times in the shortest burn-in, to tell a cable that always waits from one that sometimes does.
"""

THROUGH_FABRIC = 8
"""Switch ports asked at once (nvibt's berquery asks 5; more than 8 perfquery led to time-outs)."""

ASK_S = 30.0
"""Deadline of one question (a choice: one takes less than a second)."""

FAILURES_IN_A_ROW = 3
"""Failures in a row that end a host's round: the tool is not there, or not allowed."""

_STEP_DBM, _STEP_C = 0.25, 2.0  # change that is needed to write a value again (choice)


_CAP_BYTES = 64 * MIB  # NVUE prints some kilobytes a port, UFM about one kilobyte for each port of the fabric


class OpticsWatch:
    """Rounds of optics questions, a few at a time, carried out by a conductor; the answers go into the log."""

    def __init__(self, log: LinkLog) -> None:
        self._log = log
        self._kept: dict[tuple[End, str], float] = {}
        self.busy = 0
        """How many procedures still ask in this round."""

    def round(self, asks: Iterable[OpticsAsk], *, through: Collection[str]) -> Iterator[Procedure[None]]:
        """
        Yield the procedures that ask all of these; hosts in *through* ask several ports at once through the fabric.
        """
        for host, waiting in gathered((one.host, one) for one in asks).items():
            queue, failures = deque(waiting), [0]
            for _ in range(min(len(queue), THROUGH_FABRIC if host in through else 1)):
                self.busy += 1
                yield self._asking(queue, failures)

    def _asking(self, queue: deque[OpticsAsk], failures: list[int]) -> Procedure[None]:
        """Ask one question after the other; the procedures of a host share the count of *failures* in a row."""
        while queue:
            one = queue.popleft()
            try:
                answer = yield from ask(one.host, one.argv, timeout_s=ASK_S, output_cap_bytes=_CAP_BYTES)
                found = one.read((answer.stdout, answer.stderr, answer.exit_status))
            except (ExecutorError, ToolError) as exc:
                failures[0] += 1
                if failures[0] == FAILURES_IN_A_ROW:
                    self._log.failed(f"{one.host}: {exc}"[:300])
                    queue.clear()
                continue
            failures[0] = 0
            for end, optics in found.items():
                self._write(end, optics, answer.started_s)
        self.busy -= 1

    def _write(self, end: End, found: Optics, at_s: float) -> None:
        rx, tx = found.rx, found.tx
        limits = [bound for light in (rx, tx) for bound in ((light.low_dbm, light.high_dbm) if light else (None, None))]
        limits += [light.warn_dbm if light else None for light in (rx, tx)]
        if (one := found.module) is not None:
            self._log.plugged(end, LinkModule(one.vendor, one.part_number, one.serial, one.firmware, *limits))
        counts = ("raw_errors", "effective_errors", "full_blocks", "worst_block")
        values: dict[str, Value] = {name: getattr(found, name) for name in counts}
        for way, light in (("rx", rx), ("tx", tx)):
            for lane, dbm in enumerate(light.lanes_dbm if light else ()):
                values[f"{way}{lane}_dbm"] = settled(self._kept, (end, f"{way}{lane}"), dbm, _STEP_DBM, 2)
        if found.temperature_c is not None:
            values["module_c"] = settled(self._kept, (end, "module"), found.temperature_c, _STEP_C, 2)
        known = {(end[1], name): value for name, value in values.items() if value is not None}
        self._log.add(end[0], at_s, known)


TRIES = 3
"""How many hosts are tried for one look (a choice)."""

OPTICS_S = 600.0
"""Half the longest wait, after the last probe, for the last look and the light of all ports (a choice)."""

LOOKS = "looks"
"""Name of a reading that belongs to no port: how often all links were looked at."""


class LinkWatch(ObservingExecutor):
    """
    Looks at all links that *hosts* and switches report, every *every_s* seconds, while another executor works.

    Only ends on these *nodes* (hosts and switches) are written down. ``finish`` takes the last look; ``end`` makes what
    was seen durable.
    """

    def __init__(
        self,
        executor: Executor,
        folder: Path,
        inventory: Inventory,
        hosts: Sequence[str],
        every_s: float,
        *,
        nodes: Collection[str],
        whole_s: float = WHOLE_S,
    ) -> None:
        super().__init__(executor)
        self._every_s, self._whole_s = every_s, whole_s
        self._log = LinkLog(folder, every_s)
        platforms = {name: inventory.topology.hosts[name].platform for name in hosts}
        on_infiniband = [name for name, one in platforms.items() if one.link_layer == "infiniband"]
        switches, self._mute = switches_of(inventory.topology, nodes)
        self._views: list[View] = [
            *(Subnet(askers, inventory, nodes) for askers in askers_of(inventory, on_infiniband)),
            *(SwitchView(name, inventory, nodes) for name in switches),
            *(HostView(name, inventory) for name in hosts if name not in on_infiniband),
        ]
        self._looks, self._under_way, self._last = Conductor(executor), 0, False
        self._optics, self._optics_s = OpticsWatch(self._log), -inf
        self._failed = ""
        for view in self._views:
            self._looks.begin(self._looking(view))

    def wait(self, until_s: float) -> Sequence[Happening]:
        """Wait as the executor does; also return, with nothing, when a look at the links ended."""
        self._looks.fire()
        found = self._inner.wait(min(until_s, self._looks.next_s))
        return [one for one in found if not self._looks.take(one)]

    def finish(self) -> None:
        """Take the last look now, after what is under way, and wait for it."""
        self._last = True
        self._looks.wake()
        until_s = self._inner.now() + 2 * OPTICS_S
        while self._looks.busy and self._inner.now() < until_s:
            self.wait(until_s)
        if self._mute:
            why = f"nothing asks {fold(self._mute)}: add `address` and `management: nvue` under switches:"
            self._log.failed(f"{why}; {self._failed}" if self._failed else why)

    def end(self) -> None:
        """Write down what was seen."""
        self._looks.drop()
        self._log.close()
        super().end()

    def _looking(self, view: View) -> Procedure[None]:
        """Look at once, then periodically, and once more at the end; leave the fabric alone between two looks."""
        period_s = OPTICS_EVERY_S if view.seldom else self._every_s
        last, whole_s = False, -inf
        while not last:
            last, view.whole = self._last, self._last or self._inner.now() >= whole_s + self._whole_s
            self._under_way += 1
            began_s = yield from self._look(view)
            self._under_way -= 1
            whole_s = began_s if view.whole else whole_s
            self._begin_optics()
            if not self._last:
                yield from pause(max(began_s + period_s, self._inner.now() + period_s / 4))

    def _look(self, view: View) -> Procedure[float]:
        """
        Ask, and write down the answer; if a host cannot, try the next, TRIES at most. Return when the last try began.
        """
        began_s = self._inner.now()
        for _ in range(min(TRIES, len(view.askers))):
            began_s, answers = self._inner.now(), dict[str, CommandResult]()
            try:
                for name, question in view.questions().items():
                    answers[name] = yield question
                self._take(view, answers)
            except (ExecutorError, ToolError) as exc:
                self._failed = f"{view.asker}: {exc}"[:300]
                self._log.failed(self._failed)
                view.turn += 1
            else:
                break
        return began_s

    def _take(self, view: View, answers: Mapping[str, CommandResult]) -> None:
        """Write down what a look found; raises ToolError for unusable answers."""
        at_s = max(result.started_s for result in answers.values())
        seen = view.seen(answers)
        if seen is None:
            for node in view.nodes:
                self._log.add(node, at_s, {})
        else:
            self._log.joined(seen.cables)
            rows: dict[str, dict[tuple[str, str], Value]] = {}
            for (node, part), readings in seen.rows.items():
                rows.setdefault(node, {}).update(((part, name), value) for name, value in readings.items())
            for node, of_node in rows.items():
                self._log.add(node, at_s, of_node)
            view.nodes = tuple(rows)
        view.looks += 1
        self._log.add("", at_s, {("", LOOKS): max(one.looks for one in self._views)})

    def _begin_optics(self) -> None:
        """
        Ask for the light of all ports if it is due and no look is under way; at the end unless it was read lately.
        """
        every_s = OPTICS_EVERY_S / 4 if self._last else OPTICS_EVERY_S
        now_s = self._inner.now()
        if self._under_way or self._optics.busy or now_s - self._optics_s < every_s:
            return
        if asks := [ask for one in self._views for ask in one.optics()]:
            self._optics_s = now_s
            for procedure in self._optics.round(asks, through={one.asker for one in self._views}):
                self._looks.begin(procedure)


def watching(executor: Executor, folder: Path, scenario: Scenario, inventory: Inventory) -> Executor:
    """
    Return the executor to run with: it samples on the scenario's hosts and looks at all links, if the scenario asks.
    """
    topology, settings = inventory.topology, scenario.sample
    if settings is None:
        return executor
    log = SampleLog(folder / FILE, settings.every_s)
    watch = Watch(executor, log, settings, stop=folder / STOP)
    watch.begin([topology.hosts[name] for name in scenario.hosts])
    asked = dict.fromkeys((*((inventory.changes.via,) if inventory.changes.via else ()), *scenario.hosts))
    able = [name for name in asked if topology.hosts[name].platform.rnics]
    if not able or not settings.counters:
        return watch
    links = topology.links_between(scenario.hosts)
    nodes = {name.partition("/")[0] for link in links for name in (link.a, link.b)}
    whole_s = WHOLE_S if settings.congestion_s is None else 0.0
    try:
        return LinkWatch(watch, folder, inventory, able, settings.links_s, nodes=nodes, whole_s=whole_s)
    except BaseException:
        with suppress(StoreError):  # the first error counts; close what was opened, or a resume would find it locked
            watch.end()
        raise


def stop_watching(executor: Executor) -> None:
    """Take the last look and make what was seen durable; does nothing for an executor that does not observe."""
    if isinstance(executor, LinkWatch):
        executor.finish()
    if isinstance(executor, ObservingExecutor):
        executor.end()
