"""The smaller tools that look at a fabric and say what a part is: counters, interfaces, managers, serial numbers."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import host_parts, infiniband, interfaces, management, mlxlink, sysfs
from fabric.tools.management import ManagerLog, UfmAccess
from fabric.tools.mlxlink import Module, Optics
from fabric.tools.sysfs import RdmaDevice
from tests.places import CAPTURES
from tests.tools.samples import calls, sample

UFM_LIST = [
    {
        "UnhealthyPort": "leaf1:5",
        "UnhealthyGUID": "0xe41d2d0300000200",
        "UnhealthyPortNumber": 5,
        "PeerPort": "spine0:3",
        "Condition": "HIGH_BER",
        "State": "isolate",
        "Other": None,
    }
]


def test_perfquery_recorded():
    """Plain and extended; hexadecimal ones are no counters."""
    ((_, stdout, _, _),) = calls("infiniband-diags/ibsim-16-perfquery.txt")
    plain = infiniband.read_counters(stdout)
    names = infiniband.ERRORS.values()
    assert [plain[name] for name in names] == [1234, 0, 3, 77]
    assert "CounterSelect" not in plain
    wide = infiniband.read_counters(sample("infiniband-diags/25-real-perfquery-0x506b4b03005c2740.txt"))
    assert (wide["PortRcvData"], wide["LinkDownedCounter"]) == (178762341961629, 1)
    assert infiniband.counters(2, 21, extended=True) == ("perfquery", "-x", "2", "21")


def test_sminfo_recorded():
    """The master by LID and GUID."""
    ((_, stdout, _, _),) = calls("infiniband-diags/ibsim-05-sminfo.txt")
    found = infiniband.read_subnet_manager(stdout)
    assert (found.lid, found.guid, found.state) == (1, 0xB8599F0300010101, "MASTER")
    for length in range(len(stdout) - 1):
        with pytest.raises(UnreadableOutput):
            infiniband.read_subnet_manager(stdout.strip()[:length])
    with pytest.raises(ToolError, match="exit 255: sminfo: iberror"):
        infiniband.read_subnet_manager("", "sminfo: iberror: failed: query\n", 255)


LINK = "3: eth1@if7: <{flags}> mtu 9000 qdisc mq state {state} mode DEFAULT group default qlen 1000{end}"


@pytest.mark.parametrize(
    "end", ["\n    link/ether b8:59:9f:01:02:03 brd ff:ff:ff:ff:ff:ff\n", "\\    link/ether b8:59\n"]
)
@pytest.mark.parametrize(
    ("flags", "state", "up", "carrier"),
    [
        ("BROADCAST,MULTICAST,UP,LOWER_UP", "UP", True, True),
        ("NO-CARRIER,BROADCAST,MULTICAST,UP", "DOWN", True, False),
        ("BROADCAST,MULTICAST", "DOWN", False, False),
    ],
)
def test_interfaces(end, flags, state, up, carrier):
    """One line or two; a guard's pattern says the same of the kernel's switch."""
    text = LINK.format(flags=flags, state=state, end=end)
    (found,) = interfaces.read(text)
    assert (str(found), found.up) == (f"eth1 {state}", carrier)
    assert any(re.search(interfaces.switched_on("eth1"), line) for line in text.splitlines()) is up
    assert not re.search(interfaces.switched_on("eth11"), text)


def test_interfaces_asked_and_switched():
    """By name; nothing else is one."""
    assert interfaces.show("eth1") == ("ip", "-o", "link", "show", "dev", "eth1")
    assert interfaces.switch("eth1", up=False) == ("ip", "link", "set", "dev", "eth1", "down")
    with pytest.raises(ValueError, match="interface"):
        interfaces.switch("-all", up=False)
    with pytest.raises(ToolError, match="does not exist"):
        interfaces.read("", 'Device "eth9" does not exist.\n', 1)
    with pytest.raises(UnreadableOutput):
        interfaces.read("")
    (found, *_) = interfaces.read(sample("ethtool/01-ip-s-link-eth2.txt"))
    assert found.name == "eth2"


def test_ports_in_sysfs():
    """Both states in the kernel's words; one word wrong, and it is none."""
    assert str(sysfs.read_port_state("4: ACTIVE\n5: LinkUp\n")) == "ACTIVE/LinkUp"
    assert sysfs.read_port_state("4: ACTIVE\n5: LinkUp\n").active
    assert not sysfs.read_port_state("1: DOWN\n3: Disabled\n").active
    for wrong in ("", "4: ACTIVE\n", "4: ACTIVE\n5: LinkU", "4: ACTIV\n5: LinkUp\n", "4: ACTIVE\n5: Pollin\n"):
        with pytest.raises(UnreadableOutput):
            sysfs.read_port_state(wrong)
    with pytest.raises(ToolError, match="No such file"):
        sysfs.read_port_state("", "cat: /sys/x: No such file or directory\n", 1)


