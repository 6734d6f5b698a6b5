"""
RNIC to RNIC of another host in both directions at once (ib_write_bw -b), in the rounds of ``pairwise``.

perftest prints the sum of both directions and not each of them, so what is judged is half the sum: the mean of the two.
Both directions together must carry twice a limit; a single slow direction shows with half of its loss, and which of
the two it is only ``pairwise`` tells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Unpack

from fabric.model.probe import Answered, ParamValue, Probe, Reading
from fabric.model.topology import Platform, Topology
from fabric.probes.pairwise import PairSpec, Ways
from fabric.probes.shapes import Name
from fabric.tools.perftest.command import SidePlace


class BidirectionalSpec(PairSpec):
    """RNIC to RNIC of another host on the same rail, both ways at once, in rounds of pairs (ib_write_bw -b)."""

    kind: ClassVar[str] = "bidirectional"
    first_port: ClassVar[int] = 32_000
    ways: ClassVar[Ways] = (("down", "up"), ("down", "up"))
    peers: ClassVar[bool] = True

    name: Name = kind

    def own_params(self) -> dict[str, ParamValue]:
        """What a record of it is kept under: it is not to be compared with one direction alone."""
        return {"direction": "both_ways"}

    @classmethod
    def words(cls, probe: Probe, platform: Platform, gpu: int | None, **side: Unpack[SidePlace]) -> tuple[str, ...]:
        """As of ``pairwise``, told that both send; the peer's name, with which the client's words end, stays last."""
        words = super().words(probe, platform, gpu, **side)
        at = words.index("--report_gbits")
        return *words[:at], "--bidirectional", *words[at:]

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """The mean of both directions, or why there is none."""
        reading = super().read(probe, topology, answered)
        return replace(reading, measurements=tuple(replace(one, value=one.value / 2) for one in reading.measurements))
