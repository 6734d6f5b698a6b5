"""What the reports want to know of a change's effect on bandwidth; the analysis measures it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class WindowEffect(Protocol):
    """One time in force: executor's seconds, and how long a loss took to be seen, and to end (None: not seen)."""

    @property
    def began_s(self) -> float:
        """When it came into force."""
        ...

    @property
    def ended_s(self) -> float | None:
        """When it ended, None: it was not seen ended."""
        ...

    @property
    def detect_s(self) -> float | None:
        """From its beginning until a sample had shown a loss."""
        ...

    @property
    def recover_s(self) -> float | None:
        """From its end until a sample had shown the bandwidth back."""
        ...


class Effect(Protocol):
    """One change: see ``analysis.effects.ChangeEffect`` for the meaning of each."""

    @property
    def change_id(self) -> str:
        """Which change."""
        ...

    @property
    def retained(self) -> float | None:
        """Median bandwidth during it, over *reference*."""
        ...

    @property
    def reference(self) -> str:
        """Over what: "before it", or the phases used instead."""
        ...

    @property
    def samples(self) -> int:
        """How many samples were taken during it."""
        ...

    @property
    def given_up(self) -> int:
        """How many of them the transport gave up."""
        ...

    @property
    def spacing_s(self) -> float | None:
        """How far apart samples were."""
        ...

    @property
    def windows(self) -> Sequence[WindowEffect]:
        """Each time in force."""
        ...

    @property
    def detect_s(self) -> float | None:
        """The longest of its windows."""
        ...

    @property
    def recover_s(self) -> float | None:
        """The longest of its windows."""
        ...

    @property
    def note(self) -> str:
        """Why bandwidth did not change, where that is known."""
        ...
