"""The subnet managers of the simulated fabric: their files, which of them is master, and what the master programs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fabric.model.change import SubnetManager
from fabric.model.inventory import MockSettings
from fabric.sim import page
from fabric.sim.hosts.site import Ring
from fabric.sim.hosts.timeline import Timeline

EVERY_SL = 0xFFFF
"""The mask of service levels with adaptive routing when it is not narrowed (``ar_sl_mask``)."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """
    How the switches are programmed to forward.

    *engine*: how static paths are chosen. *adaptive*: service levels of *sl_mask* use adaptive routing instead.
    *shield*: a switch moves the routes of a dead port by itself.
    """

    engine: str
    adaptive: bool = False
    sl_mask: int = EVERY_SL
    shield: bool = False

    def adapts(self, ring: Ring) -> bool:
        """Return whether the packets of a ring are routed adaptively."""
        return ring.adaptive and self.adaptive and bool(self.sl_mask >> ring.service_level & 1)


UPDATABLE = frozenset({"ar_sl_mask", "shield_mode", "sm_priority"})
"""
Options that a running manager reads again on SIGHUP.

Only options with can_update = 1 in OpenSM's table are (opensm 3.3.24, osm_subnet.c, opt_tbl); ``routing_engine`` is not
one of them and needs a restart. ``ar_sl_mask`` and ``shield_mode`` are NVIDIA's own, which has no public table: choice.
"""

DEALT = ("ftree", "updn", "minhop")
"""OpenSM's engines that deal uplinks out in turn."""

_BY_DEFAULT = "minhop"  # OpenSM's engine when none is named, or none of them is known


def conf_text(mock: MockSettings) -> str:
    """
    Return the file that a manager starts with, for the routing that the mock asks for.

    It looks like a file that ``opensm -c`` writes (3.3.23), with NVIDIA's keys for adaptive routing and SHIELD. For an
    engine that OpenSM does not have (``ecmp``, ``lft_random``) the file names ``updn``.
    """
    routing = mock.routing or "ftree"
    engine = "ar_updn" if routing == "ar" else routing if routing in DEALT else "updn"
    return page("opensm.conf", engine=engine, mask=EVERY_SL, shield=int(mock.shield))


def settings_of(text: str) -> dict[str, str]:
    """Return every key with its value; the last line of a repeated key counts, as in OpenSM."""
    found = {}
    for line in text.splitlines():
        words = line.split(None, 1)
        if words and not words[0].startswith("#"):
            found[words[0]] = words[1].rstrip() if len(words) > 1 else ""
    return found


def with_settings(text: str, words: Iterable[str]) -> str:
    """Return the file with these keys (``key=value``) set: their lines changed, missing ones added at the end."""
    lines = text.splitlines()
    for key, _, value in (word.partition("=") for word in words):
        places = [number for number, line in enumerate(lines) if _key(line) == key]
        for number in places:
            lines[number] = f"{key} {value}"
        lines += [] if places else [f"{key} {value}"]
    return _joined(lines, text)


def with_lines_of(text: str, kept: str | None, words: Iterable[str]) -> str:
    """
    Return the file with the lines of some keys restored from *kept*, and all other lines as they are.

    *words* are ``key=value``, or ``key`` for a key that was not there; without *kept* they alone give the old state.
    """
    before = {word.partition("=")[0]: word.partition("=")[2] if "=" in word else None for word in words}
    was = {key: [line for line in (kept or "").splitlines() if _key(line) == key] for key in before}
    for key, value in before.items() if kept is None else ():
        line = next((line for line in text.splitlines() if _key(line) == key), "")
        same = settings_of(line).get(key) == value
        was[key] = [] if value is None else [line if same else f"{key} {value}"]
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
    """Join lines to a file; it ends with a line break if *before* does."""
    ends = "\n" if lines and (before.endswith("\n") or not before) else ""
    return "\n".join(lines) + ends


def active_engine(loaded: Mapping[str, str], *, public: bool = False) -> str:
    """
    Return the engine of a manager that loaded these settings: the first of its list that it knows, else minhop.

    ``ar_X`` is adaptive routing over X, of NVIDIA's OpenSM only (setup_routing_engine in osm_opensm.c knows none).
    """
    known = {*DEALT, *(() if public else (f"ar_{engine}" for engine in DEALT))}
    asked = (one.strip() for one in loaded.get("routing_engine", "").split(","))
    return next((one for one in asked if one in known), _BY_DEFAULT)


