"""``mlxconfig query``: one setting, on or off, and nothing guessed."""

from __future__ import annotations

import pytest

from fabric.errors import UnreadableOutput
from fabric.tools import mlxlink

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
