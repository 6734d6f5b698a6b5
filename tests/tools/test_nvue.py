"""``nv``: strict readers of what it prints, and command lines that nothing can slip into."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import nvue
from fabric.tools.nvue import Configured, Setting
from tests.places import GOLDEN

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
        nvue.ports(folded)


def test_a_commit_with_a_timer_says_its_unit() -> None:
    argv = nvue.apply("fabric 0123", confirm_min=2)
    assert argv == ("nv", "config", "apply", "-m", "fabric 0123", "--confirm", "2m", "-y")


@pytest.mark.parametrize("message", ["", "-y", "a\nb", "x" * 81, "a;b"])
def test_a_message_is_only_a_message(message: str) -> None:
    with pytest.raises(ValueError, match="message"):
        nvue.apply(message)


@given(st.text(max_size=200))
def test_no_text_makes_a_reader_do_anything_but_read_or_refuse(text: str) -> None:
    for read in (nvue.read, nvue.read_commands, nvue.read_pending):
        with suppress(ToolError):
            read(text, "", 0)
