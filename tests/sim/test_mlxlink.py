"""``mlxlink`` in the simulated rack: sections and error ratios; bit errors that the link does not survive."""

import json
import re

import pytest

from fabric.sim.phy.quality import DOWN_SHARE, RECOVERY_SHARE, post_fec
from fabric.tools import mlxlink
from tests.places import CAPTURES

PTER = "mlxreg -d mlx5_0 --reg_name PTER --indexes local_port=1,error_page=0 --yes --set"


def rows(kit, world, options, at_s, host="gpu001"):
    """Every row of all sections."""
    return {name: value for one in kit.mlxlink(world, host, options, at_s).values() for name, value in one.items()}


def recorded(name):
    """A recorded output in text, from its first section on: section by section."""
    text = (CAPTURES / "mlxlink" / name).read_text()
    parts = text[text.index("Operational Info") :].split("\n\n")
    return {part.partition("\n")[0].strip(): dict(re.findall(r"^(\S.*?) *: (.*?) *$", part, re.M)) for part in parts}


def test_a_healthy_port_looks_like_the_recorded_one(kit):
    """Same sections, same rows in their order, and the values that do not differ from port to port."""
    said = kit.mlxlink(kit.world(), "gpu001", "-c", 60.0)
    sample = recorded("01-cx7-ndr-show-module-4.35.txt")
    titles = [title for title in sample if title not in ("", "Module Info")]
    assert list(said) == [*titles, "Physical Counters and BER Info"]
    for title in titles:
        assert [name.removesuffix(" (Ext.)") for name in said[title]] == (
            [name.removesuffix(" (Ext.)") for name in sample[title]]
        )
    state = "Operational Info"
    for name in ("State", "Speed", "Width"):
        assert said[state][name] == sample[state][name]


def test_counters_have_the_recorded_rows(kit):
    """An Ethernet port has no symbol errors."""
    platform = kit.platform_like(line_rate_gbps=100.0, link_layer="ethernet")
    title = "Physical Counters and BER Info"
    said = kit.mlxlink(kit.world(platform=platform), "gpu001", "-c", 60.0)[title]
    assert said.keys() == recorded("04-bf3-100g-module-counters-4.30.txt")[title].keys()
    assert said["Raw Physical BER"] == "15E-255"
    assert said["Effective Physical BER"] == "15E-255"


def test_injected_errors_show_at_the_receiver_by_their_ratio(kit):
    """The other end of the cable counts them; the sender does not."""
    world = kit.world()
    inject = f"{PTER} error_type_admin=2,ber_mantissa=3,ber_exp=8,error_injection_time=0xffff"
    assert kit.ask(world, "gpu001", inject, 1.5).exit_status == 0
    there = rows(kit, world, "-d lid-1 -p 1 -c", 101.0)
    here = rows(kit, world, "-c", 102.0)
    assert there["Effective Physical BER"] == "3E-8"
    assert here["Effective Physical BER"] == "15E-255"
    assert there["Symbol BER"] == "15E-255"  # link-level retry takes the errors away, and bandwidth with them
    assert there["Raw Physical BER"] == "3E-8"  # what is wrong behind the FEC was wrong before it


def test_a_port_that_is_down_has_no_counters(kit):
    """Down by command: N/A everywhere, and the reason; the other end counted it."""
    world = kit.world()
    kit.ask(world, "gpu001", "mlxlink -d mlx5_0 --port_state DN", 1.0)
    said = rows(kit, world, "-c", 2.0)
    assert [said[name] for name in ("State", "Speed", "FEC", "Raw Physical BER", "Link Down Counter")] == (
        ["Disable", "N/A", "N/A", "N/A", "N/A"]
    )
    kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -a UP", 10.0)
    assert rows(kit, world, "", 11.0)["State"] == "Polling"
    assert rows(kit, world, "", 20.0)["State"] == "Active"
    assert rows(kit, world, "-d lid-1 -p 1 -c", 21.0)["Link Down Counter"] == "1"


def test_lanes_come_as_a_list_in_json_and_are_read(kit):
    """As MFT prints them (mlxlink_cmd_print.cpp:80-108), so that the raw errors of a receiver are counted."""
    world = kit.world()
    said = kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -c --json", 6000.0).stdout
    lanes = json.loads(said)["result"]["output"]["Physical Counters and BER Info"]["Raw Physical Errors Per Lane"]
    assert mlxlink.read(said).counters["raw_errors"] == sum(map(int, lanes["values"])) > 0


def test_the_histogram_of_the_error_correction_is_read_and_its_lack_is_no_failure(kit):
    """A healthy line has blocks with a few wrong symbols; one whose code is not simulated has its light still."""
    world = kit.world()
    asked = "mlxlink -d mlx5_0 -m -c --rx_fec_histogram --show_histogram --json"
    said = kit.ask(world, "gpu001", asked, 6000.0)
    bins = json.loads(said.stdout)["result"]["output"]["Histogram of FEC Errors"]
    assert list(bins) == ["Header", *(f"Bin {number}" for number in range(16))]
    assert 1 <= mlxlink.read_optics(said.stdout, said.stderr, said.exit_status).worst_block < 15
    kit.ask(world, "gpu001", "mlxlink -d mlx5_0 --port_state DN", 6001.0)
    down = kit.ask(world, "gpu001", asked, 6010.0)
    assert down.exit_status == 1
    found = mlxlink.read_optics(down.stdout, down.stderr, down.exit_status)
    assert (found.worst_block, found.module.vendor) == (None, "NVIDIA")


