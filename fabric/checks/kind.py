"""What every check can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from fabric.checks.answer import Answers, Argv
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding
from fabric.model.topology import Host


class Check(Protocol):
    """One thing to look at on each host; each is a module of this package. Nothing here alters a host."""

    NAME: str

    def commands(self, host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
        """What to ask this host; nothing where the check does not matter."""
        ...

    def read(self, host: Host, needs: HostNeeds, answers: Answers) -> Iterable[Finding]:
        """What its answers mean; called only where something was asked, and never raises for any text."""
        ...
