"""What ``fabric restore`` did, a line for all hosts with the same answer, what may be live first, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from fabric.model.text import fold
from fabric.report.output import visible


class RestoreAnswer(Protocol):
    """What became of one alteration (``fabric.app.restore.Restored``)."""

    @property
    def run(self) -> str:
        """The run's directory, empty when none is known."""

    @property
    def change(self) -> str:
        """The change's id, empty when none is known."""

    @property
    def host(self) -> str:
        """Where, empty when it is of no one host."""

    @property
    def said(self) -> str:
        """What became of it."""

    @property
    def text(self) -> str:
        """All of it in one line."""

    @property
    def certain(self) -> bool:
        """Nothing of it is left."""


def restored_lines(found: Iterable[RestoreAnswer]) -> Iterator[str]:
    """One line for each answer, however many hosts gave it."""
    hosts: dict[tuple[bool, str, str, str], list[str]] = {}
    for one in found:
        names = hosts.setdefault((one.certain, one.run, one.change, one.said), [])
        if one.host:
            names.append(one.host)
    for (certain, _, change, said), names in sorted(hosts.items(), key=lambda item: item[0][0]):
        text = ": ".join(filter(None, (change, fold(names) if names else "", said)))
        yield visible(f"{'ok  ' if certain else 'LIVE'}  {text}")


def restored_json(found: Iterable[RestoreAnswer]) -> list[dict[str, Any]]:
    """JSON-able: one entry for each answer."""
    return [
        {"run": one.run, "change": one.change, "host": one.host, "text": one.text, "certain": one.certain}
        for one in found
    ]
