"""Storms: any commands, faults, toggles, kills and port operations at any time leave the simulated rack consistent."""

from collections import Counter
from math import inf, isfinite

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.model.inventory import Fault, MockSettings, TimedFault
from fabric.model.topology import Gpu, Host, PcieSwitch, Platform, Rnic, Switch, Topology, Uplinks
from fabric.sim.hosts.timeline import Exited
from fabric.sim.net.managers import Forwarding
from fabric.sim.world import World

pytestmark = pytest.mark.slow

HOSTS = ("h0", "h1", "h2", "h3")
_CLOSE = 1e-6  # relative: sums of floats in different orders


def pod(link_layer: str) -> Topology:
    """Two leaves with two hosts each, two spines; every host has two RNICs and two GPUs."""
    platform = Platform(
        name="small",
        gpus=(Gpu(0, 0, "pcie0"), Gpu(1, 0, "pcie0")),
        rnics=tuple(Rnic(f"mlx5_{n}", 1, n, 0, "pcie0", 400.0, (n,)) for n in range(2)),
        numa_nodes=1,
        pcie_switches=(PcieSwitch("pcie0", 0),),
        link_layer=link_layer,
        baseline="h100-ndr",
    )
    hosts = {name: Host(name, platform, name, None, (f"leaf{n // 2}",) * 2) for n, name in enumerate(HOSTS)}
    leaves, spines = ("leaf0", "leaf1"), ("spine0", "spine1")
    switches = {name: Switch(name, "leaf") for name in leaves} | {name: Switch(name, "spine") for name in spines}
    return Topology(hosts, switches, (Uplinks(leaves, spines, 1, 400.0),))


_PERFTEST = "ib_write_bw --report_gbits -F --ib-dev=mlx5_{rnic} --port={port}"
COMMANDS = (
    _PERFTEST + " --duration=5 --size=65536",
    _PERFTEST + " --duration=5 --size=65536 {peer}",
    _PERFTEST + " --duration=5 --size=65536 --use_cuda={rnic} localhost",
    _PERFTEST + " --iters=5000000 --size=65536 {peer}",
    "timeout 20 " + _PERFTEST + " --duration=60 --size=65536 {peer}",
    "alltoall_perf -b 1G -e 8G -f 2 -g 2 -n 500",
    "mpirun -np 4 -H {host}:2,{peer}:2 -x NCCL_ALGO=RING all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 300",
    "mpirun -np 8 -H h0:2,h2:2,h1:2,h3:2 -x NCCL_IB_TIMEOUT=18 all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 300",
    "mpirun -np 4 -H {host}:2,{peer}:2 alltoall_perf -b 1G -e 1G -f 2 -g 1 -n 3000",
    "ibportstate {lid} {port_number} disable",
    "ibportstate {lid} {port_number} on",
    "mlxlink -d mlx5_{rnic} -a TG",
    "mlxlink -d mlx5_{rnic} -m -c --json",
    "mlxlink -d mlx5_{rnic} -c --pc",
    "mlxlink -d mlx5_{rnic} -a DN --yes",
    "mlxlink -d mlx5_{rnic} -a UP --yes",
    "mlxreg -d mlx5_{rnic} --reg_name PTER --indexes local_port=1,error_page=0 --yes --set "
    "error_type_admin=2,ber_mantissa=1,ber_exp=5,error_injection_time=1000",
    "mlxreg -d lid-{lid} --reg_name PTER --indexes local_port={port_number},error_page=0 --yes --set "
    "error_type_admin=1,ber_mantissa=1,ber_exp=3,error_injection_time=3000",
    "ip link set dev eth{rnic} down",
    "ip link set dev eth{rnic} up",
    "ethtool -S eth{rnic}",
    "perfquery -x",
    "perfquery -R",
    "cat /sys/class/infiniband/mlx5_1/ports/1/counters/port_xmit_data",
    "cat /sys/class/infiniband/mlx5_0/device/hwmon/hwmon0/temp1_input",
    "nvidia-smi --query-gpu=temperature.gpu,power.draw --format=csv",
    "sleep 7",
)
FAULTS = (
    ("{host}", ("broken", "hanging", "absent", "garbage", "slow")),
    ("{host}/mlx5_{rnic}", ("broken", "hanging", "absent", "slow", "bit_errors", "hot")),
    ("{host}/gpu{rnic}", ("broken", "hanging", "absent", "slow", "hot")),
    ("{host}/gpu{rnic}:nvlink", ("broken", "slow")),
    ("{host}/pcie0", ("slow", "broken")),
    ("{host}/numa0", ("slow", "hanging")),
    ("{host}/mlx5_0->gpu1", ("slow", "broken")),
    ("leaf0", ("slow", "broken", "hanging")),
    ("leaf1--spine0", ("broken", "bit_errors")),
    ("spine1", ("broken",)),
)
ENGINES = ("ftree", "updn", "ar", "ecmp", None)

