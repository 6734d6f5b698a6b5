"""One all-reduce over many hosts, as a training job runs it: how much of the network is left to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from fabric.model.fields.scalars import Choice, Whole
from fabric.model.probe import Probe
from fabric.model.topology import Host, Topology
from fabric.probes import multi_host
from fabric.probes.keys import Name, Seed
from fabric.probes.multi_host import AllReduceSpec


class GroupAllReduceSpec(AllReduceSpec):
    """
    One all-reduce over many hosts (all_reduce_perf).

    Over the first *hosts* hosts of the run, or as many as have *gpus* GPUs; without either, over all. *order*
    ``sorted`` ranks them as they are listed, ``random`` as *seed* shuffles them: the order decides how many connections
    leave a leaf.
    """

    kind: ClassVar[str] = "group_all_reduce"
    needs: ClassVar[str] = "as many hosts of one make as it asks for, with GPUs, and at least two"
    some: ClassVar[bool] = True
    alone: ClassVar[bool] = True

    name: Name = kind
    hosts: Annotated[int, Whole(2, 100_000)] | None = Field(
        None,
        description="How many: the first of the run that are alike; all of them when neither this nor gpus is given.",
    )
    gpus: Annotated[int, Whole(2, 1_000_000)] | None = Field(
        None, description="Instead of hosts: as many hosts as have so many GPUs, whole hosts only."
    )
    order: Annotated[
        str,
        Choice(("sorted", "random")),
        Field(description="How the hosts are ranked: sorted as they are listed, or random."),
    ] = "sorted"
    seed: Seed = 0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """What each key alone cannot say."""
        wrong = []
        if self.hosts is not None and self.gpus is not None:
            wrong.append("'hosts' and 'gpus' say the same thing: leave out one")
        if self.order != "sorted" and self.launcher == "srun":
            wrong.append(f"order {self.order} needs launcher mpirun: srun ranks hosts in an order of its own")
        if wrong:
            raise PydanticCustomError("group", "; ".join(wrong))
        return self

    def ranks(self, gpus: int, *, hosts: int) -> int:
        """Those of as many hosts as it asks for."""
        return self.gpus or (self.hosts or hosts) * gpus

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """The first hosts that are alike and enough; none when there are too few."""
        for alike in multi_host.joined(hosts, topology):
            group = self._first(alike)
            if group is None:
                continue
            if self.order == "random":
                group = multi_host.shuffled(group, seed=self.seed)
            yield from self.probes(group, phase=phase, label=f"{len(group)}-hosts")
            return

    def _first(self, alike: list[Host]) -> list[Host] | None:
        """As many hosts as are asked for; None when there are not so many, or GPUs would be left over."""
        count = len(alike) if self.hosts is None else self.hosts
        if self.gpus is not None:
            count, left = divmod(self.gpus, len(alike[0].platform.gpus))
            if left:
                return None
        return alike[:count] if 2 <= count <= len(alike) else None
