"""A decoded scenario as plain rows and back: what asks for a probe, a change or an expectation is named by its kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fabric.config.probe_file import ProbeEntry
from fabric.model.change import (
    AdaptiveRoutingSpec,
    BerSpec,
    ChangeSpec,
    LinkDownSpec,
    PortFlapSpec,
    ShieldSpec,
)
from fabric.model.repetition import FilledTime
from fabric.model.sampling import SampleSettings
from fabric.model.scenario import (
    Expectation,
    ExpectedEnd,
    ExpectedRatio,
    ExpectedRecovery,
    JudgeSettings,
    LocaliseSettings,
    Phase,
    Scenario,
    Where,
)

ChangeRow = (
    tuple[Literal["ber"], BerSpec]
    | tuple[Literal["link_down"], LinkDownSpec]
    | tuple[Literal["port_flap"], PortFlapSpec]
    | tuple[Literal["adaptive_routing"], AdaptiveRoutingSpec]
    | tuple[Literal["shield"], ShieldSpec]
)

_CHANGES: dict[type[ChangeSpec], str] = {
    BerSpec: "ber",
    LinkDownSpec: "link_down",
    PortFlapSpec: "port_flap",
    AdaptiveRoutingSpec: "adaptive_routing",
    ShieldSpec: "shield",
}

ExpectRow = (
    tuple[Literal["ratio"], ExpectedRatio]
    | tuple[Literal["end"], ExpectedEnd]
    | tuple[Literal["recovery"], ExpectedRecovery]
)

_EXPECTED: dict[type[Expectation], str] = {
    ExpectedRatio: "ratio",
    ExpectedEnd: "end",
    ExpectedRecovery: "recovery",
}


@dataclass(frozen=True, slots=True)
class _PhaseDocument:
    """What has a default came with changes: a run before them is read as one without."""

    name: str
    probes: tuple[ProbeEntry, ...]
    needs: tuple[str, ...]
    changes: tuple[ChangeRow, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    label: str = ""
    where: Where = ()
    round: int = 1
    localise: LocaliseSettings | None = None
    for_s: float | None = None
    share: float | None = None
    stop_host_on: str | None = None
    drill: bool = False
    fills: FilledTime | None = None
    kept: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ScenarioDocument:
    """A scenario as it stands in run.json."""

    name: str
    description: str
    source: str
    inventory: str
    hosts: tuple[str, ...]
    phases: tuple[_PhaseDocument, ...]
    judge: JudgeSettings
    expect: tuple[ExpectRow, ...] = ()
    allow: tuple[str, ...] = ()
    sample: SampleSettings | None = None
    identity: bool = False
    lasts_s: float | None = None


def scenario_document(scenario: Scenario) -> ScenarioDocument:
    """The scenario as rows that name their kinds."""
    expect: Any = tuple((_EXPECTED[type(each)], each) for each in scenario.expect)
    return ScenarioDocument(
        name=scenario.name,
        description=scenario.description,
        source=scenario.source,
        inventory=scenario.inventory,
        hosts=scenario.hosts,
        phases=tuple(_phase_document(phase) for phase in scenario.phases),
        judge=scenario.judge,
        expect=expect,
        allow=scenario.allow,
        sample=scenario.sample,
        identity=scenario.identity,
        lasts_s=scenario.lasts_s,
    )


def _phase_document(phase: Phase) -> _PhaseDocument:
    changes: Any = tuple((_CHANGES[type(spec)], spec) for spec in phase.changes)
    return _PhaseDocument(
        name=phase.name,
        probes=phase.probes,
        needs=phase.needs,
        changes=changes,
        env=phase.env,
        label=phase.label,
        where=phase.where,
        round=phase.round,
        localise=phase.localise,
        for_s=phase.for_s,
        share=phase.share,
        stop_host_on=phase.stop_host_on,
        drill=phase.drill,
        fills=phase.fills,
        kept=phase.kept,
    )


def scenario_of(document: ScenarioDocument) -> Scenario:
    """What ``scenario_document`` was made from."""
    return Scenario(
        name=document.name,
        description=document.description,
        source=document.source,
        inventory=document.inventory,
        hosts=document.hosts,
        phases=tuple(_phase(each) for each in document.phases),
        judge=document.judge,
        expect=tuple(each for _, each in document.expect),
        allow=document.allow,
        sample=document.sample,
        identity=document.identity,
        lasts_s=document.lasts_s,
    )


def _phase(document: _PhaseDocument) -> Phase:
    return Phase(
        name=document.name,
        probes=document.probes,
        needs=document.needs,
        changes=tuple(spec for _, spec in document.changes),
        env=document.env,
        label=document.label,
        where=document.where,
        round=document.round,
        localise=document.localise,
        for_s=document.for_s,
        share=document.share,
        stop_host_on=document.stop_host_on,
        drill=document.drill,
        fills=document.fills,
        kept=document.kept,
    )
