"""
What a limit may ask for: no payload is as fast as the lines that carry it.

A limit that asks for as much as the line or more was made for faster hardware. A healthy host does not meet it, so it
says nothing of a host. Line rates are those of the inventory: a link that came up slower than it should is no excuse.
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric.model.topology import Platform
from fabric.model.verdict import Limit

ONE_LINE = frozenset({"loopback", "rnic_to_rnic", "pairwise", "link_burn"})
"""Kinds of which every byte passes through one RNIC at either end. A loopback does not leave it, and is no faster: its
engine is built for the line (measured limits for 400 Gb/s are 380 and 390, see ``inventory/baselines``)."""

ALL_LINES = frozenset({"tor_all_reduce", "group_all_reduce", "concurrent_rings"})
"""Kinds between hosts over all their RNICs."""

RING = "RING"
"""Of these only a ring's bus bandwidth is bounded by the lines: each ring leaves each host once. Trees, NVLS and
CollNet move fewer bytes than the bus bandwidth stands for."""


def bound_by_lines(kind: str, algorithm: object) -> bool:
    """Whether what is measured can be no faster than lines; *algorithm* is NCCL_ALGO, None where there is none."""
    return kind in ONE_LINE or (kind in ALL_LINES and algorithm == RING)


def least_gbps(limit: Limit, platform: Platform) -> float:
    """What a limit asks for on a host of the platform, Gb/s."""
    return limit.at_least_gbps * (min(len(platform.rnics), len(platform.gpus)) if limit.per_rnic else 1)


def out_of_reach(least: float, lines_gbps: Sequence[float]) -> str:
    """
    Why lines of these rates cannot carry *least* (Gb/s), in words; empty when they can.

    As much as the lines is too much too, for headers take their share of them.
    """
    total = sum(lines_gbps)
    if not lines_gbps or least < total:
        return ""
    line = f"line rate of {total:g} Gb/s"
    if len(lines_gbps) > 1:
        line = f"line rate of {len(lines_gbps)} RNICs together, {total:g} Gb/s"
    return f"limit {least:g} Gb/s is {'above' if least > total else 'all of'} the {line}"
