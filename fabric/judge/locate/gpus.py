"""Bad GPUs that a tool's words alone do not prove: a GPU that is not there, or one that fails with its peers.

The words of one probe may mean the driver, the tool or us. What the other GPUs of the same host do with the very same
command tells: if they work, the part is bad. So an ERROR becomes a FAIL, with that evidence, where

- a tool finds fewer GPUs than the inventory has, other GPUs of this host were measured in this phase or a later one
  (or the tool counts them), and another host of the platform has all of them (a single host cannot be compared: then,
  too, it is a missing part, as with an RNIC);
- NCCL gives up on every group of GPUs with one certain GPU in it, and every group without it is measured.

A GPU that vanished in some phase of a run says nothing of the phases in which it was there, nor of those before them:
what was slow then accuses the same parts as always. A driver that ended takes all GPUs with it, for good.

All else stays an ERROR: no GPU works (the driver), all hosts lack the same GPUs (the inventory), or the words speak of
memory or of a GPU in use (see ``FailureKind.GPU_FAILED``). Which GPU is missing is not known: CUDA numbers the
remaining GPUs anew, so the last number is missing, whichever GPU is. For the same reason slow transfers on such a host
accuse the missing GPU and no path: another GPU was measured than was meant, perhaps one farther away, and beside a
transfer that uses it as well. An RNIC that is slow in all of its transfers stays a suspect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fabric.judge.normal.keys import grouped, rnics_of
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, NamedPart, Probe
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.model.verdict import ProbeVerdict, Verdicts
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec

GPUS = "gpus"
"""Stands behind a host's name for its GPUs, of which one is missing."""

_LEAST_GROUPS = 2  # groups that failed with the same GPU: in a single group each GPU may be the bad one
_MOST_NAMED = 3  # hosts that are named as having all their GPUs

_TRANSFERS = (LoopbackSpec.kind, RnicToRnicSpec.kind)
_SLOW = (Outcome.FAIL, Outcome.INCONCLUSIVE)  # slow, or slow once and well once


def with_bad_gpus(probes: Sequence[Probe], verdicts: Verdicts, topology: Topology) -> dict[str, ProbeVerdict]:
    """Return the verdicts by probe id; those that bad GPUs explain are FAIL, with the reason why it is the part."""
    found = dict(verdicts)
    errors = [probe for probe in probes if verdicts[probe.probe_id].outcome is Outcome.ERROR and _of_gpus(probe)]
    if not errors:
        return found
    own = [probe for probe in probes if _of_gpus(probe)]
    for verdict in (*_missing(probes, errors, own, verdicts, topology), *_failing(errors, own, verdicts)):
        found[verdict.probe_id] = verdict
    return found


def _of_gpus(probe: Probe) -> bool:
    """Return whether a probe stays inside a host and its command names GPUs."""
    return probe.kind == AllToAllSpec.kind or (
        probe.kind == LoopbackSpec.kind and str(probe.params["endpoint"]).startswith("gpu")
    )


def _missing(
    probes: Sequence[Probe], errors: Sequence[Probe], own: Sequence[Probe], verdicts: Verdicts, topology: Topology
) -> Iterator[ProbeVerdict]:
    """Yield new verdicts for hosts that show fewer GPUs than the inventory has."""
    of_it = (FailureKind.NO_SUCH_GPU, FailureKind.TOO_FEW_GPUS)
    failed = [one for one in errors if verdicts[one.probe_id].ran and verdicts[one.probe_id].failure in of_it]
    lacking = grouped(failed, lambda probe: probe.hosts[0])
    if not lacking:
        return
    order = {phase: place for place, phase in enumerate(dict.fromkeys(probe.phase for probe in probes))}
    measured = grouped((probe for probe in own if _measured(probe, verdicts)), lambda probe: probe.hosts[0])
    few = {(one.phase, one.hosts[0]) for one in failed if verdicts[one.probe_id].failure is FailureKind.TOO_FEW_GPUS}
    for host, lost in lacking.items():
        working = measured.get(host, [])
        last = max((order[probe.phase] for probe in working), default=-1)
        members = [probe for probe in lost if order[probe.phase] <= last or (probe.phase, host) in few]
        platform = topology.hosts[host].platform
        alike = {probe.hosts[0] for probe in own if topology.hosts[probe.hosts[0]].platform.name == platform.name}
        whole = sorted((alike & measured.keys()) - lacking.keys())
        if not working or (len(alike) > 1 and not whole):
            continue
        beside = f"; {_some(whole)} with as many in the inventory show all" if whole else ""
        because = f"its other GPUs work{beside}"
        named = NamedPart(f"{host}/{GPUS}", "absent")
        for probe in members:
            yield _failed(verdicts[probe.probe_id], because, named)
        gone = min(_last_gpu(probe) for probe in lost)
        there = max((order[probe.phase] for probe in working if _last_gpu(probe) >= gone), default=-1)
        phases = {probe.phase for probe in members}
        since = (one for one in probes if one.phase in phases or (members and order[one.phase] > there))
        for probe in _slow_at_times([probe for probe in since if probe.hosts == (host,)], verdicts):
            yield replace(verdicts[probe.probe_id], outcome=Outcome.FAIL, named=named)


