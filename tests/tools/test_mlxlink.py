"""mlxlink: the state of a port, its counters and light, from text and JSON; mlxconfig: one setting."""

from __future__ import annotations

import json

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import mlxlink
from tests.tools.samples import calls, sample

OPERATIONAL = {"State": "Active", "Physical state": "LinkUp", "Speed": "IB-NDR", "Width": "4x", "FEC": "N/A"}
COUNTERS = {
    "Symbol Errors": "7",
    "Symbol BER": "15E-255",
    "Effective Physical Errors": "12",
    "Effective Physical BER": "3E-12",
    "Raw Physical Errors Per Lane": "1,2,3,4",
    "Link Down Counter": "255",
    "Link Error Recovery Counter": "2",
    "Raw Physical BER": "2E-9",
}


def document(*, code=0, message="success", **sections):
    """As ``--json`` prints it."""
    masks = {"Enabled Link Speed": {"mask": "0x1", "values": ["NDR"]}}
    output = {"Operational Info": OPERATIONAL, "Supported Info": masks} | sections
    return json.dumps({"result": {"output": output}, "status": {"code": code, "message": message}})


def test_what_is_asked():
    """JSON has no colours; closing and opening answer their own question."""
    assert mlxlink.show("mlx5_0", counters=True) == ("mlxlink", "-d", "mlx5_0", "-c", "--json")
    assert mlxlink.port_state("mlx5_0", up=False) == ("mlxlink", "-d", "mlx5_0", "--port_state", "DN", "--yes")
    assert mlxlink.port_state("mlx5_0", up=True, tool="mstlink")[0::4] == ("mstlink", "UP")


def test_json_with_counters():
    """Lanes add up; N/A is nothing."""
    link = mlxlink.read(document(**{"Physical Counters and BER Info": COUNTERS}))
    assert (link.state, link.physical_state, link.up) == ("Active", "LinkUp", True)
    assert link.counters == {
        "raw_errors": 10,
        "effective_errors": 12,
        "symbol_errors": 7,
        "link_downed": 255,
        "link_error_recovery": 2,
    }


def test_a_document_that_says_it_failed_failed():
    """Whatever the exit status is."""
    with pytest.raises(ToolError, match="Failed to open device"):
        mlxlink.read(document(code=1, message="Failed to open device"))


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"status": 3}', '{"status": {"code": 0, "message": ""}}'])
def test_anything_else_is_unreadable(text):
    """Never a port."""
    with pytest.raises(UnreadableOutput):
        mlxlink.read(text)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("01-cx7-ndr-show-module-4.35", ("Active", "LinkUp", True)),
        ("02-cx4-fdr-basic-4.35", ("Active", "LinkUp", True)),
        ("04-bf3-100g-module-counters-4.30", ("Active", "LinkUp", True)),
        ("06-nvlink-gpu7-amber-4.32", ("Active", "N/A", True)),
    ],
)
def test_recorded_ports(name, values):
    """Blanks at line ends, wider columns, prompts before the first section."""
    link = mlxlink.read(sample(f"mlxlink/{name}.txt") + "\n")
    assert (link.state, link.physical_state, link.up) == values


def test_a_recorded_failure_with_colours():
    """The tool's own words, without them."""
    _, stdout, stderr, status = calls("mlxlink/10-local-open-failure-4.21.txt")[0]
    with pytest.raises(ToolError, match=r'-E- Failed to open device: "3b:00\.0", No such file'):
        mlxlink.read(stdout, stderr, status)


MODULE = {
    "Temperature [C]": "54 [-5..75]",
    "Rx Power Current [dBm]": "1.9,2.1,-2.4,2.3 [-10.41..6]",
    "Tx Power Current [dBm]": "1.4,1.8,1.5,1.6 [-8.508..5]",
    "Vendor Name": "NVIDIA",
    "Vendor Serial Number": "MT123",
    "FW Version": "46.120.4000",
}


def said(**rows: object) -> str:
    """The document of a port with this module."""
    counted = {"Raw Physical Errors Per Lane": {"values": ["1", "2", "3", "4"]}, "Effective Physical Errors": "5"}
    output = {"Module Info": {**MODULE, **rows}, "Physical Counters and BER Info": counted}
    return json.dumps({"result": {"output": output}, "status": {"code": 0, "message": "success"}})


def test_light_and_errors_are_read_lane_by_lane() -> None:
    """Lists are lists in newer versions and texts in older ones."""
    found = mlxlink.read_optics(said())
    assert found.rx == mlxlink.Light((1.9, 2.1, -2.4, 2.3), -10.41, 6.0)
    assert found.tx is not None
    assert (found.tx.high_dbm, found.temperature_c, found.raw_errors, found.effective_errors) == (5.0, 54.0, 10, 5)
    assert found.module == mlxlink.Module("NVIDIA", None, "MT123", "46.120.4000")


@pytest.mark.parametrize("light", ["N/A", "0,0,0,0 [0..0]"])
def test_copper_has_no_light(light: str) -> None:
    """It says so, or prints zeros between limits of zero."""
    assert mlxlink.read_optics(said(**{"Rx Power Current [dBm]": light})).rx is None
    assert mlxlink.read_optics(said(**{"Cable Technology": "Copper cable unequalized"})).rx is None


SETTING = "KEEP_ETH_LINK_UP_P1"
TEXT = """
Device #1:
----------

Device type:        ConnectX7
Name:               MCX75310AAS-NEA_Ax
Device:             mlx5_0

Configurations:                                      Next Boot
{row}
"""


@pytest.mark.parametrize(
    ("row", "on"),
    [
        ("        KEEP_ETH_LINK_UP_P1                         True(1)", True),
        ("*       KEEP_ETH_LINK_UP_P1                         True(1)", True),
        ("        KEEP_ETH_LINK_UP_P1                         False(0)", False),
        ("        KEEP_ETH_LINK_UP_P1                         False(0)    ", False),
    ],
)
def test_the_row_of_the_setting_is_read(row: str, on: bool) -> None:
    assert mlxlink.read_setting(SETTING, TEXT.format(row=row)) is on


@pytest.mark.parametrize(
    "row", ["", "        KEEP_ETH_LINK_UP_P2    True(1)", "        KEEP_ETH_LINK_UP_P1    True(0)"]
)
def test_another_row_is_no_answer(row: str) -> None:
    with pytest.raises(UnreadableOutput, match="no KEEP_ETH_LINK_UP_P1"):
        mlxlink.read_setting(SETTING, TEXT.format(row=row))


def test_a_device_that_does_not_know_the_setting_does_not_keep_its_link() -> None:
    said = "-E- The Device doesn't support KEEP_ETH_LINK_UP_P1 parameter\n"
    assert mlxlink.read_setting(SETTING, "", said, 3) is False


def test_the_setting_is_that_of_the_link_layer_and_the_port() -> None:
    assert mlxlink.keep_link_up(ethernet=False, port=2) == "KEEP_IB_LINK_UP_P2"
    assert mlxlink.ask_setting("mlx5_0", SETTING) == ("mlxconfig", "-d", "mlx5_0", "query", SETTING)
