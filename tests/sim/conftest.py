"""A small rack of hosts like a DGX H100: 8 GPUs, 8 RNICs, 4 PCIe switches with 2 + 2 each, 2 memory nodes, 8 leaves."""

import json
import re
from collections.abc import Mapping, Sequence

import pytest

from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Gpu, Host, PcieSwitch, Platform, Rnic, Switch, Topology
from fabric.sim.hosts.capacity import RNIC_EFFICIENCY
from fabric.sim.hosts.timeline import Exited
from fabric.sim.tools.nccl_tests.model import RAIL_RATIO
from fabric.sim.world import World

ALONE_GBPS = round(400.0 * RNIC_EFFICIENCY, 2)
"""What a healthy 400G RNIC carries when nothing else runs."""

RINGS_GBPS = 8 * 400.0 * RNIC_EFFICIENCY * RAIL_RATIO
"""What rings over the eight rails of two healthy hosts can reach."""

Line = tuple[float, str, str]
"""When, on which host, which command line (split at blanks)."""


def platform_like(
    *, line_rate_gbps: float = 400.0, link_layer: str = "infiniband", baseline: str = "h100-ndr"
) -> Platform:
    """Eight of everything: GPU n and RNIC n on PCIe switch n // 2, switches 0 and 1 on memory node 0."""
    return Platform(
        name="like-dgx",
        gpus=tuple(Gpu(n, n // 4, f"pcie{n // 2}") for n in range(8)),
        rnics=tuple(Rnic(f"mlx5_{n}", 1, n, n // 4, f"pcie{n // 2}", line_rate_gbps, (n,)) for n in range(8)),
        numa_nodes=2,
        pcie_switches=tuple(PcieSwitch(f"pcie{n}", n // 2) for n in range(4)),
        link_layer=link_layer,
        baseline=baseline,
    )


def topology_of(count: int, platform: Platform) -> Topology:
    """*count* hosts ``gpu001``... on the same eight leaves, and a spine."""
    leaves = tuple(f"leaf{n}" for n in range(8))
    names = [f"gpu{n:03d}" for n in range(1, count + 1)]
    hosts = {name: Host(name, platform, f"10.0.0.{n}", "r1", leaves) for n, name in enumerate(names, 1)}
    switches = {name: Switch(name, "leaf") for name in leaves} | {"spine0": Switch("spine0", "spine")}
    return Topology(hosts, switches)


def played(world: World, lines: Sequence[Line], env: Mapping[str, str] | None = None) -> list[Exited | None]:
    """Start every line at its time and let the world end; what became of each, None for one that never ends."""
    pids: list[int] = []
    exits: dict[int, Exited] = {}
    for at_s, host, text in lines:
        pids.append(world.start(host, tuple(text.split()), env or {}, at_s))
    for _ in range(10_000):
        next_s = world.next_s()
        if next_s is None:
            return [exits.get(pid) for pid in pids]
        exits.update({event.pid: event for event in world.advance(next_s) if isinstance(event, Exited)})
    raise AssertionError("the world does not come to rest")


def pair(
    at_s: float, host: str, device: str, *, port: int, server: str = "", client: str = "", peer: str = ""
) -> list[Line]:
    """A server and, a second later, its client, both on *host*; *server* and *client* add options."""
    base = f"--ib-dev={device} --port={port} --report_gbits -F"
    duration = "" if "--iters" in client else "--duration=5 --size=8388608"
    return [
        (at_s, host, f"ib_write_bw {base} {duration} {server}"),
        (at_s + 1.0, host, f"ib_write_bw {base} {duration} {client} {peer or 'localhost'}"),
    ]  # fmt: skip


def bandwidth_gbps(stdout: str) -> float:
    """The average of the one row of a table in Gb/s."""
    found = re.search(r"BW average\[Gb/sec\].*\n +\d+ +\d+ +[\d.]+\s+([\d.]+)\s+[\d.]+\n", stdout)
    assert found, stdout
    return float(found[1])


def busbw_gbps(stdout: str) -> list[float]:
    """The out-of-place bus bandwidth of every row, Gb/s."""
    rows = re.findall(r"^ +\d+ +\d+ +\w+ +\w+ +-?\d+ +[\d.]+ +[\d.]+ +([\d.]+) +\S+ +[\d.]+", stdout, re.MULTILINE)
    assert rows, stdout
    return [8 * float(row) for row in rows]


class Kit:
    """What the tests of the simulated rack share."""

    alone_gbps = ALONE_GBPS
    rings_gbps = RINGS_GBPS
    platform_like = staticmethod(platform_like)
    topology_of = staticmethod(topology_of)
    played = staticmethod(played)
    pair = staticmethod(pair)
    bandwidth_gbps = staticmethod(bandwidth_gbps)
    busbw_gbps = staticmethod(busbw_gbps)

    @staticmethod
    def world(
        *faults: Fault, hosts: int = 4, seed: int = 1, noise_cv: float = 0.0, platform: Platform | None = None
    ) -> World:
        """By default four healthy hosts without noise."""
        return World(
            topology_of(hosts, platform or platform_like()), MockSettings(faults=faults, noise_cv=noise_cv), seed=seed
        )

    @staticmethod
    def ask(world: World, host: str, text: str, at_s: float) -> Exited:
        """Run a tool that answers within a second, and let no more time pass than that; what it said."""
        pid = world.start(host, tuple(text.split()), {}, at_s)
        for event in world.advance(at_s + 0.3):
            if isinstance(event, Exited) and event.pid == pid:
                return event
        raise AssertionError(f"{text} does not answer")

    @classmethod
    def mlxlink(cls, world: World, host: str, options: str, at_s: float) -> dict[str, dict[str, str]]:
        """The sections that mlxlink shows of mlx5_0, or of another port; several values as it prints them in text."""
        device = "" if "-d " in options else "-d mlx5_0 "
        said = cls.ask(world, host, f"mlxlink {device}{options} --json", at_s).stdout
        return {
            title: {name: told if isinstance(told, str) else ",".join(told["values"]) for name, told in rows.items()}
            for title, rows in json.loads(said)["result"]["output"].items()
        }

    @classmethod
    def loopback_gbps(cls, device: str, endpoint: str, *faults: Fault) -> float:
        """What a loopback with both buffers on *endpoint* measures when nothing else runs."""
        lines = cls.pair(0.0, "gpu001", device, port=18600)
        if endpoint.startswith("gpu"):
            lines = [(at, name, f"{text} --use_cuda={endpoint[3:]}") for at, name, text in lines]
        else:
            lines = [(at, name, f"numactl -N {endpoint[4:]} -m {endpoint[4:]} {text}") for at, name, text in lines]
        server, client = cls.played(cls.world(*faults), lines)
        assert server is not None
        assert client is not None
        assert (server.exit_status, client.exit_status) == (0, 0), server.stderr + client.stderr
        assert cls.bandwidth_gbps(server.stdout) == cls.bandwidth_gbps(client.stdout)
        return cls.bandwidth_gbps(client.stdout)


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    """Worlds, and ways to run commands in them."""
    return Kit