def _last_gpu(probe: Probe) -> int:
    """Return the highest number of a GPU in a probe's command."""
    return (
        max(gpus_of(probe), default=-1) if probe.kind == AllToAllSpec.kind else int(str(probe.params["endpoint"])[3:])
    )


def _slow_at_times(probes: Sequence[Probe], verdicts: Verdicts) -> Iterator[Probe]:
    """
    Return the transfers within one host that missed their limit, of RNICs that met it in others.

    CUDA numbers the remaining GPUs anew: a transfer goes to another GPU than was planned, and beside transfers that it
    was not planned beside. An RNIC that is bad itself is slow in all of its own.
    """
    transfers = [probe for probe in probes if probe.kind in _TRANSFERS and _measured(probe, verdicts)]
    slow = [probe for probe in transfers if verdicts[probe.probe_id].outcome in _SLOW]
    all_of, slow_of = (Counter(rnic for probe in of for rnic in rnics_of(probe)) for of in (transfers, slow))
    return (probe for probe in slow if all(slow_of[rnic] < all_of[rnic] for rnic in rnics_of(probe)))


def _failing(errors: Sequence[Probe], own: Sequence[Probe], verdicts: Verdicts) -> Iterator[ProbeVerdict]:
    """Yield new verdicts for hosts with one GPU in every group that failed, and in none measured in the same phase."""

    def of_groups(probes: Sequence[Probe]) -> dict[tuple[str, str], list[Probe]]:
        """Return the probes between a group of GPUs, by phase and host."""
        together = (probe for probe in probes if probe.kind == AllToAllSpec.kind)
        return grouped(together, lambda probe: (probe.phase, probe.hosts[0]))

    failed = [(probe, verdicts[probe.probe_id]) for probe in errors]
    bad = of_groups([probe for probe, one in failed if one.ran and one.failure is FailureKind.GPU_FAILED])
    every = of_groups(own if bad else ())
    for place, members in bad.items():
        groups = {frozenset(gpus_of(probe)) for probe in members}
        well = {frozenset(gpus_of(probe)) for probe in every[place] if _measured(probe, verdicts)}
        guilty = frozenset.intersection(*groups) - frozenset().union(*well)
        if len(guilty) != 1 or len(groups) < _LEAST_GROUPS or not well:
            continue
        if any(not _measured(probe, verdicts) and guilty.isdisjoint(gpus_of(probe)) for probe in every[place]):
            continue
        text = f"so with each of {len(groups)} groups of GPUs that gpu{min(guilty)} is in, {len(well)} without it work"
        for probe in members:
            yield _failed(verdicts[probe.probe_id], text, None)


def _measured(probe: Probe, verdicts: Verdicts) -> bool:
    return verdicts[probe.probe_id].value_gbps is not None


def gpus_of(probe: Probe) -> tuple[int, ...]:
    """Return the GPUs that a probe of several GPUs names."""
    gpus = probe.params["gpus"]
    return gpus if isinstance(gpus, tuple) else ()


def _failed(verdict: ProbeVerdict, because: str, named: NamedPart | None) -> ProbeVerdict:
    return replace(verdict, outcome=Outcome.FAIL, reason=f"{verdict.reason.rstrip()} ({because})", named=named)


def _some(hosts: Sequence[str]) -> str:
    more = f" and {len(hosts) - _MOST_NAMED} more" if len(hosts) > _MOST_NAMED else ""
    return f"{fold(hosts[:_MOST_NAMED])}{more}"
