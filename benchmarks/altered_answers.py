"""
Answers to another question, given to every kind of probe: none may be taken for a measurement.

    python benchmarks/altered_answers.py [--tried 150] [--seed 0] [--list]

What ib_write_bw and nccl-tests print on the simulated rack, and what real ones printed (``tests/golden/captures``), is
altered: another title, device or number of queue pairs, ranks on other hosts, results that were not checked, the output
of the previous command, output that was cut, a complaint beside a good row. Then it is read as in a run, by the
engine's own ``ProbeRun``. First every answer goes through unaltered, and must be measured.
"""

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.alterations import NCCL, PERFTEST
from fabric.app.prepare import Given, prepare
from fabric.engine.probe_run import NAME_WORDS, WORDS, ProbeRun
from fabric.model import scenario
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.probe import Command, CommandResult, ParamValue, Probe, ProbeResult
from fabric.model.topology import Host, Platform, Topology
from fabric.ports import Ended, Executor, Happening, Ready, Ticket
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.concurrent_rings import ConcurrentRingsSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.probes.kinds import expand_phase
from fabric.probes.latency import LatencySpec
from fabric.probes.link_burn import BurnFlow, LinkBurnSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from fabric.wiring import BACKENDS

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ROOT / "tests" / "golden" / "captures"
GIB = 1 << 30
SMALL = (GIB, 2 * GIB)


@dataclass(frozen=True)
class Base:
    """A probe and what its commands printed when all was well; *own*: hosts that call themselves otherwise."""

    name: str
    tool: str
    probe: Probe
    topology: Topology
    client: str
    servers: tuple[str, ...] = ()
    own: dict[str, str] = field(default_factory=dict)
    before: str = ""  # what an earlier run of the same probe printed
    other: str = ""  # what another probe of the same kind printed


class Canned:
    """An executor whose hosts have printed already what they will print."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._servers = list(base.servers)
        self._happened: list[Happening] = []
        self._open: list[tuple[Ticket, Command, str]] = []
        self._last = 0
        self.started: list[Command] = []

    def now(self) -> float:
        """Always the same."""
        return 0.0

    def start(self, command: Command) -> Ticket:
        """A server is ready; a client ends, and with it every server."""
        self._last += 1
        self.started.append(command)
        if command.ready_port is not None:
            self._open.append((self._last, command, self._servers.pop(0)))
            self._happened.append(Ready(self._last, 0.0))
            return self._last
        own = self._base.own.get(command.host, command.host)
        asked: dict[tuple[str, ...], str] = {NAME_WORDS: f"{own}\n", WORDS: f"{WORDS[1]}\n"}
        said = asked.get(command.argv, self._base.client)
        for ticket, one, text in [(self._last, command, said), *self._open]:
            self._happened.append(Ended(ticket, CommandResult(one, 0, text, "", 0.0, 1.0)))
        self._open.clear()
        return self._last

    def cancel(self, ticket: Ticket) -> None:
        """Nothing is left to cancel."""

    def wait(self, until_s: float) -> Sequence[Happening]:
        """What has happened."""
        del until_s
        happened, self._happened = self._happened, []
        return happened

    def wake(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing is open."""


def ended(probe: Probe, topology: Topology, executor: Executor, names: dict[str, str] | None = None) -> ProbeRun:
    """A probe that has run; *names*: what hosts are known to call themselves."""
    run = ProbeRun(probe, topology, executor, names={} if names is None else names)
    run.begin()
    while not run.done:
        for happening in executor.wait(executor.now() + 3600.0):
            run.take(happening)
    return run


def read(base: Base, executor: Canned | None = None, names: dict[str, str] | None = None) -> ProbeResult:
    """How the probe ends with these answers."""
    return ended(base.probe, base.topology, executor or Canned(base), names).result()


def printed(inventory: Inventory, probe: Probe, seed: int) -> tuple[str, ...]:
    """What the client and the servers of a probe print on the simulated rack."""
    run = ended(probe, inventory.topology, BACKENDS["mock"](inventory, seed))
    assert run.result().outcome is None, run.result().reason
    return tuple(result.stdout for result in run.outputs)


