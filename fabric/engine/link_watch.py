"""
Both ends of every cable, read beside the probes: before the first, again and again while they run, and after the last.

On InfiniBand one port of each subnet (a rail or a plane that nothing joins with the others is one) asks all switches
and adapters of it at once. A host that cannot is not asked again at once: another one is. On Ethernet each switch that
has a login, and each host, tells of its own ports. A look that fails costs nothing but its time: counters go on
counting meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path

from fabric.changes.procedure import Conductor, Procedure, pause
from fabric.engine import optics_watch
from fabric.engine.link_views import View
from fabric.engine.optics_watch import OpticsWatch
from fabric.engine.roce_views import HostView, SwitchView, switches_of
from fabric.engine.subnet_view import Subnet, askers_of
from fabric.engine.watching import Beside, Watch
from fabric.errors import ExecutorError, StoreError, ToolError
from fabric.model.command import CommandResult
from fabric.model.inventory import Inventory
from fabric.model.sampling import Value
from fabric.model.scenario import Scenario
from fabric.model.text import fold
from fabric.ports import Executor, Happening
from fabric.runs.samples import LinkLog

TRIES = 3
"""So many hosts are asked for one look (a choice)."""

OPTICS_S = 600.0
"""So long is waited for the light of all ports after the last probe (a choice)."""

LOOKS = "looks"
"""A reading of nobody's: how often all links were looked at."""


class LinkWatch(Beside):
    """
    Looks at all links that *hosts* and switches tell of, every *every_s* seconds, while another executor works.

    What is written down are the ends on these *nodes* (hosts and switches).

    ``finish`` takes the last look; ``end`` makes what was seen durable.
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
    ) -> None:
        super().__init__(executor)
        self._every_s = every_s
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
        """As the executor's; also returns, with nothing, when a look at the links ended."""
        self._looks.fire()
        found = self._inner.wait(min(until_s, self._looks.next_s))
        return [one for one in found if not self._looks.take(one)]

    def finish(self) -> None:
        """Look once more, now, when what is under way has ended."""
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
        """Look at once, again and again, and once more at the end; between two looks the fabric is left alone."""
        period_s = optics_watch.EVERY_S if view.seldom else self._every_s
        last = False
        while not last:
            last, view.whole = self._last, self._last or not view.looks
            self._under_way += 1
            began_s = yield from self._look(view)
            self._under_way -= 1
            self._begin_optics()
            if not self._last:
                yield from pause(max(began_s + period_s, self._inner.now() + period_s / 4))

    def _look(self, view: View) -> Procedure[float]:
        """Ask, and write down what was found; who cannot is followed by another, but not for ever. Returns when."""
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
        """Write down what a look found; raises ToolError for answers that are none."""
        at_s = max(result.started_s for result in answers.values())
        seen = view.seen(answers)
        if seen is None:
            for node in view.nodes:
                self._log.add(node, at_s, (), ())
        else:
            self._log.joined(seen.cables)
            rows: dict[str, dict[tuple[str, str], Value]] = {}
            for (node, part), readings in seen.rows.items():
                rows.setdefault(node, {}).update({(part, name): value for name, value in readings.items()})
            for node, of_node in rows.items():
                self._log.add(node, at_s, list(of_node), list(of_node.values()))
            view.nodes = tuple(rows)
        view.looks += 1
        self._log.add("", at_s, [("", LOOKS)], [max(one.looks for one in self._views)])

    def _begin_optics(self) -> None:
        """Ask for all light, when no look is under way and it is time; at the end unless that was lately."""
        every_s = optics_watch.EVERY_S / 4 if self._last else optics_watch.EVERY_S
        now_s = self._inner.now()
        if self._under_way or self._optics.busy or now_s - self._optics_s < every_s:
            return
        if asks := [ask for one in self._views for ask in one.optics()]:
            self._optics_s = now_s
            for procedure in self._optics.round(asks, through={one.asker for one in self._views}):
                self._looks.begin(procedure)


def watching(executor: Executor, folder: Path, scenario: Scenario, inventory: Inventory) -> Executor:
    """The executor to run with: one that samples on the scenario's hosts and looks at all links where it says so."""
    topology, settings = inventory.topology, scenario.sample
    if settings is None:
        return executor
    watch = Watch(executor, folder, settings, sudo=inventory.changes.sudo)
    watch.begin([topology.hosts[name] for name in scenario.hosts])
    asked = dict.fromkeys((*((inventory.changes.via,) if inventory.changes.via else ()), *scenario.hosts))
    able = [name for name in asked if topology.hosts[name].platform.rnics]
    if not able or not settings.counters:
        return watch
    links = topology.links_between(scenario.hosts)
    nodes = {name.partition("/")[0] if "/" in name else name for link in links for name in (link.a, link.b)}
    try:
        return LinkWatch(watch, folder, inventory, able, settings.links_s, nodes=nodes)
    except BaseException:
        with suppress(StoreError):  # the first error counts; what was opened must not stay open
            watch.end()
        raise


def stop_watching(executor: Executor) -> None:
    """The last look is taken, and what was seen is on disk when this returns; nothing is done where nothing looks."""
    if isinstance(executor, LinkWatch):
        executor.finish()
    if isinstance(executor, Beside):
        executor.end()
