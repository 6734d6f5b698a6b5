"""Max-min fair rates: no flow can get more without taking from a flow that has no more."""

import numpy as np

from fabric.sim.net.clos import Bools, Floats, Ints, Links

_EPS = 1e-12  # relative: shares nearer than this are the same bottleneck


def max_min(
    links: Links | Ints,
    capacity_gbps: Floats,
    *,
    weight: Floats | None = None,
    limit_gbps: Floats | None = None,
    job: Ints | None = None,
) -> Floats:
    """
    Return the rate of each flow; with *job*, of each job, whose sub-flows all run at its one rate.

    A sub-flow loads each of its links with *weight* times its rate and goes no faster than its *limit_gbps*. The id
    after the last capacity pads a short path. A flow without any limit gets an infinite rate. Nothing is checked:
    capacities and limits must be 0 or more, weights above 0, jobs numbered from 0.
    """
    if not len(links):
        return np.zeros(0)
    job = np.arange(len(links)) if job is None else job
    weight = np.ones(len(links)) if weight is None else weight
    most = np.full(int(job.max()) + 1, np.inf)
    if limit_gbps is not None:
        np.minimum.at(most, job, limit_gbps)
    hops = np.ascontiguousarray(links.T, dtype=np.intp)  # hops first: a minimum over hops runs along memory
    hops = hops[hops.min(axis=1) < len(capacity_gbps)]
    return _settled(hops, np.append(capacity_gbps, np.inf), weight, job, most)


def _settled(hops: Ints, left: Floats, weight: Floats, job: Ints, most: Floats) -> Floats:
    """
    Settle rates in parallel rounds: each round settles the jobs of every link that is the tightest of all its jobs.

    Shares only grow from round to round, so such a link stays the tightest of all its jobs.
    """
    rates = np.full(len(most), np.inf)
    for _ in range(len(most) + 1):
        load = _sums(hops, weight, len(left))
        share = np.divide(left, load, out=np.full_like(left, np.inf), where=load > 0)
        best, tight = _bottlenecks(hops, share, job, most)
        settled = np.isinf(best) | (most <= best * (1 + _EPS))
        settled[job[tight[hops].any(axis=0)]] = True
        done = settled[job]
        rates[job[done]] = best[job[done]]
        if done.all():
            return rates
        used = rates[job[done]] * weight[done]
        used[np.isinf(used)] = 0.0  # an infinite rate crosses only links without limit
        left = np.maximum(left - _sums(hops[:, done], used, len(left)), 0.0)
        hops, weight, job = hops[:, ~done], weight[~done], job[~done]
    raise ArithmeticError("max-min rounds did not settle")


def _bottlenecks(hops: Ints, share: Floats, job: Ints, most: Floats) -> tuple[Floats, Bools]:
    """Return the most that each job can get now, and the links that are the tightest link of every job on them."""
    offered = share[hops]
    best = most.copy()
    np.minimum.at(best, job, offered.min(axis=0, initial=np.inf))
    tight = np.ones(len(share), dtype=np.bool_)
    tight[hops[offered > best[job] * (1 + _EPS)]] = False
    tight[-1] = False  # the padding limits nobody
    return best, tight


def _sums(hops: Ints, values: Floats, links: int) -> Floats:
    """Return the sum of *values*, one for each sub-flow, on each of *links*."""
    return np.bincount(hops.ravel(), np.tile(values, len(hops)), minlength=links).astype(np.float64, copy=False)