def simulated() -> Iterator[Base]:
    """One probe or two of each kind, on InfiniBand and on RoCE."""
    asked = prepare(
        Given(ROOT / "scenarios" / "self-check.yaml", inventory=ROOT / "inventory" / "demo-rack-healthy.yaml")
    )
    flow = BurnFlow("gpu001", "mlx5_0", "gpu002", "mlx5_0")
    back = BurnFlow("gpu003", "mlx5_1", "gpu004", "mlx5_1")
    specs: list[tuple[scenario.ProbeSpec | LinkBurnSpec, str]] = [
        (LoopbackSpec(), "numa1"),
        (LoopbackSpec(), "gpu3"),
        (RnicToRnicSpec(), "mlx5_2.mlx5_5"),
        (PairwiseSpec(rounds=1), "mlx5_3"),
        (LatencySpec(rounds=1), "mlx5_3"),
        (LinkBurnSpec(duration_s=60, stages=((flow, back),)), "mlx5_0.mlx5_0"),
        (AllToAllSpec(sizes_bytes=SMALL), "all"),
        (AllToAllSpec(sizes_bytes=SMALL), "bit1-0"),
        (TorAllReduceSpec(sizes_bytes=SMALL), "gpu001+"),
        (TorAllReduceSpec(sizes_bytes=SMALL, launcher="srun"), "gpu002+"),
        (GroupAllReduceSpec(sizes_bytes=SMALL, hosts=4), ""),
        (ConcurrentRingsSpec(sizes_bytes=SMALL), ""),
    ]
    for ethernet in (False, True):
        inventory = _roce(asked.inventory) if ethernet else asked.inventory
        for spec, label in specs[:6] if ethernet else specs:
            yield _base(inventory, spec, label, "RoCE" if ethernet else "IB")


def _base(inventory: Inventory, spec: scenario.ProbeSpec | LinkBurnSpec, label: str, link: str) -> Base:
    hosts = tuple(inventory.topology.hosts)
    probes = expand_phase(scenario.Phase("p", (spec,)), inventory.topology, hosts)
    probe = next(one for one in probes if label in one.probe_id)
    other = next((one for one in reversed(probes) if one.params != probe.params or one.hosts != probe.hosts), probe)
    client, *servers = printed(inventory, probe, 1)
    return Base(
        f"{probe.kind} {label} {link}",
        "perftest" if servers else "nccl-tests",
        probe,
        inventory.topology,
        client,
        tuple(servers),
        before=printed(inventory, probe, 2)[0] if servers else "",
        other=printed(inventory, other, 1)[0] if other is not probe else "",
    )


def _roce(inventory: Inventory) -> Inventory:
    topology = inventory.topology
    made = {
        name: replace(host, platform=replace(host.platform, link_layer="ethernet", gid_index=3, cross_rail=True))
        for name, host in topology.hosts.items()
    }
    return replace(inventory, topology=replace(topology, hosts=made))


def renamed(base: Base) -> Base:
    """The same rack, whose hosts call themselves otherwise than the inventory does."""
    own = {name: f"node-{name[-2:]}.rack.example" for name in base.topology.hosts}
    text = base.client
    for name in own:
        text = text.replace(name, own[name].partition(".")[0])
    return replace(base, name=f"{base.name} renamed", client=text, own=own)


def recorded(topology: Topology) -> Iterator[Base]:
    """What real tools printed, asked as they were asked."""
    platform = next(iter(topology.hosts.values())).platform
    a100 = _real_nccl("35-gcm-a100-pair-150.209", 0, platform, sizes=(25, 30), kind="tor_all_reduce")
    yield replace(
        a100, client=a100.client.replace("{", "").replace("}", ""), probe=replace(a100.probe, hosts=("host1", "host2"))
    )
    pair = "17-h100-pair-g1-alltoall+sendrecv-2.17.6"
    doubles = _real_nccl(pair, 0, platform, sizes=(25, 34), kind="all_to_all")
    yield replace(doubles, client=doubles.client.replace(" double ", "  float "))  # it was asked with -d double
    text = (CAPTURES / "rxe" / "ib_write_bw_D_4k.txt").read_text().partition("\n")[2].partition("[rc=")[0]
    rnic = platform.rnics[0]
    roce = replace(platform, link_layer="ethernet", rnics=(rnic,))
    params: dict[str, ParamValue] = {"rnic": rnic.device, "peer_rnic": rnic.device, "endpoint": "numa0", "port": 18515}
    params |= {"size_bytes": 4096, "duration_s": 8, "queue_pairs": 1}
    probe = Probe("p/vm/rxe", "loopback", "p", ("vm",), (), 10.0, params)
    server = "".join(
        line.replace("local", "\0").replace("remote", "local").replace("\0", "remote")
        for line in text.splitlines(keepends=True)
    )
    one = Topology({"vm": Host("vm", roce, "vm", None, ())}, {})
    yield Base("recorded ib_write_bw rxe", "perftest", probe, one, text, (server,))


