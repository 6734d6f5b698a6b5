"""On simulated RoCE with one lossless class, every other is fine alone and dropped under load."""

from __future__ import annotations

import pytest

from fabric.model.inventory import Fault, MockSettings
from fabric.model.topology import Host, Switch, Topology
from fabric.sim.world import World
from tests.sim.test_site_settings import roce_platform

HOSTS = ("gpu001", "gpu002", "gpu003")
RING = "mpirun -np 8 -H {}:4,{}:4 -x NCCL_DEBUG=WARN {} all_reduce_perf -b 8G -e 8G"


def world(lossless: int | None = 106, **told: object) -> World:
    """Three hosts on one ToR."""
    hosts = {name: Host(name, roce_platform(), name, None, ("tor0",) * 4) for name in HOSTS}
    settings = MockSettings(noise_cv=0.0, lossless_class=lossless, **told)
    return World(Topology(hosts, {"tor0": Switch("tor0", "leaf")}), settings, seed=1)


def incast(kit, options: str, *, senders: int, lossless: int | None = 106) -> list[str]:
    """What senders print that write to one RNIC of the last host at the same time."""
    base = f"ib_write_bw --ib-dev=mlx5_0 --size=8388608 --duration=5 --report_gbits {options}"
    servers = [(0.0, HOSTS[2], f"{base} --port={18600 + n}") for n in range(senders)]
    clients = [(1.0, HOSTS[n], f"{base} --port={18600 + n} {HOSTS[2]}") for n in range(senders)]
    ended = kit.played(world(lossless), servers + clients)
    return [one.stdout + one.stderr for one in ended[senders:]]


@pytest.mark.parametrize(
    ("options", "senders", "lossless", "lost"),
    [
        ("--tclass=106", 2, 106, False),
        ("-R --tos=106", 2, 106, False),
        ("", 2, 106, True),
        ("--tclass=41", 2, 106, True),
        ("", 1, 106, False),
        ("", 2, None, False),
    ],
)
def test_the_wrong_class_is_lost_under_load(kit, options: str, senders: int, lossless: int | None, lost: bool) -> None:
    said = incast(kit, options, senders=senders, lossless=lossless)
    assert ["Failed status 12" in text for text in said] == [lost] * senders


@pytest.mark.parametrize(("asked", "status"), [("-x NCCL_IB_TC=106", [0, 0]), ("", [3, 3])])
def test_collectives_too(kit, asked: str, status: list[int]) -> None:
    """Two rings share a host, and with it its RNICs."""
    lines = [(0.0, "gpu001", RING.format("gpu001", "gpu002", asked))]
    lines.append((0.0, "gpu003", RING.format("gpu003", "gpu002", asked)))
    assert [one.exit_status for one in kit.played(world(), lines)] == status


def test_a_type_of_service_wants_rdma_cm(kit) -> None:
    """As perftest_parameters.c has it."""
    (ended,) = kit.played(world(), [(0.0, "gpu001", "ib_write_bw --ib-dev=mlx5_0 --tos=106")])
    assert ended.exit_status == 1
    assert "TOS only valid for rdma_cm based QP" in ended.stderr


def test_what_the_network_does_is_what_its_ends_are_set_to() -> None:
    """Settings of the mock are those of every end; what is set wrong at one end comes on top."""
    faults = (Fault("gpu001/mlx5_0:port", "trusts_pcp"),)
    ports = world().rack.ports
    off = world(ecn=False, pfc=False, faults=faults).rack.ports
    for name in ("tor0", "gpu001/mlx5_0"):
        own = ports.cabling.ends(ports.cabling.nodes[name])[0]
        on, without = ports.qos(ports.at(own)), off.qos(off.at(own))
        assert (on.marks, on.pfc, on.lossless) == (True, True, {3})
        assert (without.marks, without.pfc, without.lossless) == (False, False, frozenset())
    assert off.qos(off.at(("tor0", 1))).trust == "pcp"
