"""Measurements grouped by configuration: which phase, with which matrix values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.report.shown_run import ShownRun


@dataclass(frozen=True, slots=True)
class Configuration:
    """One written phase with one combination of the matrix; *faulty*: something was made worse in it on purpose."""

    phase: str
    where: tuple[tuple[str, str], ...]
    faulty: bool

    @property
    def text(self) -> str:
        """``degraded, adaptive_routing=off``."""
        return ", ".join([self.phase, *(f"{name}={value}" for name, value in self.where)])


@dataclass(frozen=True, slots=True)
class Samples:
    """Of one kind of probe in one configuration: bandwidths by message size, one for each probe (Gb/s)."""

    kind: str
    configuration: Configuration
    by_size: Mapping[int, tuple[float, ...]]
    by_group: Mapping[str, tuple[float, ...]]  # of the largest size, by who took part


def configurations(run: ShownRun) -> dict[str, Configuration]:
    """By the name of the phase as it ran."""
    faulty = {result.change.phase for result in run.judged.verdict.changes if result.change.is_fault}
    return {
        phase.name: Configuration(phase.written, phase.where, phase.name in faulty)
        for phase in run.judged.scenario.phases
    }


def collected(run: ShownRun) -> list[Samples]:
    """Every kind of probe with message sizes, by configuration, in the order of the scenario; rounds are together."""
    known = configurations(run)
    sizes: dict[tuple[str, Configuration], dict[int, list[float]]] = {}
    groups: dict[tuple[str, Configuration], dict[str, list[float]]] = {}
    for row in run.rows:
        result, configuration = row.result, known.get(row.probe.phase)
        if "sizes_bytes" not in row.probe.params or configuration is None:
            continue
        if result is None or result.outcome is not None:
            continue
        least: dict[int, float] = {}
        for found in result.measurements:
            if found.size_bytes:
                least[found.size_bytes] = min(found.value, least.get(found.size_bytes, found.value))
        if not least:
            continue
        key = (row.probe.kind, configuration)
        for size_bytes, value in least.items():
            sizes.setdefault(key, {}).setdefault(size_bytes, []).append(value)
        groups.setdefault(key, {}).setdefault(row.series, []).append(least[max(least)])
    return [
        Samples(
            kind,
            configuration,
            {size: tuple(values) for size, values in sorted(by_size.items())},
            {name: tuple(values) for name, values in groups[kind, configuration].items()},
        )
        for (kind, configuration), by_size in sizes.items()
    ]
