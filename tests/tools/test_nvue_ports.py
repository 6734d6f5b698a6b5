"""A switch's ports as NVUE tells them: keys as NVIDIA prints them, what is missing, and what is no answer."""

from __future__ import annotations

import json

import pytest

from fabric.errors import ToolError
from fabric.tools import nvue_ports
from fabric.tools.lldp import Neighbour
from fabric.tools.nvue_ports import SwitchPort

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
    assert nvue_ports.read_ports(ports(**link)) == {"swp1": read}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"swp1": 1}', ports(**{"oper-status": "unknown"})])
def test_what_is_no_list_of_ports_is_refused(text: str) -> None:
    with pytest.raises(ToolError):
        nvue_ports.read_ports(text)


def test_neighbours_and_light_are_read() -> None:
    heard = {"chassis": {"chassis-id": "44:38:39:00:00:01", "system-name": "spine1"}, "port": {"name": "swp3"}}
    said = json.dumps({"swp1": {"lldp": {"neighbor": {"spine1": heard}}}, "swp2": {}})
    assert nvue_ports.read_neighbours(said) == (Neighbour("swp1", "spine1", "44:38:39:00:00:01", "swp3", None),)
    alarms = {"high-alarm-threshold": "3.9811 mW / 6.00 dBm", "low-alarm-threshold": "0.0910 mW / -10.41 dBm"}
    powers = ["0.8625 mW / -0.64 dBm", "0.0000 mW / -inf dBm"]
    channels = {f"channel-{n}": {"rx-power": {"power": one, **alarms}} for n, one in enumerate(powers, 1)}
    optics = nvue_ports.read_optics(json.dumps({"swp1": {"vendor-sn": "MT1 ", "channel": channels}}))["swp1"]
    assert optics.rx is not None
    assert (optics.rx.lanes_dbm, optics.rx.low_dbm, optics.rx.high_dbm) == ((-0.64, -40.0), -10.41, 6.0)
    assert (optics.module.serial, optics.tx) == ("MT1", None)