WHERE = st.fixed_dictionaries(
    {
        "host": st.sampled_from(HOSTS),
        "peer": st.sampled_from((*HOSTS, "localhost")),
        "rnic": st.integers(0, 1),
        "port": st.integers(18600, 18602),
        "lid": st.integers(1, 4),
        "port_number": st.integers(1, 7),
    }
)
STEP = st.tuples(
    st.sampled_from(("start", "start", "pair", "pair", "pair", "kill", "fault", "fault", "heal", "route", "wait")),
    st.integers(0, 1000),
    WHERE,
    st.sampled_from((0.0, 0.01, 0.3, 1.0, 2.5, 7.0, 31.0, 200.0)),
    st.sampled_from((0.001, 0.3, 1.0)),
)


class Storm:
    """A world in which every instant is looked at; integrates rates by itself."""

    def __init__(self, topology: Topology, mock: MockSettings) -> None:
        self.world = World(topology, mock, seed=3)
        self.rack = self.world.rack
        self.now_s = 0.0
        self.started: set[int] = set()
        self.exits: Counter[int] = Counter()
        self.batch_s = 0.0
        self.sent_gb: Counter[tuple[str, tuple[int, ...]]] = Counter()
        self.scale_gb = 1.0
        self.carried_gb: np.ndarray | float = 0.0
        self.looked_s = 0.0

    def pass_until(self, until_s: float) -> None:
        """Go from event to event, and add up what the rates between them carry."""
        for _ in range(20_000):
            next_s = self.world.next_s()
            self.check()
            to_s = until_s if next_s is None or next_s > until_s else next_s
            assert to_s >= self.now_s, "the clock goes back"
            self.integrate(to_s - self.now_s)
            self.now_s = to_s
            self.take(self.world.advance(to_s))
            if next_s is None or next_s > until_s:
                return
        raise AssertionError("time does not pass")

    def take(self, events) -> None:
        """Each process ends once, and what is told is told in order of time."""
        for event in events:
            assert self.batch_s <= event.at_s <= self.now_s
            self.batch_s = event.at_s
            if isinstance(event, Exited):
                self.exits[event.pid] += 1
                assert event.pid in self.started
        assert self.exits.total() == len(self.exits), "a process ended twice"
        alive = set(self.rack.timeline.alive) | set(self.rack.timeline.silent)
        assert alive == self.started - set(self.exits)

    def flows(self):
        """Everything that moves, once."""
        return {id(flow): flow for site in self.rack.hosts.sites.values() for flow in site.flows}.values()

    def integrate(self, seconds: float) -> None:
        """What every flow carries meanwhile."""
        for flow in self.flows():
            for site, resources, weight in flow.shares:
                self.sent_gb[site.host.name, resources] += flow.rate_gbps * seconds / weight

    def check(self) -> None:
        """Rates are numbers, none is negative, no part carries more than it can, and no byte is lost or made."""
        for flow in self.flows():
            assert flow.live
            assert isfinite(flow.rate_gbps)
            assert 0.0 <= flow.rate_gbps <= min(flow.ceiling_gbps, flow.limit_gbps) * (1 + _CLOSE)
        for site in self.rack.hosts.sites.values():
            self.check_site(site)
        self.check_links()

    def check_links(self) -> None:
        """No link between switches has carried more since the last look than it can."""
        network = self.rack.timeline.sharing.network
        if network is None:
            return
        clos = network.net.clos
        carried_gb = np.array([network.carried_gb(link, self.now_s)[0] for link in range(clos.links)])
        most_gb = clos.capacity_gbps * (self.now_s - self.looked_s)
        assert (carried_gb - self.carried_gb <= most_gb * (1 + _CLOSE) + 1e-6).all()
        self.carried_gb, self.looked_s = carried_gb, self.now_s

    def check_site(self, site) -> None:
        """One host: what its parts carry, who uses them, and the bytes that went through."""
        load = Counter()
        running = Counter()
        users = Counter()
        for flow in site.running:
            for where, resources, weight in flow.shares:
                if where is site:
                    load.update(dict.fromkeys(resources, 0.0))
                    running[resources] += flow.carried_gb(self.now_s) / weight
                    for index in resources:
                        load[index] += flow.rate_gbps / weight
                        users[index] += 1
        for index, gbps in load.items():
            most_gbps = min(site.capacities[index], site.left_gbps(index))
            assert gbps <= most_gbps * (1 + _CLOSE) + 1e-9, (site.host.name, index, gbps, most_gbps)
        assert all(site.users[index] == users[index] for index in range(len(site.users)))
        for resources in {*site.carried, *running}:
            carried = site.carried[resources].gb if resources in site.carried else 0.0
            mine = self.sent_gb[site.host.name, resources]
            assert abs(carried + running[resources] - mine) <= _CLOSE * max(1.0, mine), (resources, carried, mine)

    def do(self, kind, number, where, factor) -> None:
        """One step, now."""
        if kind == "start":
            argv = COMMANDS[number % len(COMMANDS)].format(**where).split()
            if self.world.unreachable(where["host"]) is None:
                self.started.add(self.world.start(where["host"], argv, {}, self.now_s))
        elif kind == "pair":
            for command, wait_s in ((COMMANDS[0], 0.4), (COMMANDS[number % 2 * 2 + 1], 1.1)):
                host = where["host"] if command is COMMANDS[0] else where["peer"].replace("localhost", where["host"])
                if self.world.unreachable(host) is None:
                    words = command.format(**{**where, "peer": where["host"]}).split()
                    self.started.add(self.world.start(host, words, {}, self.now_s))
                self.pass_until(self.now_s + wait_s)
        elif kind == "kill":
            alive = sorted(self.started - set(self.exits))
            if alive:
                self.world.kill(alive[number % len(alive)], self.now_s)
        elif kind in ("fault", "heal"):
            text, kinds = FAULTS[number % len(FAULTS)]
            component = text.format(**where)
            fault = Fault(component, kinds[number // len(FAULTS) % len(kinds)], factor)
            here = [TimedFault(self.now_s, inf, fault)] if kind == "fault" else []
            self.rack.passing.set(component, here, self.now_s)
        elif kind == "route":
            adaptive = ENGINES[number % len(ENGINES)] == "ar"
            engine = "updn" if adaptive else ENGINES[number % len(ENGINES)] or "ftree"
            self.rack.above.begin_sweep(Forwarding(engine, adaptive=adaptive), self.now_s)


def test_the_pod_has_a_network_that_rings_cross() -> None:
    """Else a storm would test nothing above the leaves."""
    world = World(pod("infiniband"), MockSettings(noise_cv=0.0), seed=1)
    world.start("h0", COMMANDS[6].format(host="h0", peer="h2").split(), {}, 0.0)
    world.advance(5.0)
    world.next_s()
    (flow,) = world.rack.timeline.sharing.network.running
    assert flow.ring is not None
    assert flow.rate_gbps > 100.0


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(STEP, min_size=8, max_size=40),
    link_layer=st.sampled_from(("infiniband", "ethernet")),
    lemons=st.sampled_from(((), ("h1",), ("h0/mlx5_1", "leaf0--spine1"))),
)
def test_whatever_happens_the_rack_stays_consistent(steps, link_layer, lemons) -> None:
    """No exception, no rate that cannot be, no byte lost, no clock that goes back; every process ends once or lives."""
    faults = tuple(Fault(component, "lemon") for component in lemons)
    mock = MockSettings(faults=faults, lemon_per_hour=60.0)
    storm = Storm(pod(link_layer), mock)
    for kind, number, where, after_s, factor in steps:
        storm.do(kind, number, where, factor)
        storm.pass_until(storm.now_s + after_s)
    for pid in storm.started:
        storm.world.kill(pid, storm.now_s)
    storm.pass_until(storm.now_s + 100.0)
    assert set(storm.exits) == storm.started
    assert not any(storm.flows())