def test_guids_interfaces_and_counters_in_sysfs():
    """A number, a name, three counts; N/A is no count."""
    assert sysfs.read_node_guid("b859:9f03:0000:1000\n") == 0xB8599F0300001000
    assert sysfs.read_netdev("eth1\n") == "eth1"
    assert sysfs.read_counters("1\nN/A (no PMA)\n0\n") == {"link_downed": 1, "symbol_error": 0}


def test_counters_are_optional_one_by_one() -> None:
    """Drivers without counters/, or with some of its files: what is there is read, what else went wrong is said."""
    asked = sysfs.counters("rxe0", 1)[1:]
    missing = [f"cat: {path}: No such file or directory\n" for path in asked]
    assert sysfs.read_counters("", "".join(missing), 1) == {}
    assert sysfs.read_counters("3\n0\n", missing[1], 1) == {"link_downed": 3, "symbol_error": 0}
    with pytest.raises(ToolError, match="Permission denied"):
        sysfs.read_counters("3\n0\n", f"cat: {asked[1]}: Permission denied\n", 1)
    for read, text in (
        (sysfs.read_node_guid, "b859:9f03:0000\n"),
        (sysfs.read_netdev, "a b\n"),
        (sysfs.read_counters, "1\n2\n"),
    ):
        with pytest.raises(UnreadableOutput):
            read(text)
    assert sysfs.port_state("mlx5_0", 1)[1] == "/sys/class/infiniband/mlx5_0/ports/1/state"
    with pytest.raises(ValueError, match="device"):
        sysfs.node_guid("../../etc")


def test_unhealthy_ports():
    """By the name that UFM wants back."""
    port = management.port_name(0xE41D2D0300000200, 5)
    assert port == "e41d2d0300000200_5"
    assert management.read_unhealthy(json.dumps(UFM_LIST)) == {port: "HIGH_BER"}
    assert management.read_unhealthy("[]") == {}
    for wrong in ("", "{}", "[1]", '[{"UnhealthyGUID": "x"}]', json.dumps(UFM_LIST)[:-5]):
        with pytest.raises(UnreadableOutput):
            management.read_unhealthy(wrong)
    with pytest.raises(ToolError, match="exit 7"):
        management.read_unhealthy("", "curl: (7) Failed to connect\n", 7)


def test_ufm_is_asked_with_a_limit_and_the_operators_netrc():
    """No password on the command line; a host's name is only that."""
    argv = management.list_unhealthy(UfmAccess(via="gpu001", url="https://ufm.example:8443"))
    assert argv[-1] == "https://ufm.example:8443/ufmRest/app/unhealthy_ports"
    assert {"-n", "--max-time", "--fail"} <= set(argv)
    put = management.put_healthy(UfmAccess(via="gpu001", url="https://ufm"), ("e41d2d0300000200_5",))
    assert json.loads(put[put.index("-d") + 1]) == {"ports": ["e41d2d0300000200_5"], "ports_policy": "HEALTHY"}
    for url in ("ufm", "file:///etc/passwd", "https://u:p@ufm", "https://ufm/ -o /etc/x"):
        with pytest.raises(ValueError, match="address"):
            management.list_unhealthy(UfmAccess(via="gpu001", url=url))
    assert "--cacert /etc/ufm.pem" in " ".join(
        management.list_unhealthy(UfmAccess(via="gpu001", url="https://ufm", ca="/etc/ufm.pem"))
    )
    assert "-k" in management.put_healthy(UfmAccess(via="gpu001", url="https://ufm", insecure=True), ())
    with pytest.raises(ValueError, match="port"):
        management.put_healthy(UfmAccess(via="gpu001", url="https://ufm"), ("x",))


REAL = CAPTURES / "opensm" / "01-opensm-log-ibsim-linkdown.txt"
START = "Nov 23 04:24:02 801648 [7645740] 0x03 -> OpenSM 3.3.23\n"
MASTER = "Nov 23 04:24:02 841314 [463E6C0] 0x80 -> Entering MASTER state\n"
UNKNOWN = "0x01 -> setup_routing_engine: ERR : cannot find or setup routing engine 'ar_updn'\n"


