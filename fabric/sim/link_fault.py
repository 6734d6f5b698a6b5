"""What is wrong with links of the simulated network."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("slow", "down", "ber", "effective_ber", "loss")


@dataclass(frozen=True, slots=True)
class LinkFault:
    """
    One fault on one or more directed links, as *text* asked for it.

    *kind* and *value*: ``slow`` keeps that fraction of the capacity; ``down`` carries nothing and is routed around;
    ``ber`` is the bit error rate before forward error correction, ``effective_ber`` the one after it; ``loss`` is the
    fraction of packets dropped at full speed.
    """

    text: str
    kind: str
    value: float
    links: tuple[int, ...]
