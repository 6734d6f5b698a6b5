"""SHIELD, the switches' own rerouting around dead ports, switched on or off by every subnet manager."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.changes.kind import Context, Wrong
from fabric.changes.subnet_manager import SM_NEEDED, Toggle
from fabric.model.fields.scalars import Choice, OnOff


class Shield(Toggle):
    """The change shield."""

    kind: ClassVar[str] = "shield"
    why: ClassVar[Mapping[str, str]] = {
        "scope": "fabric, because it is the subnet managers' setting, for everyone on this fabric"
    }

    on: Annotated[bool, OnOff()] = Field(alias="shield")
    """SHIELD (switches reroute around dead ports) on or off."""
    scope: Annotated[str, Choice(("fabric",))]
    """fabric: it is the subnet managers' setting, for everyone on this fabric."""

    def problems(self, context: Context | None) -> Iterator[Wrong]:
        """Subnet managers that nobody knows."""
        yield from super().problems(context)
        if context is not None and not context.settings.subnet_managers:
            yield ("shield",), f"to switch SHIELD {SM_NEEDED}"

    def sets(self, context: Context) -> Mapping[str, str]:
        """As the inventory says."""
        return dict(context.settings.shield_on if self.on else context.settings.shield_off)
