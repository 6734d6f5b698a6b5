"""A decoded scenario as plain rows and back: what asks for a probe, a change or an expectation is named by its kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fabric.config.changes import ChangeEntry
from fabric.model.link_burn import LinkBurnSpec
from fabric.model.repetition import FilledTime
from fabric.model.sampling import SampleSettings
from fabric.model.scenario import (
    AgainSpec,
    AllToAllSpec,
    ConcurrentRingsSpec,
    Expectation,
    ExpectedEnd,
    ExpectedRatio,
    ExpectedRecovery,
    GroupAllReduceSpec,
    JudgeSettings,
    LocaliseSettings,
    LoopbackSpec,
    PairwiseSpec,
    Phase,
    ProbeSpec,
    RnicToRnicSpec,
    Scenario,
    TorAllReduceSpec,
    Where,
)

ProbeRow = (
    tuple[Literal["loopback"], LoopbackSpec]
    | tuple[Literal["rnic_to_rnic"], RnicToRnicSpec]
    | tuple[Literal["all_to_all"], AllToAllSpec]
    | tuple[Literal["tor_all_reduce"], TorAllReduceSpec]
    | tuple[Literal["group_all_reduce"], GroupAllReduceSpec]
    | tuple[Literal["concurrent_rings"], ConcurrentRingsSpec]
    | tuple[Literal["pairwise"], PairwiseSpec]
    | tuple[Literal["again"], AgainSpec]
    | tuple[Literal["link_burn"], LinkBurnSpec]
)

_KINDS: dict[type[ProbeSpec], str] = {
    LoopbackSpec: "loopback",
    RnicToRnicSpec: "rnic_to_rnic",
    AllToAllSpec: "all_to_all",
    TorAllReduceSpec: "tor_all_reduce",
    GroupAllReduceSpec: "group_all_reduce",
    ConcurrentRingsSpec: "concurrent_rings",
    PairwiseSpec: "pairwise",
    AgainSpec: "again",
    LinkBurnSpec: "link_burn",
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
    probes: tuple[ProbeRow, ...]
    needs: tuple[str, ...]
    changes: tuple[ChangeEntry, ...] = ()
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
    probes: Any = tuple((_KINDS[type(spec)], spec) for spec in phase.probes)
    return _PhaseDocument(
        name=phase.name,
        probes=probes,
        needs=phase.needs,
        changes=phase.changes,
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
        probes=tuple(spec for _, spec in document.probes),
        needs=document.needs,
        changes=document.changes,
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
