"""All-reduce in disjoint groups of hosts, all at once: what the rings of several jobs leave to each other.

Groups have no claim in common, so their first measurements start together. Repetitions follow one another within each
group, so a fast group finishes before a slow one.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar

from fabric.model.fields.scalars import Choice, Flag, Whole
from fabric.model.probe import GIB, Probe
from fabric.model.topology import Host, Topology
from fabric.probes.collective import AllReduceSpec, joined_groups, shuffled
from fabric.probes.shapes import Name, Seed, Sizes

_NAMED = 4  # an id does not name all of more hosts than this


class ConcurrentRingsSpec(AllReduceSpec):
    """
    All-reduce in disjoint groups of hosts, all groups at once (all_reduce_perf).

    *pairing*: ``across`` takes hosts of a group as far apart in the list as it goes, ``neighbours`` one after the
    other, ``random`` as *seed* shuffles them.
    """

    kind: ClassVar[str] = "concurrent_rings"
    needs: ClassVar[str] = "GPUs, and enough other hosts of its make to fill its group"

    name: Name = kind
    groups_of: Annotated[int, Whole(2, 1024)] = 2
    """How many hosts form a group."""
    pairing: Annotated[str, Choice(("across", "neighbours", "random"))] = "across"
    """Which hosts: across (far apart in the list), neighbours or random."""
    seed: Seed = 0
    sizes_bytes: Sizes = (8 * GIB,)
    told: Annotated[bool, Flag()] = False
    """Whether numbers without a limit are told only: of pairs, the bisection of the hall."""

    @property
    def without_limit(self) -> bool:
        """Return whether its numbers are only shown."""
        return self.told

    def ranks(self, gpus: int, *, hosts: int) -> int:
        """Return the ranks of one group."""
        return self.groups_of * gpus

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Yield one probe for each group and repetition; hosts that do not fill a group are left out."""
        number = 0
        for fitting in joined_groups(hosts, topology):
            for group in groups(fitting, self):
                label = _label(group)
                yield from self.probes(group, phase=phase, label=label, group=number)
                number += 1


def groups(hosts: Sequence[Host], spec: ConcurrentRingsSpec) -> list[list[Host]]:
    """
    Return disjoint groups of ``groups_of`` hosts.

    ``across``: with g groups, host i is with hosts i + g, i + 2g and so on.
    """
    count = len(hosts) // spec.groups_of
    if spec.pairing == "across":
        return [list(hosts[first : count * spec.groups_of : count]) for first in range(count)]
    listed = shuffled(hosts, seed=spec.seed) if spec.pairing == "random" else list(hosts)
    return [listed[at * spec.groups_of : (at + 1) * spec.groups_of] for at in range(count)]


def _label(group: Sequence[Host]) -> str:
    if len(group) <= _NAMED:
        return "+".join(host.name for host in group)
    return f"{group[0].name}+{len(group) - 1}-more"
