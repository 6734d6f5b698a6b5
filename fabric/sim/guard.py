"""
The guard of a change in the simulated rack: the words of the real one, simulated time.

``sh -c TEXT fabric-guard DIRECTORY VERB ARGS...``: the text is not read, only the words after it. Guards are kept per
host and directory; a host that hangs does not undo until it hangs no more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial

from fabric.sim.guard_steps import Meaning, Steps
from fabric.sim.hashing import mix64
from fabric.sim.ip_link import MANAGEMENT, interfaces
from fabric.sim.port_tool import ANSWER_S, Asked
from fabric.sim.process import Process
from fabric.sim.rack import Rack

NAME = "fabric-guard"
LOOK_S = 0.2  # the real one looks at its lease every 0.25 s
MOST_BACKOFF_S = 30.0

_ID = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,128}")


@dataclass(slots=True)
class Held:
    """One change that a host knows of; times are simulated seconds."""

    guard_id: str
    owner: str
    devices: tuple[str, ...]
    undo: str
    checks: str
    term_s: float
    lease_s: float
    state: str = "armed"
    alive: bool = True
    log: list[str] = field(default_factory=list)

    def gone(self, now_s: float) -> bool:
        """Nothing may be applied under it any more."""
        return self.state not in ("armed", "applied") or not self.alive or now_s >= self.lease_s


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
        """Start it, unless it is killed before."""
        call = _Call(rack, process, self._words, self._meaning)
        rack.timeline.at(at_s + ANSWER_S, call.act)


class _Call:
    """A call under way on one host."""

    def __init__(self, rack: Rack, process: Process, words: tuple[str, ...], meaning: Meaning) -> None:
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
            answer = verb[0](self, now_s)
        except Wrong as wrong:
            self._end(now_s, f"{wrong}\n", stderr=wrong.stderr, status=wrong.status)
        else:
            if answer is not None:
                self._end(now_s, answer)

    def _end(self, now_s: float, stdout: str, *, stderr: str = "", status: int = 0) -> None:
        self._rack.timeline.exit(self._process, now_s, status=status, stdout=stdout, stderr=stderr)

    def _known(self) -> Held:
        held = self._held.get(self._args[0])
        if held is None:
            raise Wrong(72, f"unknown {self._args[0]}")
        return held

    def _live(self, now_s: float) -> Held:
        held = self._known()
        if held.gone(now_s):
            raise Wrong(75, f"gone {held.guard_id}")
        return held

    def _arm(self, now_s: float) -> str:
        guard_id, owner, ttl, hold, _, devices, undo, checks = self._args
        ttl_s, hold_s = _seconds(ttl), _seconds(hold)
        for line in (*undo.splitlines(), *checks.splitlines()):
            missing = self._steps.known(line)
            if missing is not None:
                raise Wrong(78, f"missing {missing}")
        self._sweep(guard_id, owner)
        named = tuple(device for device in devices.split(",") if device)
        self._allow(named, now_s)
        term_s = now_s + hold_s
        held = Held(guard_id, owner, named, undo, checks, term_s, min(now_s + ttl_s, term_s))
        self._held[guard_id] = held
        self._watch(held, held.lease_s)
        return f"armed {guard_id} ttl {ttl} boot {self._boot_id()}\n"

    def _sweep(self, guard_id: str, owner: str) -> None:
        for other in list(self._held.values()):
            if other.state == "reverted":
                del self._held[other.guard_id]
            elif other.owner != owner or other.guard_id == guard_id:
                raise Wrong(73, f"busy {other.guard_id} owner {other.owner}")

    def _allow(self, devices: tuple[str, ...], now_s: float) -> None:
        asked = Asked(self._rack, self._site, (), now_s, self._process.pid)
        for device in devices:
            if device == MANAGEMENT:
                raise Wrong(77, f"forbidden {device} carries the session through {MANAGEMENT}")
            if device not in interfaces(asked) and asked.local_port(device) is None:
                raise Wrong(77, f"forbidden {device} unknown device")

    def _boot_id(self) -> str:
        name_hash = self._site.name_hash
        bits = f"{mix64(name_hash):016x}{mix64(name_hash + 1):016x}"
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"

    def _apply(self, now_s: float) -> None:
        held = self._live(now_s)
        self._allow(held.devices, now_s)
        held.state = "applied"
        self._step(held, self._args[1].splitlines(), "", now_s)

    def _step(self, held: Held, lines: list[str], printed: str, now_s: float) -> None:
        """One step of an apply, and the next one a moment later; each is fenced by the lease."""
        if self._process.pid not in self._rack.timeline.alive:
            return
        if held.gone(now_s) or self._held.get(held.guard_id) is not held:
            self._end(now_s, f"{printed}\ngone {held.guard_id}\n", status=75)
            return
        if not lines:
            self._end(now_s, f"{printed}\napplied {held.guard_id}\n")
            return
        said = self._steps.run(lines[0], now_s)
        printed += said.stdout
        if said.status != 0:
            answer = f"{printed}\nfailed {said.status} {lines[0]}\n"
            self._end(now_s, answer, stderr=said.stderr, status=71)
            return
        self._rack.timeline.at(now_s + ANSWER_S, partial(self._step, held, lines[1:], printed))

    def _renew(self, now_s: float) -> str:
        held = self._live(now_s)
        held.lease_s = min(now_s + _seconds(self._args[1]), held.term_s)
        self._watch(held, held.lease_s)
        return f"renewed {held.guard_id} left {held.lease_s - now_s:.2f}\n"

    def _lift(self, now_s: float) -> str:
        held = self._live(now_s)
        wrong = self._steps.undone(held.undo, held.checks, now_s)
        if wrong:
            raise Wrong(76, f"not-undone {held.guard_id}", wrong)
        held.state = "armed"
        return f"lifted {held.guard_id}\n"

    def _revert(self, now_s: float) -> str:
        held = self._known()
        how = " by-guard" if held.state == "reverted" else ""
        wrong = self._steps.undone(held.undo, held.checks, now_s)
        if wrong:
            held.lease_s = min(held.lease_s, now_s)
            held.state = "stuck" if held.state == "reverted" else held.state
            self._watch(held, now_s)
            raise Wrong(76, f"not-undone {held.guard_id}", f"{wrong}not undone: {held.guard_id}\n")
        del self._held[held.guard_id]
        return f"reverted {held.guard_id}{how}\n"

    def _list(self, now_s: float) -> str:
        return "".join(_listed(self._held[guard_id], now_s) for guard_id in sorted(self._held))

    def _log(self, now_s: float) -> str:
        del now_s
        return "".join(f"{line}\n" for line in self._known().log)

    def _watch(self, held: Held, lease_s: float) -> None:
        """Look again when the lease must have run out."""
        self._rack.timeline.at(lease_s + LOOK_S, partial(self._look, held, 1.0))

    def _look(self, held: Held, backoff_s: float, now_s: float) -> None:
        """The guard: undo when the lease has run out; if that fails, again after a while, for ever."""
        due = held.alive and self._held.get(held.guard_id) is held and now_s >= held.lease_s
        if not due or (backoff_s == 1.0 and held.state not in ("armed", "applied")):
            return
        wrong = "the host hangs\n"
        if self._rack.host_kind(self._site.host.name) != "hanging":
            held.log.append(f"{now_s:.2f} the lease has run out: undo")
            wrong = self._steps.undone(held.undo, held.checks, now_s)
        if not wrong:
            held.state, held.alive = "reverted", False
            held.log.append(f"{now_s:.2f} undone")
            return
        held.state = "stuck"
        held.log += [f"{now_s:.2f} {line}" for line in wrong.splitlines()]
        later_s = now_s + backoff_s
        self._rack.timeline.at(later_s, partial(self._look, held, min(2 * backoff_s, MOST_BACKOFF_S)))


def _listed(held: Held, now_s: float) -> str:
    left_s = max(0.0, held.lease_s - now_s) if held.state in ("armed", "applied") else 0.0
    life = "alive" if held.alive else "dead"
    who = f"change {held.guard_id} owner {held.owner} state {held.state}"
    return f"{who} left {left_s:.2f} guard {life} boot same\n"


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d{1,8}(\.\d*)?", text):
        raise Wrong(64, f"usage {text} is not a number of seconds")
    return float(text)


# The verbs, and how many arguments each takes.
_VERBS = {
    "arm": (_Call._arm, 8),
    "apply": (_Call._apply, 2),
    "renew": (_Call._renew, 2),
    "lift": (_Call._lift, 1),
    "revert": (_Call._revert, 1),
    "list": (_Call._list, 0),
    "log": (_Call._log, 1),
}
