"""Common parts of the nccl-tests probes: command, expected time, reading of the output.

For several hosts also: which hosts fit together, what they claim, and how the program is launched.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from ipaddress import ip_address
from math import log2
from typing import ClassVar

from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.probe import (
    CURVE,
    GIB,
    MIB,
    Answered,
    Command,
    CommandResult,
    Measurement,
    NamedPart,
    ParamValue,
    Probe,
    ProbeCommands,
    Reading,
)
from fabric.model.scenario import LimitKey, ProbeSpec, Uses
from fabric.model.text import some
from fabric.model.topology import NVLINK, Host, Platform, Topology, joined_by_nvlink
from fabric.probes.shapes import (
    Algorithm,
    Iterations,
    Launcher,
    Sizes,
    int_param,
    lacking,
    last_line,
    numbers_param,
    repeated,
)
from fabric.tools import nccl
from fabric.tools.driver import program, setting
from fabric.tools.nccl import NcclRank
from fabric.tools.nccl.collective import WARMUP_ITERATIONS, Collective, mpirun, srun
from fabric.tools.nccl.failures import OF_THE_SHELL

START_S = 4.0
"""Expected time for CUDA and NCCL to start and stop on one host (seconds; for the plan only)."""

MNNVL = "NCCL_MNNVL_ENABLE"
"""The variable that, set to 0, makes a collective over hosts that NVLink joins use the network."""

_NAMED = 4  # the most hosts that a reason names; a choice
_DEADLINE_GBPS = 1000.0  # algorithm bandwidth that a deadline allows for; a choice, far below a healthy H100 host


class CollectiveSpec(ProbeSpec):
    """What nccl-tests measures; *op* is the collective, as its programs are called."""

    collective: ClassVar[bool] = True
    op: ClassVar[str]

    sizes_bytes: Sizes = (GIB, 2 * GIB, 4 * GIB, 8 * GIB)
    iterations: Iterations = 20

    @property
    def measured_sizes(self) -> tuple[int, ...]:
        """Return all its sizes."""
        return self.sizes_bytes

    @property
    def load(self) -> dict[str, ParamValue]:
        """Return the traffic parameters of every probe of it."""
        return {"sizes_bytes": self.sizes_bytes, "iterations": self.iterations}

    @classmethod
    def argv(cls, probe: Probe, platform: Platform) -> tuple[str, ...]:
        """Return the nccl-tests command line for this probe's sizes."""
        name, *options = cls.asked(probe).argv()
        return (*platform.wrapper, program(platform.program(name)), *options, *platform.nccl_tests_options)

    @classmethod
    def asked(cls, probe: Probe) -> Collective:
        """
        Return what a probe asks of nccl-tests.

        Within one host one process drives all its GPUs; over several hosts each GPU has a process.
        """
        gpus = probe.params.get("gpus")
        gpus_per_process = len(gpus) if isinstance(gpus, tuple) else 1
        return Collective(cls.op, sizes(probe), gpus_per_process, int_param(probe, "iterations"))

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """Return bus bandwidth in Gb/s per size, out of place and in place, or why there is none."""
        client = answered.client
        if client is None:
            return Reading((), Outcome.ERROR, "the test was never started")
        host = client.command.host
        log = nccl.parse(client.stdout + ("\n" + client.stderr if client.stderr else ""))
        ran = client.exit_status == 0 and bool(log.tests)
        for failure in log.failures:
            if ran and failure.kind in OF_THE_SHELL:
                continue
            outcome = Outcome.FAIL if failure.blames_fabric else Outcome.ERROR
            who = failure.host or host
            text = failure.text if failure.text.startswith(who) else f"{who}: {failure.text}"
            named = NamedPart(host, failure.kind) if failure.kind == "other_mpi" else _lacking(probe, client)
            return Reading((), outcome, text, named, failure=failure.known)
        if client.exit_status != 0:
            reason = f"{host}: {client.command.argv[0]} exit {client.exit_status}: {last_line(client)}"
            return Reading((), Outcome.ERROR, reason, _lacking(probe, client))
        if len(log.tests) != 1:
            reason = f"{host}: expected the table of one test, saw {len(log.tests)}"
            return Reading((), Outcome.ERROR, reason, _garbled(probe, host))
        return _measured(probe, log.tests[0], host, answered.names, cls.asked(probe))


