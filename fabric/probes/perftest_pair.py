"""Common parts of the perftest probes: commands of both sides, reading of their output, pairs within one host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from fabric.model.outcome import Outcome
from fabric.model.probe import (
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
from fabric.model.topology import Host, Platform, Rnic, Topology
from fabric.probes.shapes import (
    InHost,
    Label,
    MessageSize,
    QueuePairs,
    Seconds,
    ended_by,
    int_param,
    lacking,
    last_line,
)
from fabric.tools import perftest
from fabric.tools.perftest.command import CommandSide, asked, mismatches, missing_lines, write_bw

SETUP_S = 2.0
"""Expected time around the transfer itself: start, connection, registration, exit (seconds; for the plan only)."""

GRACE_S = 20.0
"""Time a side may take beyond its duration before its deadline (seconds)."""


FLOW_LABEL = "flow_label"
"""The probe parameter with the flow label of its packets."""


class PerftestSpec(ProbeSpec):
    """What is measured by a server and a client of perftest."""

    tool: ClassVar[str] = "ib_write_bw"

    size_bytes: MessageSize = 64 << 10
    duration_s: Seconds = 5
    queue_pairs: QueuePairs = 1

    @property
    def measured_sizes(self) -> tuple[int, ...]:
        """Return the one message size."""
        return (self.size_bytes,)

    @property
    def load(self) -> dict[str, ParamValue]:
        """Return the traffic parameters of every probe of it."""
        return {"size_bytes": self.size_bytes, "duration_s": self.duration_s, "queue_pairs": self.queue_pairs}

    def probe(
        self, phase: str, who: str, label: Label, *, hosts: tuple[str, ...], claims: tuple[str, ...], **own: ParamValue
    ) -> Probe:
        """
        Return a probe of several hosts; *who* and *label* (as of ``repeated``) make its id; *own* are its parameters.
        """
        text, series = label
        return Probe(
            probe_id=f"{phase}/{who}/{self.name}.{text}",
            kind=self.kind,
            phase=phase,
            hosts=hosts,
            claims=claims,
            duration_s=self.expected_s,
            params={**own, **self.load, "series": f"{who}/{series}", "name": self.name},
        )

    @property
    def expected_s(self) -> float:
        """Return the expected time of a probe: the transfer, and what is around it."""
        return self.duration_s + SETUP_S

    def uses(self, platform: Platform) -> Uses | None:
        """Return the tool and its memory: perftest holds a sending and a receiving half for each queue pair."""
        to_gpu = self.on_gpus and bool(platform.gpus) and platform.use_cuda != "no"
        return Uses((self.tool, "numactl"), to_gpu, to_gpu, 2 * self.size_bytes * self.queue_pairs)

    def limit_keys(self, platform: Platform, *, hosts: int) -> Iterator[LimitKey]:
        """Yield one key, if there is another host."""
        return iter([LimitKey(self.kind, size_bytes=self.size_bytes)] if hosts > 1 else ())

    @property
    def on_gpus(self) -> bool:
        """Return whether buffers are in GPU memory if there is any."""
        return False

    @classmethod
    def buffers(cls, probe: Probe, platform: Platform, rnic: Rnic) -> tuple[int | None, int]:
        """Return the GPU that holds the buffers of a side, if any, and the memory node its program is bound to."""
        on_gpu = probe.params.get("memory") == "gpu" and rnic.nearest_gpus
        return rnic.nearest_gpus[0] if on_gpu else None, rnic.numa

    @classmethod
    def words(cls, probe: Probe, side: CommandSide) -> tuple[str, ...]:
        """Return the tool and its options."""
        return write_bw(side, duration_s=int_param(probe, "duration_s"), queue_pairs=int_param(probe, "queue_pairs"))

    @classmethod
    def at_most_s(cls, probe: Probe) -> float:
        """Return how long it may transfer (seconds)."""
        return int_param(probe, "duration_s")

    @classmethod
    def commands(cls, probe: Probe, topology: Topology) -> ProbeCommands:
        """
        Return the server on the last host, ready once its TCP port listens, and the client, which sends, on the first.

        Hosts know each other by inventory name.
        """

        def side(host: Host, device: str, peer: str | None) -> Command:
            platform, port = host.platform, int_param(probe, "port")
            rnic = platform.rnic_by_device[device]
            gpu, numa = cls.buffers(probe, platform, rnic)
            place = CommandSide(
                platform=platform,
                rnic=rnic,
                port=port,
                peer=peer,
                size_bytes=int_param(probe, "size_bytes"),
                numa_node=numa,
                gpu=gpu,
                flow_label=int_param(probe, FLOW_LABEL) if FLOW_LABEL in probe.params else None,
            )
            words = cls.words(probe, place)
            timeout_s = cls.at_most_s(probe) + GRACE_S
            return Command(host.name, (*platform.wrapper, *words), timeout_s, ready_port=None if peer else port)

        there, here = ends_of(probe)
        sender, receiver = topology.hosts[probe.hosts[0]], topology.hosts[probe.hosts[-1]]
        name = LOCAL if issubclass(cls, InHostSpec) else receiver.name
        return ProbeCommands(servers=(side(receiver, there, None),), client=side(sender, here, name))

    @classmethod
    def read(cls, probe: Probe, topology: Topology, answered: Answered) -> Reading:
        """
        Return the client's average bandwidth in Gb/s, if both sides answered their command and report one transfer.

        If either side failed, its own trouble counts before what it says of the other side: a client that cannot
        connect, or a server whose peer died, is only the consequence. So is whatever the peer of a program says that
        was ended by a signal: an RNIC that sends to queue pairs that are gone ends with status 12, too.
        """
        there, here = ends_of(probe)
        ended = [(result, there) for result in answered.servers]
        if answered.client is not None:
            ended.append((answered.client, here))
        sides = [AnsweredSide(result, device, _log(result)) for result, device in ended]
        failures = [failure for side in sides for failure in _failures(side, cls.tool)]
        if failures:
            return min(failures, key=lambda failure: _ORDER.get(failure[0], 1))[1]
        if answered.client is None:
            early = [
                f"{one.command.host}: {cls.tool} ended at once, exit 0: {last_line(one)!r}" for one in answered.servers
            ]
            return Reading((), Outcome.ERROR, "; ".join(early) or "the client was never started")
        return cls.read_sides(probe, topology, sides)

    @classmethod
    def read_sides(cls, probe: Probe, topology: Topology, sides: Sequence[AnsweredSide]) -> Reading:
        """Return the reading of two sides that did not fail, the client last."""
        if wrong := cls.no_answer(topology, sides):
            return Reading((), Outcome.ERROR, "; ".join(wrong))
        row = sides[-1].log.tests[0].rows[0]
        value = row.bw_average_gbps
        assert value is not None  # otherwise it was reported as a problem
        return Reading((Measurement(probe.probe_id, "bandwidth", value, "Gb/s", row.size_bytes),))

    @classmethod
    def no_answer(cls, topology: Topology, sides: Sequence[AnsweredSide]) -> list[str]:
        """Return why sides that did not fail are no answer to their commands, or not of one transfer."""
        wrong = [text for side in sides for text in _wrong(side, topology, cls)]
        return wrong or _apart([side.log.tests[0] for side in sides], cls.tool)

    @classmethod
    def unread(cls, side: AnsweredSide) -> Iterator[str]:
        """Yield why the table of one side, which has one test, cannot be used."""
        (test,) = side.log.tests
        yield from test.problems
        if not test.closed:
            yield "no line under the table"


LOCAL = "127.0.0.1"
"""The address by which a client finds the server on its own host."""


class InHostSpec(PerftestSpec, InHost):
    """Every pair of ends that one host has."""

    alone: ClassVar[bool] = True
    peers: ClassVar[bool] = True


def ends_of(probe: Probe) -> tuple[str, str]:
    """Return the server's RNIC and the client's; in loopback they are the same."""
    here = str(probe.params["rnic"])
    return str(probe.params.get("peer_rnic", here)), here


class AnsweredSide(NamedTuple):
    """One side that has ended: its answer, and the parsed log of it."""

    result: CommandResult
    device: str
    log: perftest.PerftestLog


def _log(result: CommandResult) -> perftest.PerftestLog:
    return perftest.parse(f"{result.stdout}\n{result.stderr}" if result.stderr else result.stdout)


_CONDITIONS = {"port_down": "down", "no_device": "absent"}
_KILLED = "killed"
_CONSEQUENCES = frozenset({"cannot_connect", "peer_died", "complaint", "exit"})
_ORDER = {_KILLED: 0} | dict.fromkeys(_CONSEQUENCES, 2)
_OF_ITS_HOST = {"no_gpu_memory": "unbuilt", "unknown_option": "outdated", "no_rdma": "bare"}
_OF_THE_SHELL = frozenset({"missing_program", "missing_library", *_OF_ITS_HOST})
LINK_TYPES = {"infiniband": "IB", "ethernet": "Ethernet"}


def _failures(side: AnsweredSide, tool: str) -> Iterator[tuple[str, Reading]]:
    """Yield kind and reading of every complaint of one side, even beside a good row; nothing if all is well."""
    result, host = side.result, side.result.command.host
    for failure in side.log.failures:
        if failure.kind in _OF_THE_SHELL and result.exit_status == 0 and side.log.tests:
            continue  # a wrapper lacks something, but the test ran all the same
        outcome = Outcome.FAIL if failure.blames_fabric else Outcome.ERROR
        condition = "unreached" if " to RTR" in failure.text else _CONDITIONS.get(failure.kind)
        named = NamedPart(f"{host}/{side.device}", condition) if condition else lacking(result)
        if failure.kind in _OF_ITS_HOST:
            named = NamedPart(host, _OF_ITS_HOST[failure.kind])
        text = f"{host}: {tool} on {side.device}: {failure.text}"
        yield failure.kind, Reading((), outcome, text, named, failure=failure.known)
    if (signal := ended_by(result)) and {failure.kind for failure in side.log.failures} <= {"segfault"}:
        reason = f"{host}: {tool} on {side.device} was ended by {signal}, not by fabric: {last_line(result)}"
        yield _KILLED, Reading((), Outcome.ERROR, reason, NamedPart(host, "killed"))
    elif result.exit_status != 0:
        reason = f"{host}: {tool} exit {result.exit_status}: {last_line(result)}"
        yield "exit", Reading((), Outcome.ERROR, reason, lacking(result))


def _wrong(side: AnsweredSide, topology: Topology, spec: type[PerftestSpec]) -> Iterator[str]:
    """Yield why the output of one side is no answer to its command: of another test, of several, or cut."""
    command, tests = side.result.command, side.log.tests
    who = f"{command.host}: {spec.tool}"
    if len(tests) != 1:
        yield f"{who} output not usable: expected one table, saw {len(tests)}: {side.result.stdout[-120:]!r}"
        return
    wanted = asked(command.argv, LINK_TYPES[topology.hosts[command.host].platform.link_layer])
    other = "; ".join(mismatches(tests[0], wanted))
    if other:
        yield f"{who} answered for another test: {other}"
    unusable = "; ".join([*spec.unread(side), *missing_lines(tests[0], wanted)])
    if unusable:
        yield f"{who} output not usable: {unusable}"


def _apart(tests: Sequence[perftest.PerftestTest], tool: str) -> list[str]:
    """Return the problem that two sides report different transfers: queue pair numbers are new in every run."""
    if len(tests) != 2 or (tests[0].local, tests[0].remote) == (tests[1].remote, tests[1].local):
        return []
    wanted, saw = tests[0].remote[0], tests[1].local[0]
    return [f"{tool} answered for another test: asked for the transfer of {wanted}, saw that of {saw}"]
