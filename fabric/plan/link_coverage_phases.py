"""A phase that burns links in becomes one phase a stage: phases are what waits for each other."""

from __future__ import annotations

from dataclasses import replace

from fabric.errors import ConfigError, Problem
from fabric.model.scenario import Phase, Scenario
from fabric.model.topology import Topology
from fabric.probes.link_burn import LinkBurnSpec


def staged(scenario: Scenario, topology: Topology) -> tuple[Scenario, tuple[str, ...]]:
    """
    The scenario with every ``link_burn`` worked out, and lines that say what its stages cover.

    A stage ends with its last flow before the next begins, or links would carry what they were not planned for. Stage
    2 of ``burn`` is the phase ``burn-s2``, which a report still calls ``burn``; what needs ``burn`` needs every stage.
    Other probes of the phase run with its first stage's. Raises ConfigError where no stages can be planned.
    """
    if not any(
        isinstance(spec, LinkBurnSpec) and not spec.stages for phase in scenario.phases for spec in phase.probes
    ):
        return scenario, ()
    phases: list[Phase] = []
    lines: list[str] = []
    parts: dict[str, tuple[str, ...]] = {}
    for phase in scenario.phases:
        made, said = _stages(phase, scenario, topology)
        parts[phase.name] = tuple(part.name for part in made)
        lines += [f"{phase.name}: {line}" for line in said]
        phases += made
    names = [phase.name for phase in phases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            [Problem(scenario.source, 0, f"a stage and another phase are both called {', '.join(twice)}")]
        )
    return replace(scenario, phases=tuple(replace(phase, needs=_needs(phase, parts)) for phase in phases)), tuple(lines)


def _needs(phase: Phase, parts: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(part for need in phase.needs for part in parts.get(need, (need,)))


def _stages(phase: Phase, scenario: Scenario, topology: Topology) -> tuple[list[Phase], list[str]]:
    others = tuple(spec for spec in phase.probes if not isinstance(spec, LinkBurnSpec))
    planned: list[LinkBurnSpec] = []
    lines: list[str] = []
    for spec in phase.probes:
        if isinstance(spec, LinkBurnSpec):
            stages, said = _planned(spec, phase, scenario, topology)
            planned += stages
            lines += said
    if not planned:
        return [phase], lines
    made = [replace(phase, probes=(*others, planned[0]), name=_name(phase, 1, planned), label=phase.written)]
    for number, spec in enumerate(planned[1:], start=2):
        made.append(replace(phase, probes=(spec,), name=_name(phase, number, planned), label=phase.written))
    return made, lines


def _name(phase: Phase, number: int, planned: list[LinkBurnSpec]) -> str:
    return phase.name if len(planned) == 1 else f"{phase.name}-s{number}"


def _planned(
    spec: LinkBurnSpec, phase: Phase, scenario: Scenario, topology: Topology
) -> tuple[list[LinkBurnSpec], tuple[str, ...]]:
    """The spec once for each of its stages; a spec that has its stages already, once."""
    if spec.stages:
        return [spec], ()
    from fabric.plan.link_coverage_topology import burn  # numpy: only where links are burned in

    try:
        found = burn(topology, scenario.hosts, routing=spec.routing)
    except ValueError as exc:
        raise ConfigError([Problem(scenario.source, 0, f"{phase.name}: {spec.name}: {exc}")]) from exc
    return list(spec.changed(stages=found.stages).one_by_one()), found.lines
