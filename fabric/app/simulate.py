"""What a person can ask of the simulated network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fabric.config.what_if import load_what_if
from fabric.sim.what_if import WhatIf, what_if


def simulate(
    pattern: str,
    inventory_path: Path,
    *,
    routing: str | None = None,
    order: str | None = None,
    hosts: str | None = None,
    faults: Sequence[str] = (),
    qps: int = 1,
    seeds: int = 10,
    seed: int = 0,
) -> WhatIf:
    """What the network of an inventory would give a traffic pattern; ConfigError with everything that is wrong."""
    question = load_what_if(
        pattern,
        inventory_path,
        routing=routing,
        order=order,
        hosts=hosts,
        faults=faults,
        qps=qps,
        seeds=seeds,
        seed=seed,
    )
    return what_if(question)
