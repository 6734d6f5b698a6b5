"""ibroute: a whole table is read, anything else is refused with what was seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import infiniband

HEAD = (
    "Unicast lids [0x0-0x3f] of switch Lid 3 guid 0xe41d2d0300000300 (u0-leaf0):\n"
    "  Lid  Out   Destination\n       Port     Info \n"
)
# As in ibroute(8) of infiniband-diags: with names, and without (-n).
NAMED = (
    f"{HEAD}0x0002 004 : (Switch portguid 0x1: 'spine0')\n0x0012 021 : (Channel Adapter portguid 0x2: 'gpu1 mlx5_0')\n"
)
BARE = f"{HEAD}0x0002 004\n0x0012 021\n"


@pytest.mark.parametrize("text", [NAMED, BARE], ids=["names", "bare"])
@pytest.mark.parametrize("end", ["2 valid lids dumped \n", "2 lids dumped\n"])
def test_a_whole_table_is_read(text: str, end: str) -> None:
    assert infiniband.read_routes(text + end) == {2: 4, 0x12: 21}


@pytest.mark.parametrize(
    "text", [BARE, f"{BARE}3 valid lids dumped \n", f"{BARE}2 valid lids dumped", "", f"{HEAD}0x0002 004\n"]
)
def test_a_table_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(UnreadableOutput, match="ibroute"):
        infiniband.read_routes(text)


@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        infiniband.read_routes(HEAD + text)
    except (ToolError, UnreadableOutput):
        return


@given(st.dictionaries(st.integers(1, infiniband.LIDS_MOST), st.integers(0, 254), max_size=30))
def test_what_is_written_is_read(table: dict[int, int]) -> None:
    rows = "".join(f"0x{lid:04x} {port:03d}\n" for lid, port in table.items())
    assert infiniband.read_routes(f"{HEAD}{rows}{len(table)} valid lids dumped \n") == table
