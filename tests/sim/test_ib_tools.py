"""The InfiniBand tools of the simulated rack; bit errors, from the wire to bandwidth, against published values."""

import re
from math import isfinite, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.model.inventory import MockSettings
from fabric.model.topology import Topology, Uplinks
from fabric.sim.phy.quality import (
    CODES,
    NO_FEC,
    SYMBOL_BITS,
    ber_text,
    chance_of_any,
    link_quality,
    post_fec,
)
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


def test_ibportstate_prints_what_the_tool_prints(kit):
    """The same lines in the same order; by LID, where the recorded ones went by a directed route, and were enabled."""
    world = kit.world()
    for at_s, operation, sample in (
        (1.0, "disable", "08-ibportstate-dr-disable"),
        (2.0, "on", "10-ibportstate-dr-enable"),
    ):
        wanted = [line for line in recorded(f"infiniband-diags/ibsim-{sample}.txt") if line]
        printed = kit.ask(world, "gpu001", f"ibportstate 1 2 {operation}", at_s).stdout
        said = [line for line in printed.splitlines() if line]
        assert keys(said) == keys(wanted)
        plain = [line for line in wanted if ":." not in line and not line.startswith("#")]
        assert [line for line in said if ":." not in line and not line.startswith("#")] == plain
        assert said[1] == "# Port info: Lid 1 port 2"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("99 1 on", "smp query nodeinfo failed"),
        ("1 1 reset", "simulated rack: only `ibportstate LID PORT disable|on` is simulated"),
    ],
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
    assert kit.ask(world, "gpu001", "ibportstate -C mlx5_0 1 1 on", 2.0).exit_status == 255
    assert kit.ask(world, "gpu002", "ibportstate -C mlx5_0 1 1 on", 3.0).exit_status == 0
    assert kit.ask(world, "gpu001", "smpquery -C mlx5_0 portinfo 1 1", 10.0).exit_status == 0


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
    said = kit.ask(world, "gpu002", f"smpquery portinfo 1 {port}", at_s).stdout
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
    kit.ask(world, "gpu002", "ibportstate 1 1 on", 10.0)
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
    assert kit.mlxlink(world, "gpu001", "", 4.0)["Operational Info"]["State"] == "Active"
    ended = kit.played(world, kit.pair(5.0, "gpu001", "mlx5_0", port=18600))
    assert "Port number 1 state is Down" in ended[1].stderr
    kit.ask(world, "gpu001", "ip link set dev eth1 up", 100.0)
    assert host_state(kit, world, 101.0) == ["4: ACTIVE", "5: LinkUp"]


# raw BER -> codeword error, effective BER, packet loss, bandwidth with PLR, goodput without (400 Gb/s, 12 us, 4 KiB);
# each to the digits it was computed with independently.
TABLE = [
    (1e-4, "1.4e-18", "4.0e-21", "1e-17", "1", "1"),
    (2.4e-4, "8.15e-13", "2.4e-15", "6.1e-12", "1", "1"),
    (5e-4, "2.8e-8", "8.3e-11", "2.1e-7", "1", "1.000"),
    (7e-4, "2.3e-6", "6.7e-9", "1.7e-5", "1.000", "0.998"),
    (1e-3, "1.5e-4", "4.6e-7", "1.1e-3", "0.996", "0.856"),
    (1.2e-3, "1.1e-3", "3.2e-6", "7.9e-3", "0.975", "0.46"),
    (1.5e-3, "8.7e-3", "2.7e-5", "6.3e-2", "0.82", "0.09"),
    (2e-3, "7.9e-2", "2.5e-4", "0.46", "0.32", "0.008"),
    (3e-3, "0.55", "1.9e-3", "1.0", "0.03", "0"),
]

bers = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-300, 1e-15, 2.4e-4, 1e-3, 0.5]),
    st.floats(0.0, 0.5),
    st.floats(-300.0, -0.31).map(lambda power: 10.0**power),
)
rates = st.floats(1.0, 1e5)
fecs = st.sampled_from((*CODES, NO_FEC))


def unit(text):
    """Half of the last printed digit, and a little: two of the values were rounded twice (2.2456 to 2.25 to 2.3)."""
    mantissa, _, power = text.partition("e")
    digits = len(mantissa.partition(".")[2])
    return 0.55 * 10.0 ** (int(power or 0) - digits)


def quality(raw_ber, *, fec="kp4", plr=False, rate=400.0):
    """A link with raw bit errors only."""
    return link_quality(raw_ber=raw_ber, fec=fec, plr=plr, line_rate_gbps=rate)


