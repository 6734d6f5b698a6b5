"""The sub-flows that a max-min solver still has to settle, laid out for whole-array work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabric.sim.net.arrays import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """Sub-flows in the order of their variables: a variable is a flow, or a job that runs at one rate."""

    links: Ints  # [hop, sub-flow]: hops first, so that a minimum over hops runs along memory
    weight: Floats | None  # None: all 1
    limit: Floats | None  # of each sub-flow, in the units of its variable
    variable: Ints  # of each sub-flow
    first: Ints | None  # where each variable's sub-flows start; None: one each

    def kept(self, stay: Bools, variables_stay: Bools) -> Edges:
        """Those that stay, by sub-flow and by variable."""
        index = np.flatnonzero(stay)
        first = None
        if self.first is not None:
            sizes = np.diff(self.first, append=len(self.variable))[variables_stay]
            first = np.cumsum(sizes) - sizes
        return Edges(
            self.links.take(index, axis=1),
            None if self.weight is None else self.weight[index],
            None if self.limit is None else self.limit[index],
            self.variable[index],
            first,
        )

    def loads(self, links: int) -> Floats:
        """The sum of weights on each of *links*."""
        if self.weight is None:
            return np.bincount(self.links.ravel(), minlength=links).astype(np.float64)
        return self.sums(self.weight, links)

    def sums(self, values: Floats, links: int) -> Floats:
        """The sum of *values*, one for each sub-flow, on each of *links*."""
        flat = self.links.ravel()
        return np.bincount(flat, np.tile(values, len(self.links)), minlength=links).astype(np.float64, copy=False)

    def variable_least(self, values: Floats) -> Floats:
        """For each sub-flow the least value of any sub-flow of its variable."""
        if self.first is None:
            return values
        return np.repeat(np.minimum.reduceat(values, self.first), self._sizes())

    def variables_with(self, marked: Bools) -> tuple[Bools, Bools]:
        """The sub-flows of variables with a marked sub-flow, and those variables."""
        if self.first is None:
            return marked, marked
        variables = np.logical_or.reduceat(marked, self.first)
        return np.repeat(variables, self._sizes()), variables

    def _sizes(self) -> Ints:
        assert self.first is not None
        return np.diff(self.first, append=len(self.variable))


def edges(
    links: NDArray[np.signedinteger],
    dummy: int,
    *,
    weight: Floats | None = None,
    limit: Floats | None = None,
    job: Ints | None = None,
) -> tuple[Edges, int]:
    """Sub-flows from a padded path matrix, and how many variables they have; *dummy* pads."""
    hops = np.ascontiguousarray(links.T, dtype=np.intp)
    used = hops.min(axis=1) < dummy
    hops = hops if used.all() else hops[used]
    if not len(hops):
        hops = np.full((1, len(links)), dummy, dtype=np.intp)
    weight = None if weight is None or (weight == 1).all() else weight
    if job is None:
        return Edges(hops, weight, limit, np.arange(len(links), dtype=np.intp), None), len(links)
    if (job[1:] < job[:-1]).any():
        order = np.argsort(job, kind="stable")
        job, hops = job[order], hops[:, order]
        weight = None if weight is None else weight[order]
        limit = None if limit is None else limit[order]
    if job[0] < 0:
        raise ValueError("a job number is negative")
    first = np.flatnonzero(np.append(True, job[1:] != job[:-1]))
    return Edges(hops, weight, limit, job.astype(np.intp), first), int(job[-1]) + 1


def over_used_links(links: NDArray[np.signedinteger], capacity: Floats) -> tuple[Ints, Floats]:
    """The same paths and capacities without the links that no path uses."""
    dummy = len(capacity)
    hops = links.astype(np.intp)
    used = np.zeros(dummy + 1, dtype=np.bool_)
    used[hops] = True
    used[dummy] = False
    number = np.cumsum(used) - 1
    number[dummy] = used.sum()
    return number[hops], capacity[used[:-1]]
