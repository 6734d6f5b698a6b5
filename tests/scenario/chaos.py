"""A small rack of sixteen hosts, and what may come over one or two of them in the middle of a self-check."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fabric.app.prepare import Asked
from fabric.errors import SessionLost
from fabric.model.inventory import Fault, Inventory, TimedFault
from fabric.model.probe import Command, ProbeResult
from fabric.model.verdict import JudgedRun
from fabric.ports import Executor, Happening, Lost, Ready, Ticket
from fabric.runs.events import EVENTS, Event, history_of, read_events
from fabric.wiring import BACKENDS
from tests import builders

INVENTORY = """\
name: chaos
backend: mock
platforms:
  small:
    baseline: low
    link_layer: infiniband
    numa_nodes: 2
    pcie_switches: [{name: pcie0, numa: 0}, {name: pcie1, numa: 1}]
    gpus: [{index: 0-1, pcie_switch: pcie0}, {index: 2-3, pcie_switch: pcie1}]
    rnics:
      - {device: mlx5_0, rail: 0, pcie_switch: pcie0, line_rate_gbps: 400, nearest_gpus: [0, 1]}
      - {device: mlx5_1, rail: 1, pcie_switch: pcie1, line_rate_gbps: 400, nearest_gpus: [2, 3]}
hosts:
  - {names: "gpu[001-016]", platform: small, address: "{name}.mgmt", rack: "r{rack}", hosts_per_rack: 16,
     leaves: "su{unit}-leaf{rail}", hosts_per_unit: 16}
switches:
  - {names: "su0-leaf[0-1]", tier: leaf}
"""
BASELINE = """\
name: low
limits:
  - {kind: loopback, at_least_gbps: 100, source: test}
  - {kind: rnic_to_rnic, at_least_gbps: 100, source: test}
  - {kind: all_to_all, at_least_gbps: 100, source: test}
  - {kind: tor_all_reduce, at_least_gbps: 100, source: test}
"""
SCENARIO = """\
name: chaos
inventory: chaos.yaml
hosts: all
phases:
  - name: intra-host
    probes: [loopback: {}, rnic_to_rnic: {}, all_to_all: {sizes: [1G], halves: true}]
  - name: tor
    needs: [intra-host]
    probes: [tor_all_reduce: {sizes: [1G, 2G, 4G, 8G], algorithm: RING, repeat: 2}]
"""
TROUBLES = ("hanging", "broken", "garbage", "session")
"""A host freezes, dies, lies, or loses its session and is there all the same."""


@dataclass(frozen=True, slots=True)
class Blow:
    """What befalls a host, when and for how long (seconds of simulated time)."""

    host: str
    kind: str
    at_s: float
    lasts_s: float


class Severed:
    """The mock, but at given moments all that runs on a host is lost with its session; a new one can be had."""

    def __init__(self, inner: Executor, blows: Sequence[Blow]) -> None:
        self._inner = inner
        self._due = sorted(((blow.at_s, blow.host) for blow in blows), reverse=True)
        self._open: dict[Ticket, Command] = {}

    def now(self) -> float:
        """The simulated clock."""
        return self._inner.now()

    def start(self, command: Command) -> Ticket:
        """As the mock."""
        ticket = self._inner.start(command)
        self._open[ticket] = command
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """As the mock."""
        self._inner.cancel(ticket)

    def wait(self, until_s: float) -> Sequence[Happening]:
        """What happens until the next blow, or what that took."""
        heard = self._inner.wait(min(until_s, self._due[-1][0]) if self._due else until_s)
        found = [one for one in heard if one.ticket in self._open]
        for one in found:
            if not isinstance(one, Ready):
                del self._open[one.ticket]
        while self._due and self._due[-1][0] <= self.now():
            found += self._sever(self._due.pop()[1])
        return found

    def _sever(self, host: str) -> list[Lost]:
        lost = {ticket: command for ticket, command in self._open.items() if command.host == host}
        for ticket in lost:
            del self._open[ticket]
            self._inner.cancel(ticket)  # an agent that is left alone ends what it runs
        return [
            Lost(ticket, SessionLost(host, f"waiting for {command.argv[0]}", "connection lost"), self.now())
            for ticket, command in lost.items()
        ]

    def wake(self) -> None:
        """As the mock."""
        self._inner.wake()

    def close(self) -> None:
        """As the mock."""
        self._inner.close()


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that is over: its verdict, and what its history tells."""

    judged: JudgedRun
    events: tuple[Event, ...]

    @property
    def results(self) -> dict[str, ProbeResult]:
        """The last result of each probe."""
        return history_of(self.events).results


def asked_in(folder: Path) -> Asked:
    """The self-check of the small rack, its files written into *folder*."""
    (folder / "baselines").mkdir()
    (folder / "baselines" / "low.yaml").write_text(BASELINE)
    (folder / "chaos.yaml").write_text(INVENTORY)
    (folder / "scenario.yaml").write_text(SCENARIO)
    return builders.asked(folder / "scenario.yaml")


def blows(seed: int, hosts: Sequence[str], elapsed_s: float) -> tuple[Blow, ...]:
    """One or two hosts, each befallen once or twice while a run of about *elapsed_s* is under way; all by the seed."""
    chance = Random(seed)
    return tuple(
        Blow(host, chance.choice(TROUBLES), chance.uniform(0.0, elapsed_s), chance.choice((3.0, 20.0, 80.0, 1e6)))
        for host in chance.sample(hosts, chance.choice((1, 2)))
        for _ in range(chance.choice((1, 2)))
    )


def run(asked: Asked, befalling: Sequence[Blow], results: Path, *, seed: int = 1) -> Ran:
    """The self-check, with what befalls it."""
    timed = tuple(
        TimedFault(blow.at_s, blow.lasts_s, Fault(blow.host, blow.kind)) for blow in befalling if blow.kind != "session"
    )

    def make(inventory: Inventory, number: int) -> Executor:
        severed = [blow for blow in befalling if blow.kind == "session"]
        return Severed(BACKENDS["mock"](inventory, number), severed)

    judged = builders.on_mock(builders.with_timed(asked, *timed), results, seed=seed, make_executor=make)
    return Ran(judged, tuple(read_events(Path(judged.path) / EVENTS)))
