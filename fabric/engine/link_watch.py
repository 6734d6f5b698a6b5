"""
Both ends of every cable, read beside the probes: before the first, again and again while they run, and after the last.

On InfiniBand one port of each subnet (a rail or a plane that nothing joins with the others is one) asks all switches
and adapters of it at once. A host that cannot is not asked again at once: another one is. On Ethernet each switch that
has a login, and each host, tells of its own ports. A look that fails costs nothing but its time: counters go on
counting meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path

from fabric.engine import optics_watch
from fabric.engine.link_views import View
from fabric.engine.optics_watch import OpticsWatch
from fabric.engine.roce_views import HostView, SwitchView, switches_of
from fabric.engine.subnet_view import Subnet, askers_of
from fabric.engine.watching import Beside, Watch
from fabric.errors import ExecutorError, StoreError, ToolError
from fabric.model.inventory import Inventory
from fabric.model.sampling import Value
from fabric.model.scenario import Scenario
from fabric.model.text import fold
from fabric.ports import Ended, Executor, Happening, Lost, Ticket
from fabric.runs.links import LinkLog

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
        now_s = self._again_s = executor.now()
        platforms = {name: inventory.topology.hosts[name].platform for name in hosts}
        on_infiniband = [name for name, one in platforms.items() if one.link_layer == "infiniband"]
        switches, self._mute = switches_of(inventory.topology, nodes)
        self._views: list[View] = [
            *(Subnet(askers, inventory, nodes, now_s) for askers in askers_of(inventory, on_infiniband)),
            *(SwitchView(name, inventory, nodes, now_s) for name in switches),
            *(HostView(name, inventory, now_s) for name in hosts if name not in on_infiniband),
        ]
        self._open: dict[Ticket, tuple[View, str]] = {}
        self._optics = OpticsWatch(executor, self._log)
        self._failed = ""

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the executor's; also returns, with nothing, when a look at the links ended."""
        idle = self._idle()
        for view in idle:
            if self._inner.now() >= view.due_s:
                self._look(view)
        due_s = min((view.due_s for view in self._idle()), default=inf)
        found = self._inner.wait(min(until_s, due_s))
        return [one for one in found if not self._optics.took(one) and not self._is_ours(one)]

    def _idle(self) -> list[View]:
        busy = {id(view) for view, _ in self._open.values()}
        return [view for view in self._views if id(view) not in busy]

    def finish(self) -> None:
        """Look once more, now: nothing else is under way."""
        self._settle()
        now_s = self._inner.now()
        for view in self._views:
            view.whole, view.due_s = True, now_s
        if now_s - (self._optics.began_s or 0.0) < optics_watch.EVERY_S / 4:
            self._again_s = inf
        self._settle()
        if self._mute:
            why = f"nothing asks {fold(self._mute)}: add `address` and `management: nvue` under switches:"
            self._log.failed(f"{why}; {self._failed}" if self._failed else why)

    def _settle(self) -> None:
        """Wait for all looks that are due or under way."""
        until_s = self._inner.now() + OPTICS_S
        while self._inner.now() < until_s and (self._open or self._optics.busy or self._is_due()):
            self.wait(until_s)

    def _is_due(self) -> bool:
        return any(self._inner.now() >= view.due_s for view in self._idle())

    def end(self) -> None:
        """Write down what was seen."""
        for ticket in self._open:
            self._inner.cancel(ticket)
        self._open.clear()
        self._optics.stop()
        self._log.close()
        super().end()

    def _look(self, view: View) -> None:
        view.due_s = self._inner.now() + (optics_watch.EVERY_S if view.seldom else self._every_s)
        view.answers.clear()
        for name, command in view.commands().items():
            self._open[self._inner.start(command)] = view, name

    def _is_ours(self, happening: Happening) -> bool:
        view, name = self._open.get(happening.ticket, (None, ""))
        if view is None:
            return False
        if isinstance(happening, Ended):
            del self._open[happening.ticket]
            view.answers[name] = happening.result
            if all(asked is not view for asked, _ in self._open.values()):
                self._judge_look(view)
        elif isinstance(happening, Lost):
            del self._open[happening.ticket]
            self._give_up(view, happening.error)
        return True

    def _give_up(self, view: View, why: ExecutorError | ToolError) -> None:
        """Ask another host at once, but not for ever."""
        for ticket in [ticket for ticket, (asked, _) in self._open.items() if asked is view]:
            self._inner.cancel(ticket)
            del self._open[ticket]
        self._failed = f"{view.asker}: {why}"[:300]
        self._log.failed(self._failed)
        view.turn, view.tries = view.turn + 1, view.tries + 1
        if view.tries < min(TRIES, len(view.askers)):
            view.due_s = self._inner.now()
        else:
            view.tries = 0

    def _judge_look(self, view: View) -> None:
        try:
            self._take(view)
        except ToolError as exc:
            self._give_up(view, exc)
        else:
            view.tries, view.whole, view.looks = 0, False, view.looks + 1
        if self._open or self._optics.busy or self._is_due() or self._inner.now() < self._again_s:
            return
        if asks := [ask for one in self._views for ask in one.optics()]:
            self._again_s = self._inner.now() + optics_watch.EVERY_S
            self._optics.begin(asks, through={one.asker for one in self._views})

    def _take(self, view: View) -> None:
        """Write down what a look found."""
        for result in view.answers.values():
            if result.truncated:
                raise ToolError(f"{result.command.argv[0]} printed more than can be kept")
        at_s = max(result.started_s for result in view.answers.values())
        seen = view.seen()
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
        looks = max(1 + one.looks if one is view else one.looks for one in self._views)
        self._log.add("", at_s, [("", LOOKS)], [looks])


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
