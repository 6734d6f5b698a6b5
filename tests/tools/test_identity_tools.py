"""Serial numbers, GUIDs and firmware from the tools' own text, and nothing from any other."""

from __future__ import annotations

import json

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import host_parts, mlxlink, sysfs
from fabric.tools.sysfs import RdmaDevice

# pciutils 3.9, ConnectX-7 and ConnectX-4 Lx as published in bug reports; values end with blanks on some boards.
LSPCI = """\
0000:18:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
\tSubsystem: Mellanox Technologies Device 0041
\tCapabilities: [48] Vital Product Data
\t\tProduct Name: NVIDIA ConnectX-7 HHHL Adapter card
\t\tRead-only fields:
\t\t\t[PN] Part number: MCX755106AS-HEAT
\t\t\t[EC] Engineering changes: A8
\t\t\t[SN] Serial number: MT2421600CDE
\t\t\t[V0] Vendor specific: PCIeGen5 x16
\t\tEnd

0001:40:00.1 Ethernet controller: Mellanox Technologies MT27710 Family [ConnectX-4 Lx]
\tCapabilities: [48] Vital Product Data
\t\t\t[PN] Part number: MCX4421A-ACQN\x20\x20\x20
\t\t\t[SN] Serial number: MT2025K30970\x20\x20
\t\tEnd

"""
GREP = (
    "/sys/class/infiniband/mlx5_0/node_guid:0c42:a103:0065:1a2e\n"
    "/sys/class/infiniband/mlx5_0/fw_ver:28.41.1000\n"
    "/sys/class/infiniband/mlx5_0/board_id:MT_0000000838\n"
    "/sys/class/infiniband/mlx5_0/device/uevent:DRIVER=mlx5_core\n"
    "/sys/class/infiniband/mlx5_0/device/uevent:PCI_SLOT_NAME=0000:18:00.0\n"
)
SMI = (
    "0, GPU-5c3f6f0a-0c0a-11ee-be56-0242ac120002, 1650123456789, 96.00.74.00.0D, 00000000:1B:00.0\n"
    "1, GPU-5c3f6f0a-0c0a-11ee-be56-0242ac120003, [N/A], [N/A], 00000000:43:00.0\n"
)


def test_vital_product_data_is_read_by_address() -> None:
    found = host_parts.read_rnics(LSPCI)
    assert found == {
        "0000:18:00.0": host_parts.Vpd("MCX755106AS-HEAT", "MT2421600CDE"),
        "0001:40:00.1": host_parts.Vpd("MCX4421A-ACQN", "MT2025K30970"),
    }


def test_who_is_not_root_is_told_so() -> None:
    with pytest.raises(ToolError, match="for root alone"):
        host_parts.read_rnics("0000:18:00.0 Infiniband controller: Mellanox\n\tCapabilities: <access denied>\n")


def test_devices_are_read_with_what_is_known_of_them() -> None:
    found = sysfs.read_identity(GREP + "/sys/class/infiniband/mlx5_1/fw_ver:20.35.2000\n", "grep: ...: No such file", 2)
    assert found == {
        "mlx5_0": RdmaDevice("0c42:a103:0065:1a2e", "28.41.1000", "MT_0000000838", "0000:18:00.0"),
        "mlx5_1": RdmaDevice(None, "20.35.2000", None, None),
    }


@pytest.mark.parametrize(
    "text", ["nonsense\n", GREP.replace("28.41.1000", "28.41,1000"), GREP + GREP, GREP.replace("0c42:", "")]
)
def test_a_value_that_is_none_is_not_guessed(text: str) -> None:
    with pytest.raises(UnreadableOutput):
        sysfs.read_identity(text)


def test_gpus_are_read_and_what_they_do_not_say_is_left_open() -> None:
    first, second = host_parts.read_gpus(SMI)
    assert (first.index, first.serial, first.vbios) == (0, "1650123456789", "96.00.74.00.0D")
    assert (second.uuid[-1], second.serial, second.vbios) == ("3", None, None)
    with pytest.raises(UnreadableOutput):
        host_parts.read_gpus("0, NVIDIA H100, 1\n")
    with pytest.raises(ToolError, match="No devices"):
        host_parts.read_gpus("No devices were found\n", "", 6)


def test_the_module_of_a_port_is_read_and_a_passive_cable_has_no_firmware() -> None:
    rows = {
        "Vendor Name": "NVIDIA",
        "Vendor Part Number": "MCP7Y00",
        "Vendor Serial Number": "MT1",
        "FW Version": "N/A",
    }
    document = {"status": {"code": 0, "message": ""}, "result": {"output": {"Module Info": rows}}}
    found = mlxlink.read_module(json.dumps(document))
    assert found == mlxlink.Module("NVIDIA", "MCP7Y00", "MT1", None)
    del document["result"]["output"]["Module Info"]  # type: ignore[attr-defined]
    with pytest.raises(UnreadableOutput, match="Module Info"):
        mlxlink.read_module(json.dumps(document))
