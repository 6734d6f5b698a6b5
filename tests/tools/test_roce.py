"""RoCE as the kernel, mlnx_qos and NVUE tell it; ``nv``: readers and command lines that nothing can slip into."""

import json
import subprocess

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import nvue, roce, switch_qos
from fabric.tools.interfaces import Neighbour
from fabric.tools.mlxlink import Optics
from fabric.tools.nvue import Configured, Setting, SwitchPort
from fabric.tools.roce import Marking, RocePort
from tests.places import CAPTURES, GOLDEN

# mlnx-tools 2026-08 prints tabs, wraps its map, and warns on stdout.
SAID = """\
port mlx5_0 eth2
/sys/class/net/eth2/mtu:9000
/sys/class/net/eth2/address:b8:59:9f:00:10:00
/sys/class/infiniband/mlx5_0/tc/1/traffic_class:Global tclass=106
/sys/class/net/eth2/ecn/roce_np/enable/0:0
/sys/class/net/eth2/ecn/roce_np/enable/3:1
/sys/class/net/eth2/ecn/roce_np/cnp_dscp:48
/sys/kernel/debug/mlx5/0000:18:00.0/cc_params/rp_gd:11
/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos:106
/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0:IB/RoCE v1
/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3:RoCE v2
****** WARNING: lldpad service is running and may overwrite your settings ******
DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
\tprio:0 dscp:07,06,05,04,03,02,01,00,
\tprio:3 dscp:31,30,29,28,27,26,25,24,
default priority:
Receive buffer size (bytes): 20016,256096,0,0,0,0,0,0,max_buffer_size=4151520
Cable len: 7
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0   
\tbuffer      0   0   0   1   0   0   0   0   
tc: 0 ratelimit: unlimited, tsa: vendor
\t priority:  1
port mlx5_1 eth3
sh: 1: mlnx_qos: not found
whole
"""  # noqa: W291


def test_everything_that_is_told_is_read() -> None:
    told = roce.read(SAID)
    assert told is not None
    one = told["mlx5_0"]
    assert (one.mtu, one.trust, one.pfc, one.host_class) == (9000, "dscp", frozenset({3}), 106)
    assert (one.interface, one.address, one.dcbx) == ("eth2", "b8:59:9f:00:10:00", "OS controlled")
    assert (one.cable_m, one.buffer_bytes) == (7, dict.fromkeys(range(8), 20016) | {3: 256096})
    assert (one.rdma_cm_class, one.cnp_dscp, one.knobs) == (106, 48, {"cnp_dscp": 48, "rp_gd": 11})
    assert (one.priority_of[26], one.priority_of[0]) == (3, 0)
    assert one.ecn == {"roce_np": frozenset({3})}
    assert one.gid_types == {0: "IB/RoCE v1", 3: "RoCE v2"}


