"""The subnet managers of the simulated fabric: their files, who of them is master, and what that one programs."""

from __future__ import annotations

from collections.abc import Callable

from fabric.model.change import SubnetManager
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.routing import Forwarding
from fabric.sim.subnet.opensm_conf import UPDATABLE, conf_text, forwarding_of, number_of, settings_of

RESTART_S = 1.0
"""From the end of a manager to its start when it is restarted. Choice: a process start and a discovery."""

Program = Callable[[Forwarding, float], None]
"""Called with what the master wants of the switches, when it begins to sweep."""


class _Manager:
    """One of them: whether it runs, and what it has loaded from its file; *turn* counts its starts and stops."""

    __slots__ = ("about", "alive", "loaded", "turn")

    def __init__(self, about: SubnetManager, loaded: dict[str, str]) -> None:
        self.about = about
        self.loaded = loaded
        self.alive = True
        self.turn = 0

    @property
    def priority(self) -> int:
        return number_of(self.loaded, "sm_priority", 0)


class SubnetManagers:
    """
    Those that the inventory names; with none of them a manager that nobody can reach does what the inventory says.

    The master has the highest priority; at equal priority the first in order is it at the start. When it ends, the next
    one takes over at once (choice: OpenSM polls a silent master for 40 s first) and programs what *its* file says. One
    that comes back with a higher priority takes over again; at equal priority the master stays, which is what
    ``master_sm_priority`` of NVIDIA's manager is for (against a second handover).
    """

    def __init__(
        self,
        managers: tuple[SubnetManager, ...],
        *,
        routing: str | None,
        shield: bool,
        timeline: Timeline,
        program: Program,
    ) -> None:
        self._routing = routing
        self._timeline = timeline
        self._program = program
        text = conf_text(routing, shield=shield)
        self._files = {(one.host, one.config): text for one in managers}
        self._managers = [_Manager(one, settings_of(text)) for one in managers]
        self._unreached = forwarding_of(settings_of(text), routing)
        self._master = self._managers[0] if self._managers else None

    @property
    def forwarding(self) -> Forwarding:
        """What the master has loaded, programmed or about to be."""
        return self._unreached if self._master is None else forwarding_of(self._master.loaded, self._routing)

    @property
    def sweeps(self) -> bool:
        """Whether somebody is there who routes around a link that goes down."""
        return not self._managers or self._master is not None

    @property
    def master(self) -> tuple[SubnetManager, int] | None:
        """The master and its priority; None when the inventory names none, or none runs."""
        return None if self._master is None else (self._master.about, self._master.priority)

    def runs_on(self, host: str) -> bool | None:
        """Whether the manager of a host runs; None when that host has none."""
        found = self._of(host)
        return None if found is None else found.alive

    def read(self, host: str, path: str) -> str | None:
        """A file of a host that has to do with its manager; None when there is no such file."""
        return self._files.get((host, path))

    def write(self, host: str, path: str, text: str | None) -> None:
        """Make or change such a file; None removes it."""
        if text is None:
            self._files.pop((host, path), None)
        else:
            self._files[host, path] = text

    def hang_up(self, host: str, at_s: float) -> None:
        """SIGHUP: read what may change at run time, and sweep."""
        one = self._of(host)
        if one is None or not one.alive:
            return
        fresh = settings_of(self._file(one))
        one.loaded |= {key: value for key, value in fresh.items() if key in UPDATABLE}
        if one is self._master:
            best = self._best()
            self._crown(one if best is None or best.priority <= one.priority else best, at_s)
        else:
            self._arrived(one, at_s)

    def stop(self, host: str, at_s: float) -> None:
        """End a manager; the best of the others takes over."""
        one = self._of(host)
        if one is None or not one.alive:
            return
        one.alive = False
        one.turn += 1
        if one is self._master:
            self._crown(self._best(), at_s)

    def start(self, host: str, at_s: float) -> None:
        """Start a manager: in a moment it has read all of its file and finds its place."""
        one = self._of(host)
        if one is None or one.alive:
            return
        one.turn += 1
        turn = one.turn

        def up(now_s: float) -> None:
            if one.turn == turn:
                one.alive = True
                one.loaded = settings_of(self._file(one))
                self._arrived(one, now_s)

        self._timeline.at(at_s + RESTART_S, up)

    def restart(self, host: str, at_s: float) -> None:
        """End it and start it."""
        self.stop(host, at_s)
        self.start(host, at_s)

    def _of(self, host: str) -> _Manager | None:
        return next((one for one in self._managers if one.about.host == host), None)

    def _file(self, one: _Manager) -> str:
        return self._files.get((one.about.host, one.about.config), "")

    def _best(self) -> _Manager | None:
        alive = [one for one in self._managers if one.alive]
        return max(alive, key=lambda one: one.priority, default=None)  # max keeps the first of equals

    def _arrived(self, one: _Manager, at_s: float) -> None:
        """A manager that is not master may have become better than the one that is."""
        if self._master is None or one.priority > self._master.priority:
            self._crown(one, at_s)

    def _crown(self, one: _Manager | None, at_s: float) -> None:
        self._master = one
        if one is not None:
            self._program(self.forwarding, at_s)
