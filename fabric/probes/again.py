"""
Probes of an earlier run once more: what accused a host before it was repaired, exactly as it was measured then.

Each keeps its own kind, so it is run, read and judged as before; only the phase, the server's port and the repetitions
are new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fabric.model.probe import Answered, Probe, ProbeCommands, Reading
from fabric.model.scenario import AgainSpec
from fabric.model.topology import Topology
from fabric.probes.intra_host import repeated

KIND = "again"
NEEDS = "a run that failed (fabric run --because RUN)"
SOME = True


def expand(
    spec: AgainSpec, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]
) -> Iterator[Probe]:
    """The probes whose hosts all take part, each *repeat* times, the repetitions of one after the other."""
    del topology
    here = set(hosts)
    for probe in [] if spec.because is None else [one.probe for one in spec.because.evidence]:
        if not here.issuperset(probe.hosts):
            continue
        label = probe.probe_id.partition("/")[2]
        params = dict(probe.params)
        for name, _ in repeated(label, spec.repeat):
            if "port" in params:
                params["port"] = next(ports)
            yield replace(probe, probe_id=f"{phase}/{name}", phase=phase, params=dict(params))


def commands(probe: Probe, topology: Topology) -> ProbeCommands:
    """Never asked: every probe made here is of another kind."""
    del topology
    raise ValueError(f"{probe.probe_id}: no probe is of kind {KIND}, which stands for those of an earlier run")


def read(probe: Probe, topology: Topology, answered: Answered) -> Reading:
    """Never asked, as ``commands``."""
    del topology, answered
    raise ValueError(f"{probe.probe_id}: no probe is of kind {KIND}, which stands for those of an earlier run")
