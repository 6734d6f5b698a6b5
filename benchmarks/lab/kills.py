"""Runs that are killed or paused at random instants, and what is left of their changes afterwards."""

from __future__ import annotations

import random
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.lab.change_rack import (
    ADAPTIVE_TIMERS,
    DCQCN,
    ECN,
    END_S,
    FLAP,
    LEASE_S,
    LINK_DOWN,
    PFC,
    RETRANSMISSION,
    SHORT_TIMEOUTS,
    SWITCH_PFC,
    ChangeRack,
    ended,
)
from benchmarks.lab.lab import SLOWER

AFTER_LEASE_S = 3.0 * SLOWER
"""So much later than its lease a change must be gone."""

LOOK_S = 0.05
REPEAT = 4
"""Measurements of each pair in a run, so that it lives for some seconds."""


CHANGES = {
    "link_down": LINK_DOWN,
    "port_flap": FLAP,
    "retransmission": RETRANSMISSION,
    "short_timeouts": SHORT_TIMEOUTS,
    "adaptive_timers": ADAPTIVE_TIMERS,
    "pfc": PFC,
    "dcqcn": DCQCN,
    "ecn": ECN,
    "switch_pfc": SWITCH_PFC,
}
"""What runs that are struck may alter, by kind."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Death:
    """
    One kill. *after_s*: how old the run was; *live*: something was altered or armed at its death or after it.

    *revert_s*: when something was last seen altered or armed, seconds after the death. *left*: it still was when the
    lease and AFTER_LEASE_S were over.
    """

    host: str
    after_s: float
    live: bool
    revert_s: float
    left: bool


@dataclass(frozen=True, slots=True)
class Thaw:
    """
    One pause longer than the lease, *after_s* into the run. *armed*: a guard held a change when the pause began.

    *left*: altered still when the lease and AFTER_LEASE_S were over, or when the run had ended. *late*: how often the
    link went down after the run went on, although the lease had run out by then.
    """

    host: str
    after_s: float
    armed: bool
    left: bool
    late: int
    exit_code: int


class Victims:
    """
    Runs to be killed or paused; each host is used by one thread at a time.

    *aimed*: kills fall between the moment at which a change is first seen armed and that at which it is gone again.
    """

    def __init__(self, rack: ChangeRack, *, seed: int, kinds: Sequence[str] = (), aimed: bool = False) -> None:
        self.rack, self._random, self._lock, self._aimed = rack, random.Random(seed), threading.Lock(), aimed
        self._changes = [CHANGES[kind] for kind in kinds or CHANGES]
        self._number = 0
        self._lives_s: list[float] = []

    def live(self, host: str) -> None:
        """Let a run end by itself, to know how long one lives while this machine is as busy as it is."""
        change, _, results = self._drawn(host)
        scenario = self.rack.scenario(host, change, repeat=REPEAT)
        began_s = time.monotonic()
        run = self.rack.start(*self.rack.run_words(scenario, results, inventory=self.rack.inventory_of(host)))
        seen_s: list[float] = []
        while self._aimed and run.poll() is None and time.monotonic() < began_s + END_S:
            if self.rack.live(host):
                seen_s.append(time.monotonic())
            time.sleep(LOOK_S)
        ended(run)
        with self._lock:
            self._lives_s.append(seen_s[-1] - seen_s[0] if seen_s else time.monotonic() - began_s)

    def kill(self, host: str) -> Death:
        """SIGKILL at an instant drawn over the whole life of a run, or (``aimed``) of its change."""
        after_s, run = self._struck(host, signal.SIGKILL, self.rack.live if self._aimed else None, further=True)
        ended(run)
        death_s = time.monotonic()
        last_s = self._watch(host, death_s + LEASE_S + AFTER_LEASE_S)
        self.rack.open_by_hand(host)
        revert_s = 0.0 if last_s is None else last_s - death_s
        return Death(host, after_s, last_s is not None, revert_s, self._left(last_s, death_s))

    def pause(self, host: str, *, once: Callable[[str], bool] | None = None) -> Thaw:
        """SIGSTOP at such an instant or *once* something is seen, for longer than the lease; then SIGCONT."""
        known = self._ids(host)
        after_s, run = self._struck(host, signal.SIGSTOP, once)
        stop_s = time.monotonic()
        last_s = self._watch(host, stop_s + LEASE_S + AFTER_LEASE_S)
        armed = bool(self._ids(host) - known)
        before = self.rack.times_down(host)
        run.send_signal(signal.SIGCONT)
        exit_code, _ = ended(run)
        late = self.rack.times_down(host) - before if armed else 0
        left = self._left(last_s, stop_s) or self.rack.live(host)
        return Thaw(host, after_s, armed, left, late, exit_code)

    def _ids(self, host: str) -> set[str]:
        """Every change that the host's guards know of, also those that they have taken back."""
        return {folder.name for folder in self.rack.guards_of(host).glob("[!.]*")}

    def _left(self, last_s: float | None, from_s: float) -> bool:
        return last_s is not None and last_s >= from_s + LEASE_S + AFTER_LEASE_S

    def _watch(self, host: str, until_s: float) -> float | None:
        """Look until then (and once more); when something was last seen to be live, None: it never was."""
        last_s = None
        while True:
            now_s = time.monotonic()
            if self.rack.live(host):
                last_s = now_s
            if now_s >= until_s:
                return last_s
            time.sleep(LOOK_S)

    def _struck(
        self, host: str, what: signal.Signals, once: Callable[[str], bool] | None = None, *, further: bool = False
    ) -> tuple[float, subprocess.Popen[str]]:
        """
        A run that was sent a signal at a random instant of its life; those that end before it are not counted.

        *further*: the instant is drawn from the moment on at which *once* is seen.
        """
        while True:
            change, after_s, results = self._drawn(host)
            scenario = self.rack.scenario(host, change, repeat=REPEAT)
            began_s = time.monotonic()
            run = self.rack.start(*self.rack.run_words(scenario, results, inventory=self.rack.inventory_of(host)))
            end_s = began_s + (after_s if once is None else END_S)
            while run.poll() is None and time.monotonic() < end_s and not (once and once(host)):
                time.sleep(0.005 if once else 0.02)
            if once and further:
                time.sleep(after_s)
            if run.poll() is None:
                run.send_signal(what)
                return time.monotonic() - began_s, run
            ended(run)

    def _drawn(self, host: str) -> tuple[str, float, Path]:
        with self._lock:
            self._number += 1
            results = self.rack.folder / f"results-{host}-{self._number}"
            life_s = statistics.median(self._lives_s or [0.0])
            return self._random.choice(self._changes), self._random.uniform(0.0, life_s), results


def on_all(hosts: Sequence[str], one: Callable[[str], T], wanted: int) -> list[T]:
    """What *one* returned for *wanted* calls, each host taking the next as soon as it is free."""
    left = iter(range(wanted))
    lock = threading.Lock()

    def work(host: str) -> list[T]:
        done = []
        while True:
            with lock:
                if next(left, None) is None:
                    return done
            done.append(one(host))

    with ThreadPoolExecutor(len(hosts)) as threads:
        return [found for each in threads.map(work, hosts) for found in each]