def test_a_real_answer_of_an_older_release_is_read() -> None:
    """It says nothing of buffers."""
    real = (CAPTURES / "mlnx_qos" / "01-connectx-pfc3-trust-dscp.txt").read_text()
    told = roce.read(f"port mlx5_2 eth4\n{real}whole\n")
    assert told is not None
    one = told["mlx5_2"]
    assert (one.trust, one.pfc, one.cable_m, one.dcbx) == ("dscp", frozenset({3}), 7, "OS controlled")
    assert one.priority_of == {dscp: dscp // 8 for dscp in range(64)}
    assert one.buffer_bytes == {}


def test_what_is_not_told_is_none() -> None:
    told = roce.read(SAID)
    assert told is not None
    assert told["mlx5_1"] == RocePort("eth3")


def test_dcb_is_read_where_there_is_no_mlnx_qos() -> None:
    """As its manual pages print it; a map that is empty, or an interface that it does not know, tells nothing."""
    pfc = "prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off \n"
    told = roce.read(f"port mlx5_0 eth2\n{pfc}dscp-prio 24:3 26:3 48:6 \nport mlx5_1 eth3\nCannot find device\nwhole\n")
    assert told is not None
    assert (told["mlx5_0"].pfc, told["mlx5_0"].priority_of) == (frozenset({3}), {24: 3, 26: 3, 48: 6})
    assert (told["mlx5_1"].pfc, told["mlx5_1"].priority_of) == (None, {})


@pytest.mark.parametrize("text", ["", SAID.removesuffix("whole\n"), SAID[:400], "sh: syntax error\n"])
def test_an_answer_that_is_cut_says_nothing(text: str) -> None:
    assert roce.read(text) is None


def test_the_text_is_one_that_sh_runs() -> None:
    """On a machine without such a device: nothing is told of it, and no quoting lets a name act."""
    done = subprocess.run(roce.ask([("mlx5_0", 1)]), capture_output=True, text=True, timeout=20, check=False)
    told = roce.read(done.stdout)
    assert told is not None
    assert told["mlx5_0"].gid_types == {}
    with pytest.raises(ValueError, match="device"):
        roce.ask([("$(id)", 1)])


LOSSLESS, MULTI, COMMANDS = (
    (GOLDEN / "nvue" / name).read_text()
    for name in ("qos-roce-5.15.txt", "qos-roce-multi-tc-5.15.txt", "commands-qos-5.15.txt")
)
KIB = Marking(149_996, 1_499_464)  # 146.48 KB, 1.43 MB


def test_the_lossless_profile() -> None:
    one = switch_qos.read_roce(LOSSLESS)
    assert (one.pfc, one.sends, one.obeys, one.cable_m) == (frozenset({3}), True, True, 100)
    assert (one.trust, one.marks) == ("pcp,dscp", {0: KIB, 3: KIB})
    assert one.priority_of == {dscp: dscp // 8 for dscp in range(64)}
    assert one.queue_of == dict.fromkeys(range(8), 0) | {3: 3, 6: 6}


def test_the_lossy_profile_has_no_pfc() -> None:
    one = switch_qos.read_roce(MULTI)
    assert (one.pfc, one.sends, one.cable_m) == (frozenset(), None, None)
    assert (one.priority_of[26], one.priority_of[5], one.queue_of[4]) == (4, 3, 4)
    assert one.marks == dict.fromkeys((1, 2, 3), Marking(166_912, 239_616))


def test_profiles_are_what_single_ports_do_otherwise() -> None:
    """Defaults of a PFC profile are those of the guide; what was told of the switch holds for the rest."""
    usual = switch_qos.read_roce(LOSSLESS)
    rest, own = switch_qos.read_ports(usual, COMMANDS)
    assert rest == usual
    assert (own["swp1"].pfc, own["swp1"].sends, own["swp1"].obeys) == (frozenset({0}), True, False)
    assert (own["swp1"].cable_m, own["swp1"].xoff_bytes) == (50, 1500)
    assert own["swp2"].marks == {1: Marking(40_000, 200_000)}
    assert (own["swp2"].pfc, own["swp5"].trust, own["swp6"].trust) == (usual.pfc, "pcp", "dscp")
    assert (own["swp6"].priority_of[0], own["swp7"].priority_of[0]) == (7, 0)


@pytest.mark.parametrize(
    "text", ["enable              off             off", "state               disabled        disabled"]
)
def test_without_roce_the_default_profile_is_what_counts(text: str) -> None:
    usual = switch_qos.read_roce(MULTI.replace("enable              on              on", text))
    assert usual == RocePort()
    rest, _ = switch_qos.read_ports(usual, COMMANDS)
    assert (rest.pfc, rest.cable_m) == (frozenset({3}), 10)
    assert switch_qos.read_ports(usual, "nv set system hostname leaf01\n")[0].pfc == frozenset()


@pytest.mark.parametrize(
    ("stdout", "status", "error"),
    [
        ("", 0, UnreadableOutput),
        ("Error: no\n", 1, ToolError),
        (LOSSLESS.replace("0,3", "all"), 0, UnreadableOutput),
        *[(LOSSLESS[: len(LOSSLESS) * share // 10], 0, UnreadableOutput) for share in range(1, 7)],
        (LOSSLESS.replace("pfc-priority", "pfc-nothing"), 0, UnreadableOutput),
    ],
)
def test_what_is_not_understood_is_not_guessed(stdout: str, status: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        switch_qos.read_roce(stdout, "", status)


def test_a_profile_that_is_not_understood_is_not_guessed() -> None:
    with pytest.raises(UnreadableOutput, match="whole number"):
        switch_qos.read_ports(RocePort(), COMMANDS.replace("xoff-threshold 1500", "xoff-threshold many"))


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
        ({}, SwitchPort(True, 400.0, {"link_downed": 3, "rx_crc_errors": 7}, received_bytes=1722)),
        (
            {"oper-status": "down", "speed": None},
            SwitchPort(False, None, {"link_downed": 3, "rx_crc_errors": 7}, received_bytes=1722),
        ),
        ({"stats": {"out-bytes": 5, "in-bytes": "300 Bytes"}}, SwitchPort(True, 400.0, {}, sent_bytes=5)),
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
    assert nvue.read_neighbours(said) == (Neighbour("swp1", "spine1", "swp3"),)
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
    unread = nvue.read_optics(json.dumps({"swp1": MODULE | {"temperature": {"temperature": "255.00 C"}}}))
    assert unread["swp1"].temperature_c is None


def test_bit_errors_of_a_port_are_those_of_all_its_lanes() -> None:
    """As the reference of 5.10 prints a healthy port: 1.5e9 of 1.6e16 bits wrong, all mended, none at the limit."""
    said = golden("phy-detail-5.10.json")
    assert nvue.read_line_errors(said) == Optics(raw_errors=1478918665, effective_errors=0, full_blocks=0)
    for text in ("", "[]", "{}", said.replace("747567424", '"a few"'), said.replace("747567424", "-1")):
        with pytest.raises(ToolError, match="nv show"):
            nvue.read_line_errors(text)