def sizes(probe: Probe) -> tuple[int, ...]:
    """Return the message sizes of a probe, ascending, in bytes."""
    return numbers_param(probe, "sizes_bytes")


def transfer_s(sizes_bytes: Sequence[int], iterations: int, *, gbps: float) -> float:
    """
    Return the time of all sizes, out of place and in place, with warm-up, at this algorithm bandwidth (Gb/s).

    The start is not included.
    """
    passes = 2 * (iterations + WARMUP_ITERATIONS)
    return sum(sizes_bytes) * 8 / (gbps * 1e9) * passes


def timeout_s(probe: Probe, *, start_s: float) -> float:
    """
    Return the deadline; *start_s* is the time until the first pass. It is generous, because a timeout proves nothing.
    """
    slow_s = transfer_s(sizes(probe), int_param(probe, "iterations"), gbps=_DEADLINE_GBPS)
    return 60.0 + 5 * (start_s + slow_s)


def with_env(probe: Probe, env: Sequence[tuple[str, str]]) -> Probe:
    """
    Return the probe with the variables of its phase, as ``NAME=VALUE`` lines; the very same probe if there are none.
    """
    if not env:
        return probe
    params = dict(probe.params)
    if dict(env).get(MNNVL) == "0" and params.get("link_class") == NVLINK:
        del params["link_class"]
    return replace(probe, params={**params, "env": "\n".join(setting(name, value) for name, value in env)})


DEBUG_ENV = {"NCCL_DEBUG": "WARN"}
"""
Variables that make NCCL report network errors in detail.

Without it NCCL reports a network that does not answer only as "a network error", as it does for a peer that ended. Its
level is NONE unless set, which hides "Got completion ... status=12" (NCCL 5067397, src/debug.cc).
"""


def environment(probe: Probe, platform: Platform, **chosen: str) -> dict[str, str]:
    """Return the variables of a collective on a platform: *chosen* wins over the phase's own, these over the site's."""
    gid = {} if platform.gid_index is None else {"NCCL_IB_GID_INDEX": str(platform.gid_index)}
    traffic = {} if platform.traffic_class is None else {"NCCL_IB_TC": str(platform.traffic_class)}
    pairs = (line.partition("=") for line in str(probe.params.get("env", "")).split("\n") if line)
    return {**DEBUG_ENV, **traffic, **dict(platform.env), **gid, **{name: value for name, _, value in pairs}, **chosen}


def _measured(probe: Probe, test: nccl.NcclTest, host: str, names: Mapping[str, str], asked: Collective) -> Reading:
    wanted, ranks = sizes(probe), int_param(probe, "ranks")
    unusable = [*test.problems, *asked.missing_lines(test)]
    other = list(asked.mismatches(test))
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
    Return which ranks ran on other hosts than asked, or shared one GPU.

    A host is known by the name it gives itself, and until it was asked by its inventory name; nccl-tests prints names
    up to the first dot.
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
    """Return a host's name as nccl-tests prints it, in lower case; an address stays whole."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name.partition(".")[0].lower()


def _counted(hosts: Counter[str], others: Counter[str]) -> str:
    """Return ``gpu001 x 8, gpu002 x 8 and 3 more``, beginning with hosts whose count differs in *others*."""
    ordered = sorted(hosts, key=lambda host: hosts[host] == others[host])
    return some([f"{host} x {hosts[host]}" for host in ordered], _NAMED) or "none"


def _lacking(probe: Probe, client: CommandResult) -> NamedPart | None:
    """Name the host whose program did not start; of several hosts only by its own name, for it may be another one's."""
    own = last_line(client).startswith((f"{client.command.argv[0]}: ", "env: "))
    return lacking(client) if own or len(probe.hosts) == 1 else None


