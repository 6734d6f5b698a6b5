"""The subnet managers of the simulated fabric: their files, who of them is master, and what that one programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fabric.model.change import SubnetManager
from fabric.sim.hosts.timeline import Timeline
from fabric.sim.routing import EVERY_SL, Forwarding

UPDATABLE = frozenset({"ar_sl_mask", "shield_mode", "sm_priority"})
"""
What a running manager reads anew on SIGHUP.

Only options with can_update = 1 in OpenSM's table are (opensm 3.3.24, osm_subnet.c, opt_tbl); ``routing_engine`` is not
one of them and needs a restart. ``ar_sl_mask`` and ``shield_mode`` are NVIDIA's own, which has no public table: choice.
"""

_DEALT = ("ftree", "updn", "minhop")
_BY_DEFAULT = "minhop"  # OpenSM's engine when none is named, or none of them is known

# The words of a file that ``opensm -c`` writes (3.3.23), with NVIDIA's keys for adaptive routing and SHIELD.
_TEXT = """\
# The port GUID on which the OpenSM is running
guid 0x0000000000000000

# The number of seconds between subnet sweeps (0 disables it)
sweep_interval 10

#
# ROUTING OPTIONS
#
# Multiple routing engines can be specified separated by
# commas so that specific ordering of routing algorithms will
# be tried if earlier routing engines fail.
routing_engine {engine}

# Adaptive routing: bit N enables service level N
ar_sl_mask 0x{mask:04X}
enable_ar_by_device_cap TRUE

# SHIELD: 0 - off, 1 - on, 2 - on without pFRN
shield_mode {shield}

# SM priority used for deciding who is the master
# Range goes from 0 (lowest priority) to 15 (highest).
sm_priority 0

log_file /var/log/opensm.log
"""


def conf_text(routing: str | None, *, shield: bool) -> str:
    """
    The file that a manager starts with on a network that is routed by *routing*, the inventory's ``mock.routing``.

    An engine that OpenSM does not have (``ecmp``, ``lft_random``) is not in the file; what stands there is ``updn``.
    """
    engine = "ftree" if routing is None else routing if routing in _DEALT else "updn"
    engine = "ar_updn" if routing == "ar" else engine
    return _TEXT.format(engine=engine, mask=EVERY_SL, shield=int(shield))


def settings_of(text: str) -> dict[str, str]:
    """Every key with its value; of a key that is there twice the last counts, as in OpenSM."""
    found = {}
    for line in text.splitlines():
        words = line.split(None, 1)
        if words and not words[0].startswith("#"):
            found[words[0]] = words[1].rstrip() if len(words) > 1 else ""
    return found


def with_settings(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """The file with these keys set: their lines changed, missing ones added at the end."""
    lines = text.splitlines()
    for key, value in pairs:
        wanted = f"{key} {value}"
        places = [number for number, line in enumerate(lines) if line.split(None, 1)[:1] == [key]]
        for number in places:
            lines[number] = wanted
        if not places:
            lines.append(wanted)
    return _joined(lines, text)


def with_lines_of(text: str, kept: str | None, words: Iterable[str]) -> str:
    """
    The file with the lines of some keys as *kept* has them, all others as they are.

    *words* are ``key=value``, or ``key`` of one that was not there; without *kept* they alone say what was.
    """
    before = {word.partition("=")[0]: word.partition("=")[2] if "=" in word else None for word in words}
    was = {key: [line for line in (kept or "").splitlines() if _key(line) == key] for key in before}
    if kept is None:
        same = {
            line for line in text.splitlines() if settings_of(f"{line}\n").get(_key(line)) == before.get(_key(line))
        }
        for key, value in before.items():
            found = [line for line in text.splitlines() if _key(line) == key][:1]
            was[key] = [] if value is None else [one if one in same else f"{key} {value}" for one in found or [""]]
    lines = []
    for line in text.splitlines():
        if _key(line) not in before:
            lines.append(line)
        elif was[_key(line)]:
            lines.append(was[_key(line)].pop(0))
    return _joined([*lines, *(line for key in before for line in was[key])], text)


def _key(line: str) -> str:
    return (line.split(None, 1) or [""])[0]


def _joined(lines: list[str], before: str) -> str:
    """Whether the last line ends with a line break stays as it was."""
    ends = "\n" if lines and (before.endswith("\n") or not before) else ""
    return "\n".join(lines) + ends


def forwarding_of(loaded: dict[str, str], routing: str | None) -> Forwarding:
    """
    What a manager that loaded these settings programs.

    An engine ``ar_X`` is adaptive routing over X. *routing* stays the static engine where the inventory names one.
    """
    engine = loaded.get("routing_engine", "").split(",")[0].strip()
    base = engine.removeprefix("ar_")
    static = base if base in _DEALT else _BY_DEFAULT
    if routing not in (None, "ar"):
        static = str(routing)
    shield = loaded.get("shield_mode", "1") != "0"
    return Forwarding(static, engine.startswith("ar_"), number_of(loaded, "ar_sl_mask", EVERY_SL), shield)


def number_of(loaded: dict[str, str], key: str, default: int) -> int:
    """A number in decimal or hex; *default* when it is missing or no number, which OpenSM logs and ignores."""
    try:
        return int(loaded.get(key, ""), 0)
    except ValueError:
        return default


RESTART_S = 1.0
"""From the end of a manager to its start when it is restarted. Choice: a process start and a discovery."""

OnSweep = Callable[[Forwarding, float], None]
"""Called with what the master wants of the switches, when it begins to sweep."""


@dataclass(slots=True, eq=False)
class _Manager:
    """One of them: whether it runs, and what it has loaded from its file; *turn* counts its starts and stops."""

    about: SubnetManager
    loaded: dict[str, str]
    alive: bool = True
    turn: int = 0

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
        program: OnSweep,
    ) -> None:
        self._routing = routing
        self._timeline = timeline
        self._program = program
        text = conf_text(routing, shield=shield)
        self.files = {(one.host, one.config): text for one in managers}
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
        return self.files.get((host, path))

    def write(self, host: str, path: str, text: str | None) -> None:
        """Make or change such a file; None removes it."""
        if text is None:
            self.files.pop((host, path), None)
        else:
            self.files[host, path] = text

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
        return self.files.get((one.about.host, one.about.config), "")

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
