"""The simulated switches that have a command line of their own (NVUE): what is set, staged, applied, and waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fabric.model.topology import Topology
from fabric.sim.hosts.timeline import Timeline

Config = Mapping[str, str]
"""Paths of NVUE's tree and their values: ``router adaptive-routing enable``: ``on``."""

AR = "router adaptive-routing"

Told = Callable[[bool, float], None]
"""Called when all switches together route adaptively, or no longer do."""


@dataclass(slots=True)
class NvueSwitch:
    """
    One of them; everybody who logs in is the same account.

    *staged*: set and not applied, None stands for unset. *waits*: what a commit that waits to be confirmed goes back
    to, and when. *commits*: what their authors said of them. *failing*: it refuses every commit.
    """

    name: str
    uplinks: int
    applied: dict[str, str]
    staged: dict[str, str | None] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    waits: tuple[Config, float] | None = None
    failing: bool = False

    @property
    def adaptive(self) -> bool:
        """Whether it routes adaptively: the switch as a whole and at least one interface are told to."""
        ports = (value for path, value in self.applied.items() if path.startswith("interface ") and AR in path)
        return self.applied.get(f"{AR} enable", "off") == "on" and "on" in ports

    def changes(self) -> dict[str, str | None]:
        """What is staged and would alter something."""
        return {path: value for path, value in self.staged.items() if self.applied.get(path) != value}


class NvueSwitches:
    """
    All of them. A commit is in force at once (choice: nothing says how long switchd takes).

    The fabric routes adaptively when every one of them does (choice: where some do not, hashes decide for all).
    """

    def __init__(self, topology: Topology, timeline: Timeline, told: Told, *, adaptive: bool) -> None:
        self._timeline, self._told = timeline, told
        self._switches: dict[str, NvueSwitch] = {}
        for name, login in topology.logins.items():
            if login.management == "nvue":
                uplinks = _trunks(topology, name)  # they may route adaptively; whether the switch does is one line
                applied = {f"interface swp1-{uplinks} {AR} enable": "on", "system hostname": name}
                applied |= {f"{AR} enable": "on"} if adaptive else {}
                self._switches[name] = NvueSwitch(name, uplinks, applied)
        self._adaptive = adaptive

    def __bool__(self) -> bool:
        return bool(self._switches)

    def of(self, name: str) -> NvueSwitch | None:
        """The switch of this name, None when it has no NVUE."""
        return self._switches.get(name)

    def apply(self, switch: NvueSwitch, at_s: float, *, message: str, confirm_s: float | None = None) -> int | None:
        """Apply what is staged; the number of the commit, None when there is nothing to apply."""
        changes = switch.changes()
        switch.staged.clear()
        if not changes:
            return None
        before = dict(switch.applied)
        for path, value in changes.items():
            if value is None:
                switch.applied.pop(path, None)
            else:
                switch.applied[path] = value
        if confirm_s is not None:
            switch.waits = (before, at_s + confirm_s)
            self._timeline.at(at_s + confirm_s, lambda now_s: self._roll_back(switch, before, now_s))
        return self._committed(switch, message, at_s)

    def confirm(self, switch: NvueSwitch) -> bool:
        """Keep what waits; False when nothing does."""
        waited, switch.waits = switch.waits is not None, None
        return waited

    def _roll_back(self, switch: NvueSwitch, before: Config, at_s: float) -> None:
        """Nobody confirmed it: all is as before that commit, also what was committed since."""
        if switch.waits is not None and switch.waits[0] is before:
            switch.waits = None
            switch.applied = dict(before)
            self._committed(switch, "rollback: not confirmed in time", at_s)

    def _committed(self, switch: NvueSwitch, message: str, at_s: float) -> int:
        switch.commits.append(message)
        adaptive = all(one.adaptive for one in self._switches.values())
        if adaptive != self._adaptive:
            self._adaptive = adaptive
            self._told(adaptive, at_s)
        return len(switch.commits)


def _trunks(topology: Topology, name: str) -> int:
    """How many cables to other switches it has; at least one port is always there."""
    found = 0
    for uplinks in topology.uplinks:
        found += uplinks.count * len(uplinks.upper) * uplinks.lower.count(name)
        found += uplinks.count * len(uplinks.lower) * uplinks.upper.count(name)
    return max(1, found)
