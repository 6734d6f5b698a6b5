"""The scenario file as it is written: every key, its type and range, and what it means; which kinds there are."""

from __future__ import annotations

from inspect import getdoc
from typing import Annotated

from pydantic import Field
from pydantic_core import PydanticCustomError

from fabric.changes.kinds import KINDS, UNUSABLE
from fabric.config.expect import ExpectEntry
from fabric.config.selection import HostsText, Selection
from fabric.model.change import CHANGES
from fabric.model.fields.entry import Entry
from fabric.model.fields.scalars import BASELINE_NAME, AsWritten, Choice, Decimal, Flag, Line, Whole, refusal
from fabric.model.fields.wording import nearest, one_of, quoted
from fabric.model.repetition import AS_WRITTEN, AUTO
from fabric.model.sampling import CRITERIA, SampleSettings
from fabric.model.scenario import DRILLS, PROBES, Name, Phase, ProbeSpec, RunTime
from fabric.probes.kinds import ASKED

ALLOWED = ("isolate", "busy_hosts", "blast_radius", "power_loss", DRILLS)
"""Guard rails that a scenario may lift, and phases that are left out otherwise."""
ROUND_ORDERS = ("as_written", "abba")

MatrixValue = Annotated[str, AsWritten("a value", most=256)]
MatrixValues = Annotated[tuple[MatrixValue, ...], Field(min_length=1, max_length=20)]


def _one_kind(value: object) -> object:
    """The mapping of one kind to its settings, or the kind alone; anything else is refused."""
    whole = {value: {}} if isinstance(value, str) else value
    if not isinstance(whole, dict) or len(whole) != 1:
        raise refusal(f"one probe kind ({one_of(ASKED)}) and its settings", value)
    kind = str(next(iter(whole)))
    if kind not in ASKED:
        raise PydanticCustomError("kind", f"unknown probe kind {quoted(kind)}{nearest(kind, ASKED)}")
    return whole


def _about(kind: type[ProbeSpec]) -> str:
    return f"{(getdoc(kind) or '').partition(chr(10))[0]} It needs {kind.needs}."


PROBES.fill(ASKED, about=_about, one_of_them=_one_kind)


def _one_change(value: object) -> object:
    """A mapping with one kind of change among its keys; anything else is refused."""
    if not isinstance(value, dict) or not value:
        raise refusal(f"one change ({one_of(KINDS)}) and its settings", value)
    found = [key for key in value if key in KINDS]
    if not found:
        key = next((key for key in value if key != "scope"), "scope")
        why = f": {UNUSABLE[key]}" if key in UNUSABLE else f"{nearest(key, KINDS)}; expected {one_of(KINDS)}"
        raise PydanticCustomError("change", "{text}", {"text": f"unknown change {quoted(key)}{why}"})
    if len(found) > 1:
        raise PydanticCustomError("change", f"{' and '.join(found)} are changes of their own: an entry for each")
    return value


CHANGES.fill(KINDS, about=lambda kind: str(kind.about), one_of_them=_one_change)


Criterion = Annotated[str, Choice(CRITERIA)]

MOST_RETRANSMITS = 1e12
"""A bound on what can be written (a choice: more than a port of 800 Gb/s has packets in an hour)."""


class AllowedGrowthEntry(Entry):
    """What grows on a good fabric, too: how much of it is too much."""

    pfc_paused: Annotated[float, Decimal(0, 1)] | None = Field(
        None, description="The share of an hour in which a port may be paused, in either direction: 0.05."
    )
    retransmits_per_hour: Annotated[float, Decimal(0, MOST_RETRANSMITS)] | None = Field(
        None, description="How much the counters of retransmissions of a port may grow in an hour, together."
    )


class JudgeEntry(Entry):
    """How measurements are judged."""

    baseline: Annotated[str, BASELINE_NAME] | None = Field(
        None, description="Use this baseline for every host, not its platform's own."
    )
    marginal: Annotated[float, Decimal(0, 0.5)] = Field(
        0.005, description="Fraction above a limit that is said to be near it."
    )
    samples: Annotated[str, Choice((AS_WRITTEN, AUTO))] = Field(
        AS_WRITTEN, description="auto: at least 3 samples of each probe, and up to 30 until one can tell."
    )
    zero_growth: tuple[Criterion, ...] = Field(
        (), max_length=8, description="What ports may not count while the run works; a port that does is bad."
    )
    allowed_growth: AllowedGrowthEntry | None = Field(
        None, description="Of zero_growth: how much is too much of what grows on a good fabric, too."
    )


class ScenarioFile(Entry):
    """A whole scenario file."""

    name: Name = Field(description="Its name; results go to results/<name>/.")
    description: Annotated[str, Line("a description", most=2000)] | None = Field(
        None, description="One line for people."
    )
    inventory: Annotated[str, Line("a path", most=4096)] | None = Field(
        None, description="The inventory file, relative to this one; --inventory overrides it."
    )
    hosts: Annotated[Selection, HostsText()] = Field(
        Selection("all"),
        description="Where it runs: all, gpu[001-016], a list, {rack: r1} or {tor: leaf3}; --hosts overrides it.",
    )
    matrix: dict[Name, MatrixValues] = Field(
        {},
        min_length=1,
        max_length=6,
        description="Values by name: the phases run once per combination, $name stands for the value.",
    )
    rounds: Annotated[int, Whole(1, 100)] = Field(1, description="How often all combinations are run.")
    order: Annotated[str, Choice(ROUND_ORDERS)] = Field(
        "as_written", description="abba: every second round runs the combinations backwards, so that drift cancels out."
    )
    phases: tuple[Phase, ...] = Field(min_length=1, max_length=64, description="Its parts, in order.")
    judge: JudgeEntry = Field(JudgeEntry(), description="Which limits count, and what is near them.")
    expect: tuple[ExpectEntry, ...] = Field((), max_length=100, description="What shall come out, phase against phase.")
    sample: SampleSettings | None = Field(None, description="What is read on the hosts while the run works.")
    for_s: RunTime | None = Field(
        None,
        validation_alias="for",
        description="How long the whole run lasts, for phases with a share of it; or --for.",
    )
    identity: Annotated[bool, Flag()] = Field(
        False, description="Whether serial numbers and firmware of the hosts' parts are read when the run begins."
    )
    allow: tuple[Annotated[str, Choice(ALLOWED)], ...] = Field(
        (),
        max_length=len(ALLOWED),
        description="What is allowed besides: isolate, busy_hosts, blast_radius, power_loss (guard rails), drills.",
    )
