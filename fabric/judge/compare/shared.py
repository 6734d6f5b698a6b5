"""
What probes between hosts that changed from one run to another have in common.

A median by RNIC blames the RNICs at both ends of a bad uplink, for each has but a few pairs. So the ratios of both runs
are decoded as bandwidths are in a diagnosis (``pairs/decode.py``): the few parts that explain them, where a good pair
through a part speaks for it. Of RNICs these are their sides, leaves, and uplinks and spines where the switches' tables
were read, else all uplinks of a leaf together; of collectives between hosts the hosts, and of those inside a host the
host and each GPU's NVLink side, for a bad one is in half of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fabric.judge.locate.description import CERTAIN, describe
from fabric.judge.locate.levels import LEAST_NOISE
from fabric.judge.locate.pairs.components import Components, components_of
from fabric.judge.locate.pairs.samples import UNKNOWN, Floats, Ints, PairSamples
from fabric.judge.locate.pairs.schedule import routes_of
from fabric.judge.locate.structure import Effect, Incidence, Normal
from fabric.model.probe import Probe, ProbeResult
from fabric.model.topology import Host, Rnic, Topology
from fabric.probes import routes

_USUAL_NOISE, _PRIOR_COUNT = 0.01, 4.0  # of one ratio; it counts as so many of them (choices)
_NOTHING = 1e-3  # of what was before: what nothing counts as


@dataclass(frozen=True, slots=True)
class Way:
    """
    What a probe passes through: its *ends* are two RNICs (``gpu001/mlx5_0``), or the hosts of a collective.

    *leaves* are those of the ends, *via* the spine between them; None where it is not known, or there is none. Of a
    collective *inside* a host the ends are the host and its GPUs' NVLink sides.
    """

    ends: tuple[str, ...]
    leaves: tuple[str | None, str | None] = (None, None)
    via: str | None = None
    inside: bool = False

    @property
    def blind(self) -> bool:
        """Whether it crosses leaves, and nobody knows over which uplinks."""
        a, b = self.leaves
        return None not in (a, b) and a != b and self.via is None


@dataclass(frozen=True, slots=True)
class Culprit:
    """
    A part that explains why probes changed: *through* it are those of these positions, *changed* are so by it.

    *rivals* explain the same nearly as well. *certain*: by enough samples to be localised.
    """

    component: str
    rivals: tuple[str, ...]
    through: frozenset[int]
    changed: frozenset[int]
    certain: bool


def ways_of(
    probes: Iterable[Probe], results: Mapping[str, ProbeResult], topology: Topology
) -> Callable[[Probe], Way | None]:
    """Of each probe of a run its way; None where it stays within a host, or its hosts are not in the topology."""
    tables = [(one, results[one.probe_id]) for one in probes if one.kind == routes.KIND and one.probe_id in results]
    known = routes_of(tables, topology)

    def way(probe: Probe) -> Way | None:
        if not all(name in topology.hosts for name in probe.hosts):
            return None
        if "peer_rnic" not in probe.params:
            return Way(probe.hosts) if len(probe.hosts) > 1 else _of_gpus(probe)
        hosts = [topology.hosts[probe.hosts[0]], topology.hosts[probe.hosts[-1]]]
        rnics = [
            host.platform.rnic_by_device.get(str(probe.params[end]))
            for host, end in zip(hosts, ("rnic", "peer_rnic"), strict=True)
        ]
        a, b = rnics
        if a is None or b is None:
            return None
        leaves = (_leaf(hosts[0], a), _leaf(hosts[1], b))
        # As ``pair_planes.Plane`` calls it.
        table = known.get(f"rail{b.rail} {b.line_rate_gbps:g}G", {})
        via = table.get((leaves[0], hosts[1].name)) if leaves[0] is not None and leaves[0] != leaves[1] else None
        return Way((f"{hosts[0].name}/{a.device}", f"{hosts[1].name}/{b.device}"), leaves, via)

    return way


def _of_gpus(probe: Probe) -> Way | None:
    """The host and the GPUs of an all-to-all; None of other probes."""
    gpus = probe.params.get("gpus")
    if not isinstance(gpus, tuple):
        return None
    host = probe.hosts[0]
    return Way((host, *(f"{host}/gpu{index}:nvlink" for index in gpus)), inside=True)


def culprits(ways: Sequence[Way], ratios: Sequence[Sequence[float]], *, floor: float) -> list[Culprit]:
    """
    The parts that explain the ratios below 1 - *floor*, the surest first.

    Each probe has one ratio or more: 0 when it carries nothing.
    """
    values = np.array([ratio for mine in ratios for ratio in mine])
    probe = np.array([number for number, mine in enumerate(ratios) for _ in mine], dtype=np.int64)
    if not len(values) or values.min() >= 1 - floor:
        return []
    each = [ways[number] for number in probe.tolist()]
    components = _components(each, values)
    y = np.log(np.maximum(values, _NOTHING))
    one = np.zeros((1, 1))
    normal = Normal("as before", 0.0, np.zeros(len(y), dtype=np.int64), one, one + 1, np.array([_noise(values)]))
    incidence = components.incidence
    found = describe(y, normal, incidence, floor=floor)
    return [_culprit(effect, values, incidence, components, probe) for effect in found.effects]


def _noise(ratios: Floats) -> float:
    """Of one ratio, from those above 1: nothing broken makes them larger. Few are drawn to what is usual."""
    above = ratios[ratios > 1] - 1
    seen = 1.4826 * float(np.median(above)) if len(above) else _USUAL_NOISE
    drawn = (len(above) * seen**2 + _PRIOR_COUNT * _USUAL_NOISE**2) / (len(above) + _PRIOR_COUNT)
    return max(float(np.sqrt(drawn)), LEAST_NOISE)


def _culprit(effect: Effect, values: Floats, incidence: Incidence, components: Components, probe: Ints) -> Culprit:
    of_it = incidence.of(effect.part)
    slow = of_it[values[of_it] < 1 - effect.share_lost / 2]
    dead = bool((values[slow] == 0.0).any())  # which the fabric's own word is, and no noise
    return Culprit(
        components.names[effect.part],
        tuple(dict.fromkeys(components.names[components.part[part]] for part, _ in effect.rivals)),
        frozenset(probe[of_it].tolist()),
        frozenset(probe[slow].tolist()),
        certain=dead or effect.gain >= CERTAIN,
    )


def _leaf(host: Host, rnic: Rnic) -> str | None:
    return host.leaves[rnic.rail] if rnic.rail < len(host.leaves) else None


def _components(ways: Sequence[Way], ratios: Floats) -> Components:
    if any("/" not in end for end in ways[0].ends):
        return _of_hosts(ways)  # or of a host and its GPUs
    ends, a = _numbered(end for way in ways for end in way.ends)
    leaves, leaf = _numbered(name for way in ways for name in way.leaves)
    spines, via = _numbered(way.via for way in ways)
    leaf_of = np.full(len(ends), UNKNOWN, dtype=np.int64)
    leaf_of[a] = leaf
    return components_of(
        PairSamples(ends, a[::2], a[1::2], ratios, leaves, leaf_of, spines, via, directed=True, one_way=True)
    )


def _numbered(names: Iterable[str | None]) -> tuple[tuple[str, ...], Ints]:
    """The names once each, and for every one given its number; UNKNOWN for None."""
    numbers: dict[str, int] = {}
    found = [UNKNOWN if name is None else numbers.setdefault(name, len(numbers)) for name in names]
    return tuple(numbers), np.array(found, dtype=np.int64)


def _of_hosts(ways: Sequence[Way]) -> Components:
    """Collectives: of what is between their ends nothing is known."""
    names, numbers = _numbered(end for way in ways for end in way.ends)
    paths = np.full((len(ways), max(len(way.ends) for way in ways)), UNKNOWN, dtype=np.int64)
    start = 0
    for row, way in enumerate(ways):
        paths[row, : len(way.ends)] = numbers[start : start + len(way.ends)]
        start += len(way.ends)
    each = np.arange(len(names), dtype=np.int64)
    none = np.full(len(names), UNKNOWN, dtype=np.int64)
    return Components(names, ("host",) * len(names), each, none, each, paths, lambda _a, _b, _via: paths[:0])