def where(left, *, fec, plr):
    """The raw BER that leaves *left* of the bandwidth, by halving."""
    low, high = 1e-12, 1e-2
    for _ in range(60):
        middle = sqrt(low * high)
        low, high = (middle, high) if quality(middle, fec=fec, plr=plr).goodput_factor > left else (low, middle)
    return low


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]:g}")
def test_table(row):
    """Every step of the chain agrees with the table within the last digit printed there."""
    raw_ber, *expected = row
    after = post_fec(raw_ber, fec="kp4")
    found = (
        after.codeword_error,
        after.effective_ber,
        after.packet_loss,
        quality(raw_ber, plr=True).goodput_factor,
        quality(raw_ber).goodput_factor,
    )
    for value, text in zip(found, expected, strict=True):
        assert value == pytest.approx(float(text), rel=0, abs=unit(text))


def test_ieee_frame_loss():
    """RS(544,514), two-way interleaved, at BER 2.4e-4 loses 1.7e-12 of 64-octet frames (IEEE 802.3cm 138.1.1)."""
    beyond = post_fec(2.4e-4, fec="kp4").codeword_error
    touched = 84 * 8 / (CODES["kp4"][1] * SYMBOL_BITS) + 2  # codewords: a frame lies in two however short it is
    assert chance_of_any(beyond, touched) == pytest.approx(1.7e-12, rel=0.05)


@pytest.mark.parametrize(
    ("fec", "plr", "cliff"),
    [
        ("kp4", True, ("1.39e-3", "1.58e-3", "1.81e-3", "2.10e-3")),
        ("kp4", False, ("9.6e-4", "1.06e-3", "1.18e-3", "1.32e-3")),
        ("none", False, ("2.3e-8", "6.8e-8", "2.0e-7", "6.1e-7")),
    ],
)
def test_cliff(fec, plr, cliff):
    """Bandwidth is 0.9, 0.75, 0.5 and 0.25 where the cliff was found: within 2 % or the last digit printed."""
    for left, text in zip((0.9, 0.75, 0.5, 0.25), cliff, strict=True):
        allowed = max(0.02 * float(text), unit(text))
        assert where(left, fec=fec, plr=plr) == pytest.approx(float(text), rel=0, abs=allowed)


@pytest.mark.parametrize(
    ("ber", "beyond", "effective_ber"),
    [
        (1e-4, 1.359811064764e-18, 4.009234899925e-21),
        (2.4e-4, 8.151573399330e-13, 2.412093889556e-15),
        (1e-3, 1.530258592806e-4, 4.641191599832e-7),
        (2e-3, 7.939087369613e-2, 2.541103374867e-4),
        (3e-3, 5.449212504492e-1, 1.926005676351e-3),
    ],
)
def test_tail_is_the_binomials(ber, beyond, effective_ber):
    """P[Bin(544, p) > 15] and the bits left wrong are exact to eleven digits (summed with 60-digit decimals)."""
    found = post_fec(ber, fec="kp4")
    assert (found.codeword_error, found.effective_ber) == pytest.approx((beyond, effective_ber), rel=1e-11, abs=0.0)


@pytest.mark.parametrize(
    ("ber", "text"),
    [
        (0.0, "15E-255"),
        (1e-260, "15E-255"),
        (2e-9, "2E-9"),
        (9.7e-10, "1E-9"),
        (3e-12, "3E-12"),
        (1e-4, "1E-4"),
        (0.5, "5E-1"),
    ],
)
def test_ber_text(ber, text):
    """A BER is printed as mlxlink does, 15E-255 for none."""
    assert ber_text(ber) == text


@given(bers, fecs, st.booleans(), rates)
def test_every_link_has_a_quality(ber, fec, plr, rate):
    """No BER and no rate gives anything but ratios between 0 and 1."""
    for kind in ("raw_ber", "effective_ber"):
        seen = link_quality(**{kind: ber}, fec=fec, plr=plr, line_rate_gbps=rate)
        ratios = (seen.capacity_factor, seen.loss, seen.goodput_factor)
        assert all(isfinite(ratio) and 0.0 <= ratio <= 1.0 for ratio in ratios)
        assert all(0.0 <= value <= 0.5 for value in (seen.raw_ber, seen.effective_ber, seen.symbol_ber))


@given(bers, bers, fecs, st.booleans(), st.sampled_from([25.0, 100.0, 400.0, 1600.0]))
def test_more_errors_are_never_better(one, other, fec, plr, rate):
    """A higher BER never carries more, and never has fewer errors after the FEC."""
    low, high = (quality(ber, fec=fec, plr=plr, rate=rate) for ber in sorted((one, other)))
    assert high.goodput_factor <= low.goodput_factor + 1e-12
    assert high.loss >= low.loss * (1 - 1e-9)
    assert high.effective_ber >= low.effective_ber * (1 - 1e-9)


@pytest.mark.parametrize("ber", [-1e-9, 0.51, float("nan"), float("inf")])
def test_what_is_no_ber_is_refused(ber):
    """A BER outside 0 to 0.5 is an error, never a number."""
    with pytest.raises(ValueError, match="not between"):
        link_quality(effective_ber=ber, fec="kp4", plr=True, line_rate_gbps=400.0)
    with pytest.raises(ValueError, match="not between"):
        quality(ber)
