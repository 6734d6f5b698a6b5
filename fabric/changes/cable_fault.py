"""The common base of all faults of cables: which cables, when, and the counters that end them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Discriminator, Field, Tag

from fabric.changes.kind import Context, Counters, KeyProblem, Kind
from fabric.changes.ports import CablePorts, cable_of, link_counters
from fabric.changes.procedure import Procedure
from fabric.errors import Refused
from fabric.model.change import Change, End, When
from fabric.model.fields.entry import Entry
from fabric.model.fields.folded import Folded, FoldedNames
from fabric.model.fields.scalars import Choice, Span, Whole, Word
from fabric.model.fields.wording import one_of

LINK_TIERS = ("access", "spine", "core")
DAY_S = 86_400.0

LinkName = Annotated[
    str,
    Word(
        r"[A-Za-z0-9][A-Za-z0-9._#/-]{0,159}",
        "a link such as su0-leaf3--spine02, su0-leaf3--spine02#1 (the second of parallel cables) or gpu001/mlx5_0",
    ),
]
Grown = Annotated[int, Whole(0, 2**53)] | None


class StopAbove(Entry):
    """By how much counters of the receivers may grow while a change is in force."""

    raw_errors: Grown = None
    """Bit errors before forward error correction (ber, from mlxlink)."""
    effective_errors: Grown = None
    """Bit errors after forward error correction (ber, from mlxlink)."""
    symbol_errors: Grown = None
    """Symbol errors."""
    link_downed: Grown = None
    """How often the link went down."""
    link_error_recovery: Grown = None
    """How often the link recovered by itself."""
    receive_errors: Grown = None
    """Packets received with errors (ports of switches, from perfquery)."""


class DrawnLinks(Entry):
    """Links drawn without repetition, on different switches and hosts as far as there are enough."""

    tier: Annotated[str, Choice(LINK_TIERS)]
    """access (RNIC to leaf), spine (up to a spine) or core (up to a core switch)."""
    count: Annotated[int, Whole(1, 256)] = 1
    """How many."""
    seed: Annotated[int, Whole(0, 2**32 - 1)] = 0
    """What they are drawn with."""
    of: tuple[Annotated[Folded, FoldedNames()], ...] | None = Field(None, min_length=1, max_length=64)
    """Only links of these switches or hosts."""


def _sort_of_links(value: object) -> str:
    return "one" if isinstance(value, str) else "several" if isinstance(value, list | tuple) else "drawn"


Links = Annotated[
    Annotated[LinkName, AfterValidator(lambda name: (name,)), Tag("one")]
    | Annotated[tuple[LinkName, ...], Field(min_length=1, max_length=256), Tag("several")]
    | Annotated[DrawnLinks, Tag("drawn")],
    Discriminator(_sort_of_links),
]


class CableFault(Kind):
    """Base of faults of cables, each cable a change of its own; in a plan *links* are the names of the cables."""

    bit_errors: ClassVar[bool] = False
    """Whether its receivers count bit errors."""

    links: Links
    """Which links: a name, a list of names, or how many to draw: {tier: spine, count: 4, seed: 7}."""
    at_s: Annotated[float, Span(0, DAY_S)] | None = Field(None, alias="at")
    """When it comes into force, after the phase's first probe began; before the first probe when left out."""
    stop_above: StopAbove | None = None
    """Counters of its receivers: when one has grown by more meanwhile, every change of the phase is taken back."""

    @property
    def link_names(self) -> tuple[str, ...]:
        """The links by name; none while they are still to be drawn."""
        return self.links if isinstance(self.links, tuple) else ()

    @property
    def when(self) -> When:
        """When it is in force, and its counter limits, by its keys."""
        limits = () if self.stop_above is None else tuple(self.stop_above)
        return When(self.at_s, None, tuple((name, float(most)) for name, most in limits if most is not None))

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield problems: a limit without a counter, or cables that cannot be reached."""
        if self.stop_above is not None and not self.when.stop_above:
            yield ("stop_above",), f"a counter is required here: {one_of(tuple(StopAbove.model_fields))}"
        inner = next((name for name in self.link_names if "/" not in name), None)
        if context is not None and context.settings.via is None and inner is not None:
            text = f"to alter links between switches ({inner}) 'via' under changes: in the inventory must name a host"
            yield ("links",), text

    def targets(self, context: Context) -> Iterator[tuple[str, str, Kind]]:
        """Yield each cable, with a copy of this fault for it alone."""
        for name in self.link_names:
            yield name, "port", self.model_copy(update={"links": (name,), **self.decided(name, context)})

    def cable(self, change: Change, context: Context) -> Procedure[CablePorts]:
        """Look up the cable of a change in the fabric as it is now."""
        return (yield from cable_of(change.component, context))

    def receivers(self, cable: CablePorts) -> tuple[End | None, ...]:
        """Return the ends that count the effect of the change; None: one that cannot be looked at."""
        return (cable.lower, cable.upper)

    def counted(self, ends: Iterable[End | None], context: Context) -> Procedure[dict[str, float]]:
        """Return what these ends have counted."""
        found: dict[str, float] = {}
        for end in ends:
            found |= {} if end is None else (yield from link_counters(end, context, bit_errors=self.bit_errors))
        return found

    def counters(self, change: Change, context: Context) -> Procedure[Counters]:
        """Return what the receivers have counted; empty while the link is down."""
        try:
            cable = yield from self.cable(change, context)
        except Refused:
            return {}
        return (yield from self.counted(self.receivers(cable), context))

    def decided(self, link: str, context: Context) -> dict[str, Any]:
        """Return the fields that are decided for one cable only when it is planned."""
        return {}

    def through_via(self, component: str) -> bool:
        """Return True for cables between switches."""
        return "/" not in component


def held_too_long(for_s: float | None, key: str, context: Context | None) -> Iterator[KeyProblem]:
    """Yield a problem for a change that would outlast the longest lease."""
    most_s = None if context is None else context.settings.lease.max_hold_s
    if for_s is not None and most_s is not None and for_s > most_s:
        text = f"expected at most {most_s:g}s, 'max_hold' of the lease in the inventory: the change is undone then"
        yield (key,), text


class LastingFault(CableFault):
    """A fault of cables that may end before its phase does."""

    for_s: Annotated[float, Span(0.1, DAY_S)] | None = Field(None, alias="for")
    """How long it is in force; until the last probe of the phase has ended when left out."""

    @property
    def when(self) -> When:
        """When it is in force, with its own duration."""
        return replace(super().when, for_s=self.for_s)

    def problems(self, context: Context | None) -> Iterator[KeyProblem]:
        """Yield also a fault that would outlast its lease."""
        yield from held_too_long(self.for_s, "for", context)
        yield from super().problems(context)