def _garbled(probe: Probe, host: str) -> NamedPart | None:
    """
    Name the host that started the job: its output cannot be read although the job ended well.

    Only for several hosts. A job that another host disturbed ends with an error.
    """
    return NamedPart(host, "garbled") if len(probe.hosts) > 1 else None


def _measurements(probe: Probe, test: nccl.NcclTest) -> Iterator[Measurement]:
    for row in test.rows:
        for metric, place in (("busbw_out_of_place", row.out_of_place), ("busbw_in_place", row.in_place)):
            if place is not None:
                yield Measurement(probe.probe_id, metric, place.busbw_gbps, "Gb/s", row.size_bytes)


LAUNCH_S = 10.0
"""Expected time for the launcher and NCCL's own start over two hosts (seconds; for the plan and the deadline)."""

LAUNCH_MORE_S = 2.0
"""Further time for each doubling of the number of hosts; a choice, on the slow side."""

OF_LINE_RATE = 0.92
"""
The share of its RNICs' line rate that a ring all-reduce carries (46 of 50 GB/s: nccl-tests issue 290); for the plan.
"""

NO_RNICS_GBPS = 100.0
"""Bandwidth with which a host without RNICs is planned, as over one ordinary interface (a choice)."""

NCCL_PINNED_BYTES = 256 * MIB
"""Memory that NCCL locks for the buffers of one process; a choice, on the large side of 16 channels of 4 MiB."""

BYTES_PER_RANK = 256
"""
Output per rank: all ranks are listed before the first row, 93 bytes each and the launcher's mark; 16,384 take 1.5 MB.
"""


def fitting_groups(hosts: Iterable[Host]) -> list[list[Host]]:
    """Return groups of hosts with GPUs that one command line fits, in the order first met."""
    return list(gathered((_fit(host.platform), host) for host in hosts if host.platform.gpus).values())


def joined_groups(names: Iterable[str], topology: Topology) -> list[list[Host]]:
    """Return such groups in which the fabric also joins the hosts' rails."""
    by_part: dict[tuple[int | None, ...], list[Host]] = {}
    for host in map(topology.hosts.__getitem__, names):
        parts = tuple(topology.part_of(host, rnic.rail) for rnic in host.platform.rnics)
        by_part.setdefault(parts, []).append(host)
    return [group for hosts in by_part.values() for group in fitting_groups(hosts)]


def _fit(platform: Platform) -> tuple[object, ...]:
    """Return what all hosts of a command must share: ranks, RNICs by name, environment and program."""
    rnics = tuple((rnic.device, rnic.port) for rnic in platform.rnics)
    called = (platform.program("all_reduce_perf"), platform.wrapper, platform.nccl_tests_options)
    return len(platform.gpus), rnics, platform.gid_index, platform.traffic_class, platform.env, called


def shuffled(hosts: Iterable[Host], *, seed: int) -> list[Host]:
    """Return the hosts in an order that depends only on their names and the seed, on any machine."""
    return sorted(hosts, key=lambda host: sha256(f"{seed}/{host.name}".encode()).digest())


def start_s(hosts: int) -> float:
    """Return the expected time until the first pass over so many hosts (seconds; for the plan and the deadline)."""
    return LAUNCH_S + LAUNCH_MORE_S * (log2(hosts) - 1) + START_S


def payload_gbps(hosts: Sequence[Host]) -> float:
    """Return what the RNICs of the slowest host carry together, as the plan expects it."""
    slowest = min(sum(rnic.line_rate_gbps for rnic in host.platform.rnics) for host in hosts)
    return OF_LINE_RATE * (slowest or NO_RNICS_GBPS)


def claims(hosts: Iterable[Host]) -> tuple[str, ...]:
    """Return every GPU and RNIC of these hosts."""
    makes = ((host.name, host.platform) for host in hosts)
    return tuple(f"{name}/{part}" for name, make in makes for part in (*make.gpu_by_name, *make.rnic_by_device))


