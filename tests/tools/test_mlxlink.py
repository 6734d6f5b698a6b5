"""mlxlink: the state of a port and its counters, from text and JSON."""

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
        (
            "01-cx7-ndr-show-module-4.35",
            ("Active", "LinkUp", True),
        ),
        ("02-cx4-fdr-basic-4.35", ("Active", "LinkUp", True)),
        (
            "04-bf3-100g-module-counters-4.30",
            ("Active", "LinkUp", True),
        ),
        (
            "06-nvlink-gpu7-amber-4.32",
            ("Active", "N/A", True),
        ),
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
