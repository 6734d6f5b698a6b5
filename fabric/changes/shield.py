"""SHIELD, the switches' own rerouting around dead ports, switched on or off by every subnet manager."""

from __future__ import annotations

from fabric.changes.subnet_manager import SubnetManagerKeys
from fabric.model.change import ChangeSettings


class Shield(SubnetManagerKeys):
    """Kind ``shield``; param *on*."""

    def __init__(self) -> None:
        super().__init__(_keys)


def _keys(settings: ChangeSettings, on: bool) -> tuple[tuple[str, str], ...]:
    return settings.shield_on if on else settings.shield_off
