"""What is looked at together, by whom, and what was seen there: a subnet, a switch or a host is a view."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fabric.changes.procedure import Ask
from fabric.engine.optics_watch import OpticsAsk
from fabric.errors import ToolError
from fabric.model.command import MIB, CommandResult
from fabric.model.inventory import Inventory
from fabric.model.sampling import Value
from fabric.runs.samples import End
from fabric.tools import mlxlink
from fabric.tools.mlxlink import Optics

LOOK_S = 60.0
"""Deadline of a walk over the whole fabric (a choice: 25 to 38 s were seen where a few nodes were mute)."""

_CAP_BYTES = 64 * MIB  # iblinkinfo prints 200 bytes a port: a hall of 2,048 hosts has 13 MB of it


@dataclass(frozen=True, slots=True)
class SeenLinks:
    """Which ends are joined, and the readings of each end."""

    cables: Sequence[tuple[End, End]]
    rows: Mapping[End, Mapping[str, Value]]


class View(ABC):
    """
    Who may ask, whose *turn* it is, how many *looks* there were, and which *nodes* were seen last.

    *whole*: the next look is the first or the last. *seldom*: it looks as seldom as light is looked at.
    """

    seldom = False

    def __init__(self, askers: Sequence[str], inventory: Inventory) -> None:
        self.askers, self.inventory = askers, inventory
        self.turn = self.looks = 0
        self.whole = True
        self.nodes: tuple[str, ...] = ()
        self._before: list[tuple[str, str, int]] = []

    @property
    def asker(self) -> str:
        """Whose turn it is."""
        return self.askers[self.turn % len(self.askers)]

    @abstractmethod
    def questions(self) -> dict[str, Ask]:
        """What is asked in one look."""

    def seen(self, answers: Mapping[str, CommandResult]) -> SeenLinks | None:
        """What these say, None when it is the same as the last time. Raises ToolError where they are none."""
        for one in answers.values():
            if one.truncated:
                raise ToolError(f"{one.command.argv[0]} printed more than can be kept")
        said = [(one.stdout, one.stderr, one.exit_status) for one in answers.values()]
        if said == self._before:
            return None
        found = self.read(answers)
        self._before = said
        return found

    @abstractmethod
    def read(self, answers: Mapping[str, CommandResult]) -> SeenLinks:
        """What these say. Raises ToolError where they are none."""

    @abstractmethod
    def optics(self) -> Iterable[OpticsAsk]:
        """How the light of the ports that it has seen is asked for."""

    def question(self, argv: tuple[str, ...]) -> Ask:
        """What whose turn it is runs, as root."""
        return Ask(self.asker, self.as_root(argv), LOOK_S, _CAP_BYTES)

    def as_root(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """With sudo where the inventory says so."""
        return (*(("sudo", "-n") if self.inventory.changes.sudo else ()), *argv)

    def mlxlink(self, end: End, host: str, argv: tuple[str, ...]) -> OpticsAsk:
        """One port by mlxlink."""

        def read(said: CommandResult) -> dict[End, Optics]:
            return {end: mlxlink.read_optics(said.stdout, said.stderr, said.exit_status)}

        return OpticsAsk(host, self.as_root(argv), read)