def test_a_fast_ethernet_port_says_by_its_state_only_whether_it_is_up(kit):
    """Its physical state is that of an auto-negotiation that nobody uses (a 400G port, mlxlink_maps.cpp:113)."""
    world = kit.world(platform=kit.platform_like(link_layer="ethernet"))
    up = kit.ask(world, "gpu001", "mlxlink -d mlx5_0 --json", 1.0).stdout
    assert mlxlink.read(up).up
    kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -a DN --yes", 2.0)
    closed = mlxlink.read(kit.ask(world, "gpu001", "mlxlink -d mlx5_0 --json", 3.0).stdout)
    assert (closed.up, closed.state, closed.physical_state) == (False, "Disable", "ETH_AN_FSM_ENABLE")


RING = "mpirun -np 16 -H gpu001:8,gpu002:8 -x NCCL_ALGO=RING all_reduce_perf -b 8G -e 8G -f 2 -g 1 -n 4000"
BASE = "/sys/class/infiniband/mlx5_0/ports/1"


def inject(kit, world, at_s, *, kind=1, mantissa, exponent, time=3000):
    """Errors that the leaf sends to gpu001, for *time* x 10 ms."""
    told = f"error_type_admin={kind},ber_mantissa={mantissa},ber_exp={exponent},error_injection_time={time}"
    line = f"mlxreg -d lid-1 --reg_name PTER --indexes local_port=1,error_page=0 --yes --set {told}"
    assert kit.ask(world, "gpu002", line, at_s).exit_status == 0


def counted(kit, world, name, at_s):
    """A counter of gpu001's first RNIC."""
    return int(kit.ask(world, "gpu001", f"cat {BASE}/counters/{name}", at_s).stdout)


def phys_state(kit, world, at_s):
    """As the kernel says it."""
    return kit.ask(world, "gpu001", f"cat {BASE}/phys_state", at_s).stdout.strip()


def test_more_than_half_of_the_codewords_bad_takes_the_link_down_until_it_ends(kit):
    """Raw 3e-3 fails 55 %: recovery at the receiver, polling at the sender; four seconds after the end Active."""
    assert post_fec(3e-3, fec="kp4").codeword_error > DOWN_SHARE
    world = kit.world()
    kit.ask(world, "gpu001", f"cat {BASE}/state", 0.0)
    inject(kit, world, 1.0, mantissa=3, exponent=3)
    assert phys_state(kit, world, 2.0) == "6: LinkErrorRecovery"
    leaf = kit.ask(world, "gpu002", "smpquery portinfo 1 1", 2.4).stdout
    assert ("Down" in leaf, "Polling" in leaf) == (True, True)
    assert counted(kit, world, "link_downed", 3.0) == 1
    assert counted(kit, world, "link_error_recovery", 3.2) == 1
    assert phys_state(kit, world, 30.5) == "6: LinkErrorRecovery"
    assert phys_state(kit, world, 34.0) == "5: LinkUp"
    assert kit.ask(world, "gpu001", f"cat {BASE}/state", 36.0).stdout == "4: ACTIVE\n"


def test_strong_errors_short_of_that_make_the_link_recover_now_and_then(kit):
    """Raw 2e-3 fails 8 %: one recovery in 12 s, no loss of the link; 1e-3 does neither."""
    assert RECOVERY_SHARE < post_fec(2e-3, fec="kp4").codeword_error < DOWN_SHARE
    world = kit.world()
    inject(kit, world, 1.0, mantissa=2, exponent=3, time=6000)
    assert phys_state(kit, world, 30.0) == "5: LinkUp"
    assert 3 <= counted(kit, world, "link_error_recovery", 61.0) <= 6
    assert counted(kit, world, "link_downed", 61.2) == 0
    assert rows(kit, world, "-c", 62.0)["Link Error Recovery Counter"] == "4"
    mild = kit.world()
    inject(kit, mild, 1.0, mantissa=1, exponent=3, time=6000)
    assert counted(kit, mild, "link_error_recovery", 61.0) == 0


def test_a_collective_lives_through_it_or_not_by_its_patience(kit):
    """Errors for 10 s and training: 4 retries; for 30 s and training: 34.4 s are not enough."""
    for time, exit_status, ends_s in ((1000, 0, None), (3200, 3, 20.05 + 34.36)):
        world = kit.world()
        pid = world.start("gpu001", tuple(RING.split()), {}, 0.0)
        world.advance(19.0)
        inject(kit, world, 20.0, mantissa=3, exponent=3, time=time)
        (ended,) = (event for event in world.advance(10_000.0) if event.pid == pid)
        assert ended.exit_status == exit_status
        if ends_s is not None:
            assert ended.at_s == pytest.approx(ends_s, abs=0.01)
