"""The shell text that looks around between NVUE's commands, run by the real sh with a stand-in for nv."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fabric.changes import nvue
from fabric.model.change import Argv
from fabric.tools.nvue import Setting

# Keeps what is applied, staged and waiting in files of its folder; answers as NVUE does.
NV = r"""#!/bin/sh
cd "$NV" || exit 1
echo "$*" >>log
case "$*" in
"show router adaptive-routing -o json") printf '{\n  "enable": "%s"\n}\n' "$(cat applied)" ;;
"config diff") [ ! -e broken ] || { echo "nvued is not running" >&2; exit 1; }; cat staged 2>/dev/null; exit 0 ;;
"set router adaptive-routing enable "*|"unset router adaptive-routing enable")
    value=off; [ "$1" = unset ] || value=$5
    [ "$value" != "$(cat applied)" ] || { rm -f staged; exit 0; }
    printf -- '- %s:\n    router:\n      adaptive-routing:\n        enable: %s\n' "$1" "$value" >staged
    echo "$value" >next ;;
"config apply --confirm-yes") [ -e waits ] || exit 1; rm waits ;;
"config apply -m "*) [ ! -e refuses ] || exit 1; cp next applied; rm staged ;;
*) exit 64 ;;
esac
"""
ON, OFF = Setting("enable", "on"), Setting("enable", "off")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A switch on which adaptive routing is on."""
    (tmp_path / "nv").write_text(NV)
    (tmp_path / "nv").chmod(0o755)
    (tmp_path / "applied").write_text("on\n")
    return tmp_path


def run(place: Path, argv: Argv) -> tuple[int, str]:
    """The exit status, and what was said."""
    env = {"PATH": f"{place}:{os.environ['PATH']}", "NV": str(place)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


def log(place: Path) -> list[str]:
    """What nv was told, without looking."""
    lines = (place / "log").read_text().splitlines()
    return [line for line in lines if line != "config diff" and not line.startswith("show")]


def test_nothing_pending_is_clean_and_anything_is_not(place: Path) -> None:
    assert run(place, nvue.shell("clean"))[0] == 0
    run(place, ("nv", "set", "router", "adaptive-routing", "enable", "off"))
    status, said = run(place, nvue.shell("clean"))
    assert (status, "edits that were not applied" in said) == (1, True)


def test_what_the_switch_shows_decides(place: Path) -> None:
    assert run(place, nvue.shell("seen", ON.key, ON.value))[0] == 0
    status, said = run(place, nvue.shell("seen", OFF.key, OFF.value))
    assert (status, said) == (1, "fabric-nvue: adaptive routing is not enable off after the commit\n")


@pytest.mark.parametrize(("explicit", "word"), [(True, "set router adaptive-routing enable off"), (False, "unset")])
def test_an_undo_stages_what_was_seen_and_applies_it(place: Path, explicit: bool, word: str) -> None:
    for _ in range(2):  # may be run twice
        assert run(place, nvue.shell("stage", OFF.key, OFF.value, "set" if explicit else "unset"))[0] == 0
        assert run(place, nvue.shell("commit", "fabric 01 undone"))[0] == 0
        assert (place / "applied").read_text() == "off\n"
    first, confirm, last = log(place)
    assert first.startswith(word)
    assert (confirm, last) == ("config apply --confirm-yes", "config apply -m fabric 01 undone -y")


def test_where_nothing_was_altered_nothing_is_undone(place: Path) -> None:
    assert run(place, nvue.shell("stage", ON.key, ON.value, "set")) == (0, "nothing to undo\n")
    assert log(place) == []


def test_what_was_only_staged_is_staged_back(place: Path) -> None:
    run(place, ("nv", "set", "router", "adaptive-routing", "enable", "off"))
    assert run(place, nvue.shell("stage", ON.key, ON.value, "set"))[0] == 0
    assert run(place, nvue.shell("commit", "fabric 01 undone")) == (0, "committed\n")
    assert not (place / "staged").exists()


@pytest.mark.parametrize("verb", [nvue.shell("stage", OFF.key, OFF.value, "set"), nvue.shell("commit", "fabric 01")])
def test_edits_of_somebody_else_are_not_carried_along(place: Path, verb: Argv) -> None:
    ours = "      adaptive-routing:\n        enable: on\n"
    (place / "staged").write_text(f"- set:\n    system:\n      hostname: half-done\n    router:\n      bgp:\n{ours}")
    status, said = run(place, verb)
    assert status == 1
    assert "would be applied with ours: system: hostname: half-done bgp:" in said
    assert log(place) == []


def test_edits_of_somebody_else_keep_no_undo_from_being_done_where_nothing_is_ours(place: Path) -> None:
    (place / "staged").write_text("- set:\n    system:\n      hostname: half-done\n")
    assert run(place, nvue.shell("stage", ON.key, ON.value, "set")) == (0, "nothing to undo\n")
    assert run(place, nvue.shell("commit", "fabric 01 undone")) == (0, "committed\n")
    assert log(place) == []


def test_edits_of_somebody_else_stop_an_undo_where_ours_is_applied(place: Path) -> None:
    (place / "staged").write_text("- set:\n    system:\n      hostname: half-done\n")
    status, said = run(place, nvue.shell("stage", OFF.key, OFF.value, "set"))
    assert (status, "hostname: half-done" in said, log(place)) == (1, True, [])


def test_a_switch_that_cannot_say_what_waits_is_left_alone(place: Path) -> None:
    (place / "broken").touch()
    status, said = run(place, nvue.shell("stage", OFF.key, OFF.value, "set"))
    assert (status, "nvued is not running" in said, log(place)) == (1, True, [])
