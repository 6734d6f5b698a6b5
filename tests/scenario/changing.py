"""What tests of whole runs with changes share: a small pod, a scenario made of text, and executors that misbehave."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from fabric.app.prepare import Asked
from fabric.errors import HostUnreachable
from fabric.hosts.mock import MockExecutor
from fabric.model.inventory import Inventory
from fabric.model.probe import Command
from fabric.model.verdict import JudgedRun
from fabric.ports import Executor, Happening, Lost, Ticket
from fabric.wiring import BACKENDS
from tests import builders
from tests.builders import Watcher
from tests.places import INVENTORY

POD = INVENTORY / "pod-64.yaml"

SCENARIO = """\
name: drill
inventory: {inventory}
hosts: gpu[001-004]
phases:
  - name: before
    probes: [{{group_all_reduce: {{sizes: [1G], repeat: 3}}}}]
  - name: during
    changes: [{changes}]
    probes: [{{group_all_reduce: {{sizes: [1G], repeat: 3}}}}]
{more}
"""
BER = "{ber: {links: gpu001/mlx5_0, effective: 1e-6, direction: up}}"


class Watched:
    """A mock executor whose commands are seen before they start; ``on_start`` may answer with an error instead."""

    def __init__(self, inner: Executor, on_start: Callable[[Command], HostUnreachable | None]) -> None:
        self._inner, self.on_start = inner, on_start
        self._lost: list[Lost] = []
        self._ticket = -1
        assert isinstance(inner, MockExecutor)
        self.mock = inner

    def now(self) -> float:
        """The simulated clock."""
        return self._inner.now()

    def start(self, command: Command) -> Ticket:
        """Start it, or lose it at once."""
        error = self.on_start(command)
        if error is None:
            return self._inner.start(command)
        self._ticket -= 1
        self._lost.append(Lost(self._ticket, error, self.now()))
        return self._ticket

    def cancel(self, ticket: Ticket) -> None:
        """As the mock."""
        self._inner.cancel(ticket)

    def wait(self, until_s: float) -> Sequence[Happening]:
        """What was lost first."""
        if self._lost:
            lost, self._lost = self._lost, []
            return lost
        return self._inner.wait(until_s)

    def wake(self) -> None:
        """As the mock."""
        self._inner.wake()

    def close(self) -> None:
        """As the mock."""
        self._inner.close()


def watched(
    made: list[Watched], on_start: Callable[[Command], HostUnreachable | None] = lambda command: None
) -> Callable[[Inventory, int], Executor]:
    """What makes mock executors whose commands are seen, and puts them into *made*."""

    def make(inventory: Inventory, seed: int) -> Executor:
        made.append(Watched(BACKENDS["mock"](inventory, seed), on_start))
        return made[-1]

    return make


def small_pod(folder: Path, *, via: str = "gpu064") -> Path:
    """The inventory of the pod, and its baselines: eight hosts in two units under eight spines are enough."""
    shutil.copytree(POD.parent / "baselines", folder / "inventory" / "baselines", dirs_exist_ok=True)
    text = POD.read_text().replace("via: gpu064", f"via: {via}").replace("spine[00-15]", "spine[00-07]")
    text = text.replace("gpu[001-064]", "gpu[001-004,061-064]").replace("hosts_per_unit: 16", "hosts_per_unit: 4")
    file = folder / "inventory" / POD.name
    file.write_text(text.replace("su[0-3]", "su[0-1]"))
    return file


def prepared(folder: Path, changes: str, more: str = "", *, via: str = "gpu064") -> Asked:
    """The scenario with these changes in its second phase; switches are reached from *via*."""
    folder.mkdir(exist_ok=True)
    pod = small_pod(folder, via=via)
    path = folder / "drill.yaml"
    path.write_text(SCENARIO.format(inventory=pod, changes=changes, more=more))
    return builders.asked(path)


def run(
    folder: Path,
    changes: str = BER,
    *,
    more: str = "",
    via: str = "gpu064",
    on_start: Callable[[Command], HostUnreachable | None] = lambda command: None,
    watcher: Watcher | None = None,
    reports: bool = False,
) -> tuple[JudgedRun, Watched]:
    """Run it on the mock; the judged run and the executor, with the world as the run left it."""
    made: list[Watched] = []
    asked = prepared(folder, changes, more, via=via)
    make = watched(made, on_start)
    judged = builders.on_mock(asked, folder / "results", observer=watcher, reports=reports, make_executor=make)
    return judged, made[0]


def injecting(executor: Watched, host: str = "gpu001", device: str = "mlx5_0") -> bool:
    """Whether a port of the simulated fabric sends errors, as the port itself knows."""
    return executor.mock.world.rack.ports.of_adapter(host, device).injection is not None
