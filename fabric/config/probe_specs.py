"""Makes what a probe asks for from what the scenario file says of it."""

from __future__ import annotations

from fabric.config.probe_file import (
    AgainProbe,
    AllToAllEntry,
    AllToAllProbe,
    ConcurrentRingsEntry,
    ConcurrentRingsProbe,
    GroupAllReduceEntry,
    GroupAllReduceProbe,
    LinkBurnEntry,
    LinkBurnProbe,
    LoopbackEntry,
    LoopbackProbe,
    PairwiseEntry,
    PairwiseProbe,
    ProbeEntry,
    RnicToRnicEntry,
    RnicToRnicProbe,
    TorAllReduceEntry,
)
from fabric.config.problems import KeyPath, Problems
from fabric.model.fields.wording import quoted
from fabric.model.link_burn import LinkBurnSpec
from fabric.model.scenario import (
    AgainSpec,
    AllToAllSpec,
    ConcurrentRingsSpec,
    GroupAllReduceSpec,
    LoopbackSpec,
    PairwiseSpec,
    ProbeSpec,
    RnicToRnicSpec,
    TorAllReduceSpec,
)


def probe_specs(entries: tuple[ProbeEntry, ...], path: KeyPath, problems: Problems) -> tuple[ProbeSpec, ...]:
    """The probes of one phase; each has a name of its own within it."""
    seen: set[str] = set()
    specs = []
    for position, probe in enumerate(entries):
        spec = _spec(probe)
        if isinstance(spec, GroupAllReduceSpec):
            _check_group(spec, (*path, position), problems)
        if spec.name in seen:
            text = f"two probes named {quoted(spec.name)} in this phase: give one another 'name'"
            problems.add((*path, position), text)
        seen.add(spec.name)
        specs.append(spec)
    return tuple(specs)


def _check_group(spec: GroupAllReduceSpec, path: KeyPath, problems: Problems) -> None:
    """What each key alone cannot say."""
    if spec.hosts is not None and spec.gpus is not None:
        problems.add(path, "'hosts' and 'gpus' say the same thing: leave out one")
    if spec.order != "sorted" and spec.launcher == "srun":
        problems.add(path, f"order {spec.order} needs launcher mpirun: srun ranks hosts in an order of its own")


def _spec(probe: ProbeEntry) -> ProbeSpec:
    """What one probe asks for."""
    if isinstance(probe, LoopbackProbe):
        return _loopback(probe.loopback)
    if isinstance(probe, RnicToRnicProbe):
        return _rnic_to_rnic(probe.rnic_to_rnic)
    if isinstance(probe, AllToAllProbe):
        return _all_to_all(probe.all_to_all)
    if isinstance(probe, GroupAllReduceProbe):
        return _group_all_reduce(probe.group_all_reduce)
    if isinstance(probe, ConcurrentRingsProbe):
        return _concurrent_rings(probe.concurrent_rings)
    if isinstance(probe, LinkBurnProbe):
        return _link_burn(probe.link_burn)
    if isinstance(probe, PairwiseProbe):
        return _pairwise(probe.pairwise)
    if isinstance(probe, AgainProbe):
        return AgainSpec(name=probe.again.name, repeat=probe.again.repeat)
    return _tor_all_reduce(probe.tor_all_reduce)


def _loopback(entry: LoopbackEntry) -> LoopbackSpec:
    return LoopbackSpec(
        name=entry.name,
        size_bytes=entry.size,
        duration_s=entry.duration,
        queue_pairs=entry.queue_pairs,
        repeat=entry.repeat,
    )


def _pairwise(entry: PairwiseEntry) -> PairwiseSpec:
    return PairwiseSpec(
        name=entry.name,
        rounds=entry.rounds,
        size_bytes=entry.size,
        duration_s=entry.duration,
        queue_pairs=entry.queue_pairs,
        repeat=entry.repeat,
    )


def _link_burn(entry: LinkBurnEntry) -> LinkBurnSpec:
    return LinkBurnSpec(
        name=entry.name,
        routing=entry.routing,
        memory=entry.memory,
        size_bytes=entry.size,
        duration_s=entry.duration,
        queue_pairs=entry.queue_pairs,
    )


def _rnic_to_rnic(entry: RnicToRnicEntry) -> RnicToRnicSpec:
    return RnicToRnicSpec(
        name=entry.name,
        size_bytes=entry.size,
        duration_s=entry.duration,
        queue_pairs=entry.queue_pairs,
        repeat=entry.repeat,
    )


def _all_to_all(entry: AllToAllEntry) -> AllToAllSpec:
    return AllToAllSpec(
        name=entry.name,
        sizes_bytes=entry.sizes,
        halves=entry.halves,
        iterations=entry.iterations,
        repeat=entry.repeat,
    )


def _tor_all_reduce(entry: TorAllReduceEntry) -> TorAllReduceSpec:
    return TorAllReduceSpec(
        name=entry.name,
        sizes_bytes=entry.sizes,
        algorithm=entry.algorithm,
        launcher=entry.launcher,
        iterations=entry.iterations,
        repeat=entry.repeat,
    )


def _group_all_reduce(entry: GroupAllReduceEntry) -> GroupAllReduceSpec:
    return GroupAllReduceSpec(
        name=entry.name,
        hosts=entry.hosts,
        gpus=entry.gpus,
        sizes_bytes=entry.sizes,
        algorithm=entry.algorithm,
        launcher=entry.launcher,
        order=entry.order,
        seed=entry.seed,
        iterations=entry.iterations,
        repeat=entry.repeat,
    )


def _concurrent_rings(entry: ConcurrentRingsEntry) -> ConcurrentRingsSpec:
    return ConcurrentRingsSpec(
        name=entry.name,
        groups_of=entry.groups_of,
        pairing=entry.pairing,
        seed=entry.seed,
        sizes_bytes=entry.sizes,
        algorithm=entry.algorithm,
        launcher=entry.launcher,
        iterations=entry.iterations,
        repeat=entry.repeat,
    )
