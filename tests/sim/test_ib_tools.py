"""The InfiniBand tools of the simulated rack, and ports that go down and come back."""

from __future__ import annotations

import re

import pytest

from fabric.model.inventory import MockSettings
from fabric.model.topology import Topology, Uplinks
from fabric.sim.world import World
from tests.places import CAPTURES


def recorded(name):
    """A recorded output without its command and exit status lines."""
    path = CAPTURES / name
    return [line for line in path.read_text().splitlines() if not line.startswith(("$ ", "[exit"))]


def loose(lines):
    """Lines without what differs from rack to rack: numbers, GUIDs and quoted names."""
    found = []
    for line in lines:
        line = re.sub(r'"[^"]*"|\'[^\']*\'', '""', line)
        line = re.sub(r"0x[0-9a-f]+", "0x", line).replace("Could be 12X ", " ")
        found.append(
            re.sub(r"\b\d+(\.\d+)?\b", "9", re.sub(r" +", " ", line)).replace("( )", "()").replace("()", "( )")
        )
    return found


def keys(lines):
    """What stands before the dots of every line."""
    return [line.partition(":.")[0] for line in lines if ":." in line]


@pytest.mark.parametrize(
    ("operation", "sample"), [("disable", "08-ibportstate-dr-disable"), ("enable", "10-ibportstate-dr-enable")]
)
def test_ibportstate_prints_what_the_tool_prints(kit, operation, sample):
    """The same lines in the same order; by LID, where the recorded one went by a directed route."""
    world = kit.world()
    wanted = [line for line in recorded(f"infiniband-diags/ibsim-{sample}.txt") if line]
    said = [line for line in kit.ask(world, "gpu001", f"ibportstate 1 2 {operation}", 1.0).stdout.splitlines() if line]
    assert keys(said) == keys(wanted)
    plain = [line for line in wanted if ":." not in line and not line.startswith("#")]
    assert [line for line in said if ":." not in line and not line.startswith("#")] == plain
    assert said[1] == "# Port info: Lid 1 port 2"


@pytest.mark.parametrize(
    ("text", "complaint"), [("99 1 query", "smp query nodeinfo failed"), ("1 1 flap", "invalid operation: flap")]
)
def test_ibportstate_refuses_with_255(kit, text, complaint):
    """A LID that nobody has, an operation that is none."""
    said = kit.ask(kit.world(), "gpu001", f"ibportstate {text}", 1.0)
    assert said.stderr.splitlines()[-1] == f"ibportstate: iberror: failed: {complaint}"
    assert said.exit_status == 255


def test_closing_ones_own_path_cannot_be_undone(kit):
    """The leaf is out of reach from the host that cut itself off, and within reach of another."""
    world = kit.world()
    kit.ask(world, "gpu001", "ibportstate -C mlx5_0 1 1 disable", 1.0)
    assert kit.ask(world, "gpu001", "ibportstate -C mlx5_0 1 1 enable", 2.0).exit_status == 255
    assert kit.ask(world, "gpu002", "ibportstate -C mlx5_0 1 1 enable", 3.0).exit_status == 0
    assert kit.ask(world, "gpu001", "ibportstate -C mlx5_0 1 1", 10.0).exit_status == 0


def test_perfquery_counts_what_transfers_carried(kit):
    """In words of 4 bytes, at both ends of the cable; the recorded rows in their order."""
    world = kit.world()
    server, client = kit.pair(0.0, "gpu002", "mlx5_0", port=18600)
    ended = kit.played(world, [server, (1.0, "gpu001", client[2].replace("localhost", "10.0.0.2"))])
    plain = kit.ask(world, "gpu001", "perfquery", 50.0).stdout.splitlines()
    assert keys(plain) == keys(recorded("infiniband-diags/ibsim-16-perfquery.txt"))
    leaf = kit.ask(world, "gpu001", "perfquery -x 1 1", 51.0).stdout.splitlines()
    assert keys(leaf) == keys(recorded("infiniband-diags/25-real-perfquery-0x506b4b03005c2740.txt"))
    counted = {line.partition(":.")[0]: line.rpartition(".")[2] for line in leaf}
    words = kit.bandwidth_gbps(ended[1].stdout) * 5e9 / 32
    assert int(counted["PortRcvData"]) == pytest.approx(words, rel=1e-3)
    assert int(counted["PortXmitData"]) == 0
    assert "PortXmitData:....................4294967295" in plain  # the narrow counter is full


def with_spine(kit):
    """Two hosts, eight leaves and one spine above them."""
    topology = kit.topology_of(2, kit.platform_like())
    leaves = tuple(f"leaf{number}" for number in range(8))
    uplinks = (Uplinks(leaves, ("spine0",), 2, 400.0),)
    return World(Topology(topology.hosts, topology.switches, uplinks), MockSettings(noise_cv=0.0), seed=1)


def test_iblinkinfo_lines_look_like_the_recorded_ones(kit):
    """Links between switches and to adapters, and ports without a link, to the column."""
    world = with_spine(kit)
    kit.ask(world, "gpu001", "ibportstate 1 2 disable", 1.0)
    said = kit.ask(world, "gpu001", "iblinkinfo -l", 2.0).stdout.splitlines()
    wanted = recorded("infiniband-diags/ibsim-03-iblinkinfo-line-up.txt")
    known = set(loose(wanted)) | {
        line.replace("Polling", "Disabled").replace("Down/ ", "Down/") for line in loose(wanted)
    }
    assert set(loose(said)) <= known
    up = next(line for line in said if "LinkUp" in line and "leaf0" in line)
    sampled = next(line for line in wanted if "LinkUp" in line and line.index("==(") == up.index("==("))
    assert [match.start() for match in re.finditer(r"==\(|\)==>", up)] == (
        [match.start() for match in re.finditer(r"==\(|\)==>", sampled)]
    )
    down = next(line for line in said if "Down" in line)
    assert (
        down[down.index("==(") :].replace("Disabled", " Polling")
        == '==(                Down/ Polling)==>             [  ] "" ( )'
    )


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
