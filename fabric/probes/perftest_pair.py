"""What the perftest probes share: one side's command, and the reading of both sides' output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.model.command import Command, CommandResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, NamedPart, Probe, Reading
from fabric.model.topology import Platform, Rnic
from fabric.tools import perftest

SETUP_S = 2.0
"""Expected time around the transfer itself: start, connection, registration, exit (seconds; for the plan only)."""

GRACE_S = 20.0
"""How much longer than its duration a side may take before its deadline (seconds)."""


def command(
    probe: Probe, platform: Platform, *, rnic: Rnic, peer: str | None, cuda_gpu: int | None, numa_node: int | None
) -> Command:
    """One side of ib_write_bw; without *peer* it is the server, ready once its TCP port listens."""
    port, duration_s = int_param(probe, "port"), int_param(probe, "duration_s")
    return Command(
        host=probe.hosts[0],
        argv=perftest.write_bw(
            device=rnic.device,
            ib_port=rnic.port,
            port=port,
            peer=peer,
            size_bytes=int_param(probe, "size_bytes"),
            duration_s=duration_s,
            queue_pairs=int_param(probe, "queue_pairs"),
            cuda_gpu=cuda_gpu,
            numa_node=numa_node,
            gid_index=platform.gid_index,
            program_path=platform.program("ib_write_bw"),
            numactl_path=platform.program("numactl"),
        ),
        timeout_s=duration_s + GRACE_S,
        ready_port=port if peer is None else None,
    )


def int_param(probe: Probe, name: str) -> int:
    """A whole-number parameter of a probe; raises TypeError when it is not one."""
    value = probe.params[name]
    if not isinstance(value, int):
        raise TypeError(f"{probe.probe_id}: {name} is {value!r}, not a whole number")
    return value


def read_bandwidth(
    probe: Probe, servers: Sequence[CommandResult], client: CommandResult | None, *, devices: tuple[str, str]
) -> Reading:
    """
    The client's average bandwidth in Gb/s.

    When either side failed, its own trouble counts before what it says of the other side: a client that cannot
    connect, or a server whose peer died, is the consequence. *devices*: the server's RNIC and the client's.
    """
    sides = [(result, devices[0]) for result in servers]
    sides += [] if client is None else [(client, devices[1])]
    failures = [failure for result, device in sides for failure in _failures(result, device)]
    if failures:
        return min(failures, key=lambda failure: failure[0] in _CONSEQUENCES)[1]
    if client is None:
        return Reading((), Outcome.ERROR, "the client was never started")
    return _bandwidth(probe, client)


_CONDITIONS = {"port_down": "down", "no_device": "absent"}
_CONSEQUENCES = frozenset({"cannot_connect", "peer_died", "exit"})


def _failures(result: CommandResult, device: str) -> Iterator[tuple[str, Reading]]:
    """Kind and reading of everything that one side complained of; nothing when it ended well."""
    if result.exit_status == 0 and not result.stderr:
        return
    host = result.command.host
    for failure in perftest.parse(f"{result.stdout}\n{result.stderr}").failures:
        outcome = Outcome.FAIL if perftest.blames_fabric(failure.kind, failure.text) else Outcome.ERROR
        condition = _CONDITIONS.get(failure.kind)
        named = NamedPart(f"{host}/{device}", condition) if condition else None
        yield failure.kind, Reading((), outcome, f"{host}: ib_write_bw on {device}: {failure.text}", named)
    if result.exit_status != 0:
        last = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[-1]
        reason = f"{host}: ib_write_bw exit {result.exit_status}: {last[:200]}"
        yield "exit", Reading((), Outcome.ERROR, reason)


def _bandwidth(probe: Probe, client: CommandResult) -> Reading:
    log = perftest.parse(client.stdout)
    size_bytes = int_param(probe, "size_bytes")
    rows = [row for test in log.tests for row in test.rows if row.size_bytes == size_bytes]
    problems = [problem for test in log.tests for problem in test.problems]
    values = {row.bw_average_gbps for row in rows}
    value = values.pop() if len(values) == 1 else None
    if problems or value is None:
        seen = "; ".join(problems) or f"expected one row of {size_bytes} bytes, saw {client.stdout[-120:]!r}"
        return Reading((), Outcome.ERROR, f"{client.command.host}: ib_write_bw output not usable: {seen}")
    return Reading((Measurement(probe.probe_id, "bandwidth", value, "Gb/s", size_bytes),))
