"""
What ends every change of a phase before its time: watched while changes are in force, over the run's own executor.

- a link that is no target goes down, or bit errors take their own link away;
- a host that holds a guard cannot be asked any more, or a lease is not renewed for half its time;
- a counter of a receiver grew above ``stop_above``.

The first one that is met is the ``reason``; taking back is up to whoever holds the changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import inf
from typing import Any

from fabric.changes.kind import Context, Counters, kind_of
from fabric.changes.procedure import Conductor, Silence
from fabric.changes.watching import Lookout, period_s, watch_cable, watch_counters, watch_host, watched_ports
from fabric.errors import ExecutorError, FabricError, HostUnreachable
from fabric.model.change import Change, Lease
from fabric.model.command import Command
from fabric.ports import Executor

RENEWED_WITHIN = 4
"""A renewal, asked for when a quarter of the lease is over, is answered within another such part, or is not coming."""

LIVE = frozenset({"armed", "in_force", "lifted"})
"""States of a change in which its guard must be reached, and links may go down because of it."""

Note = Callable[[str, Mapping[str, Any]], None]
"""Writes an event into the run's history."""


class StopConditions:
    """
    Of one phase; ``looks`` carries its looks out.

    ``reason`` is empty until one is met, ``since_s`` is the last time at which all was seen well.
    """

    def __init__(
        self, changes: tuple[Change, ...], context: Context, *, hosts: Collection[str], executor: Executor, note: Note
    ) -> None:
        self.reason, self.since_s = "", inf
        self._changes, self._context, self._executor, self._note = changes, context, executor, note
        self._faults = tuple(change for change in changes if change.is_fault)
        touched = {host for change in self._faults for host in change.hosts}
        self._hosts = tuple(sorted(touched.union(hosts))) if self._faults else ()
        self.looks = Conductor(executor)
        period = period_s(len(self._hosts))
        self._lookout = Lookout(executor.now, period, went_down=self._went_down, unreadable=self._unreadable)
        self._awaited: set[str] = set()
        self._live: dict[str, str] = {}  # change id to state
        self._guards: dict[str, frozenset[str]] = {}  # change id to the hosts of its guards
        self._before: dict[str, Counters] = {}
        self._forced_until_s = -inf
        self._said_unreadable: set[str] = set()

    @property
    def looked(self) -> bool:
        """Everything was looked at once: from now on a link that is seen down has gone down."""
        return self._awaited <= self._lookout.looked

    def begin(self) -> None:
        """Look at everything once, before anything is altered, and then again and again."""
        context, lookout = self._context, self._lookout
        watches = {}
        for host in self._hosts:
            ports = watched_ports(host, self._changes, context)
            if ports:
                watches[host] = watch_host(host, ports, lookout)
        for change in self._faults:
            if change.scope == "port" and not kind_of(change).closes and "/" not in change.component:
                watches[change.component] = watch_cable(change, context, lookout)
            if change.when.stop_above:
                before = partial(self._counters, change.change_id)
                watches[change.change_id] = watch_counters(change, context, lookout, before=before, stop=self._stop)
        self._awaited = set(watches)
        for watch in watches.values():
            self.looks.begin(watch)

    def entered(self, change: Change, state: str, fields: Mapping[str, Any]) -> None:
        """A change is in another state now; *fields* are those of the journal."""
        name = change.change_id
        if state == "intent":
            self._guards[name] = frozenset(one["host"] for one in fields["alterations"])
        if state in LIVE:
            self._live[name] = state
            if state == "in_force":
                self._before.setdefault(name, fields.get("counters", {}))
        elif self._live.pop(name, None) is not None and change.is_fault:
            self._forced_until_s = self._executor.now()

    def lost(self, change: Change, command: Command, error: ExecutorError) -> None:
        """What a change asked was lost: a guard that cannot be reached cannot be told anything later either."""
        told = change.change_id in self._live and guard_verb(command) in ("renew", "apply", "lift")
        if told and isinstance(error, HostUnreachable):
            self._stop(f"{change.change_id}: its guard cannot be reached: {error}")

    def due_s(self, change: Change, silence: Silence, lease: Lease) -> float:
        """When a change has waited too long for a renewal, executor's seconds; infinite when it waits for none."""
        if change.change_id not in self._live or guard_verb(silence.command) != "renew":
            return inf
        return silence.since_s + lease.ttl_s / RENEWED_WITHIN

    def not_renewed(self, change: Change, silence: Silence) -> None:
        """A change has waited too long for a renewal."""
        host = silence.command.host
        self._stop(f"{change.change_id}: its lease on {host} could not be renewed for half its time")

    def end(self, *, at_once: bool) -> None:
        """One more look at everything, or none when it is to be *at_once*."""
        if at_once:
            self.looks.drop()
        elif not self._lookout.ended:
            self._lookout.ended = True
            self.looks.wake()

    def _counters(self, change_id: str) -> Counters | None:
        """What the receivers of a change in force had counted before it was; None for one that is not in force."""
        return self._before.get(change_id) if change_id in self._live else None

    def _went_down(self, link: str, state: str, seen_s: float) -> None:
        live = [change for change in self._faults if change.change_id in self._live]
        if not live and self._forced_until_s < seen_s:
            return  # nothing of ours was in force since it was last seen up
        own = next((change for change in self._faults if change.component == link), None)
        if own is not None:
            self._stop(f"{link} went down ({state}): {own.change_id} was to make errors, not to take it away", seen_s)
        else:
            names = ", ".join(change.change_id for change in live or self._faults)
            self._stop(f"{link} went down ({state}), which is no target of {names}", seen_s)

    def _unreadable(self, host: str, error: FabricError) -> None:
        holds = [name for name in self._live if host in self._guards.get(name, ())]
        if holds and isinstance(error, ExecutorError):
            self._stop(f"{holds[0]}: the host of its guard does not answer: {error}")
        elif host not in self._said_unreadable:
            self._said_unreadable.add(host)
            self._note("unwatched", {"host": host, "reason": str(error)})

    def _stop(self, reason: str, since_s: float | None = None) -> None:
        if not self.reason:
            self.reason = reason
            self.since_s = self._executor.now() if since_s is None else since_s
            self._note("stop", {"reason": reason})


def guard_verb(command: Command) -> str:
    """What a guard is told by a command; empty for a command that is not for a guard."""
    argv = command.argv
    at = argv.index("fabric-guard") + 2 if "fabric-guard" in argv else len(argv)
    return argv[at] if at < len(argv) else ""
