"""Sixteen hosts with a real sshd each, and what comes over some of them, by a seed, while a self-check is under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchmarks.lab.chaos_rack import ChaosRack
from benchmarks.lab.namespaces import inside
from fabric.app.prepare import Given, prepare
from fabric.app.run import run as run_asked
from fabric.judge.locate.merged import names
from fabric.model.outcome import Outcome
from fabric.model.probe import ProbeResult
from fabric.model.verdict import JudgedRun
from fabric.report.progress import ConsoleProgress
from fabric.runs.events import EVENTS, history_of, read_events
from fabric.wiring import BACKENDS

TROUBLES = ("freeze", "die", "cut", "garbage", "truncated", "flood", "full disk")
"""Stopped as a machine that hangs; gone; unreachable; tools that lie in three ways; no room where sessions write."""

SCENARIO = """\
name: chaos
hosts: all
phases:
  - name: intra-host
    probes: [loopback: {duration: 1s}, rnic_to_rnic: {duration: 1s}]
  - name: tor
    needs: [intra-host]
    probes: [tor_all_reduce: {sizes: [1G], algorithm: RING, repeat: 3}]
"""
LONGEST_S = 60.0 + 2 * (90.0 + 15.0 + 20.0)
"""
A run ends within this (seconds): a quiet one on a busy machine, and twice (a host may be lost, come back, and be lost
again) the deadline of a pair with its grace, the roll call, and a connection that is not answered.
"""
GONE_S = 45.0
"""A tool on a host that nobody talks to any more is gone within this: the agent's 30 s of silence, 4 s to end, and
what is left of its last word (seconds)."""


@dataclass(frozen=True, slots=True)
class Blow:
    """What befalls a host, when after the start of a run and for how long (seconds)."""

    host: str
    kind: str
    at_s: float
    lasts_s: float

    def __str__(self) -> str:
        return f"{self.host} {self.kind} {self.at_s:.1f}s+{self.lasts_s:g}s"


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: what befell it, how it ended, whom it named, and what was left (tools on hosts, threads here)."""

    seed: int
    blows: tuple[Blow, ...]
    outcome: Outcome
    named: tuple[str, ...]
    wall_s: float
    left: tuple[str, ...]
    threads: tuple[str, ...]
    wrong: tuple[str, ...]
    path: str


def drawn(seed: int, hosts: Sequence[str], quiet_s: float) -> tuple[Blow, ...]:
    """
    One to three hosts, each befallen once or twice during a run of about *quiet_s*; all by the seed.

    Who died needs a while to start again: half a minute of the simulated rack at least, in which whoever talks to it
    gives up.
    """
    chance = Random(seed)
    found = []
    for host in chance.sample(hosts, chance.choice((1, 2, 3))):
        kind, at_s = chance.choice(TROUBLES), chance.uniform(0.0, 0.7 * quiet_s)
        lasts_s = chance.choice((15.0, 1e6) if kind == "die" else (2.0, 8.0, 1e6))
        found.append(Blow(host, kind, at_s, lasts_s))
        if lasts_s < 1e6 and chance.random() < 0.3:
            found.append(Blow(host, chance.choice(TROUBLES), at_s + lasts_s + 1.0, 1e6))
    return tuple(sorted(found, key=lambda blow: blow.at_s))


class Chaos:
    """Runs the self-check on a rack, once for each seed, and says what became of it."""

    def __init__(self, rack: ChaosRack) -> None:
        self.rack = rack
        scenario = rack.folder / "chaos.yaml"
        scenario.write_text(SCENARIO)
        self._asked = prepare(Given(scenario, inventory=rack.inventory_file))
        self.quiet_s = 0.0

    def quiet(self) -> Ran:
        """A run that nothing befalls; its length is what the others are measured by."""
        ran = self.run(0, ())
        self.quiet_s = ran.wall_s
        return ran

    def seeded(self, seed: int) -> Ran:
        """A run that the seed decides."""
        return self.run(seed, drawn(seed, self.rack.hosts, self.quiet_s))

    def run(self, seed: int, blows: Sequence[Blow]) -> Ran:
        """A run with what befalls it; afterwards every host is well and empty."""
        before = set(threading.enumerate())
        over = threading.Event()
        troubled = threading.Thread(target=_befall, args=(self.rack, blows, over), name="chaos")
        with inside(self.rack.lab.namespaces.orchestrator):
            began_s = time.monotonic()
            troubled.start()
            try:
                judged = self._judged(seed)
            finally:
                over.set()
                troubled.join(timeout=30)
            wall_s = time.monotonic() - began_s
        threads = tuple(thread.name for thread in set(threading.enumerate()) - before)
        left = self._left(blows)
        results = history_of(read_events(Path(judged.path) / EVENTS)).results
        named = blamed(judged, results)
        wrong = tuple(_wrong(judged, named, {blow.host for blow in blows}))
        return Ran(seed, tuple(blows), judged.verdict.outcome, named, wall_s, left, threads, wrong, judged.path)

    def _judged(self, seed: int) -> JudgedRun:
        return run_asked(
            self._asked,
            backend="ssh",
            executor=BACKENDS["ssh"](self._asked.inventory, 1),
            results=self.rack.folder / f"results{seed}",
            seed=1,
            observer=ConsoleProgress(quiet=True),
            reports=False,
        ).judged

    def _left(self, blows: Sequence[Blow]) -> tuple[str, ...]:
        """Tools that are still there when all hosts are well and a silent agent has had its time."""
        for host in {blow.host for blow in blows}:
            self.rack.heal(host)
        until_s = time.monotonic() + GONE_S
        while (left := [line for host in self.rack.hosts for line in self.rack.tools(host)]) and (
            time.monotonic() < until_s
        ):
            threading.Event().wait(0.2)
        for host in self.rack.hosts:
            self.rack.end_sessions(host)
        return tuple(left)


def blamed(judged: JudgedRun, results: dict[str, ProbeResult]) -> tuple[str, ...]:
    """Every host that a suspect or an error names."""
    suspects = {part for suspect in judged.verdict.suspects for part in names(suspect)}
    errors = {result.error_host for result in results.values() if result.error_host is not None}
    return tuple(sorted(errors | {name.split("/")[0].split(":")[0] for name in suspects}))


def _wrong(judged: JudgedRun, named: Sequence[str], befallen: set[str]) -> list[str]:
    """What is wrong with a verdict, knowing who was befallen."""
    found = [f"blames {host}" for host in named if host not in befallen]
    for verdict in judged.verdict.probes:
        hosts = set(verdict.probe_id.split("/")[1].split("+"))
        if verdict.outcome in (Outcome.PASS, Outcome.MARGINAL):
            continue
        if not hosts & befallen:
            found.append(f"{verdict.outcome.name} {verdict.probe_id}: {verdict.reason}")
        elif verdict.outcome is Outcome.FAIL:
            found.append(f"FAIL {verdict.probe_id}: {verdict.reason}")
    return found


def _befall(rack: ChaosRack, blows: Sequence[Blow], over: threading.Event) -> None:
    """Strike and heal at the times of the blows until the run is over."""
    began_s = time.monotonic()
    steps = sorted(
        [(blow.at_s, blow.host, blow.kind) for blow in blows] + [(b.at_s + b.lasts_s, b.host, "") for b in blows]
    )
    for at_s, host, kind in steps:
        if over.wait(max(0.0, began_s + at_s - time.monotonic())):
            return
        if kind:
            rack.strike(host, kind)
        else:
            rack.heal(host)
