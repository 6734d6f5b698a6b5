"""Which very parts are in a host: serial numbers, GUIDs, firmware."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartIdentity:
    """
    One part as it names itself; None: it does not say.

    *part* is its name within the host: ``mlx5_3``, ``mlx5_3:port`` (the cable or transceiver plugged into it),
    ``gpu3``. *kind*: ``rnic``, ``module`` or ``gpu``. *unique* is the node GUID of an RNIC and the UUID of a GPU.
    *firmware* of a GPU is its VBIOS.
    """

    part: str
    kind: str
    serial: str | None = None
    part_number: str | None = None
    firmware: str | None = None
    unique: str | None = None


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """The parts of one host; *unread* says in words what could not be read, and why."""

    host: str
    parts: tuple[PartIdentity, ...]
    unread: tuple[str, ...] = ()

    @property
    def by_part(self) -> dict[str, PartIdentity]:
        """The parts by name."""
        return {one.part: one for one in self.parts}
