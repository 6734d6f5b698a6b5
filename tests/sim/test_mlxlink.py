"""``mlxlink`` in the simulated rack: the tool's sections, and error ratios that follow from what is injected."""

from __future__ import annotations

import json
import re

from fabric.tools import mlxlink
from tests.places import CAPTURES

PTER = "mlxreg -d mlx5_0 --reg_name PTER --indexes local_port=1,error_page=0 --yes --set"


def values(text):
    """Every ``name : value`` of all sections."""
    return {name: value.strip() for name, value in re.findall(r"^(\S.*?) +: (.*)$", text, re.MULTILINE)}


def recorded(name):
    """A recorded output from its first section on."""
    text = (CAPTURES / "mlxlink" / name).read_text()
    return text[text.index("Operational Info") :]


def shape(text, upto):
    """Titles, rules and row names with their columns, up to a section."""
    head = text[text.index("Operational Info") : text.index(upto)]
    return [re.sub(r" *(\(Ext\.\) *)?: .*", "", line).rstrip() for line in head.splitlines()]


def test_a_healthy_port_looks_like_the_recorded_one(kit):
    """Same sections, same rows, the same column, trailing blanks and all."""
    said = kit.ask(kit.world(), "gpu001", "mlxlink -d mlx5_0 -c", 60.0).stdout
    sample = recorded("01-cx7-ndr-show-module-4.35.txt")
    assert shape(said, "Physical Counters") == shape(sample, "Module Info")
    lines = [line for line in sample.splitlines() if line.startswith(("State", "Speed", "Width", "Enabled", "Status"))]
    assert set(lines) <= set(said.splitlines())


def test_counters_have_the_recorded_rows(kit):
    """An Ethernet port has no symbol errors."""
    platform = kit.platform_like(line_rate_gbps=100.0, link_layer="ethernet")
    said = kit.ask(kit.world(platform=platform), "gpu001", "mlxlink -d mlx5_0 -c", 60.0).stdout
    sample = recorded("04-bf3-100g-module-counters-4.30.txt")
    title = "Physical Counters and BER Info"
    wanted = {re.sub(r" *:.*", "", line) for line in sample[sample.index(title) :].splitlines()}
    assert {re.sub(r" *:.*", "", line) for line in said[said.index(title) :].splitlines()} == wanted
    assert values(said)["Raw Physical BER"] == "15E-255"
    assert values(said)["Effective Physical BER"] == "15E-255"


def test_injected_errors_show_at_the_receiver_by_their_ratio(kit):
    """The other end of the cable counts them; the sender does not."""
    world = kit.world()
    inject = f"{PTER} error_type_admin=2,ber_mantissa=3,ber_exp=8,error_injection_time=0xffff"
    assert kit.ask(world, "gpu001", inject, 1.5).exit_status == 0
    there = values(kit.ask(world, "gpu001", "mlxlink -d lid-1 -p 1 -c", 101.0).stdout)
    here = values(kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -c", 102.0).stdout)
    assert there["Effective Physical BER"] == "3E-8"
    assert here["Effective Physical BER"] == "15E-255"
    assert there["Symbol BER"] == "15E-255"  # link-level retry takes the errors away, and bandwidth with them
    assert there["Raw Physical BER"] == "3E-8"  # what is wrong behind the FEC was wrong before it


def test_a_port_that_is_down_has_no_counters(kit):
    """Down by command: N/A everywhere, and the reason; the other end counted it."""
    world = kit.world()
    kit.ask(world, "gpu001", "mlxlink -d mlx5_0 --port_state DN", 1.0)
    said = values(kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -c", 2.0).stdout)
    assert [said[name] for name in ("State", "Speed", "FEC", "Raw Physical BER", "Link Down Counter")] == (
        ["Disable", "N/A", "N/A", "N/A", "N/A"]
    )
    kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -a UP", 10.0)
    assert values(kit.ask(world, "gpu001", "mlxlink -d mlx5_0", 11.0).stdout)["State"] == "Polling"
    assert values(kit.ask(world, "gpu001", "mlxlink -d mlx5_0", 20.0).stdout)["State"] == "Active"
    there = kit.ask(world, "gpu001", "mlxlink -d lid-1 -p 1 -c", 21.0).stdout
    assert values(there)["Link Down Counter"] == "1"


def test_lanes_come_as_a_list_in_json_and_are_read(kit):
    """As MFT prints them (mlxlink_cmd_print.cpp:80-108), so that the raw errors of a receiver are counted."""
    world = kit.world()
    said = kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -c --json", 6000.0).stdout
    lanes = json.loads(said)["result"]["output"]["Physical Counters and BER Info"]["Raw Physical Errors Per Lane"]
    assert mlxlink.read(said).counters["raw_errors"] == sum(map(int, lanes["values"])) > 0


def test_a_fast_ethernet_port_says_by_its_state_only_whether_it_is_up(kit):
    """Its physical state is that of an auto-negotiation that nobody uses (a 400G port, mlxlink_maps.cpp:113)."""
    world = kit.world(platform=kit.platform_like(link_layer="ethernet"))
    up = kit.ask(world, "gpu001", "mlxlink -d mlx5_0 --json", 1.0).stdout
    assert mlxlink.read(up).up
    kit.ask(world, "gpu001", "mlxlink -d mlx5_0 -a DN --yes", 2.0)
    closed = mlxlink.read(kit.ask(world, "gpu001", "mlxlink -d mlx5_0 --json", 3.0).stdout)
    assert (closed.up, closed.state, closed.physical_state) == (False, "Disable", "ETH_AN_FSM_ENABLE")