def routed(engine: str) -> str:
    """As osm_ucast_mgr.c says it."""
    return f"0x02 -> osm_ucast_mgr_process: {engine} tables configured on all switches\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", ManagerLog()),
        (START + MASTER, ManagerLog(master=True)),
        (START + MASTER + routed("updn"), ManagerLog(True, "updn")),
        (START + MASTER + routed("updn") + START, ManagerLog()),
        (START + UNKNOWN + MASTER + routed("minhop"), ManagerLog(True, "minhop", ("ar_updn",))),
        (START + MASTER + routed("updn") + "0x80 -> Entering STANDBY state\n", ManagerLog(engine="updn")),
    ],
)
def test_the_present_life_of_a_manager_counts(log: str, told: ManagerLog) -> None:
    assert management.read_log(log) == told


def test_a_real_log_is_found_and_read(tmp_path: Path) -> None:
    """By the very text that runs on the host, of a file with a name that a shell would take apart."""
    path = tmp_path / "$(id) 'log'"
    path.write_bytes(REAL.read_bytes())
    done = subprocess.run(management.ask_log(str(path)), capture_output=True, text=True, timeout=20, check=False)
    assert management.read_log(done.stdout, done.stderr, done.returncode) == ManagerLog(True, "minhop")
    missing = subprocess.run(management.ask_log("/nowhere"), capture_output=True, text=True, timeout=20, check=False)
    with pytest.raises(ToolError, match="cannot be read"):
        management.read_log(missing.stdout, missing.stderr, missing.returncode)


def test_ufm_says_what_routes() -> None:
    """The answer of its REST guide 6.16 to 6.22, cut."""
    assert management.read_engine('{"m_key": "0x0", "sm_priority": 15, "routing_engine_active": "minhop"}') == "minhop"
    argv = management.ask_engine(management.UfmAccess(via="gpu001", url="https://ufm.example.net/", insecure=True))
    assert argv[-1] == "https://ufm.example.net/ufmRest/app/smconf"


TABLE = """\
timestamp,source_id,tag,Node_GUID,port_guid,Port_Number,Raw_Errors_Lane_0,Raw_Errors_Lane_1,Effective_Errors,\
Module_Temperature,Cable_PN,Cable_SN,rx_power_lane_0
1763800000000000,0x0,,0x00000000000000a1,0x00000000000000a1,19,700,4,0,44C,MMA4Z00,MT1,1.6
1763800000000000,0x0,,0x00000000000000a1,0x00000000000000a1,20,N/A,N/A,N/A,0C,NA,NA,N/A
"""


_WRONG = (
    *(TABLE.replace(",700,", f",{one},") for one in ("many", "-7", "1_000", "9" * 26, "nan5")),
    *(TABLE.replace("44C", one) for one in ("1e999", "inf", "999999", "warm")),
    TABLE.replace(",20,N/A", ",19,N/A"),
    TABLE.replace(",19,700", ",-1,700"),
    "x" * 200_000,
)


def test_ufms_telemetry_tells_modules_and_bit_errors_of_all_ports() -> None:
    """Its first columns as in the simulator of NVIDIA's PDR plugin, the others as its manual lists them."""
    found = management.read_telemetry(TABLE)
    module = Module(None, "MMA4Z00", "MT1", None)
    assert found[0xA1, 19] == Optics(module, temperature_c=44.0, raw_errors=704, effective_errors=0)
    assert found[0xA1, 20] == Optics(Module(None, None, None, None))
    assert management.read_telemetry(TABLE.replace("44C", "255C"))[0xA1, 19].temperature_c is None
    url = "https://[::1]:8443/ufmRest"
    assert (
        management.ask_telemetry(UfmAccess(via="gpu001", url=url))[-1] == "http://[::1]:9002/csv/xcset/low_freq_debug"
    )
    for text in ("", "<html>", TABLE[:-30], TABLE.replace("0x00000000000000a1", "x"), *_WRONG):
        if text != TABLE:
            with pytest.raises(UnreadableOutput):
                management.read_telemetry(text)


@pytest.mark.parametrize(
    ("reload", "signals"),
    [
        ("pkill -HUP opensm", True),
        ("pkill -1 -x opensm", True),
        ("pkill --signal SIGHUP opensm", True),
        ("killall -s HUP opensm", True),
        ("kill -SIGHUP 4711", True),
        ("systemctl reload opensm", True),
        ("systemctl restart opensm", False),
        ("/etc/init.d/opensmd restart", False),
    ],
)
def test_which_reloads_only_signal(reload: str, signals: bool) -> None:
    assert management.only_signals(tuple(reload.split())) is signals


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
    assert (first.part, first.serial, first.firmware) == ("gpu0", "1650123456789", "96.00.74.00.0D")
    assert (str(second.unique)[-1], second.serial, second.firmware) == ("3", None, None)
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
