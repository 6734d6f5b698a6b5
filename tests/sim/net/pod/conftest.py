"""A small pod: two units of two hosts, each rail a leaf of its own, two spines; and what runs over it, in time."""

import pytest

from fabric.model.inventory import MockSettings
from fabric.model.topology import Host, Switch, Topology, Uplinks
from fabric.sim.hosts.timeline import Exited
from fabric.sim.world import World

CONFIG = "/etc/opensm/opensm.conf"


def pod_topology(kit, link_layer="infiniband") -> Topology:
    """gpu000 and gpu001 under eight leaves, gpu002 and gpu003 under eight others; ports 3 and 4 of a leaf go up."""
    leaves = [tuple(f"u{unit}-leaf{rail}" for rail in range(8)) for unit in range(2)]
    platform = kit.platform_like(link_layer=link_layer)
    hosts = {f"gpu{n:03d}": Host(f"gpu{n:03d}", platform, f"10.0.0.{n}", None, leaves[n // 2]) for n in range(4)}
    switches = {name: Switch(name, "leaf") for unit in leaves for name in unit}
    switches |= {name: Switch(name, "spine") for name in ("spine0", "spine1")}
    return Topology(hosts, switches, (Uplinks((*leaves[0], *leaves[1]), ("spine0", "spine1"), 1, 400.0),))


class Pod:
    """A world of it, and the means to look at it at any instant."""

    config = CONFIG

    def __init__(self, kit, engine=None, *, link_layer="infiniband", faults=(), **settings) -> None:
        topology = pod_topology(kit, link_layer)
        self.kit = kit
        own = {name: settings.pop(name) for name in ("ufm", "subnet_managers") if name in settings}
        mock = MockSettings(faults=faults, noise_cv=0.0, routing=engine, **settings)
        self.world = World(topology, mock, seed=1, **own)
        self.ended: dict[int, Exited] = {}

    def line(self, *hosts, iterations=4000) -> tuple[str, ...]:
        """An all-reduce over all GPUs of a group of hosts, by rings."""
        slots = ",".join(f"{host}:8" for host in hosts)
        told = f"all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n {iterations}"
        return tuple(f"mpirun -np {8 * len(hosts)} -H {slots} -x NCCL_ALGO=RING -x NCCL_DEBUG=WARN {told}".split())

    def run(self, *hosts, at_s=0.0, iterations=4000, env=None) -> int:
        """Launch it."""
        pairs = tuple(word for key in env or {} for word in ("-x", key))
        line = self.line(*hosts, iterations=iterations)
        return self.world.start(hosts[0], (line[0], *pairs, *line[1:]), env or {}, at_s)

    def to(self, at_s) -> None:
        """Let time pass."""
        for event in self.world.advance(at_s):
            if isinstance(event, Exited):
                self.ended[event.pid] = event

    def say(self, host, *argv, at_s) -> Exited:
        """Run a tool at a time (now, when that is past) and wait for its answer, 0.05 s of simulated time."""
        at_s = max(at_s, self.world.rack.timeline.now_s)
        pid = self.world.start(host, tuple(argv), {}, at_s)
        self.to(at_s + 0.1)
        return self.ended[pid]

    def ask(self, host, text, at_s) -> Exited:
        """The same for a line that is split at blanks."""
        return self.say(host, *text.split(), at_s=at_s)

    def conf(self, host, verb, *pairs, at_s, config=CONFIG) -> Exited:
        """Edit a manager's file."""
        return self.say(host, "sh", "-c", "TEXT", "fabric-conf", verb, config, f"{config}.before", *pairs, at_s=at_s)

    def share(self, pid) -> float:
        """What a running collective moves now, over what it moves alone; 0 also when it has ended."""
        process = self.world.rack.timeline.alive.get(pid)
        if process is None or process.work is None or not process.work.live:
            return 0.0
        self.world.next_s()  # settles what happened at this instant
        return process.work.rate_gbps / process.work.ceiling_gbps

    def shares(self, pid, *times_s) -> list[float]:
        """The same at these times."""
        found = []
        for at_s in times_s:
            self.to(at_s)
            found.append(self.share(pid))
        return found

    def silences(self, pid, until_s, *later) -> list[tuple[float, float]]:
        """From when to when it moved nothing, until *until_s* or its end; *later*: a time, a host, a line to run."""
        found, since_s, left = [], None, list(later)
        while True:
            next_s = self.world.next_s()
            now_s = self.world.rack.timeline.now_s
            quiet = self.share(pid) == 0.0 and pid not in self.ended
            if quiet and since_s is None:
                since_s = now_s
            elif not quiet and since_s is not None:
                found.append((since_s, now_s))
                since_s = None
            if left and (next_s is None or next_s > left[0][0]):
                at_s, host, text = left.pop(0)
                self.world.start(host, tuple(text.split()), {}, at_s)
                continue
            if next_s is None or next_s > until_s:
                return found if since_s is None else [*found, (since_s, until_s)]
            self.to(next_s)

    def result(self, pid, until_s=10_000.0) -> Exited:
        """How it ended."""
        self.to(until_s)
        return self.ended[pid]


@pytest.fixture
def pod(kit):
    """Makes pods: ``pod("ar", shield=True)``."""
    return lambda engine=None, **settings: Pod(kit, engine, **settings)
