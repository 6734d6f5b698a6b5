"""The shell texts that look around and edit files on targets, run by the real sh."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.changes import guard, one_line, subnet_manager, text_of
from fabric.changes.guard import GUARD
from fabric.tools import management

TEXT = "# a comment\nrouting_engine updn\n\nar_sl_mask\t0xFFFF\n  shield_mode   1\n#routing_engine (null)\n"


def run(argv, **more):
    """The exit status, and what was said."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, **more)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def place(tmp_path):
    """A file and where its copy goes."""
    config = tmp_path / "opensm.conf"
    config.write_text(TEXT)
    return config, tmp_path / "opensm.conf.fabric-0123"


def test_keys_get_their_values_and_the_rest_stays(place):
    """Known keys in their lines, a missing one at the end, comments and blank lines untouched."""
    config, backup = place
    config.chmod(0o640)
    status, said = run(
        subnet_manager.edit_conf(str(config), str(backup), {"routing_engine": "ar_updn", "pfrn_sl": "3"})
    )
    assert (status, said) == (0, f"set {config}\n")
    assert config.read_text() == TEXT.replace("routing_engine updn", "routing_engine ar_updn") + "pfrn_sl 3\n"
    assert (backup.read_text(), config.stat().st_mode & 0o777, backup.stat().st_mode & 0o777) == (TEXT, 0o640, 0o640)
    assert sorted(path.name for path in config.parent.iterdir()) == [config.name, backup.name]


def test_the_first_copy_is_kept(place):
    """A second edit does not copy what the first one made; undo puts back what was there before both."""
    config, backup = place
    for value in ("ar_updn", "ar_ftree"):
        assert run(subnet_manager.edit_conf(str(config), str(backup), {"routing_engine": value}))[0] == 0
    assert management.parse_conf(config.read_text())["routing_engine"] == "ar_ftree"
    undo = subnet_manager.undo_conf(str(config), str(backup), {"routing_engine": "updn"})
    assert run(undo) == (0, f"undone {config}\n")
    assert config.read_text() == TEXT


def test_a_symbolic_link_is_refused(place):
    """Renaming over it would leave two files where there was one."""
    config, backup = place
    link = config.parent / "link.conf"
    link.symlink_to(config)
    status, said = run(subnet_manager.edit_conf(str(link), str(backup), {"shield_mode": "0"}))
    assert (status, "symbolic link" in said, link.is_symlink(), config.read_text()) == (1, True, True, TEXT)


def test_a_full_disk_leaves_the_file_whole(place):
    """Writing stops in the middle of the new file: the old one is still there, and no rubbish beside it."""
    config, backup = place
    long = TEXT + "".join(f"key_{number} {'x' * 60}\n" for number in range(500))
    config.write_text(long)

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(long) + 2, len(long) + 2))

    wanted = {"routing_engine": "ar_updn_that_is_longer", "new_key": "1"}
    argv = subnet_manager.edit_conf(str(config), str(backup), wanted)
    status, said = run(argv, preexec_fn=small_files, restore_signals=False)
    assert (status, "fabric-conf: " in said) == (1, True)
    assert config.read_text() == long
    assert {path.name for path in config.parent.iterdir()} <= {config.name, backup.name}
    assert run(subnet_manager.undo_conf(str(config), str(backup), {"routing_engine": "updn", "new_key": None}))[0] == 0
    assert config.read_text() == long


@pytest.mark.parametrize("lost", ["sed 3q", "sed 's/routing_engine.*/routing_engine/'"])
def test_a_tool_that_loses_text_without_a_word_is_noticed(place, lost):
    """An awk that ignores that its output cannot be written: the new file is looked at before it is taken."""
    config, backup = place
    tools = config.parent / "bin"
    tools.mkdir()
    (tools / "awk").write_text(
        f'#!/bin/sh\ncase $* in *wanted*) /usr/bin/awk "$@" | {lost};; *) /usr/bin/awk "$@";; esac\n'
    )
    (tools / "awk").chmod(0o755)
    path = {"PATH": f"{tools}:{os.environ['PATH']}"}
    argv = subnet_manager.edit_conf(str(config), str(backup), {"routing_engine": "ar_updn"})
    status, said = run(argv, env=path)
    assert (status, "is not whole" in said, config.read_text()) == (1, True, TEXT)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be without rights")
def test_a_folder_without_write_permission_leaves_the_file_whole(tmp_path_factory):
    """Exit 1 with a reason."""
    folder = Path(tmp_path_factory.mktemp("readonly"))
    for one in (folder, *folder.parents):
        if one.stat().st_uid == os.getuid() and str(one).startswith("/tmp/"):
            one.chmod(0o755)
    config = folder / "opensm.conf"
    config.write_text(TEXT)
    argv = subnet_manager.edit_conf(str(config), f"{config}.fabric-0", {"shield_mode": "0"})
    status, said = run(argv, user=65534, group=65534)
    assert (status, "cannot be written" in said, config.read_text()) == (1, True, TEXT)


VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=30).map(str.strip)


@settings(max_examples=4, deadline=None)
@given(value=VALUES.filter(bool))
def test_no_value_is_read_as_anything_but_a_value(value, tmp_path_factory):
    """Quotes, dollars, backslashes, semicolons: what was asked for is what a reader finds."""
    config = Path(tmp_path_factory.mktemp("values")) / "opensm.conf"
    config.write_text(TEXT)
    backup = Path(f"{config}.fabric-0")
    assert run(subnet_manager.edit_conf(str(config), str(backup), {"routing_engine": value, "fresh": value}))[0] == 0
    found = management.parse_conf(config.read_text())
    assert (found["routing_engine"], found["fresh"], found["ar_sl_mask"]) == (value, value, "0xFFFF")
    assert run(("grep", "-E", management.conf_equals("fresh", value), str(config)))[0] == 0
    assert run(subnet_manager.undo_conf(str(config), str(backup), {"routing_engine": "updn", "fresh": None}))[0] == 0
    assert config.read_text() == TEXT


