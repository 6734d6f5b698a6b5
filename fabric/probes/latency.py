"""One-way latency of a small message from RNIC to RNIC of another host (ib_write_lat), in the rounds of ``pairwise``.

Lower is better; one place of the judge turns this round (``judge/normal/kinds.py``). A pair has its RNICs and the
uplinks of its leaves to itself, so the path is measured and not its load.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from fabric.model.fields.entry import NotInFiles
from fabric.model.fields.scalars import Decimal, Size, Whole, plain
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, ParamValue, Probe, Reading
from fabric.model.scenario import LimitKey, Uses
from fabric.model.topology import Platform, Topology
from fabric.probes.pairwise import PairSpec
from fabric.probes.perftest_pair import AnsweredSide
from fabric.probes.shapes import Name, int_param
from fabric.tools.perftest.command import CommandSide, latency_mismatches, parse_latency, write_lat

TYPICAL, P99, LARGEST = "latency_typical", "latency_p99", "latency_max"
UNIT = "us"

_SLOW_MESSAGE_S = 1e-3  # time that a deadline allows for each message there and back; a choice, far above any fabric
Limit = Annotated[float, Decimal(0.1, 1e6)] | None


class LatencySpec(PairSpec):
    """How long a message takes to an RNIC of another host on the same rail, in rounds of pairs (ib_write_lat)."""

    kind: ClassVar[str] = "latency"
    tool: ClassVar[str] = "ib_write_lat"
    first_port: ClassVar[int] = 31_500

    name: Name = kind
    size_bytes: Annotated[int, Size(1, 1 << 20)] = Field(2, validation_alias="size")
    """Message size (ib_write_lat --size)."""
    duration_s: Annotated[int, NotInFiles()] = 1
    queue_pairs: Annotated[int, NotInFiles()] = 1
    iterations: Annotated[int, Whole(100, 1_000_000)] = 10_000
    """Messages of each pair, there and back."""
    at_most_us: Limit = None
    """The most that the typical latency (median) may be, microseconds."""
    p99_at_most_us: Limit = None
    """The most that 99 of 100 messages may take, microseconds."""

    def uses(self, platform: Platform) -> Uses | None:
        """Return the tool; it needs hardly any memory."""
        return Uses((self.tool, "numactl"))

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """Yield nothing: no baseline holds a latency; its limits are keys of its own."""
        return iter(())

    def own_params(self) -> dict[str, ParamValue]:
        """Return the number of messages, and the limits, which are judged with the run."""
        limits = {"at_most_us": self.at_most_us, "p99_at_most_us": self.p99_at_most_us}
        written = {name: plain(limit) for name, limit in limits.items() if limit is not None}
        return {"iterations": self.iterations, **written}

    @classmethod
    def words(cls, probe: Probe, side: CommandSide) -> tuple[str, ...]:
        """Return the command for as many messages as are asked for; buffers are in host memory."""
        return write_lat(side, iterations=int_param(probe, "iterations"))

    @classmethod
    def at_most_s(cls, probe: Probe) -> float:
        """Return the time that slow messages would take."""
        return int_param(probe, "iterations") * _SLOW_MESSAGE_S

    @classmethod
    def unread(cls, side: AnsweredSide) -> Iterator[str]:
        """Yield that there is no whole table of latencies."""
        if parse_latency(side.result.stdout) is None:
            yield f"no whole table of latencies: {side.result.stdout[-120:]!r}"

    @classmethod
    def read_sides(cls, probe: Probe, topology: Topology, sides: Sequence[AnsweredSide]) -> Reading:
        """Return the client's median, 99th percentile and largest latency, or why there are none."""
        if wrong := cls.no_answer(topology, sides):
            return Reading((), Outcome.ERROR, "; ".join(wrong))
        tables = [(side.result.command, table) for side in sides if (table := parse_latency(side.result.stdout))]
        for command, table in tables:
            if other := "; ".join(latency_mismatches(table, command.argv)):
                return Reading((), Outcome.ERROR, f"{command.host}: {cls.tool} answered for another test: {other}")
        found = tables[-1][1]
        numbers = ((TYPICAL, found.typical_us), (P99, found.p99_us), (LARGEST, found.most_us))
        size_bytes = int_param(probe, "size_bytes")
        return Reading(tuple(Measurement(probe.probe_id, name, us, UNIT, size_bytes) for name, us in numbers))
