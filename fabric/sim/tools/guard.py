"""The guard of a change in the simulated rack: answers in the words of the real one, in simulated time.

``sh -c TEXT fabric-guard DIRECTORY VERB ARGS...``: the text is not read, only the words after it. Guards are kept per
host and directory.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from fabric.sim.hashing import mix64
from fabric.sim.hosts.site import Site
from fabric.sim.hosts.timeline import Process
from fabric.sim.rack import ChangeFolder, Rack
from fabric.sim.tools.call import ANSWER_S, Program, Surroundings, ToolCall, ToolJob, ToolOutput
from fabric.sim.tools.interfaces import MANAGEMENT, interfaces

Meaning = Callable[[Sequence[str], Surroundings], Program]
"""Returns the program of a command line (``job_of``)."""

NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Steps:
    """Runs command lines on one host at one instant; some tools print *pid*."""

    rack: Rack
    site: Site
    meaning: Meaning
    pid: int

    def known(self, line: str) -> str | None:
        """Return the command of a step or a check that this host lacks, None when it is there."""
        words = _words(line)
        words = words[words.index("--") + 1 :] if "--" in words else words
        job = self.meaning(words[:1], Surroundings())
        tool = job.tool if isinstance(job, ToolJob) else None
        return words[0] if isinstance(tool, ToolOutput) and tool.status == NOT_FOUND else None

    def run(self, words: Sequence[str], at_s: float) -> ToolOutput:
        """Run one step; a program that takes time cannot be a step here, and counts as not found."""
        job = self.meaning(words, Surroundings())
        output = job.run_on(self.rack, self.site, at_s, self.pid) if isinstance(job, ToolJob) else None
        return output or ToolOutput(stderr=f"{words[0]}: simulated rack: not as a step of a change\n", status=NOT_FOUND)

    def undone(self, undo: str, checks: str, at_s: float) -> str:
        """Run every step of an undo, then every check; return what was wrong, empty when nothing was."""
        wrong = ""
        for line in undo.splitlines():
            output = self.run(_words(line), at_s)
            if output.status != 0:
                wrong += f"undo ended with {output.status}: {shown(line)}\n{output.stdout}{output.stderr}"
        return wrong + "".join(self._check(line, at_s) for line in checks.splitlines())

    def _check(self, line: str, at_s: float) -> str:
        words = _words(line)
        end = words.index("--")
        output = self.run(words[end + 1 :], at_s)
        if output.status != 0:
            return f"check ended with {output.status}: {line}\n{output.stdout}{output.stderr}"
        for pattern in words[:end]:
            if not any(re.search(pattern, text) for text in output.stdout.splitlines()):
                return f"check does not find {pattern}: {line}\n{output.stdout}"
        return ""


@lru_cache(maxsize=256)
def _words(line: str) -> tuple[str, ...]:
    """Split a line as a shell does; cached because steps are long, few, and used again and again."""
    return tuple(shlex.split(line))


def shown(line: str) -> str:
    """Return a step as messages show it: for ``sh -c TEXT NAME ...`` only what comes after NAME."""
    words = _words(line)
    return " ".join(words[3:]) if words[:2] == ("sh", "-c") and len(words) > 3 else line


LOOK_S = 0.2
"""Time from the end of a lease to the guard's look; the real one looks every 0.25 s."""

WAIT_S = 2.0
"""How long the guard waits for the lock; then it undoes without it, and does not trust the result (as the real one)."""

MOST_BACKOFF_S = 30.0


class GuardProcess:
    """The guard process of one change. It read undo and checks when it began, and no longer needs those files."""

    def __init__(self, folder: dict[str, ChangeFolder], held: ChangeFolder, steps: Steps) -> None:
        self._rack, self._folder, self._held, self._steps = steps.rack, folder, held, steps
        self._undo, self._checks = held.undo or "", held.checks or ""
        self._backoff_s = 1.0
        self._look_s = 0.0
        self._waits_from_s: float | None = None

    def watch(self, at_s: float) -> None:
        """Look next at this time, and at no other."""
        self._look_s = at_s
        self._rack.timeline.at(at_s, partial(self._look, at_s))

    def _look(self, asked_s: float, now_s: float) -> None:
        held = self._held
        if asked_s != self._look_s or not held.alive or self._folder.get(held.guard_id) is not held:
            return
        if held.left_s(now_s) > 0:
            self.watch((held.lease_s or 0.0) + LOOK_S)
            return
        locked = held.locked(now_s, self._rack.timeline.alive)
        if locked:
            self._waits_from_s = now_s if self._waits_from_s is None else self._waits_from_s
            if now_s < self._waits_from_s + WAIT_S:
                self.watch(now_s + LOOK_S)
                return
        self._waits_from_s = None
        wrong = self._undone(now_s)
        if not wrong and not locked and not held.applying(now_s):
            held.becomes("reverted")
            held.alive = False
            return
        held.becomes("stuck")
        self.watch(now_s + self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, MOST_BACKOFF_S)

    def _undone(self, now_s: float) -> str:
        """Undo the change and return what is wrong then; a host that hangs does nothing until it hangs no more."""
        if self._rack.hosts.kind(self._steps.site.host.name) == "hanging":
            return "the host hangs\n"
        return self._steps.undone(self._undo, self._checks, now_s)


