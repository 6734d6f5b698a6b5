"""What the nccl-tests probes share: the command, the expected time, and the reading of the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fabric.model.command import CommandResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, NamedPart, Probe, Reading
from fabric.model.topology import Platform
from fabric.probes.perftest_pair import int_param
from fabric.tools import nccl_tests
from fabric.tools.argument import program, setting

START_S = 4.0
"""Expected time for CUDA and NCCL to start and stop on one host (seconds; for the plan only)."""

_DEADLINE_GBPS = 1000.0  # algorithm bandwidth that a deadline allows for; a choice, far below a healthy H100 host


def sizes(probe: Probe) -> tuple[int, ...]:
    """The message sizes of a probe, ascending, bytes."""
    value = probe.params["sizes_bytes"]
    if not isinstance(value, tuple):
        raise TypeError(f"{probe.probe_id}: sizes_bytes is {value!r}, not a tuple")
    return value


def transfer_s(sizes_bytes: Sequence[int], iterations: int, *, gbps: float) -> float:
    """Every size out of place and in place, with warm-up, at this algorithm bandwidth (Gb/s); without the start."""
    passes = 2 * (iterations + nccl_tests.WARMUP_ITERATIONS)
    return sum(sizes_bytes) * 8 / (gbps * 1e9) * passes


def timeout_s(probe: Probe, *, start_s: float) -> float:
    """The deadline: generous, because a timeout proves nothing about the network; *start_s*: until the first pass."""
    slow_s = transfer_s(sizes(probe), int_param(probe, "iterations"), gbps=_DEADLINE_GBPS)
    return 60.0 + 5 * (start_s + slow_s)


def with_env(probe: Probe, env: Sequence[tuple[str, str]]) -> Probe:
    """The probe with the variables of its phase, as ``NAME=VALUE`` lines; the very probe when there are none."""
    if not env:
        return probe
    return replace(probe, params={**probe.params, "env": "\n".join(setting(name, value) for name, value in env)})


def environment(probe: Probe, platform: Platform, **chosen: str) -> dict[str, str]:
    """What a collective is given on hosts of a platform: *chosen* wins over the phase's own, that over the site's."""
    gid = {} if platform.gid_index is None else {"NCCL_IB_GID_INDEX": str(platform.gid_index)}
    pairs = (line.partition("=") for line in str(probe.params.get("env", "")).split("\n") if line)
    return {**dict(platform.env), **gid, **{name: value for name, _, value in pairs}, **chosen}


def argv(probe: Probe, platform: Platform, *, op: str, gpus_per_process: int) -> tuple[str, ...]:
    """The nccl-tests command line for this probe's sizes."""
    sizes_bytes = sizes(probe)
    factor = sizes_bytes[1] // sizes_bytes[0] if len(sizes_bytes) > 1 else 2
    name, *options = nccl_tests.collective(
        op=op,
        min_bytes=sizes_bytes[0],
        max_bytes=sizes_bytes[-1],
        factor=factor,
        gpus_per_process=gpus_per_process,
        iterations=int_param(probe, "iterations"),
    )
    return (program(platform.program(name)), *options)


def read_busbw(probe: Probe, client: CommandResult | None) -> Reading:
    """Bus bandwidth in Gb/s per size; anything that does not add up is an ERROR that says what."""
    if client is None:
        return Reading((), Outcome.ERROR, "the test was never started")
    host = client.command.host
    log = nccl_tests.parse(client.stdout + ("\n" + client.stderr if client.stderr else ""))
    for failure in log.failures:
        outcome = Outcome.FAIL if nccl_tests.blames_fabric(failure.kind, failure.text) else Outcome.ERROR
        who = failure.host or host
        return Reading((), outcome, failure.text if failure.text.startswith(who) else f"{who}: {failure.text}")
    if client.exit_status != 0:
        last = (client.stderr.strip() or client.stdout.strip() or "no output").splitlines()[-1]
        return Reading((), Outcome.ERROR, f"{host}: {client.command.argv[0]} exit {client.exit_status}: {last[:200]}")
    return _measured(probe, log, host)


def _measured(probe: Probe, log: nccl_tests.NcclLog, host: str) -> Reading:
    wanted, ranks = sizes(probe), int_param(probe, "ranks")
    if len(log.tests) != 1:
        reason = f"{host}: expected the table of one test, saw {len(log.tests)}"
        return Reading((), Outcome.ERROR, reason, _garbled(probe, host))
    test = log.tests[0]
    problems = list(test.problems)
    if test.ranks is not None and test.ranks != ranks:
        problems.append(f"expected {ranks} ranks, saw {test.ranks}")
    if tuple(row.size_bytes for row in test.rows) != wanted:
        problems.append(f"expected sizes {wanted}, saw {tuple(row.size_bytes for row in test.rows)}")
    if not test.complete:
        problems.append("the closing lines are missing: output was cut")
    if problems:
        reason = f"{host}: nccl-tests output not usable: {'; '.join(problems)}"
        return Reading((), Outcome.ERROR, reason, _garbled(probe, host))
    return Reading(tuple(_measurements(probe, test)))


def _garbled(probe: Probe, host: str) -> NamedPart | None:
    """
    Of several hosts the one that started the job, and that printed what cannot be read although all ended well.

    A job that another host disturbed ends with an error.
    """
    return NamedPart(host, "garbled") if len(probe.hosts) > 1 else None


def _measurements(probe: Probe, test: nccl_tests.NcclTest) -> Iterator[Measurement]:
    for row in test.rows:
        for metric, place in (("busbw_out_of_place", row.out_of_place), ("busbw_in_place", row.in_place)):
            if place is not None and place.busbw_gbps is not None:
                yield Measurement(probe.probe_id, metric, place.busbw_gbps, "Gb/s", row.size_bytes)
