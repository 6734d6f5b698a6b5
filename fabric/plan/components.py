"""Which probes can get in each other's way, and which groups of probes look alike."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.model.probe import Probe


def components(probes: Sequence[Probe]) -> list[list[Probe]]:
    """Groups of probes connected by shared claims, in order of their first probe; the order within is kept."""
    parent: dict[str, str] = {}

    def root(claim: str) -> str:
        while parent[claim] != claim:
            parent[claim] = parent[parent[claim]]
            claim = parent[claim]
        return claim

    for probe in probes:
        first: str | None = None
        for claim in probe.claims:
            if claim not in parent:
                parent[claim] = claim
            if first is None:
                first = root(claim)
            else:
                parent[root(claim)] = first
    groups: dict[str, list[Probe]] = {}
    for probe in probes:
        # A probe without claims disturbs nobody: it is a component of its own.
        key = root(probe.claims[0]) if probe.claims else f"\0{probe.probe_id}"
        groups.setdefault(key, []).append(probe)
    return list(groups.values())


def shape(probes: Sequence[Probe]) -> object:
    """What a component's schedule depends on: durations, and claims by order of first appearance; not their names."""
    numbers: dict[str, int] = {}
    form = []
    for probe in probes:
        form.append(probe.duration_s)
        form.extend([numbers.setdefault(claim, len(numbers)) for claim in probe.claims])
        form.append(-1)
    return tuple(form)
