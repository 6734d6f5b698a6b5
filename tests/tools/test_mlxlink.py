"""mlxlink, mlxconfig and mlxreg: what is asked, and what their texts, tables and complaints say."""

import json
import re

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import mlxlink, mlxreg
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
    assert mlxlink.port_state("mlx5_0", up=True)[0::4] == ("mlxlink", "UP")


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
    assert mlxlink.read_optics(said(**{"Temperature [C]": "255 [-5..75]"})).temperature_c is None


def test_the_worst_block_is_the_highest_bin_that_is_not_empty() -> None:
    """Bins as mlxlink_port_info.cpp prints them, alone or several in one; a device that has none still has light."""
    header = {"Header": {"values": ["Range", "Occurrences"]}}
    bins = {
        "Bin 0": ["[0]  ", "757956054591"],
        "Bin 1": ["[1]  ", "3"],
        "Bin 2": ["[2:7]", "1"],
        "Bin 3": ["[8:15]", "0"],
    }
    told = header | {name: {"values": values} for name, values in bins.items()}
    both = {"Module Info": MODULE, "Histogram of FEC Errors": told}
    assert mlxlink.read_optics(document(**both)).worst_block == 2
    assert mlxlink.read_optics(said()).worst_block is None
    none = "Providing FEC histogram cause the following exception:\nNo histogram info available\n"
    without = mlxlink.read_optics(document(code=1, message=none, **{"Module Info": MODULE}), "", 1)
    assert without.worst_block is None
    assert without.rx is not None
    with pytest.raises(ToolError, match="No plugged cable"):
        mlxlink.read_optics(
            document(code=1, message=f"No plugged cable detected\n{none}", **{"Module Info": MODULE}), "", 1
        )
    with pytest.raises(UnreadableOutput, match="Bin 0"):
        mlxlink.read_optics(document(**both | {"Histogram of FEC Errors": {"Bin 0": {"values": ["0", "1"]}}}))


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


TABLE = (
    "Sending access register...\n\nField Name            | Data    \n===================================\n"
    "cc_probe_mp_mode_field_select | 0x00000001\ncc_probe_mp_mode | 0x00000002\nerror_type_admin | 0x00000003\n"
    "error_type_admin | 0x00000009\n===================================\n"
)


def test_a_get_names_every_index():
    """One that is left out would silently be 0."""
    argv = mlxreg.get("mlx5_0", "PTER", mlxreg.pter_indexes(1, ib_number=False))
    indexes = "local_port=1,lp_msb=0,pnat=0,plane_ind=0,error_page=0"
    assert argv == ("mlxreg", "-d", "mlx5_0", "--get", "--reg_name", "PTER", "--indexes", indexes)
    assert mlxreg.pter_indexes(0x181, ib_number=True) == {
        "local_port": 0x81, "lp_msb": 1, "pnat": 1, "plane_ind": 0, "error_page": 0
    }  # fmt: skip
    assert mlxreg.get("3b:00.0", "ROCE_ACCL", {}) == ("mlxreg", "-d", "3b:00.0", "--get", "--reg_name", "ROCE_ACCL")


def test_a_set_is_answered_beforehand_and_names_every_value():
    """No blanks; without --yes nothing would be sent."""
    argv = mlxreg.write("iblid-7", "PTER", mlxreg.pter_indexes(5, ib_number=True), mlxreg.pter_values(2, 1, 6, 3000))
    assert argv[-3:] == ("--set", "error_type_admin=2,ber_mantissa=1,ber_exp=6,error_injection_time=3000", "--yes")
    assert not any(" " in word for word in argv)


@pytest.mark.parametrize("values", [(2, 16, 6, 1), (2, 1, 256, 1), (2, 1, 6, 0xFFFF), (2, 1, 6, -1), (256, 1, 6, 1)])
def test_what_does_not_fit_is_never_sent(values):
    """Above all not the injection time that has no end."""
    with pytest.raises(ValueError, match="not in 0"):
        mlxreg.pter_values(*values)


def test_fields_are_known_by_their_exact_names():
    """The longer name is another field; of duplicates the first holds."""
    fields = mlxreg.read(TABLE)
    assert fields == {"cc_probe_mp_mode_field_select": 1, "cc_probe_mp_mode": 2, "error_type_admin": 3}
    with pytest.raises(UnreadableOutput, match="no field probe_mp_mode"):
        mlxreg.need(fields, "probe_mp_mode")


def test_a_table_that_is_cut_is_no_table():
    """Wherever it is cut before its closing rule."""
    for length in range(len(TABLE.rstrip("\n").rstrip("="))):
        with pytest.raises(UnreadableOutput):
            mlxreg.read(TABLE[:length])


def test_a_pattern_finds_one_value_of_one_field():
    """As a guard looks for it."""
    pattern = mlxreg.equals("cc_probe_mp_mode", 2)
    assert [line for line in TABLE.splitlines() if re.search(pattern, line)] == ["cc_probe_mp_mode | 0x00000002"]


def test_recorded_injection_and_restore():
    """GET, SET, running, expired, endless, four columns, restored, full names, both pages."""
    found = calls("mlxreg/11-emulated-pter-inject-verify-restore-4.36.txt")
    seen = []
    for command, stdout, stderr, status in found:
        if "--set" not in command and "--full_path" not in command:
            fields = mlxreg.read(stdout, stderr, status)
            seen.append((fields["error_type_oper"], fields["ber_exp"], fields["error_injection_time"]))
    assert seen == [(0, 0, 0), (1, 6, 0xAF5), (0, 0, 0), (1, 5, 0xFFFF), (0, 0, 0)]
    full = mlxreg.read(next(stdout for command, stdout, _, _ in found if "--full_path" in command))
    assert full["page_data.pter_phy_page_reg_ext.error_type_cap"] == 7


def test_recorded_refusals_are_said_in_the_tools_words():
    """Twelve access errors and the open errors."""
    failures = []
    for _, stdout, stderr, status in calls("mlxreg/14-emulated-prompt-and-access-errors-4.36.txt")[1:]:
        with pytest.raises(ToolError) as failed:
            mlxreg.read(stdout, stderr, status)
        failures.append(str(failed.value))
    assert "Failed to send access register: Register not supported" in failures[0]
    assert any("permission issue, debug token might be needed." in text for text in failures)
    assert not any("\n" in text for text in failures)
