"""Procedures carried out in the simulated rack, one step after the other, without guards."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from fabric.changes.adaptive_routing import AdaptiveRouting
from fabric.changes.kind import Context, Kind, kind_of
from fabric.changes.procedure import Procedure
from fabric.model.change import Alteration, Change, ChangeSettings, SubnetManager, When
from fabric.model.fields.entry import from_file
from fabric.model.inventory import MockSettings
from fabric.model.probe import Command, CommandResult
from fabric.model.topology import Topology, Uplinks
from fabric.sim.hosts.timeline import Exited
from fabric.sim.world import World
from tests.changes.asked import asked
from tests.sim.conftest import platform_like, topology_of

Answer = tuple[str, str, int]
"""stdout, stderr, exit status."""


def topology(*, hosts: int = 4, cables: int = 2, link_layer: str = "infiniband") -> Topology:
    """Hosts on eight leaves, each of which has *cables* to one spine."""
    bare = topology_of(hosts, platform_like(link_layer=link_layer))
    leaves = tuple(name for name in bare.switches if name.startswith("leaf"))
    return replace(bare, uplinks=(Uplinks(leaves, ("spine0",), cables, 400.0),))


class Passing(AdaptiveRouting):
    """Adaptive routing that ends before its phase, which no scenario can ask for."""

    lasting_s: float = 0.0

    @property
    def when(self) -> When:
        """For so long."""
        return When(None, self.lasting_s)


def change(kind: str, component: str, *, scope: str = "port", when: When | None = None, **more) -> Change:
    """A planned change; the keys of its kind by name, *when* for its times, and ``hosts``, ``switches``."""
    touched = {name: more.pop(name) for name in ("hosts", "switches") if name in more}
    times = when or When(more.pop("at", None), more.pop("for_", None))
    spec: Kind
    if kind == "adaptive_routing" and times.for_s is not None:
        spec = from_file(Passing, {kind: more["on"], "scope": scope, "lasting_s": times.for_s})
    elif kind in ("adaptive_routing", "shield"):
        spec = asked(kind, scope=scope, **{kind: more["on"]})
    elif kind in ("retransmission", "dcqcn"):
        spec = asked(kind, **more)
    elif kind in ("ecn", "switch_pfc"):
        spec = asked(kind, scope=scope, **{kind: more.pop("on")}, **more)
    elif kind == "pfc":
        spec = asked(kind, scope=scope, **more)
    else:
        keys = {"at": times.at_s, "for_": times.for_s, "stop_above": dict(times.stop_above) or None}
        spec = asked(
            kind, links=[component], **more, **{name: value for name, value in keys.items() if value is not None}
        )
    return Change(f"phase/{kind}.{component}", "phase", component, scope, spec, **touched)


class Played:
    """A simulated rack and its clock. *answers* come in place of the rack's: by ``host program``."""

    def __init__(self, settings: ChangeSettings, *, world: Topology | None = None, **more) -> None:
        self.topology = world or topology()
        self.context = Context(self.topology, settings)
        managers = settings.subnet_managers
        mock, ufm = MockSettings(noise_cv=0.0, **more), settings.ufm_url is not None
        self.world = World(self.topology, mock, seed=1, subnet_managers=managers, ufm=ufm)
        self.now_s = 0.0
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.entries: list[tuple[str, dict]] = []  # what changes wrote into the journal
        self.answers: dict[str, Answer | Callable[[tuple[str, ...]], Answer | None]] = {}

    def ask(self, host: str, argv: tuple[str, ...]) -> CommandResult:
        """Run one command to its end."""
        self.asked.append((host, argv))
        stdout, stderr, status = self._scripted(host, argv) or self._simulated(host, argv)
        return CommandResult(Command(host, argv, 20.0), status, stdout, stderr, self.now_s, self.now_s)

    def _scripted(self, host: str, argv: tuple[str, ...]) -> Answer | None:
        words = argv[2:] if argv[:2] == ("sudo", "-n") else argv
        found = self.answers.get(f"{host} {words[0]}")
        return found(words) if callable(found) else found

    def _simulated(self, host: str, argv: tuple[str, ...]) -> Answer:
        pid = self.world.start(host, argv, {}, self.now_s)
        while (next_s := self.world.next_s()) is not None:
            for event in self.world.advance(next_s):
                if isinstance(event, Exited) and event.pid == pid:
                    self.now_s = next_s
                    return event.stdout, event.stderr, event.exit_status
        raise AssertionError(f"{argv} does not end")

    def run(self, procedure: Procedure):
        """Carry it out; what it returns, or raises."""
        answer: object = None
        try:
            for _ in range(10_000):
                step = procedure.send(answer)
                answer = self.ask(step.host, step.argv) if isinstance(step, Command) else self.wait(step.until_s)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("it goes on for ever")

    def wait(self, until_s: float) -> float:
        """Let time pass."""
        self.now_s = max(self.now_s, until_s)
        self.world.advance(self.now_s)
        return self.now_s

    def prepare(self, planned: Change) -> tuple[Alteration, ...]:
        """What its kind would do."""
        return self.run(kind_of(planned).prepare(planned, self.context))

    def apply(self, alterations: tuple[Alteration, ...]) -> None:
        """As a guard would."""
        for one in alterations:
            self._steps(one.host, one.apply)

    def undo(self, alterations: tuple[Alteration, ...]) -> None:
        """As a guard would, last one first."""
        for one in reversed(alterations):
            self._steps(one.host, one.undo)

    def _steps(self, host: str, steps: tuple[tuple[str, ...], ...]) -> None:
        for argv in steps:
            answer = self.ask(host, argv)
            assert answer.exit_status == 0, (argv, answer.stdout, answer.stderr)

    def confirm(self, planned: Change, alterations: tuple[Alteration, ...]) -> None:
        """Read back."""
        self.run(kind_of(planned).confirm(planned, alterations, self.context))

    def counters(self, planned: Change) -> Mapping[str, float]:
        """What the receivers have counted."""
        return self.run(kind_of(planned).counters(planned, self.context))

    def recovered(self, planned: Change, alterations: tuple[Alteration, ...], *, within_s: float = 60.0) -> float:
        """Wait for the link; the seconds it took."""
        began_s = self.now_s
        until_s = began_s + within_s
        self.run(kind_of(planned).recovered(planned, alterations, self.context, until_s))
        return self.now_s - began_s

    def there_and_back(self, planned: Change, alterations: tuple[Alteration, ...]) -> None:
        """Made, seen to be in force, and undone: a guard's checks tell the two states apart."""
        self.apply(alterations)
        self.confirm(planned, alterations)
        assert not self.checks_hold(alterations)
        self.undo(alterations)
        assert self.checks_hold(alterations)

    def checks_hold(self, alterations: tuple[Alteration, ...]) -> bool:
        """Whether every check of every alteration holds now, judged as a guard does."""
        for one in alterations:
            for check in one.checks:
                answer = self.ask(one.host, check.argv)
                lines = answer.stdout.splitlines()
                if answer.exit_status != 0:
                    return False
                if not all(any(re.search(pattern, line) for line in lines) for pattern in check.patterns):
                    return False
        return True


VIA = ChangeSettings(via="gpu004")
"""Switches are reached from the last host."""

MANAGED = ChangeSettings(via="gpu004", subnet_managers=(SubnetManager("gpu002"), SubnetManager("gpu003")))
"""Two subnet managers."""
