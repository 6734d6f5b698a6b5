"""A judged run with everything it rests on: the source of every report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from fabric.model.probe import Probe, ProbeResult
from fabric.model.verdict import JudgedRun, ProbeVerdict

if TYPE_CHECKING:
    from fabric.runs.frames import Run
    from fabric.runs.run_document import PastRun


class Row(NamedTuple):
    """
    One planned probe with its verdict and, if it was reached, its result.

    A tuple, because a large run has 300,000 of them, and tuples are made in a third of the time.
    """

    probe: Probe
    verdict: ProbeVerdict
    result: ProbeResult | None

    @property
    def series(self) -> str:
        """Return what was measured, without the host and the repetition: ``mlx5_0.numa1``."""
        return str(self.probe.params.get("series", ""))

    @property
    def took_s(self) -> float:
        """Return how long it ran; 0 if it was not reached."""
        return max(self.result.ended_s - self.result.started_s, 0.0) if self.result is not None else 0.0


@dataclass(frozen=True)
class ShownRun:
    """
    A run as reports use it: *past* is what was asked and measured, *judged* the verdict on it.

    Of run.json only argv, seed, versions and the time are shown. *frames_of* makes its frames.
    """

    past: PastRun
    judged: JudgedRun
    frames_of: Callable[[ShownRun], Run]

    @cached_property
    def frames(self) -> Run:
        """Return its tables, as it was judged."""
        return self.frames_of(self)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Return every planned probe, in planned order."""
        judged, found = self.judged.verdict.probes, self.past.results.get
        return tuple(
            [Row(probe, one, found(one.probe_id)) for probe, one in zip(self.past.probes, judged, strict=True)]
        )

    @property
    def simulated(self) -> bool:
        """Return whether no real fabric was touched."""
        return self.judged.backend == "mock"

    @property
    def began(self) -> str:
        """Return when it began, UTC, from its id; empty if the id does not tell."""
        with suppress(ValueError):
            return f"{datetime.strptime(self.judged.run_id[:15], '%Y%m%d-%H%M%S'):%Y-%m-%d %H:%M:%S} UTC"
        return ""

    @property
    def command_line(self) -> str:
        """Return the command line that started it, from run.json."""
        words = self.past.document.get("argv", ())
        return " ".join(str(word) for word in words) if isinstance(words, list | tuple) else ""

    @property
    def versions(self) -> Mapping[str, str]:
        """Return name and version of the software that took part."""
        found = self.past.document.get("versions", {})
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, Mapping) else {}

    @property
    def versions_text(self) -> str:
        """Return the versions in one line."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())
