"""One all-reduce over many hosts, as a training job runs it, and one all-to-all.

The all-reduce shows how much of the network a job gets; the all-to-all loads every link between leaves at once, as a
bisection does.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from fabric.model.fields.entry import NotInFiles
from fabric.model.fields.scalars import Choice, Flag, Whole
from fabric.model.probe import Probe
from fabric.model.topology import Host, Topology
from fabric.probes.collective import AllReduceSpec, joined_groups, payload_gbps, shuffled
from fabric.probes.shapes import Name, Seed


class GroupAllReduceSpec(AllReduceSpec):
    """
    One all-reduce over many hosts (all_reduce_perf).

    Over the first *hosts* hosts of the run, or as many as have *gpus* GPUs; without either, over all; with *scaling*
    over 2, 4, 8 and so on, and all. *order* ``sorted`` ranks them as they are listed, ``random`` as *seed* shuffles
    them: the order decides how many connections leave a leaf.
    """

    kind: ClassVar[str] = "group_all_reduce"
    needs: ClassVar[str] = "as many hosts of one make as it asks for, with GPUs, and at least two"
    some: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    name: Name = kind
    hosts: Annotated[int, Whole(2, 100_000)] | None = None
    """How many: the first of the run that are alike; all of them when neither this nor gpus is given."""
    gpus: Annotated[int, Whole(2, 1_000_000)] | None = None
    """Instead of hosts: as many hosts as have so many GPUs, whole hosts only."""
    scaling: Annotated[bool, Flag()] = False
    """Over 2, 4, 8 ... hosts and all; told beside what the fabric allows, judged by a limit."""
    order: Annotated[str, Choice(("sorted", "random"))] = "sorted"
    """How the hosts are ranked: sorted as they are listed, or random."""
    seed: Seed = 0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse combinations of keys that are each right alone."""
        wrong = []
        if (self.hosts is not None) + (self.gpus is not None) + self.scaling > 1:
            wrong.append("'hosts', 'gpus' and 'scaling' say the same thing: leave out all but one")
        if self.order != "sorted" and self.launcher == "srun":
            wrong.append(f"order {self.order} needs launcher mpirun: srun ranks hosts in an order of its own")
        if wrong:
            raise PydanticCustomError("group", "; ".join(wrong))
        return self

    def ranks(self, gpus: int, *, hosts: int) -> int:
        """Return the ranks of as many hosts as it asks for."""
        return self.gpus or (self.hosts or hosts) * gpus

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Yield probes over the first hosts that are alike and enough; none if there are too few."""
        for alike in joined_groups(hosts, topology):
            groups = self._doubling(alike) if self.scaling else [self._first(alike)]
            for group in filter(None, groups):
                ranked = shuffled(group, seed=self.seed) if self.order == "random" else group
                yield from self.probes(ranked, phase=phase, label=f"{len(group)}-hosts")
            if any(groups):
                return

    @property
    def without_limit(self) -> bool:
        """Return whether it is a scaling curve, which needs no limit."""
        return self.scaling

    @staticmethod
    def _doubling(alike: list[Host]) -> list[list[Host]]:
        """Return the first 2, 4, 8 and so on hosts, and all of them."""
        counts = [2**power for power in range(1, len(alike).bit_length()) if 2**power < len(alike)]
        return [alike[:count] for count in (*counts, len(alike)) if count > 1]

    def _first(self, alike: list[Host]) -> list[Host] | None:
        """Return as many hosts as are asked for; None if there are fewer, or if GPUs would be left over."""
        count = len(alike) if self.hosts is None else self.hosts
        if self.gpus is not None:
            count, left = divmod(self.gpus, len(alike[0].platform.gpus))
            if left:
                return None
        return alike[:count] if 2 <= count <= len(alike) else None


class GroupAllToAllSpec(GroupAllReduceSpec):
    """
    One all-to-all over many hosts (alltoall_perf), with the keys of ``group_all_reduce`` but the algorithm.

    Each GPU sends to every other; with rails, NCCL hands bytes to the GPU on the receiver's rail first (PXN), so that
    they stay on it.
    """

    kind: ClassVar[str] = "group_all_to_all"
    op: ClassVar[str] = "alltoall"

    name: Name = kind
    algorithm: Annotated[str, NotInFiles()] = ""

    def planned_gbps(self, hosts: Sequence[Host]) -> float:
        """
        Return the algorithm bandwidth that the plan expects: what a GPU's share of the RNICs carries to other hosts.
        """
        ranks = max(2, sum(len(host.platform.gpus) for host in hosts))
        each = max(1, ranks // len(hosts))
        return payload_gbps(hosts) / each * ranks / max(1, ranks - each)
