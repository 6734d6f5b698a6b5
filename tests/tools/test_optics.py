"""mlxlink -m -c: light by lane with the module's limits, heat, and wrong bits."""

from __future__ import annotations

import json

import pytest

from fabric.tools import mlxlink

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