NAME = "fabric-guard"
LOOK_NAME = "fabric-held"
"""The name ($0) of the command that looks for directories in which a guard may have kept something."""
LOCK_S = 10.0
"""How long a call waits for the lock of its change (as the real one)."""

_LOCK_LOOK_S = 0.05

_ID = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,128}")


class Wrong(Exception):
    """The call ends with *status*; the message is its answer."""

    def __init__(self, status: int, answer: str, stderr: str = "") -> None:
        super().__init__(answer)
        self.status, self.stderr = status, stderr


class GuardCall:
    """One call; it acts and answers a moment after it starts, an apply a moment later for each step."""

    def __init__(self, words: tuple[str, ...], meaning: Meaning) -> None:
        self._words, self._meaning = words, meaning

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Start the call, unless it is killed before."""
        call = _Call(rack, process, self._words, self._meaning, at_s)
        rack.timeline.at(at_s + ANSWER_S, call.act)


class _Call:
    """A call under way on one host."""

    def __init__(self, rack: Rack, process: Process, words: tuple[str, ...], meaning: Meaning, began_s: float) -> None:
        self._began_s = began_s
        self._rack, self._process, self._site = rack, process, process.site
        self._directory, self._verb, self._args = (words[0], words[1], words[2:]) if len(words) > 1 else ("", "", ())
        self._steps = Steps(rack, process.site, meaning, process.pid)
        self._held = rack.guards.setdefault((process.site.host.name, self._directory), {})

    def act(self, now_s: float) -> None:
        """Do what the verb says."""
        if self._process.pid not in self._rack.timeline.alive:
            return
        verb = _VERBS.get(self._verb)
        try:
            if verb is None or len(self._args) != verb[1]:
                raise Wrong(64, f"usage no verb {self._verb}")
            if self._args and not _ID.fullmatch(self._args[0]):
                raise Wrong(64, f"usage bad id {self._args[0]}")
            if self._verb in _LOCKING and self._must_wait(now_s):
                self._rack.timeline.at(now_s + _LOCK_LOOK_S, self.act)
                return
            answer = verb[0](self, now_s)
        except Wrong as wrong:
            self._end(now_s, f"{wrong}\n", stderr=wrong.stderr, status=wrong.status)
        else:
            if answer is not None:
                self._end(now_s, answer)

    def _must_wait(self, now_s: float) -> bool:
        """Return whether another call acts on this change; after LOCK_S raise Wrong instead."""
        held = self._known()
        if not held.locked(now_s, self._rack.timeline.alive, by=self._process.pid):
            return False
        if now_s < self._began_s + LOCK_S:
            return True
        if self._verb != "revert":
            raise Wrong(73, f"busy {held.guard_id} owner {held.owner}")
        raise self._not_undone(held, "another call holds this change\n", now_s)

    def _end(self, now_s: float, stdout: str, *, stderr: str = "", status: int = 0) -> None:
        self._rack.timeline.exit(self._process, now_s, status=status, stdout=stdout, stderr=stderr)

    def _known(self) -> ChangeFolder:
        held = self._held.get(self._args[0])
        if held is None:
            raise Wrong(72, f"unknown {self._args[0]}")
        return held

    def _live(self, now_s: float) -> ChangeFolder:
        held = self._known()
        if held.gone(now_s, self._boot):
            raise Wrong(75, f"gone {held.guard_id}")
        return held

    def _arm(self, now_s: float) -> str:
        guard_id, owner, ttl, hold, _, devices, undo, checks, kept = self._args
        ttl_s, hold_s = _seconds(ttl), _seconds(hold)
        for line in (*undo.splitlines(), *checks.splitlines()):
            missing = self._steps.known(line)
            if missing is not None:
                raise Wrong(78, f"missing {missing}")
        self._sweep(guard_id, owner, now_s)
        named = tuple(device for device in devices.split(",") if device)
        self._allow(named, now_s)
        term_s = now_s + hold_s
        held = ChangeFolder(guard_id, owner, named, undo, checks, term_s, min(now_s + ttl_s, term_s), boot=self._boot)
        held.kept = bool(kept)
        guard = GuardProcess(self._held, held, self._steps)
        held.watch = guard.watch
        self._held[guard_id] = held
        guard.watch((held.lease_s or 0.0) + LOOK_S)
        return f"armed {guard_id} ttl {ttl} boot {self._boot_id()} kept {'unit' if kept else 'none'}\n"

    def _sweep(self, guard_id: str, owner: str, now_s: float) -> None:
        for other in list(self._held.values()):
            free = not other.locked(now_s, self._rack.timeline.alive)
            if other.state == "reverted" or (free and other.abandoned(now_s, self._boot)):
                del self._held[other.guard_id]
            elif other.owner != owner or other.guard_id == guard_id:
                raise Wrong(73, f"busy {other.guard_id} owner {other.owner}")

    def _allow(self, devices: tuple[str, ...], now_s: float) -> None:
        asked = ToolCall(self._rack, self._site, (), now_s, self._process.pid)
        for device in devices:
            if device == MANAGEMENT:
                raise Wrong(77, f"forbidden {device} carries the session through {MANAGEMENT}")
            if device not in interfaces(asked) and asked.local_port(device) is None:
                raise Wrong(77, f"forbidden {device} unknown device")

    @property
    def _boot(self) -> int:
        return self._rack.boots.get(self._site.host.name, 0)

    def _boot_id(self) -> str:
        bits = "".join(f"{mix64(self._site.name_hash + 2 * self._boot + half):016x}" for half in (0, 1))
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"

    def _apply(self, now_s: float) -> None:
        held = self._live(now_s)
        self._allow(held.devices, now_s)
        if held.applying(now_s):
            raise Wrong(73, f"busy {held.guard_id} owner {held.owner}")
        held.lock_pid = self._process.pid
        held.becomes("applied")
        self._step(held, self._args[1].splitlines(), "", now_s)

    def _step(self, held: ChangeFolder, lines: list[str], printed: str, now_s: float) -> None:
        """Begin the next step of an apply; each step needs a live lease."""
        if self._process.pid not in self._rack.timeline.alive:
            return
        if held.gone(now_s, self._boot) or self._held.get(held.guard_id) is not held:
            self._end(now_s, f"{printed}\ngone {held.guard_id}\n", status=75)
        elif not lines:
            self._end(now_s, f"{printed}\napplied {held.guard_id}\n")
        else:
            held.step_until_s = now_s + ANSWER_S
            self._rack.timeline.at(now_s + ANSWER_S, partial(self._carry_out, held, lines, printed))

    def _carry_out(self, held: ChangeFolder, lines: list[str], printed: str, now_s: float) -> None:
        """Carry out a step that has begun, even when its caller is gone, unless the host has rebooted."""
        if held.boot != self._boot:
            return
        output = self._steps.run(_words(lines[0]), now_s)
        printed += output.stdout
        if output.status != 0:
            self._end(now_s, f"{printed}\nfailed {output.status} {shown(lines[0])}\n", stderr=output.stderr, status=71)
            return
        self._step(held, lines[1:], printed, now_s)

    def _renew(self, now_s: float) -> str:
        held = self._live(now_s)
        held.lease_s = min(now_s + _seconds(self._args[1]), held.term_s)
        return f"renewed {held.guard_id} left {held.lease_s - now_s:.2f}\n"

    def _lift(self, now_s: float) -> str:
        held = self._live(now_s)
        wrong = self._undone(held, now_s)
        if wrong:
            raise Wrong(76, f"not-undone {held.guard_id}", wrong)
        held.becomes("armed")
        return f"lifted {held.guard_id}\n"

    def _revert(self, now_s: float) -> str:
        held = self._known()
        how = " by-guard" if held.state == "reverted" else ""
        wrong = self._undone(held, now_s)
        if wrong:
            raise self._not_undone(held, f"{wrong}not undone: {held.guard_id}\n", now_s)
        del self._held[held.guard_id]
        return f"reverted {held.guard_id}{how}\n"

    def _undone(self, held: ChangeFolder, now_s: float) -> str:
        """Undo the change by what the folder says, and return what is wrong then."""
        if held.undo is None or held.checks is None:
            return f"undo or checks are missing in {self._directory}/{held.guard_id}\n"
        wrong = self._steps.undone(held.undo, held.checks, now_s)
        return wrong or ("a step of an apply still runs\n" if held.applying(now_s) else "")

    def _not_undone(self, held: ChangeFolder, why: str, now_s: float) -> Wrong:
        """End the lease and return the answer; a guard that lives goes on trying."""
        held.lease_s = None
        if held.state == "reverted":
            held.becomes("stuck")
        if held.alive and held.watch is not None:
            held.watch(now_s)
        return Wrong(76, f"not-undone {held.guard_id}", why)

    def _list(self, now_s: float) -> str:
        return "".join(self._held[guard_id].listed(now_s, self._boot) for guard_id in sorted(self._held))


def held(asked: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    """Answer ``sh -c TEXT fabric-held DIRECTORY...``: exit status 0 where one directory holds a change."""
    return ToolOutput(status=int(not any(asked.rack.guards.get((asked.site.host.name, name)) for name in words)))


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d{1,8}(\.\d*)?", text):
        raise Wrong(64, f"usage {text} is not a number of seconds")
    return float(text)


# The verbs, and how many arguments each takes.
_VERBS = {
    "arm": (_Call._arm, 9),
    "apply": (_Call._apply, 2),
    "renew": (_Call._renew, 2),
    "lift": (_Call._lift, 1),
    "revert": (_Call._revert, 1),
    "list": (_Call._list, 0),
}
_LOCKING = frozenset({"apply", "renew", "lift", "revert"})
