"""Max-min fair rates: nobody can get more without taking from one who has no more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabric.sim.net.clos import Bools, Floats, Ints, Links


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


_EPS = 1e-12  # relative: shares nearer than this are the same bottleneck


def max_min(
    links: Links | Ints,
    capacity_gbps: Floats,
    *,
    weight: Floats | None = None,
    limit_gbps: Floats | None = None,
    job: Ints | None = None,
) -> Floats:
    """The rate of each flow; with *job*, of each job, whose sub-flows all run at its one rate.

    A sub-flow loads each of its links with *weight* times its rate and goes no faster than its *limit_gbps*. The id
    after the last capacity pads a short path. What nothing limits gets an infinite rate.
    """
    _check(links, capacity_gbps, weight, limit_gbps, job)
    if not len(links):
        return np.zeros(0)
    asked, count = edges(np.asarray(links), len(capacity_gbps), weight=weight, limit=limit_gbps, job=job)
    left, rates = np.append(capacity_gbps, np.inf), np.full(count, np.inf)
    _settle(asked, left, asked.loads(len(left)), rates)
    return rates


def _check(
    links: Links | Ints, capacity: Floats, weight: Floats | None, limit: Floats | None, job: Ints | None
) -> None:
    if not (capacity >= 0).all():
        raise ValueError("a capacity is negative or not a number")
    for what, values in (("weights", weight), ("limits", limit), ("jobs", job)):
        if values is not None and len(values) != len(links):
            raise ValueError(f"{len(values)} {what} for {len(links)} sub-flows")
    if weight is not None and not ((weight > 0) & (weight < np.inf)).all():
        raise ValueError("a weight is not above 0 and finite")
    if limit is not None and not (limit >= 0).all():
        raise ValueError("a limit is negative or not a number")
    if links.size and (links.min() < 0 or links.max() > len(capacity)):
        raise ValueError(f"a link id outside 0..{len(capacity)}, where the last pads")


def _settle(asked: Edges, left: Floats, load: Floats, rates: Floats) -> None:
    """Parallel rounds: settle every variable of every link all whose variables find it their tightest.

    Shares only grow from round to round, so such a link stays the tightest of all its variables. *left* and *load* are
    used up; *rates* is filled in.
    """
    if not len(asked.variable):
        return
    for _ in range(len(rates) + 1):
        rate, settled = _round(asked, left, load)
        settled, variables = asked.variables_with(settled)
        rates[asked.variable[settled]] = rate[settled]
        if settled.all():
            return
        gone = asked.kept(settled, variables)
        used = rate[settled] if gone.weight is None else rate[settled] * gone.weight
        used[np.isinf(used)] = 0.0  # an infinite rate crosses only links without limit
        left -= gone.sums(used, len(left))
        np.maximum(left, 0.0, out=left)
        load -= gone.loads(len(load))
        asked = asked.kept(~settled, ~variables)
    raise ArithmeticError("max-min rounds did not settle")


def _round(asked: Edges, left: Floats, load: Floats) -> tuple[Floats, Bools]:
    """The most each sub-flow can get now, and whether one of its own links, or its limit, settles that."""
    share = np.divide(left, load, out=np.full_like(left, np.inf), where=load > 0)
    offered = share.take(asked.links)
    best = offered.min(axis=0)
    if asked.limit is not None:
        np.minimum(best, asked.limit, out=best)
    best = asked.variable_least(best)
    nearly = best * (1 + _EPS)
    tight = np.ones(len(left), dtype=np.bool_)
    tight[asked.links[offered > nearly]] = False
    tight[-1] = False  # the dummy limits nobody
    settled: Bools = tight.take(asked.links).any(axis=0) | np.isinf(best)
    if asked.limit is not None:
        settled |= asked.limit <= nearly
    return best, settled
