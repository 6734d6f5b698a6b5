"""Repeat probes of an earlier run: the evidence against a host before its repair, measured exactly as it was then.

Each probe keeps its own kind, so it is run, read and judged as before; only the phase, the server's port and the
repetitions are new.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from fabric.model.fields.entry import NotInFiles
from fabric.model.probe import Probe
from fabric.model.repair import Because
from fabric.model.scenario import ProbeSpec, Scenario
from fabric.model.topology import Topology
from fabric.probes.collective import START_S, start_s
from fabric.probes.shapes import Name, Repeat, repeated
from fabric.tools.nccl.collective import WARMUP_ITERATIONS


class AgainSpec(ProbeSpec):
    """
    The probes that did not pass in the run of --because, repeated.

    *because* is None in a file: ``fabric run --because RUN`` fills it with what did not pass there.
    """

    kind: ClassVar[str] = "again"
    needs: ClassVar[str] = "a run that failed (fabric run --because RUN)"
    some: ClassVar[bool] = True

    name: Name = kind
    repeat: Repeat = 5
    because: Annotated[Because | None, NotInFiles()] = None

    @property
    def is_of_some(self) -> bool:
        """Return whether it is known what to repeat."""
        return self.because is not None

    def expand(self, *, phase: str, topology: Topology, hosts: Sequence[str], ports: Iterator[int]) -> Iterator[Probe]:
        """Yield the probes whose hosts all take part, each with its repetitions one after another."""
        here = set(hosts)
        for one in () if self.because is None else self.because.evidence:
            probe = one.probe
            if not here.issuperset(probe.hosts):
                continue
            label = probe.probe_id.partition("/")[2]
            params = dict(probe.params)
            for name, _ in repeated(label, one.repeat or self.repeat):
                if "port" in params:
                    params["port"] = next(ports)
                yield replace(probe, probe_id=f"{phase}/{name}", phase=phase, params=dict(params))


def because_of(scenario: Scenario) -> Because | None:
    """Return the origin of the evidence of a post-repair validation; None for any other scenario."""
    specs = (spec for phase in scenario.phases for spec in phase.probes if isinstance(spec, AgainSpec))
    return next((spec.because for spec in specs if spec.because is not None), None)


def shortened(probe: Probe, *, iterations: int, duration_s: int) -> Probe:
    """
    Return the probe with at most so many iterations of each size, or seconds of traffic.

    The very same probe is returned if it has no more. Its expected time shrinks with what it transfers; the start takes
    as long as before.
    """
    params, expected_s = dict(probe.params), probe.duration_s
    had, lasted_s = params.get("iterations"), params.get("duration_s")
    if isinstance(had, int) and had > iterations:
        params["iterations"] = iterations
        begin_s = min(expected_s, START_S if len(probe.hosts) == 1 else start_s(len(probe.hosts)))
        share = (iterations + WARMUP_ITERATIONS) / (had + WARMUP_ITERATIONS)
        expected_s = begin_s + (expected_s - begin_s) * share
    if isinstance(lasted_s, int) and lasted_s > duration_s:
        params["duration_s"] = duration_s
        expected_s = max(float(duration_s), expected_s - (lasted_s - duration_s))
    return probe if params == probe.params else replace(probe, params=params, duration_s=expected_s)
