"""Max-min fair rates: nobody can get more without taking from one who has no more."""

from __future__ import annotations

import numpy as np

from fabric.sim.net.arrays import Bools, Floats, Ints, Links
from fabric.sim.net.edges import Edges, edges, over_used_links

_EPS = 1e-12  # relative: shares nearer than this are the same bottleneck
_NEAR = 1e-9  # relative: rates this near are found anew, to be safe from rounding


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


def completion(links: Links | Ints, capacity_gbps: Floats, size_bytes: Floats) -> Floats:
    """When each flow has moved its bytes, in seconds, all starting at 0; rates are found anew whenever one ends.

    Infinite for a flow that never ends because a link of it carries nothing.
    """
    _check(links, capacity_gbps, None, None, None)
    if len(size_bytes) != len(links) or not (size_bytes >= 0).all():
        raise ValueError("sizes must be one for each flow, none negative or not a number")
    size_gbit = np.asarray(size_bytes, dtype=np.float64) * 8e-9
    paths, used_gbps = over_used_links(np.asarray(links), capacity_gbps)
    going, _ = edges(paths, len(used_gbps))
    left_gbit, rates, now_s = size_gbit.copy(), np.zeros(len(paths)), 0.0
    end_s = np.where(size_gbit > 0, np.inf, 0.0)
    going, floor = going.kept(size_gbit > 0, size_gbit > 0), 0.0
    while len(going.variable):
        _settle_from(floor, going, np.append(used_gbps, np.inf), rates)
        rate, left = rates[going.variable], left_gbit[going.variable]
        if not rate.any():
            break
        step_s = float(np.divide(left, rate, out=np.full_like(left, np.inf), where=rate > 0).min())
        now_s += step_s
        endless = np.isinf(rate)  # what nothing limits moves all at once; apart, for infinity times 0 is not a number
        left -= np.where(endless, left, np.where(endless, 0.0, rate) * step_s)
        left_gbit[going.variable] = left
        done = left <= _EPS * size_gbit[going.variable]
        end_s[going.variable[done]] = now_s
        floor = float(rate[done].min())
        going = going.kept(~done, ~done)
    return end_s


def _settle_from(floor: float, going: Edges, left: Floats, rates: Floats) -> None:
    """Find rates anew where they may have changed since flows of rate *floor* and above ended.

    Until the water stands at *floor*, a flow that ended had met no full link, so whoever had met one by then meets it
    now too: slower flows keep their rates.
    """
    same = rates[going.variable] < floor * (1 - _NEAR)
    if same.any():
        slower = going.kept(same, same)
        left -= slower.sums(rates[slower.variable], len(left))
        np.maximum(left, 0.0, out=left)
        going = going.kept(~same, ~same)
    _settle(going, left, going.loads(len(left)), rates)


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