@pytest.mark.parametrize("values", [{"a": "1\n2"}, {"a": ""}, {"a": " b"}, {"a b": "1"}, {"a=b": "1"}, {"a": "\x00"}])
def test_what_would_not_stay_on_its_line_never_reaches_the_shell(values):
    """ValueError before anything is sent."""
    with pytest.raises(ValueError, match=r"key|line"):
        subnet_manager.edit_conf("/etc/opensm/opensm.conf", "/etc/opensm/backup", values)


def test_hostile_file_names_are_only_names(tmp_path):
    """Blanks, quotes and a leading dash."""
    folder = tmp_path / "a 'b' $(touch x) -d"
    folder.mkdir()
    config = folder / "-conf"
    config.write_text(TEXT)
    assert run(subnet_manager.edit_conf(str(config), f"{config}.old", {"shield_mode": "0"}))[0] == 0
    assert run(subnet_manager.edit_conf("-conf", "-conf.old", {"shield_mode": "2"}), cwd=folder)[0] == 0
    assert management.parse_conf(config.read_text())["shield_mode"] == "2"
    assert run(subnet_manager.undo_conf("-conf", "-conf.old", {"shield_mode": "1"}), cwd=folder)[0] == 0
    assert run(subnet_manager.drop_backup("-conf", "-conf.old"), cwd=folder)[0] == 0
    assert [path.name for path in folder.iterdir()] == ["-conf"]
    assert config.read_text() == TEXT


def test_two_that_edit_at_the_same_time_lose_nothing(place):
    """Each waits for the other: both keys are there in the end."""
    config, _ = place
    results = []

    def edit(name):
        for number in range(5):
            argv = subnet_manager.edit_conf(str(config), f"{config}.{name}", {name: str(number)})
            results.append(run(argv)[0])

    threads = [threading.Thread(target=edit, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = management.parse_conf(config.read_text())
    assert (results, found["one"], found["two"]) == ([0] * 10, "4", "4")


def test_a_guard_gets_the_same_command_back_from_its_line(place):
    """``eval "set -- $line"`` of what it keeps, and the file is edited and put back."""
    config, backup = place
    value = """it's "$HOME" \\ `x`"""
    for argv, wanted in (
        (subnet_manager.edit_conf(str(config), str(backup), {"routing_engine": value}), value),
        (subnet_manager.undo_conf(str(config), str(backup), {"routing_engine": "updn"}), "updn"),
    ):
        line = guard.steps_text([argv])
        status, said = run(("sh", "-c", 'eval "set -- $1"; "$@"', "guard", line))
        assert (status, management.parse_conf(config.read_text())["routing_engine"]) == (0, wanted), said


TWO = {"a": {"ar_key": "1", "routing_engine": "ar_updn"}, "b": {"shield_key": "2", "shield_mode": "0"}}


@pytest.mark.parametrize("text", [TEXT.rstrip("\n"), "", "shield_mode 1\nshield_mode\t2\n\n"])
@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("backups", ["kept", "lost"])
def test_two_overlapping_changes_are_undone_in_either_order_and_the_file_is_as_it_was(place, text, order, backups):
    """Byte for byte while the copies are there; each leaves the other's keys alone. Without them, by their values."""
    config, _ = place
    config.write_text(text)
    before = {}
    for name in "ab":
        there = management.parse_conf(config.read_text())
        before[name] = {key: there.get(key) for key in TWO[name]}
        assert run(subnet_manager.edit_conf(str(config), f"{config}.{name}", TWO[name]))[0] == 0
    for name, other in zip(order, reversed(order), strict=True):
        if backups == "lost":
            Path(f"{config}.{name}").unlink()
        argv = subnet_manager.undo_conf(str(config), f"{config}.{name}", before[name])
        assert run(argv) == (0, f"undone {config}\n")
        assert run(subnet_manager.conf_without(str(config), f"{config}.{name}", before[name]))[0] == 0
        there = management.parse_conf(config.read_text())
        if name == order[0]:
            assert TWO[other].items() <= there.items()
    if backups == "kept":
        assert config.read_text() == text
    else:
        assert management.parse_conf(config.read_text()) == management.parse_conf(text)


def test_a_key_that_is_still_there_is_not_called_absent(place):
    """The check of an undo that removes a line can fail."""
    config, backup = place
    assert run(subnet_manager.edit_conf(str(config), str(backup), {"fresh": "1"}))[0] == 0
    status, said = run(subnet_manager.conf_without(str(config), str(backup), {"fresh": None, "shield_mode": "1"}))
    assert (status, "was not there before" in said) == (1, True)


@pytest.mark.parametrize("text", [GUARD, one_line("nvue.sh"), one_line("opensm_conf.sh")])
def test_a_text_can_be_read_by_sh(text: str) -> None:
    """As it is sent: whole, or in one line."""
    assert subprocess.run(["sh", "-n", "-c", text], capture_output=True, timeout=20, check=False).stderr == b""


def test_comments_are_not_sent() -> None:
    """They are for whoever reads the file."""
    assert not any(line.startswith("#") for line in text_of("guard.sh").splitlines())
    assert "\n" not in one_line("nvue.sh")
