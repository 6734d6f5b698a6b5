"""The scenario file as it is written: every key, its type, its range and what it means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from fabric.config.changes import ChangeEntry
from fabric.config.expect import ExpectEntry
from fabric.config.probe_file import ProbeEntry
from fabric.config.selection import HostsText, Selection
from fabric.config.tool_settings import AsWritten, Env
from fabric.model.fields.entry import Entry
from fabric.model.fields.quantities import Duration
from fabric.model.fields.scalars import BASELINE_NAME, SAFE_NAME, Choice, Decimal, Flag, Line, Whole, refusal
from fabric.model.sampling import CRITERIA, SampleSettings
from fabric.model.scenario import AS_WRITTEN, AUTO, DRILLS, LocaliseSettings

ALLOWED = ("isolate", "busy_hosts", "blast_radius", "power_loss", DRILLS)
"""Guard rails that a scenario may lift, and phases that are left out otherwise."""
ROUND_ORDERS = ("as_written", "abba")

Name = Annotated[str, SAFE_NAME]
MatrixValue = Annotated[str, AsWritten("a value", most=256)]
MatrixValues = Annotated[tuple[MatrixValue, ...], Field(min_length=1, max_length=20)]


LONGEST_S = 30 * 86_400
"""Of a whole run, seconds (a choice; 3 to 4 weeks is the longest burn-in that anybody recommends)."""


def _auto(value: object) -> object:
    """``auto`` or a mapping; anything else is refused."""
    if value == "auto":
        return {}
    if not isinstance(value, dict):
        raise refusal("auto, or a mapping with rounds and budget", value)
    return value


Localise = Annotated[
    LocaliseSettings, BeforeValidator(_auto, json_schema_input_type=Literal["auto"] | LocaliseSettings)
]


class PhaseEntry(Entry):
    """A part of the scenario; phases run in the order written."""

    name: Name = Field(description="Its name in ids and reports.")
    needs: tuple[Name, ...] = Field((), max_length=64, description="Phases that a host must have passed to take part.")
    changes: tuple[ChangeEntry, ...] = Field(
        (), max_length=64, description="What is altered while it runs; everything is undone at its end."
    )
    env: Env = Field({}, max_length=64, description="Variables for its collectives; they win over the platform's env.")
    localise: Localise | None = Field(
        None, description="auto: further rounds of its pairwise probes find the bad part."
    )
    for_: Annotated[int, Duration(1, LONGEST_S)] | None = Field(
        None,
        validation_alias="for",
        description="It is run again and again for so long: 4h; no round is begun after it.",
    )
    share: Annotated[float, Decimal(0.001, 1)] | None = Field(
        None, description="The same for a share of the whole run, whose 'for' or --for says how long it lasts."
    )
    stop_host_on: Annotated[str, Choice(("fail",))] | None = Field(
        None,
        description="fail: a host whose own probes FAIL in two rounds one after the other is left out of later ones.",
    )
    drill: Annotated[bool, Flag()] = Field(
        False, description="true: this phase alters the fabric for practice, and is left out unless 'allow' has drills."
    )
    probes: tuple[ProbeEntry, ...] = Field(min_length=1, max_length=64, description="What is measured, in this order.")


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
    phases: tuple[PhaseEntry, ...] = Field(min_length=1, max_length=64, description="Its parts, in order.")
    judge: JudgeEntry = Field(JudgeEntry(), description="Which limits count, and what is near them.")
    expect: tuple[ExpectEntry, ...] = Field((), max_length=100, description="What shall come out, phase against phase.")
    sample: SampleSettings | None = Field(None, description="What is read on the hosts while the run works.")
    for_: Annotated[int, Duration(1, LONGEST_S)] | None = Field(
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
