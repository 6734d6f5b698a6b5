"""The first-hour page prints what `fabric check` prints."""

from __future__ import annotations

import runpy

from tests.places import ROOT


def test_the_page_is_as_its_script_would_write_it() -> None:
    """Four inventories, each without and with what one has to set."""
    text = (ROOT / "docs" / "first-hour.md").read_text()
    made = runpy.run_path(str(ROOT / "docs" / "first_hour.py"))["made"]
    assert made(text) == text, "run python docs/first_hour.py"
    assert (text.count("\nPROBLEMS "), text.count("\nREADY ")) == (4, 4)
