"""What the nccl-tests probes share: the command, the expected time, and the reading of the output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import ClassVar

from fabric.model.command import GIB
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, Measurement, NamedPart, Probe, Reading
from fabric.model.scenario import ProbeSpec
from fabric.model.topology import NVLINK, Platform
from fabric.probes.keys import Iterations, Sizes
from fabric.probes.perftest_pair import int_param
from fabric.tools import nccl
from fabric.tools.driver import program, setting
from fabric.tools.nccl import NcclRank
from fabric.tools.nccl.collective import WARMUP_ITERATIONS, Collective
from fabric.tools.nccl.failures import blames_fabric, failure_kind

START_S = 4.0
"""Expected time for CUDA and NCCL to start and stop on one host (seconds; for the plan only)."""

MNNVL = "NCCL_MNNVL_ENABLE"
"""The variable that sends a collective over hosts that NVLink joins over the network (0)."""

_NAMED = 4  # hosts that a reason names; a choice
_DEADLINE_GBPS = 1000.0  # algorithm bandwidth that a deadline allows for; a choice, far below a healthy H100 host


class CollectiveSpec(ProbeSpec):
    """What nccl-tests measures."""

    collective: ClassVar[bool] = True

    sizes_bytes: Sizes = (GIB, 2 * GIB, 4 * GIB, 8 * GIB)
    iterations: Iterations = 20

    @property
    def measured_sizes(self) -> tuple[int, ...]:
        """All of them."""
        return self.sizes_bytes


def sizes(probe: Probe) -> tuple[int, ...]:
    """The message sizes of a probe, ascending, bytes."""
    value = probe.params["sizes_bytes"]
    if not isinstance(value, tuple):
        raise TypeError(f"{probe.probe_id}: sizes_bytes is {value!r}, not a tuple")
    return value


def transfer_s(sizes_bytes: Sequence[int], iterations: int, *, gbps: float) -> float:
    """Every size out of place and in place, with warm-up, at this algorithm bandwidth (Gb/s); without the start."""
    passes = 2 * (iterations + WARMUP_ITERATIONS)
    return sum(sizes_bytes) * 8 / (gbps * 1e9) * passes


def timeout_s(probe: Probe, *, start_s: float) -> float:
    """The deadline: generous, because a timeout proves nothing about the network; *start_s*: until the first pass."""
    slow_s = transfer_s(sizes(probe), int_param(probe, "iterations"), gbps=_DEADLINE_GBPS)
    return 60.0 + 5 * (start_s + slow_s)


def with_env(probe: Probe, env: Sequence[tuple[str, str]]) -> Probe:
    """The probe with the variables of its phase, as ``NAME=VALUE`` lines; the very probe when there are none."""
    if not env:
        return probe
    params = dict(probe.params)
    if dict(env).get(MNNVL) == "0" and params.get("link_class") == NVLINK:
        del params["link_class"]
    return replace(probe, params={**params, "env": "\n".join(setting(name, value) for name, value in env)})


TELLING = {"NCCL_DEBUG": "WARN"}
"""
Without it NCCL tells of a network that does not answer only as "a network error", as it does of a peer that ended.

Its level is NONE where nothing sets it, which keeps "Got completion ... status=12" back (NCCL 5067397, src/debug.cc).
"""


def environment(probe: Probe, platform: Platform, **chosen: str) -> dict[str, str]:
    """What a collective is given on hosts of a platform: *chosen* wins over the phase's own, that over the site's."""
    gid = {} if platform.gid_index is None else {"NCCL_IB_GID_INDEX": str(platform.gid_index)}
    traffic = {} if platform.traffic_class is None else {"NCCL_IB_TC": str(platform.traffic_class)}
    pairs = (line.partition("=") for line in str(probe.params.get("env", "")).split("\n") if line)
    return {**TELLING, **traffic, **dict(platform.env), **gid, **{name: value for name, _, value in pairs}, **chosen}


def collective(probe: Probe, op: str) -> Collective:
    """What a probe asks of nccl-tests; one process drives all GPUs of its own host, several have one each."""
    sizes_bytes = sizes(probe)
    gpus = probe.params.get("gpus")
    return Collective(
        op=op,
        min_bytes=sizes_bytes[0],
        max_bytes=sizes_bytes[-1],
        factor=sizes_bytes[1] // sizes_bytes[0] if len(sizes_bytes) > 1 else 2,
        gpus_per_process=len(gpus) if isinstance(gpus, tuple) else 1,
        iterations=int_param(probe, "iterations"),
    )


def argv(probe: Probe, platform: Platform, *, op: str) -> tuple[str, ...]:
    """The nccl-tests command line for this probe's sizes."""
    name, *options = collective(probe, op).argv()
    return (*platform.wrapper, program(platform.program(name)), *options, *platform.nccl_tests_options)


