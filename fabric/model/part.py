"""The parts of a cluster, and the parser of their names as verdicts, changes, counters and users write them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

PORT = "port"
"""The aspect of an RNIC that means its port, its cable and the leaf's port."""

_WAYS = ("tx", "rx")


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """
    One part: *host* (or switch, or link), *item* in it, *aspect* of that; "" where the whole is meant.

    ==========================  ==================================================================
    ``gpu001``, ``leaf3``       a host, a switch
    ``gpu001/mlx5_0``           an RNIC; likewise ``gpu3``, ``numa0``, ``nvlink``, a PCIe switch
    ``gpu001/mlx5_0:port``      its port, cable and leaf port; ``:tx`` and ``:rx`` one way of it
    ``gpu001/mlx5_0:above``     what its routes take above its leaf; ``gpu001:above`` those of all its RNICs
    ``gpu001/mlx5_0->numa1``    a path inside the host; ``numa1-gpus``, ``numa1-side`` a group of ends
    ``leaf3--spine2#1``         a link between switches, the second of its kind; ``leaf3->spine2`` one way
    ``gpu001+gpu002``           a pair: one of them or what is between them
    ==========================  ==================================================================
    """

    host: str
    item: str = ""
    aspect: str = ""

    @staticmethod
    def of(name: str) -> Part:
        """Return the part with this name; every text is the name of some part."""
        return _part(name)

    def __str__(self) -> str:
        """Return its name: ``str(Part.of(name)) == name``."""
        whole = f"{self.host}/{self.item}" if self.item else self.host
        return f"{whole}:{self.aspect}" if self.aspect else whole

    @property
    def inside(self) -> str:
        """Return its name within its host, ``mlx5_0:port``; "" for a host."""
        return str(self)[len(self.host) + 1 :] if self.item else ""

    @property
    def place(self) -> tuple[str, str]:
        """Return host and item."""
        return self.host, self.item

    @property
    def device(self) -> str:
        """Return the item at which a path begins, ``mlx5_0`` of ``mlx5_0->numa1``; else the item."""
        return self.item.partition("->")[0]

    @property
    def end(self) -> str:
        """Return where a path ends, ``numa1`` of ``mlx5_0->numa1``; "" if it is not a path."""
        return self.item.partition("->")[2]

    @property
    def is_port(self) -> bool:
        """Return whether it is an RNIC's port with its cable."""
        return self.aspect == PORT

    @property
    def both_ways(self) -> Part:
        """Return the same part without the direction (``:tx``, ``:rx``) that a name may end with."""
        return Part(self.host, self.item) if self.aspect in _WAYS else self

    @property
    def members(self) -> tuple[Part, ...]:
        """Return both parts of a pair; for any other part, the part itself."""
        return tuple(_part(name) for name in str(self).split("+"))

    @property
    def link_ends(self) -> tuple[str, str] | None:
        """Return the two switches of a link between switches; None if it is not such a link."""
        low, way, high = self.host.partition("->" if "->" in self.host else "--")
        return (low, high.partition("#")[0]) if way else None

    @property
    def number(self) -> int:
        """Return the number of a link among parallel links of two switches, from 0; 0 if it has none."""
        digits = self.host.partition("#")[2]
        return int(digits) if digits.isdecimal() else 0


@lru_cache(maxsize=1 << 17)
def _part(name: str) -> Part:
    host, slash, item = name.partition("/")
    if slash:
        item, _, aspect = item.partition(":")
        return Part(host, item, aspect)
    host, _, aspect = host.partition(":")
    return Part(host, "", aspect)