def _real_nccl(name: str, number: int, platform: Platform, *, sizes: tuple[int, int], kind: str) -> Base:
    text = (CAPTURES / "nccl-tests" / f"{name}.txt").read_text()
    starts = [found.start() for found in re.finditer(r"^# nccl-tests version", text, re.MULTILINE)] or [0]
    text = text[starts[number] : [*starts, len(text)][number + 1]]
    names = tuple(dict.fromkeys(re.findall(r"Pid +\d+ on +\{?([\w-]+)", text)))
    params: dict[str, ParamValue] = {
        "gpus": (0,),  # one a process
        "ranks": text.count("#  Rank "),
        "sizes_bytes": tuple(1 << power for power in range(sizes[0], sizes[1] + 1)),
        "iterations": 20,
        "algorithm": "RING",
        "launcher": "mpirun",
    }
    probe = Probe(f"p/{name}", kind, "p", names, (), 10.0, params)
    hosts = {host: Host(host, platform, host, None, ()) for host in names}
    return Base(f"recorded {name[:20]}", "nccl-tests", probe, Topology(hosts, {}), text)


def altered(base: Base) -> Iterator[tuple[str, Base]]:
    """Every alteration that changes something of it."""
    for name, alter in (PERFTEST if base.tool == "perftest" else NCCL).items():
        if alter(base.client) != base.client:
            yield name, replace(base, client=alter(base.client))
        for number, server in enumerate(base.servers):
            if alter(server) != server:
                servers = (*base.servers[:number], alter(server), *base.servers[number + 1 :])
                yield f"{name}, the server", replace(base, servers=servers)
    for name, text in (("of the same command before", base.before), ("of another probe", base.other)):
        if text:
            yield f"output {name}", replace(base, client=text)
    if base.servers:
        yield "output of the server", replace(base, client=base.servers[0])


def chosen(bases: Iterable[Base], tried: int, seed: int) -> list[tuple[str, Base]]:
    """So many alterations, every class before any twice, of bases drawn by *seed*."""
    draw = random.Random(seed)
    by_name: dict[str, list[Base]] = {}
    for base in bases:
        for name, one in altered(base):
            by_name.setdefault(name, []).append(one)
    for ones in by_name.values():
        draw.shuffle(ones)
    names = list(by_name)
    draw.shuffle(names)
    found: list[tuple[str, Base]] = []
    while len(found) < tried and any(by_name.values()):
        found += [(name, by_name[name].pop()) for name in names if by_name[name]]
    return found[:tried]


def all_bases() -> list[Base]:
    """Every answer that is altered."""
    made = list(simulated())
    made += [renamed(base) for base in made if base.tool == "nccl-tests"]
    return made + list(recorded(made[0].topology))


def main() -> int:
    """Print the table; exit 1 where an altered answer passed or an unaltered one did not."""
    options = argparse.ArgumentParser()
    options.add_argument("--tried", type=int, default=150)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--list", action="store_true", help="say what came of each")
    given = options.parse_args()
    bases = all_bases()
    unread = [(base.name, result.reason) for base in bases if (result := read(base)).outcome is not None]
    for name, reason in unread:
        print(f"unaltered, and not read: {name}: {reason}")
    counts: Counter[str] = Counter()
    for name, base in chosen(bases, given.tried, given.seed):
        result = read(base)
        outcome = "passed" if result.outcome not in (Outcome.ERROR, Outcome.FAIL) else result.outcome.name
        counts[outcome] += 1
        if given.list or outcome == "passed":
            print(f"{outcome}: {name} of {base.name}: {result.reason}")
    tried = sum(counts.values())
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()) if outcome != "passed")
    print(f"answers | {tried} | {counts['passed']} passed ({told})")
    print(f"unaltered answers | {len(bases)} | {len(unread)} not measured")
    return int(bool(counts["passed"] or unread))


if __name__ == "__main__":
    sys.exit(main())
