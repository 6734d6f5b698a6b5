"""One port of the rack: its states, its errors and what it has counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.sim.cabling import End, Node
from fabric.sim.injection import UNWORN, Injection, quality_of
from fabric.sim.line_kinds import line_kind
from fabric.sim.phy import LinkQuality
from fabric.sim.port_counters import Rates, Tally

if TYPE_CHECKING:
    from fabric.sim.site import Site

POLLING, DISABLED, LINK_UP, RECOVERY = 2, 3, 5, 6
"""Physical states, by the numbers of the InfiniBand specification (and of register PAOS)."""
DOWN, INITIALIZING, ACTIVE = 1, 2, 4
"""Logical states, likewise."""

PHYSICAL_TEXT = {POLLING: "Polling", DISABLED: "Disabled", LINK_UP: "LinkUp", RECOVERY: "LinkErrorRecovery"}


class Port:
    """
    One port of an RNIC or switch.

    *site* is the host of an RNIC's port. *broken* ones never come up; what is *held* does not while it is, for reasons
    of ``port_hold``. *interface_up* is the host's own switch, which leaves the cable alone. *turn* counts changes, so
    that what was planned before the last one is void.
    """

    __slots__ = (
        "admin_up", "broken", "end", "held", "injection", "interface_up", "line", "logical", "node", "physical",
        "rate_gbps", "registers", "site", "tally", "turn", "wear",
    )  # fmt: skip

    def __init__(self, node: Node, end: End, *, rate_gbps: float, site: Site | None, broken: bool) -> None:
        self.node = node
        self.end = end
        self.rate_gbps = rate_gbps
        self.line = line_kind(rate_gbps, ethernet=node.ethernet)
        self.site = site
        self.broken = broken
        self.admin_up = self.interface_up = True
        self.held: set[str] = set()
        self.physical = POLLING if broken else LINK_UP
        self.logical = DOWN if broken else ACTIVE
        self.injection: Injection | None = None
        self.wear = UNWORN
        self.turn = 0
        self.registers: dict[str, int] = {}  # what was written into registers that change nothing here
        self.tally = Tally(Rates())

    @property
    def can_train(self) -> bool:
        """Whether it would come up with a partner that can."""
        return self.admin_up and not self.broken and not self.held

    @property
    def active(self) -> bool:
        """Whether data passes."""
        return self.logical == ACTIVE and self.interface_up

    @property
    def kernel_physical(self) -> int:
        """The physical state that its own host's kernel sees: an interface that is off looks disabled."""
        return self.physical if self.interface_up else DISABLED

    @property
    def kernel_logical(self) -> int:
        """The logical state that the kernel sees."""
        return self.logical if self.interface_up else DOWN

    @property
    def kernel_up(self) -> bool:
        """Whether the kernel sees a link."""
        return self.kernel_physical == LINK_UP

    def quality(self) -> LinkQuality:
        """What its errors make of the direction it sends."""
        return quality_of(self.line, self.rate_gbps, self.injection, self.wear)

    @property
    def errs(self) -> bool:
        """Whether it sends more errors than a healthy port."""
        return self.injection is not None or self.wear is not UNWORN
