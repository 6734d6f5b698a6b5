"""Ports that go down and come back: both ends see it, and what runs through them feels it."""

from __future__ import annotations

RING = (
    "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING -x NCCL_DEBUG=WARN "
    "all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 2000"
)
STATE = "cat /sys/class/infiniband/mlx5_0/ports/1/state /sys/class/infiniband/mlx5_0/ports/1/phys_state"


def leaf_state(kit, world, at_s, port=1):
    """LinkState and PhysLinkState of a port of leaf0, asked from gpu002."""
    said = kit.ask(world, "gpu002", f"ibportstate 1 {port}", at_s).stdout
    lines = dict(line.split(":", 1) for line in said.splitlines() if ":." in line)
    return lines["LinkState"].strip("."), lines["PhysLinkState"].strip(".")


def host_state(kit, world, at_s, host="gpu001"):
    """What the kernel of a host says of its first RNIC."""
    return kit.ask(world, host, STATE, at_s).stdout.splitlines()


def test_a_flap_is_seen_at_both_ends(kit):
    """Disabled on the leaf, no partner at the host; enabled it polls, then is Active after a few seconds."""
    world = kit.world()
    assert (host_state(kit, world, 0.0), leaf_state(kit, world, 0.2)) == (
        ["4: ACTIVE", "5: LinkUp"],
        ("Active", "LinkUp"),
    )
    said = kit.ask(world, "gpu002", "ibportstate 1 1 disable", 1.0)
    assert "Disable may be irreversible\n" in said.stdout
    assert host_state(kit, world, 2.0) == ["1: DOWN", "2: Polling"]
    assert leaf_state(kit, world, 2.2) == ("Down", "Disabled")
    kit.ask(world, "gpu002", "ibportstate 1 1 enable", 10.0)
    assert leaf_state(kit, world, 10.5) == ("Down", "Polling")
    assert host_state(kit, world, 13.0) == ["2: INIT", "5: LinkUp"]
    assert host_state(kit, world, 15.0) == ["4: ACTIVE", "5: LinkUp"]
    assert leaf_state(kit, world, 15.2) == ("Active", "LinkUp")
    counted = kit.ask(world, "gpu001", "cat /sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", 16.0).stdout
    assert counted == "1\n"


def test_the_interface_switch_leaves_the_cable_lit(kit):
    """``ip link set down``: no RDMA, but the other end sees a link."""
    world = kit.world(platform=kit.platform_like(link_layer="ethernet"))
    kit.ask(world, "gpu001", "ip link set dev eth1 down", 1.0)
    assert host_state(kit, world, 2.0) == ["1: DOWN", "3: Disabled"]
    assert "state DOWN" in kit.ask(world, "gpu001", "ip link show eth1", 3.0).stdout
    assert "State                              : Active" in kit.ask(world, "gpu001", "mlxlink -d mlx5_0", 4.0).stdout
    ended = kit.played(world, kit.pair(5.0, "gpu001", "mlx5_0", port=18600))
    assert "Port number 1 state is Down" in ended[1].stderr
    kit.ask(world, "gpu001", "ip link set dev eth1 up", 100.0)
    assert host_state(kit, world, 101.0) == ["4: ACTIVE", "5: LinkUp"]
