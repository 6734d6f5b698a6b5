"""What a phase's ``changes:`` may hold: one entry a kind, every key, its type, its range and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from fabric.config.bit_errors import BitErrorRate, BitErrorText
from fabric.model.fields.entry import Entry
from fabric.model.fields.folded import Folded, FoldedNames
from fabric.model.fields.quantities import Span
from fabric.model.fields.scalars import Choice, OnOff, Whole, Word, refusal
from fabric.model.fields.wording import nearest, one_of, quoted

CHANGE_KINDS = ("ber", "link_down", "port_flap", "adaptive_routing", "shield")
PORT_TOOLS = ("ibportstate", "mlxlink", "mlxreg", "ip")
DIRECTIONS = ("up", "down", "both")
LINK_TIERS = ("access", "spine", "core")
SCOPES = ("fabric", "host", "job")
_DAY_S = 86_400.0

LINK_NAME = Word(
    r"[A-Za-z0-9][A-Za-z0-9._#/-]{0,159}",
    "a link such as su0-leaf3--spine02, su0-leaf3--spine02#1 (the second of parallel cables) or gpu001/mlx5_0",
)
LinkName = Annotated[str, LINK_NAME]

At = Annotated[float, Span(0, _DAY_S)]
For = Annotated[float, Span(0.1, _DAY_S)]

_LINKS_TEXT = "Which links: a name, a list of names, or how many to draw: {tier: spine, count: 4, seed: 7}."
_AT_TEXT = "When it comes into force, after the phase's first probe began; before the first probe when left out."
_FOR_TEXT = "How long it is in force; until the last probe of the phase has ended when left out."
_STOP_TEXT = "Counters of its receivers: when one has grown by more meanwhile, every change of the phase is taken back."
_BY_TEXT = "The tool that closes the port: ibportstate, mlxlink, mlxreg or ip; else the inventory's port_state."


Grown = Annotated[int, Whole(0, 2**53)] | None


class StopAboveEntry(Entry):
    """By how much counters of the receivers may grow while a change is in force."""

    raw_errors: Grown = Field(None, description="Bit errors before forward error correction (ber, from mlxlink).")
    effective_errors: Grown = Field(None, description="Bit errors after forward error correction (ber, from mlxlink).")
    symbol_errors: Grown = Field(None, description="Symbol errors.")
    link_downed: Grown = Field(None, description="How often the link went down.")
    link_error_recovery: Grown = Field(None, description="How often the link recovered by itself.")
    receive_errors: Grown = Field(None, description="Packets received with errors (ports of switches, from perfquery).")


class DrawnLinks(Entry):
    """Links drawn without repetition, on different switches and hosts as far as there are enough."""

    tier: Annotated[str, Choice(LINK_TIERS)] = Field(
        description="access (RNIC to leaf), spine (up to a spine) or core (up to a core switch)."
    )
    count: Annotated[int, Whole(1, 256)] = Field(1, description="How many.")
    seed: Annotated[int, Whole(0, 2**32 - 1)] = Field(0, description="What they are drawn with.")
    of: tuple[Annotated[Folded, FoldedNames()], ...] | None = Field(
        None, min_length=1, max_length=64, description="Only links of these switches or hosts."
    )


def _sort_of_links(value: object) -> str:
    return "drawn" if isinstance(value, dict) else "several" if isinstance(value, list) else "one"


Links = Annotated[
    Annotated[LinkName, Tag("one")]
    | Annotated[tuple[LinkName, ...], Field(min_length=1, max_length=256), Tag("several")]
    | Annotated[DrawnLinks, Tag("drawn")],
    Discriminator(_sort_of_links),
]


class BerEntry(Entry):
    """Bit errors on some links."""

    links: Links = Field(description=_LINKS_TEXT)
    raw: Annotated[BitErrorRate, BitErrorText()] | None = Field(
        None, description="Bit error rate before forward error correction, which mends most of it."
    )
    effective: Annotated[BitErrorRate, BitErrorText()] | None = Field(
        None, description="Bit error rate after forward error correction: what the traffic sees."
    )
    direction: Annotated[str, Choice(DIRECTIONS)] = Field(
        "both", description="up: what the lower end sends; down: what the upper end sends; both."
    )
    at: At | None = Field(None, description=_AT_TEXT)
    stop_above: StopAboveEntry | None = Field(None, description=_STOP_TEXT)
    for_: For | None = Field(None, validation_alias="for", description=_FOR_TEXT)


class LinkDownEntry(Entry):
    """Some links closed."""

    links: Links = Field(description=_LINKS_TEXT)
    by: Annotated[str, Choice(PORT_TOOLS)] | None = Field(None, description=_BY_TEXT)
    at: At | None = Field(None, description=_AT_TEXT)
    stop_above: StopAboveEntry | None = Field(None, description=_STOP_TEXT)
    for_: For | None = Field(None, validation_alias="for", description=_FOR_TEXT)


class PortFlapEntry(Entry):
    """Some links closed and opened again, once or several times."""

    links: Links = Field(description=_LINKS_TEXT)
    down: Annotated[float, Span(0.1, 3600)] = Field(description="How long the port is closed each time.")
    count: Annotated[int, Whole(1, 1000)] = Field(1, description="How often.")
    period: Annotated[float, Span(0.1, _DAY_S)] | None = Field(
        None, description="From one closing to the next; required with a count of two or more."
    )
    jitter: Annotated[float, Span(0, _DAY_S)] = Field(
        0.0, description="How much shorter or longer each period may be, drawn with seed."
    )
    seed: Annotated[int, Whole(0, 2**32 - 1)] = Field(0, description="What the jitter is drawn with.")
    by: Annotated[str, Choice(PORT_TOOLS)] | None = Field(None, description=_BY_TEXT)
    at: At | None = Field(None, description=_AT_TEXT)
    stop_above: StopAboveEntry | None = Field(None, description=_STOP_TEXT)


class BerChange(Entry):
    """The change ber."""

    ber: BerEntry = Field(description="Bit errors on some links (mlxreg, register PTER).")


class LinkDownChange(Entry):
    """The change link_down."""

    link_down: LinkDownEntry = Field(description="Some links closed, and opened again when it is over.")


class PortFlapChange(Entry):
    """The change port_flap."""

    port_flap: PortFlapEntry = Field(description="Some links closed for a moment, once or again and again.")


class AdaptiveRoutingChange(Entry):
    """The change adaptive_routing."""

    why: ClassVar[Mapping[str, str]] = {
        "scope": "fabric (the subnet managers' setting, for everyone on this fabric), host (RoCE: the RNICs of these"
        " hosts) or job (only what the probes ask for)"
    }

    adaptive_routing: Annotated[bool, OnOff()] = Field(description="Adaptive routing on or off.")
    scope: Annotated[str, Choice(SCOPES)] = Field(
        description="For whom: fabric (everyone on this fabric), host (RoCE: these hosts) or job (these probes)."
    )


class ShieldChange(Entry):
    """The change shield."""

    why: ClassVar[Mapping[str, str]] = {
        "scope": "fabric, because it is the subnet managers' setting, for everyone on this fabric"
    }

    shield: Annotated[bool, OnOff()] = Field(description="SHIELD (switches reroute around dead ports) on or off.")
    scope: Annotated[str, Choice(("fabric",))] = Field(
        description="fabric: it is the subnet managers' setting, for everyone on this fabric."
    )


def _kind(value: Any) -> str:
    return next(str(key) for key in value if key in CHANGE_KINDS)


def _one_change(value: object) -> object:
    """A mapping with one kind of change among its keys; anything else is refused."""
    if not isinstance(value, dict) or not value:
        raise refusal(f"one change ({one_of(CHANGE_KINDS)}) and its settings", value)
    kinds = [key for key in value if key in CHANGE_KINDS]
    if not kinds:
        key = next((key for key in value if key != "scope"), "scope")
        text = f"unknown change {quoted(key)}{nearest(key, CHANGE_KINDS)}; expected {one_of(CHANGE_KINDS)}"
        raise PydanticCustomError("change", text)
    if len(kinds) > 1:
        raise PydanticCustomError("change", f"{' and '.join(kinds)} are changes of their own: an entry for each")
    return value


ChangeEntry = Annotated[
    Annotated[BerChange, Tag("ber")]
    | Annotated[LinkDownChange, Tag("link_down")]
    | Annotated[PortFlapChange, Tag("port_flap")]
    | Annotated[AdaptiveRoutingChange, Tag("adaptive_routing")]
    | Annotated[ShieldChange, Tag("shield")],
    Discriminator(_kind),
    BeforeValidator(_one_change),
]
