"""mlxreg: what is asked, and what its tables and complaints say."""

from __future__ import annotations

import re

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import mlxreg
from tests.tools.samples import calls

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


@pytest.mark.parametrize("length", range(len(TABLE.rstrip("\n").rstrip("="))))
def test_a_table_that_is_cut_is_no_table(length):
    """Wherever it is cut before its closing rule."""
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
