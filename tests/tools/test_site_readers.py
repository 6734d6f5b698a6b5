"""Readers of what a site's tools say of its cabling: recorded answers."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from fabric.errors import ToolError
from fabric.tools import host_parts, infiniband, interfaces
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