def forwarding_of(loaded: Mapping[str, str], routing: str | None, *, public: bool = False) -> Forwarding:
    """Return what a manager with these settings programs; a static engine named by *routing* stays in use."""
    engine = active_engine(loaded, public=public)
    static = engine.removeprefix("ar_") if routing in (None, "ar") else str(routing)
    shield = loaded.get("shield_mode", "1") != "0"
    return Forwarding(static, engine.startswith("ar_"), number_of(loaded, "ar_sl_mask", EVERY_SL), shield)


def number_of(loaded: Mapping[str, str], key: str, default: int) -> int:
    """Return a number in decimal or hex; *default* when it is missing or no number, which OpenSM logs and ignores."""
    try:
        return int(loaded.get(key, ""), 0)
    except ValueError:
        return default


_INFO, _ERROR, _SYS = 2, 1, 128
LOG = "/var/log/opensm.log"
RESTART_S = 1.0
"""Time from the end of a manager to its start in a restart. A choice: a process start and a discovery."""

OnSweep = Callable[[Forwarding, float], None]
"""Called with the forwarding that the master wants, when it begins to sweep."""


@dataclass(slots=True, eq=False)
class _Manager:
    """One manager: whether it runs, and the settings it has loaded; *epoch* counts its starts and stops."""

    about: SubnetManager
    loaded: dict[str, str]
    alive: bool = True
    epoch: int = 0
    log: list[tuple[float, str, bool]] = field(default_factory=list)  # when, what, whether this line flushes the buffer

    def says(self, at_s: float, text: str, level: int) -> None:
        """
        Log one line; it stays in a buffer until an error or a change of state follows.

        With ``force_log_flush`` every line is written at once (osm_log.c: fflush). INFO is level 2, SYS 128, ERROR 1.
        """
        whole = level != _INFO or self.loaded.get("force_log_flush", "").upper() == "TRUE"
        stamp = f"Nov 22 {int(at_s // 3600) % 24:02d}:{int(at_s // 60) % 60:02d}:{int(at_s) % 60:02d} 000000 [5A1D6C0]"
        self.log.append((at_s, f"{stamp} 0x{level:02x} -> {text}\n", whole))
        self.log.sort(key=lambda line: line[0])

    def written(self, at_s: float) -> str:
        """Return what is in its log at *at_s*."""
        there = [line for line in self.log if line[0] <= at_s]
        last = max((number for number, line in enumerate(there) if line[2]), default=-1)
        return "".join(text for _, text, _ in there[: last + 1])

    @property
    def priority(self) -> int:
        return number_of(self.loaded, "sm_priority", 0)


