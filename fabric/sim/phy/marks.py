"""What is wrong with a cable for as long as the rack lives: a lane without light, half its lanes, a bad batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fabric.model.inventory import Fault
from fabric.sim.faults import PORT, cable_ends
from fabric.sim.hashing import text_hash
from fabric.sim.phy.cabling import Cabling, End
from fabric.sim.phy.lines import UNWORN, Wear

DIM_DB, DIM_DRIFT_DB = 4.0, 0.5
"""A dirty fibre of a ribbon takes so much of its lane's light, and so much more each day (choice)."""

DIM = Wear(raw=3e-6)
"""What one lane with little light adds before the FEC, which mends all of it (choice)."""

BATCH = Wear(symbol=1.5e-15)
"""One of a bad batch is hardly worse than the ratio that is allowed: only all of them together show it (choice)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """
    Of one end: the *lane* that receives too little light (None: none does), how many lanes are up, what it sends wrong.

    *batch*: its module is one of a bad batch.
    """

    lane: int | None = None
    width: int = 4
    wear: Wear = UNWORN
    batch: bool = False


UNMARKED = Mark()


def marks(cabling: Cabling, faults: Iterable[Fault]) -> Mapping[End, Mark]:
    """Every end that has one; a lemon between switches is a cable with a dirty lane."""
    found: dict[End, Mark] = {}
    for fault in faults:
        for near in ends_named(cabling, fault.component):
            far = cabling.peers[near]
            bits = text_hash(f"{fault.component} mark")
            if fault.kind == "dark_lane" or (fault.kind == "lemon" and cable_ends(fault.component, cabling.nodes)):
                sends, receives = (near, far) if "->" in fault.component or bits % 2 else (far, near)
                found[receives] = replace(found.get(receives, UNMARKED), lane=bits // 2 % 4)
                found[sends] = replace(found.get(sends, UNMARKED), wear=DIM)
            for end in (near, far):
                if fault.kind == "half_width":
                    found[end] = replace(found.get(end, UNMARKED), width=2)
                elif fault.kind == "batch":
                    found[end] = replace(found.get(end, UNMARKED), wear=BATCH, batch=True)
    return found


def ends_named(cabling: Cabling, component: str) -> list[End]:
    """One port of every cable that a switch, ``leaf--spine`` or ``gpu001/mlx5_0:port`` names."""
    node = cabling.nodes.get(component.removesuffix(PORT))
    if node is not None:
        return [end for end in cabling.ends(node) if end in cabling.peers]
    ends = cable_ends(component, cabling.nodes)
    if ends is None or ends.one not in cabling.nodes:
        return []
    return [end for end in cabling.ends(cabling.nodes[ends.one]) if cabling.peers.get(end, ("", 0))[0] == ends.other]
