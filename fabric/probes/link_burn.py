"""Many RNIC-to-RNIC flows at once, in stages that load every link (ib_write_bw): a burn-in of cables and switch ports.

Each flow is a probe. Within a stage no RNIC sends twice or receives twice, so that a whole stage can start together;
sending and receiving are claimed separately, because an RNIC does both. The stages are worked out when the phase is
planned (``fabric.plan.as_run.staged``). Each stage is a part of the phase of its own: the next one begins when the last
flow of this one has ended; otherwise links would carry flows that were not planned for them.

Buffers are on the nearest GPU of each RNIC, as in training: otherwise two RNICs under one PCIe switch would share its
uplink to host memory, and no link would see more than half its rate. GPUs are not claimed, because each has two flows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from pydantic import Field

from fabric.model.fields.entry import NotInFiles
from fabric.model.fields.scalars import Choice, Duration
from fabric.model.probe import SHARE, Probe
from fabric.model.topology import Topology
from fabric.probes.perftest_pair import PerftestSpec
from fabric.probes.shapes import Name, QueuePairs

FIRST_PORT = 31_000
"""First TCP port of these probes' servers, one for each RNIC of a host: above those of ``pairwise``."""


@dataclass(frozen=True, slots=True)
class BurnFlow:
    """
    One RNIC that writes to another: *host* and *device* to *peer* and *peer_device*.

    *share*: the least that other flows on its path leave it, in per cent of its line.
    """

    host: str
    device: str
    peer: str
    peer_device: str
    share: int = 100


class LinkBurnSpec(PerftestSpec):
    """
    Flows between RNICs, in stages that load every link to half its rate or more (ib_write_bw).

    *stages* follow from the routing and the fabric when the phase is planned. The duration is Imbue's. It is never
    repeated: a longer burn-in is a longer duration.
    """

    kind: ClassVar[str] = "link_burn"
    needs: ClassVar[str] = "another RNIC in the run that a route leads to"
    some: ClassVar[bool] = True

    name: Name = kind
    repeat: Annotated[int, NotInFiles()] = 1
    routing: Annotated[str, Choice(("ftree", "updn", "minhop", "ar", "ecmp"))] | None = None
    """How the fabric routes: ftree, updn, minhop (OpenSM's tables), ar or ecmp; as the inventory."""
    memory: Annotated[str, Choice(("gpu", "host"))] = "gpu"
    """Where the buffers are: gpu (the nearest of the RNIC, if it has one) or host."""
    duration_s: Annotated[int, Duration(1, 86400)] = Field(1800, validation_alias="duration")
    """How long each stage runs."""
    queue_pairs: QueuePairs = 2
    stages: Annotated[tuple[tuple[BurnFlow, ...], ...], NotInFiles()] = ()

    @property
    def on_gpus(self) -> bool:
        """Return whether GPU memory is asked for."""
        return self.memory == "gpu"

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Yield a probe for each flow of each stage whose two hosts are in the run."""
        taking_part = frozenset(hosts)
        for number, stage in enumerate(self.stages):
            for flow in stage:
                if flow.host in taking_part and flow.peer in taking_part:
                    yield self._probe(flow, number, phase, topology)

    def one_by_one(self) -> Iterator[Self]:
        """Yield the spec once for each stage, with the other stages empty, so that stages keep their numbers."""
        for number, stage in enumerate(self.stages):
            yield self.changed(stages=((),) * number + (stage,))

    def _probe(self, flow: BurnFlow, number: int, phase: str, topology: Topology) -> Probe:
        sender, receiver = topology.hosts[flow.host].platform, topology.hosts[flow.peer].platform
        label = f"{flow.device}.{flow.peer_device}.s{number + 1}"
        return self.probe(
            phase,
            f"{flow.host}+{flow.peer}",
            (label, label),
            hosts=(flow.host,) if flow.host == flow.peer else (flow.host, flow.peer),
            claims=(f"{flow.host}/{flow.device}:out", f"{flow.peer}/{flow.peer_device}:in"),
            rnic=flow.device,
            peer_rnic=flow.peer_device,
            rail=sender.rnic_by_device[flow.device].rail,
            stage=number,
            memory=self.memory,
            port=FIRST_PORT + receiver.rnics.index(receiver.rnic_by_device[flow.peer_device]),
            **({} if flow.share == 100 else {SHARE: flow.share}),
        )