class SubnetManagers:
    """
    The managers that the inventory names; without any, an unreachable manager does what the inventory says.

    The master has the highest priority; at equal priority the first in order is master at the start. When it ends, the
    next one takes over at once (choice: OpenSM polls a silent master for 40 s first) and programs what *its* file says.
    A manager that comes back with a higher priority takes over again; at equal priority the master stays, which is the
    purpose of ``master_sm_priority`` of NVIDIA's manager (it avoids a second handover). *files*: the managers' files,
    by host and path.
    """

    def __init__(
        self,
        managers: tuple[SubnetManager, ...],
        mock: MockSettings,
        *,
        timeline: Timeline,
        on_sweep: OnSweep,
    ) -> None:
        self._mock, self._public = mock, "public_opensm" in mock.site
        self._timeline, self._on_sweep = timeline, on_sweep
        text = conf_text(mock)
        self.files = {(one.host, one.config): text for one in managers}
        self._managers = {one.host: _Manager(one, settings_of(text)) for one in managers}
        self._master = next(iter(self._managers.values()), None)
        for one in self._managers.values():
            self._begun(one, 0.0)
            one.says(0.0, f"Entering {'MASTER' if one is self._master else 'STANDBY'} state", _SYS)
        if self._master is not None:  # it has run for long, so all of its buffer is written
            self._configured(self._master, 0.0)
            self._master.says(0.0, "SUBNET UP", _SYS)

    @property
    def sweeps(self) -> bool:
        """Return whether some manager routes around a link that goes down."""
        return not self._managers or self._master is not None

    @property
    def master(self) -> tuple[SubnetManager, int] | None:
        """Return the master and its priority; None when the inventory names none, or none runs."""
        return None if self._master is None else (self._master.about, self._master.priority)

    def runs_on(self, host: str) -> bool | None:
        """Return whether the manager of a host runs; None when that host has none."""
        return self._managers[host].alive if host in self._managers else None

    def hang_up(self, host: str, at_s: float) -> None:
        """Handle SIGHUP: read the options that may change at run time, and sweep."""
        one = self._managers[host]
        if not one.alive:
            return
        fresh = settings_of(self._file(one))
        one.loaded |= {key: value for key, value in fresh.items() if key in UPDATABLE}
        if one is self._master:
            best = self._best()
            self._crown(one if best is None or best.priority <= one.priority else best, at_s)
        else:
            self._arrived(one, at_s)

    def stop(self, host: str, at_s: float) -> None:
        """Stop a manager; the best of the others takes over."""
        one = self._managers[host]
        if not one.alive:
            return
        one.alive = False
        one.epoch += 1
        one.log = [line for line in one.log if line[0] <= at_s]  # drops lines of the future that it will not write
        one.says(at_s, "Exiting SM", _SYS)
        if one is self._master:
            self._crown(self._best(), at_s)

    def start(self, host: str, at_s: float) -> None:
        """Start a manager: after RESTART_S it has read all of its file, and finds its place."""
        one = self._managers[host]
        if one.alive:
            return
        one.epoch = epoch = one.epoch + 1

        def up(now_s: float) -> None:
            if one.epoch == epoch:
                one.alive = True
                one.loaded = settings_of(self._file(one))
                self._begun(one, now_s)
                self._arrived(one, now_s)

        self._timeline.at(at_s + RESTART_S, up)

    def restart(self, host: str, at_s: float) -> None:
        """Stop a manager and start it again."""
        self.stop(host, at_s)
        self.start(host, at_s)

    def _file(self, one: _Manager) -> str:
        return self.files.get((one.about.host, one.about.config), "")

    def _best(self) -> _Manager | None:
        alive = [one for one in self._managers.values() if one.alive]
        return max(alive, key=lambda one: one.priority, default=None)  # max keeps the first of equals

    def _arrived(self, one: _Manager, at_s: float) -> None:
        """Make a manager master when its priority is higher than the master's."""
        if self._master is None or one.priority > self._master.priority:
            self._crown(one, at_s)

    def _crown(self, one: _Manager | None, at_s: float) -> None:
        before, self._master = self._master, one
        if before is not None and before is not one and before.alive:
            before.says(at_s, "Entering STANDBY state", _SYS)
        if one is not None:
            if before is not one:
                one.says(at_s, "Entering MASTER state", _SYS)
            self._configured(one, at_s + self._mock.sm_reroute_s)
            self._on_sweep(forwarding_of(one.loaded, self._mock.routing, public=self._public), at_s)

    def _begun(self, one: _Manager, at_s: float) -> None:
        """Log the start of a manager."""
        one.says(at_s, "OpenSM 5.17.2", _SYS)
        known = active_engine(one.loaded, public=self._public)
        asked = one.loaded.get("routing_engine", "").split(",")[0].strip()
        if asked != known:
            one.says(at_s, f"setup_routing_engine: cannot find or setup routing engine '{asked}'", _ERROR)

    def _configured(self, one: _Manager, at_s: float) -> None:
        engine = active_engine(one.loaded, public=self._public)
        one.says(at_s, f"osm_ucast_mgr_process: {engine} tables configured on all switches", _INFO)

    def engine(self, at_s: float) -> str | None:
        """
        Return the engine in the master's last log line about it; None when the inventory names no manager, or none
        runs.
        """
        done = [] if self._master is None else [line for line in self._master.log if line[0] <= at_s]
        configured = [text for _, text, _ in done if " tables configured" in text]
        return configured[-1].partition(": ")[2].partition(" ")[0] if configured else None

    def log(self, host: str, path: str, at_s: float) -> str | None:
        """Return the log of the manager on a host; None when *path* is not its log file."""
        one = self._managers.get(host)
        return one.written(at_s) if one is not None and path == one.loaded.get("log_file", LOG) else None
