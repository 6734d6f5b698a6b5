"""A probe of an earlier run, measured for a shorter time: what a quick validation after a repair repeats."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.probe import Probe
from fabric.probes.collective import START_S
from fabric.probes.multi_host import start_s
from fabric.tools.nccl import WARMUP_ITERATIONS


def shortened(probe: Probe, *, iterations: int, duration_s: int) -> Probe:
    """
    The probe with at most so many iterations of each size, or seconds of traffic; the very probe where it has no more.

    Its expected time shrinks with what it transfers; starting takes as long as before.
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
