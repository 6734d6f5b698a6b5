"""``nv``: strict readers of what it prints, and command lines that nothing can slip into."""

from __future__ import annotations

import json

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import nvue
from fabric.tools.interfaces import Neighbour
from fabric.tools.mlxlink import Optics
from fabric.tools.nvue import Configured, Setting, SwitchPort
from tests.places import GOLDEN

FOLDER = GOLDEN / "nvue"


def golden(name: str) -> str:
    """A documented output."""
    return (FOLDER / name).read_text()


def test_both_spellings_of_the_setting_are_read() -> None:
    assert nvue.read(golden("show-5.12.json")) == Setting("enable", "on")
    assert nvue.read(golden("show-5.15.json")) == Setting("state", "disabled")
    assert nvue.read(golden("show-interface-5.12.json")).on


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"enable": true}', '{"enable": "yes"}', '{"enable": "on"', "null"])
def test_anything_else_is_said_to_be_unreadable(text: str) -> None:
    with pytest.raises(UnreadableOutput, match="nv show"):
        nvue.read(text)


def test_what_is_set_is_told_from_what_is_by_default() -> None:
    assert nvue.read_commands(golden("commands-5.12.txt")) == Configured("enable", ("swp51", "swp52", "swp53", "swp54"))
    assert nvue.read_commands(golden("commands-5.15.txt")) == Configured(None, ("swp31", "swp33", "swp34"))


def test_a_line_about_adaptive_routing_that_is_not_understood_is_quoted() -> None:
    with pytest.raises(UnreadableOutput, match="profile"):
        nvue.read_commands("nv set router adaptive-routing\nnv set router adaptive-routing enable on profile x\n")


@pytest.mark.parametrize("folded", ["swp1-99999999", "", "swp1,,swp2", "-swp", "swp1;x"])
def test_lists_of_interfaces_are_bounded_and_well_formed(folded: str) -> None:
    with pytest.raises(UnreadableOutput, match="no list of"):
        nvue.unfolded(folded)


def test_a_commit_with_a_timer_says_its_unit() -> None:
    argv = nvue.apply("fabric 0123", confirm_min=2)
    assert argv == ("nv", "config", "apply", "-m", "fabric 0123", "--confirm", "2m", "-y")


@pytest.mark.parametrize("message", ["", "-y", "a\nb", "x" * 81, "a;b"])
def test_a_message_is_only_a_message(message: str) -> None:
    with pytest.raises(ValueError, match="message"):
        nvue.apply(message)


STATS = {"carrier-down-count": 3, "carrier-transitions": 6, "carrier-up-count": 3, "in-bytes": 1722, "in-errors": 7}
LINK = {"admin-status": "up", "oper-status": "up", "speed": "400G", "state": {"up": {}}, "stats": STATS}


def ports(**link: object) -> str:
    return json.dumps({"swp1": {"type": "swp", "link": LINK | link}, "eth0": {"type": "eth", "link": LINK}})


@pytest.mark.parametrize(
    ("link", "read"),
    [
        ({}, SwitchPort(True, 400.0, {"link_downed": 3, "rx_crc_errors": 7})),
        ({"oper-status": "down", "speed": None}, SwitchPort(False, None, {"link_downed": 3, "rx_crc_errors": 7})),
        ({"stats": {"carrier-transitions": 7}}, SwitchPort(True, 400.0, {"link_downed": 3})),
        ({"stats": {}}, SwitchPort(True, 400.0, {})),
    ],
)
def test_a_port_is_read_and_what_is_missing_is_not_made_up(link: dict[str, object], read: SwitchPort) -> None:
    assert nvue.read_ports(ports(**link)) == {"swp1": read}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"swp1": 1}', ports(**{"oper-status": "unknown"})])
def test_what_is_no_list_of_ports_is_refused(text: str) -> None:
    with pytest.raises(ToolError):
        nvue.read_ports(text)


MODULE = {"vendor-sn": "MT1 ", "temperature": {"temperature": "42.56 C", "alarm": "Off"}}


def test_neighbours_and_light_are_read() -> None:
    heard = {"chassis": {"chassis-id": "44:38:39:00:00:01", "system-name": "spine1"}, "port": {"name": "swp3"}}
    said = json.dumps({"swp1": {"lldp": {"neighbor": {"spine1": heard}}}, "swp2": {}})
    assert nvue.read_neighbours(said) == (Neighbour("swp1", "spine1", "44:38:39:00:00:01", "swp3"),)
    alarms = {"high-alarm-threshold": "3.9811 mW / 6.00 dBm", "low-alarm-threshold": "0.0910 mW / -10.41 dBm"}
    alarms["low-warning-threshold"] = "0.1445 mW / -8.40 dBm"
    powers = ["0.8625 mW / -0.64 dBm", "0.0000 mW / -inf dBm"]
    channels = {f"channel-{n}": {"rx-power": {"power": one, **alarms}} for n, one in enumerate(powers, 1)}
    optics = nvue.read_optics(json.dumps({"swp1": MODULE | {"channel": channels}}))["swp1"]
    assert optics.rx is not None
    assert (optics.rx.lanes_dbm, optics.rx.low_dbm, optics.rx.high_dbm) == ((-0.64, -40.0), -10.41, 6.0)
    assert optics.rx.warn_dbm == -8.4
    assert optics.module is not None
    assert (optics.module.serial, optics.tx, optics.temperature_c) == ("MT1", None, 42.56)


def test_bit_errors_of_a_port_are_those_of_all_its_lanes() -> None:
    """As the reference of 5.10 prints a healthy port: 1.5e9 of 1.6e16 bits wrong, all mended, none at the limit."""
    said = golden("phy-detail-5.10.json")
    assert nvue.read_line_errors(said) == Optics(raw_errors=1478918665, effective_errors=0, full_blocks=0)
    for text in ("", "[]", "{}", said.replace("747567424", '"a few"'), said.replace("747567424", "-1")):
        with pytest.raises(ToolError, match="nv show"):
            nvue.read_line_errors(text)