def read_busbw(probe: Probe, answered: Answered, *, op: str) -> Reading:
    """Bus bandwidth in Gb/s per size; anything that is not as asked, or does not add up, is an ERROR that says what."""
    client = answered.client
    if client is None:
        return Reading((), Outcome.ERROR, "the test was never started")
    host = client.command.host
    log = nccl.parse(client.stdout + ("\n" + client.stderr if client.stderr else ""))
    for failure in log.failures:
        outcome = Outcome.FAIL if blames_fabric(failure.kind, failure.text) else Outcome.ERROR
        who = failure.host or host
        text = failure.text if failure.text.startswith(who) else f"{who}: {failure.text}"
        return Reading((), outcome, text, failure=failure_kind(failure.kind, failure.text))
    if client.exit_status != 0:
        last = (client.stderr.strip() or client.stdout.strip() or "no output").splitlines()[-1]
        return Reading((), Outcome.ERROR, f"{host}: {client.command.argv[0]} exit {client.exit_status}: {last[:200]}")
    if len(log.tests) != 1:
        reason = f"{host}: expected the table of one test, saw {len(log.tests)}"
        return Reading((), Outcome.ERROR, reason, _garbled(probe, host))
    return _measured(probe, log.tests[0], host, answered.names, collective(probe, op))


def _measured(probe: Probe, test: nccl.NcclTest, host: str, names: Mapping[str, str], asked: Collective) -> Reading:
    wanted, ranks = sizes(probe), int_param(probe, "ranks")
    unusable = [*test.problems, *asked.cut(test)]
    other = list(asked.otherwise(test))
    if tuple(row.size_bytes for row in test.rows) != wanted:
        other.append(f"asked sizes {wanted}, saw {tuple(row.size_bytes for row in test.rows)}")
    if test.ranks is not None and test.ranks != ranks:
        other.append(f"asked for {ranks} ranks, saw {test.ranks}")
    elif sorted((one.group, one.rank) for one in test.listed) != [(0, rank) for rank in range(ranks)]:
        unusable.append(f"the list of devices has not each of {ranks} ranks once")
    if unusable:
        reason = f"{host}: nccl-tests output not usable: {'; '.join(unusable + other)}"
        return Reading((), Outcome.ERROR, reason, _garbled(probe, host))
    placed = _elsewhere(test.listed, probe, names)
    if other or placed:
        reason = f"{host}: nccl-tests answered for another test: {'; '.join(other + placed)}"
        unknown = bool(placed) and not other and not names.keys() >= set(probe.hosts)
        return Reading((), Outcome.ERROR, reason, ask_names=unknown)
    return Reading(tuple(_measurements(probe, test)))


def _elsewhere(listed: Sequence[NcclRank], probe: Probe, names: Mapping[str, str]) -> list[str]:
    """
    Where ranks ran that were to run elsewhere, or two had one GPU.

    A host's name is what it calls itself, and until it was asked what the inventory calls it; nccl-tests prints it
    up to its first dot.
    """
    per_host = int_param(probe, "ranks") // len(probe.hosts)
    asked = Counter[str]()
    for host in probe.hosts:
        asked[_short(names.get(host, host))] += per_host
    seen = Counter([_short(one.host) for one in listed])
    if seen != asked:
        return [f"asked for ranks on {_counted(asked, seen)}, saw {_counted(seen, asked)}"]
    twice = [at for at, count in Counter([(_short(one.host), one.device) for one in listed]).items() if count > 1]
    if not twice:
        return []
    alike = "" if len(asked) == len(probe.hosts) else ": hosts that call themselves alike cannot be told apart"
    return [f"device {twice[0][1]} of {twice[0][0]} has several ranks{alike}"]


def _short(name: str) -> str:
    """A host's name as nccl-tests prints it, without regard to case; an address stays whole."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name.partition(".")[0].lower()


def _counted(hosts: Counter[str], others: Counter[str]) -> str:
    """``gpu001 x 8, gpu002 x 8 and 3 more``: first those of which there are not as many among the others."""
    told = sorted(hosts, key=lambda host: hosts[host] == others[host])
    shown = ", ".join(f"{host} x {hosts[host]}" for host in told[:_NAMED])
    return f"{shown} and {len(told) - _NAMED} more" if len(told) > _NAMED else shown or "none"


def _garbled(probe: Probe, host: str) -> NamedPart | None:
    """
    Of several hosts the one that started the job, and that printed what cannot be read although all ended well.

    A job that another host disturbed ends with an error.
    """
    return NamedPart(host, "garbled") if len(probe.hosts) > 1 else None


def _measurements(probe: Probe, test: nccl.NcclTest) -> Iterator[Measurement]:
    for row in test.rows:
        for metric, place in (("busbw_out_of_place", row.out_of_place), ("busbw_in_place", row.in_place)):
            if place is not None and place.busbw_gbps is not None:
                yield Measurement(probe.probe_id, metric, place.busbw_gbps, "Gb/s", row.size_bytes)
