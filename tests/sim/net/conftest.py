"""Networks and job rates that several tests of the simulated network ask for."""

from collections.abc import Callable

import numpy as np
import pytest

from fabric.sim.net.clos import Clos, ClosSpec, build
from fabric.sim.net.maxmin import max_min
from fabric.sim.net.route import pooled, routes


def _two_levels(hosts: int, up: int, *, rails: int = 1, line_rate_gbps: float = 400.0) -> Clos:
    return build(ClosSpec(hosts, rails, up, up, 2, 0, 0, rails > 1, line_rate_gbps, 400.0))


def _three_levels(hosts: int, up: int, *, leaves_per_pod: int) -> Clos:
    return build(ClosSpec(hosts, 1, up, up, 3, leaves_per_pod, up, False, 400.0, 400.0))


def _job_shares(clos, traffic, engine, *, capacity_gbps=None, eta=1.0, **choices):
    src, dst, job = traffic
    paths = routes(clos, src, dst, engine=engine, **choices)
    capacity = clos.capacity_gbps if capacity_gbps is None else capacity_gbps
    if engine == "ar":
        capacity = pooled(clos, capacity, eta=eta)
    rate = max_min(paths.links, capacity, weight=paths.weight, job=job[paths.flow])
    return rate / clos.spec.line_rate_gbps


@pytest.fixture(scope="session")
def two_levels() -> Callable[..., Clos]:
    """A leaf-spine network of *hosts* and as many uplinks as hosts on a leaf; rail-optimised with several rails."""
    return _two_levels


@pytest.fixture(scope="session")
def three_levels() -> Callable[..., Clos]:
    """A three-level network, non-blocking."""
    return _three_levels


@pytest.fixture(scope="session")
def job_shares() -> Callable[..., np.ndarray]:
    """The rate of each job of a traffic pattern, as a part of the line rate."""
    return _job_shares
