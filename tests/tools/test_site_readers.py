"""Readers of what a site's tools say of its cabling: recorded answers."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import ethtool, host_parts, infiniband, interfaces
from fabric.tools.mlxlink import Light, Module
from tests.places import CAPTURES

LLDP = {name: (CAPTURES / "lldp" / f"{name}.txt").read_text() for name in ("two-neighbours", "no-name", "none")}
TOPO = {path.stem: path.read_text() for path in (CAPTURES / "nvidia-smi-topo").glob("*.txt")}
LINKS = (CAPTURES / "infiniband-diags" / "29-real-ibnetdiscover-p-test.txt").read_text()


def test_lldp_of_a_recorded_rack() -> None:
    """Two neighbours are a list, one is none; a switch without a name is told by its chassis."""
    first, second = interfaces.read_neighbours(LLDP["two-neighbours"])
    assert first == interfaces.Neighbour("eth2", "tor-1", "56:b6:cc:b6:c8:91", "swp1")
    assert (second.interface, second.switch) == ("eth3", "tor-2")
    document = json.loads(LLDP["two-neighbours"])
    document["lldp"]["interface"] = document["lldp"]["interface"][1]
    assert interfaces.read_neighbours(json.dumps(document)) == (second,)
    assert interfaces.read_neighbours(LLDP["no-name"])[0].switch is None
    assert interfaces.read_neighbours(LLDP["none"]) == ()
    with pytest.raises(ToolError, match="unable to connect to socket"):
        interfaces.read_neighbours("", "[WARN/control] unable to connect to socket /run/lldpd.socket\n", 1)


def test_recorded_distances() -> None:
    """Tabs or blanks, a wrapped heading, devices by a legend or by name, with and without memory nodes."""
    found = {name: host_parts.read_topology(text) for name, text in TOPO.items()}
    dgx = found["01-h100-dgx-mlx5-columns-tabs"]
    assert (dgx.distance["GPU0", "mlx5_0"], dgx.distance["mlx5_1", "GPU1"], dgx.numa["GPU7"]) == ("PIX", "PIX", 1)
    assert len(dgx.parts) == 18
    oci = found["07-wrapped-header-8gpu-oci"]
    assert (oci.distance["GPU0", "mlx5_0"], oci.distance["GPU1", "mlx5_1"], oci.numa["GPU4"]) == ("PXB", "PXB", 1)
    power = found["06-power9-v100-mlx5-no-numa-col"]
    assert (power.distance["mlx5_0", "mlx5_1"], power.numa) == ("PIX", {})
    assert all(len(one.distance) % 2 == 0 for one in found.values())


def test_recorded_links() -> None:
    """Real switches: names without quotes, blanks in names, ports without a speed."""
    lines = infiniband.read_links(LINKS)
    kinds = Counter((line.active, line.peer is not None) for line in lines)
    assert kinds.keys() == {(True, True), (False, False)}
    first = lines[0]
    assert (first.end.description, first.end.lid, first.speed) == ("o0001 HCA-1", 134, "4x EDR")
    assert first.peer is not None
    assert (first.peer.description, first.peer.port) == ("ib-i1l1s01", 10)
    assert {line.speed for line in lines if line.peer is None} == {"4x ???", "4x SDR"}
    assert first.lanes == (4, 25.78125)
    assert {line.lanes for line in lines if line.speed == "4x ???"} == {(None, None)}


def test_the_commands() -> None:
    """Nothing else than these words."""
    assert interfaces.neighbours() == ("lldpctl", "-f", "json")
    assert host_parts.topology() == ("nvidia-smi", "topo", "-m")


def test_limits_of_a_recorded_module() -> None:
    """In dBm; a key that is there twice (temperature, its limits) and lanes without light are no matter."""
    said = (CAPTURES / "ethtool" / "02-json-m-mfs1s00.txt").read_text()
    found = ethtool.read_module(said)
    assert found.module == Module("Mellanox", "MFS1S00-V003E", "MT1915FT03913", None)
    assert (found.rx, found.tx) == (Light((), -13.31, 5.4, -10.3), Light((), -11.4, 5.4, -8.4))
    copper = json.dumps([{"vendor_name": "Mellanox        ", "vendor_pn": "MCP1660", "laser_rx_power": {}}])
    assert (ethtool.read_module(copper).rx, ethtool.read_module(copper).module) == (
        None,
        Module("Mellanox", "MCP1660", None, None),
    )


def test_an_ethtool_that_knows_no_json_of_modules_says_so() -> None:
    """The words are those of 6.1 (Debian 12)."""
    old = "ethtool: bad command line argument(s)\nFor more information run ethtool -h\n"
    with pytest.raises(ToolError, match="run ethtool -h"):
        ethtool.read_module("", old, 1)
    for text in ("", "[]", "{}", "[1]", '[{"vendor_sn": "\\u0007"}]'):
        with pytest.raises(UnreadableOutput):
            ethtool.read_module(text)