class AllReduceSpec(CollectiveSpec):
    """
    An all-reduce over several hosts (all_reduce_perf, started by mpirun or srun).

    *algorithm* defaults to RING: on two hosts NCCL would pick Tree or NVLSTree, whose bus bandwidth exceeds the
    network's bottleneck and can hide a slow rail (facts: nccl-tests #290, #196).
    """

    op: ClassVar[str] = "all_reduce"

    algorithm: Algorithm = "RING"
    launcher: Launcher = "mpirun"

    def ranks(self, gpus: int, *, hosts: int) -> int:
        """Return the ranks of each probe if *hosts* hosts with *gpus* GPUs each take part."""
        raise NotImplementedError

    def uses(self, platform: Platform) -> Uses | None:
        """Return the program and its launcher, if there are GPUs."""
        if not platform.gpus:
            return None
        return Uses((f"{self.op}_perf", self.launcher), gpudirect=True, pinned_bytes=NCCL_PINNED_BYTES)

    @property
    def without_limit(self) -> bool:
        """Return whether its numbers are only shown, and judged only if a limit exists nevertheless."""
        return False

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """Yield the key of the largest size and all ranks."""
        ranks = self.ranks(len(platform.gpus), hosts=hosts)
        joined = NVLINK if platform.nvlink_domain == "rack" and dict(platform.env).get(MNNVL) != "0" else None
        key = LimitKey(self.kind, joined, self.sizes_bytes[-1], ranks, self.algorithm or None)
        yield from () if self.without_limit else (key,)

    def probes(self, hosts: Sequence[Host], *, phase: str, label: str, **params: ParamValue) -> Iterator[Probe]:
        """
        Yield the all-reduce over *hosts* in this order, as often as it is repeated; *label* identifies it in its id.
        """
        gbps = self.planned_gbps(hosts)
        over_nvlink = joined_by_nvlink(hosts) and dict(hosts[0].platform.env).get(MNNVL) != "0"
        own: dict[str, ParamValue] = {"link_class": NVLINK} if over_nvlink else {}
        for name, series in repeated(self.name, self.repeat):
            yield Probe(
                probe_id=f"{phase}/{label}/{name}",
                kind=self.kind,
                phase=phase,
                hosts=tuple(host.name for host in hosts),
                claims=claims(hosts),
                duration_s=start_s(len(hosts)) + transfer_s(self.sizes_bytes, self.iterations, gbps=gbps),
                params={
                    "ranks": sum(len(host.platform.gpus) for host in hosts),
                    **self.load,
                    **({"algorithm": self.algorithm} if self.algorithm else {}),
                    "launcher": self.launcher,
                    "series": f"{label}/{series}",
                    "name": self.name,
                    **own,
                    **params,
                    **({CURVE: 1} if self.without_limit else {}),
                },
            )

    def planned_gbps(self, hosts: Sequence[Host]) -> float:
        """
        Return the algorithm bandwidth that the plan expects of a ring, in which each byte crosses 2 (n - 1) / n times.
        """
        ranks = max(2, sum(len(host.platform.gpus) for host in hosts))
        return payload_gbps(hosts) * ranks / (2 * (ranks - 1))

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """
        Return the program, one process per GPU, launched from the first host; hosts know each other by inventory name.
        """
        platform = topology.hosts[probe.hosts[0]].platform
        # "=" asks for exact names: otherwise mlx5_1 also selects mlx5_10. Without RNICs NCCL uses sockets by itself.
        own = {"NCCL_IB_HCA": "=" + ",".join(f"{rnic.device}:{rnic.port}" for rnic in platform.rnics)}
        algorithm = {"NCCL_ALGO": str(probe.params["algorithm"])} if "algorithm" in probe.params else {}
        env = environment(probe, platform, **algorithm, **(own if platform.rnics else {}))
        words = cls.argv(probe, platform)
        start = srun if probe.params["launcher"] == "srun" else mpirun
        launched = start(words, hosts=probe.hosts, platform=platform, env=env)
        cap_bytes = MIB + BYTES_PER_RANK * int_param(probe, "ranks")
        deadline_s = timeout_s(probe, start_s=start_s(len(probe.hosts)))
        client = Command(host=probe.hosts[0], argv=launched, timeout_s=deadline_s, output_cap_bytes=cap_bytes)
        return ProbeCommands(servers=(), client=client)
