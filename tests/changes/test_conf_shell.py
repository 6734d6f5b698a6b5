"""The shell texts that look around and edit files on targets, also between NVUE's commands, run by the real sh."""

import os
import resource
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.changes import guard, nvue, one_line, text_of
from fabric.changes.guard import GUARD
from fabric.changes.subnet_manager import conf_call
from fabric.model.change import Argv
from fabric.tools import management
from fabric.tools.nvue import AR, Setting, stage_set, stage_unset

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
    status, said = run(conf_call("set", str(config), str(backup), {"routing_engine": "ar_updn", "pfrn_sl": "3"}))
    assert (status, said) == (0, f"set {config}\n")
    assert config.read_text() == TEXT.replace("routing_engine updn", "routing_engine ar_updn") + "pfrn_sl 3\n"
    assert (backup.read_text(), config.stat().st_mode & 0o777, backup.stat().st_mode & 0o777) == (TEXT, 0o640, 0o640)
    assert sorted(path.name for path in config.parent.iterdir()) == [config.name, backup.name]


def test_the_first_copy_is_kept(place):
    """A second edit does not copy what the first one made; undo puts back what was there before both."""
    config, backup = place
    for value in ("ar_updn", "ar_ftree"):
        assert run(conf_call("set", str(config), str(backup), {"routing_engine": value}))[0] == 0
    assert management.parse_conf(config.read_text())["routing_engine"] == "ar_ftree"
    undo = conf_call("undo", str(config), str(backup), {"routing_engine": "updn"})
    assert run(undo) == (0, f"undone {config}\n")
    assert config.read_text() == TEXT


def test_a_symbolic_link_is_refused(place):
    """Renaming over it would leave two files where there was one."""
    config, backup = place
    link = config.parent / "link.conf"
    link.symlink_to(config)
    status, said = run(conf_call("set", str(link), str(backup), {"shield_mode": "0"}))
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
    argv = conf_call("set", str(config), str(backup), wanted)
    status, said = run(argv, preexec_fn=small_files, restore_signals=False)
    assert (status, "fabric-conf: " in said) == (1, True)
    assert config.read_text() == long
    assert {path.name for path in config.parent.iterdir()} <= {config.name, backup.name}
    assert run(conf_call("undo", str(config), str(backup), {"routing_engine": "updn", "new_key": None}))[0] == 0
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
    argv = conf_call("set", str(config), str(backup), {"routing_engine": "ar_updn"})
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
    argv = conf_call("set", str(config), f"{config}.fabric-0", {"shield_mode": "0"})
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
    assert run(conf_call("set", str(config), str(backup), {"routing_engine": value, "fresh": value}))[0] == 0
    found = management.parse_conf(config.read_text())
    assert (found["routing_engine"], found["fresh"], found["ar_sl_mask"]) == (value, value, "0xFFFF")
    assert run(("grep", "-E", management.conf_equals("fresh", value), str(config)))[0] == 0
    assert run(conf_call("undo", str(config), str(backup), {"routing_engine": "updn", "fresh": None}))[0] == 0
    assert config.read_text() == TEXT


@pytest.mark.parametrize("values", [{"a": "1\n2"}, {"a": ""}, {"a": " b"}, {"a b": "1"}, {"a=b": "1"}, {"a": "\x00"}])
def test_what_would_not_stay_on_its_line_never_reaches_the_shell(values):
    """ValueError before anything is sent."""
    with pytest.raises(ValueError, match=r"key|line"):
        conf_call("set", "/etc/opensm/opensm.conf", "/etc/opensm/backup", values)


def test_hostile_file_names_are_only_names(tmp_path):
    """Blanks, quotes and a leading dash."""
    folder = tmp_path / "a 'b' $(touch x) -d"
    folder.mkdir()
    config = folder / "-conf"
    config.write_text(TEXT)
    assert run(conf_call("set", str(config), f"{config}.old", {"shield_mode": "0"}))[0] == 0
    assert run(conf_call("set", "-conf", "-conf.old", {"shield_mode": "2"}), cwd=folder)[0] == 0
    assert management.parse_conf(config.read_text())["shield_mode"] == "2"
    assert run(conf_call("undo", "-conf", "-conf.old", {"shield_mode": "1"}), cwd=folder)[0] == 0
    assert run(conf_call("drop", "-conf", "-conf.old"), cwd=folder)[0] == 0
    assert [path.name for path in folder.iterdir()] == ["-conf"]
    assert config.read_text() == TEXT


def test_two_that_edit_at_the_same_time_lose_nothing(place):
    """Each waits for the other: both keys are there in the end."""
    config, _ = place
    results = []

    def edit(name):
        for number in range(5):
            argv = conf_call("set", str(config), f"{config}.{name}", {name: str(number)})
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
        (conf_call("set", str(config), str(backup), {"routing_engine": value}), value),
        (conf_call("undo", str(config), str(backup), {"routing_engine": "updn"}), "updn"),
    ):
        line = guard.steps_text([argv])
        status, said = run(("sh", "-c", 'eval "set -- $1"; "$@"', "guard", line))
        assert (status, management.parse_conf(config.read_text())["routing_engine"]) == (0, wanted), said


TWO = {"a": {"ar_key": "1", "routing_engine": "ar_updn"}, "b": {"shield_key": "2", "shield_mode": "0"}}


@pytest.mark.slow
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
        assert run(conf_call("set", str(config), f"{config}.{name}", TWO[name]))[0] == 0
    for name, other in zip(order, reversed(order), strict=True):
        if backups == "lost":
            Path(f"{config}.{name}").unlink()
        argv = conf_call("undo", str(config), f"{config}.{name}", before[name])
        assert run(argv) == (0, f"undone {config}\n")
        gone = {key: None for key, value in before[name].items() if value is None}
        assert run(conf_call("absent", str(config), f"{config}.{name}", gone))[0] == 0
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
    assert run(conf_call("set", str(config), str(backup), {"fresh": "1"}))[0] == 0
    status, said = run(conf_call("absent", str(config), str(backup), {"fresh": None}))
    assert (status, "was not there before" in said) == (1, True)


@pytest.mark.parametrize("text", [GUARD, one_line("nvue.sh"), one_line("opensm_conf.sh")])
def test_a_text_can_be_read_by_sh(text: str) -> None:
    """As it is sent: whole, or in one line."""
    assert subprocess.run(["sh", "-n", "-c", text], capture_output=True, timeout=20, check=False).stderr == b""


def test_comments_are_not_sent() -> None:
    """They are for whoever reads the file."""
    assert not any(line.startswith("#") for line in text_of("guard.sh").splitlines())
    assert "\n" not in one_line("nvue.sh")


# Keeps what is applied, staged and waiting in files of its folder (a default as -); answers as NVUE does.
NV = r"""#!/bin/sh
cd "$NV" && . ./place || exit 1
echo "$*" >>log
case "$*" in
"show $path -o json") printf '{\n  "%s": "%s"\n}\n' "$key" "$(sed "s/^-/$off/" applied)" ;;
"config show -o commands")
    [ ! -e broken ] || exit 0; echo "nv set system hostname leaf0"
    value=$(cat applied); [ "$value" = - ] || echo "nv set $path $key $value" ;;
"config diff") [ ! -e broken ] || { echo "nvued is not running" >&2; exit 1; }; cat staged 2>/dev/null; exit 0 ;;
"set $path $key "*|"unset $path $key")
    value=-; [ "$1" = unset ] || value=${*##* }
    [ "$value" != "$(cat applied)" ] || { rm -f staged; exit 0; }
    pad='  '; echo "- $1:" >staged
    for word in $path; do
        pad="$pad  "; case $word in [0-9]*) word="'$word'" ;; esac; echo "$pad$word:" >>staged
    done
    echo "$pad  $key: $value" >>staged
    echo "$value" >next ;;
"config apply --confirm-yes") [ -e waits ] || exit 1; rm waits ;;
"config apply -m "*) [ ! -e refuses ] || exit 1; cp next applied; rm staged ;;
*) exit 64 ;;
esac
"""
KEYS = {
    "routing": Setting("enable", "on"),
    "routing since 5.15": Setting("state", "enabled"),
    "ECN": Setting("ecn", "enable", ("qos", "congestion-control", "default-global", "traffic-class", "3")),
    "PFC": Setting("tx", "enable", ("qos", "pfc", "default-global")),
}


@pytest.fixture(params=KEYS)
def on(request: pytest.FixtureRequest) -> Setting:
    """A key that a switch is set to."""
    return KEYS[request.param]


@pytest.fixture
def off(on: Setting) -> Setting:
    """The same, switched off."""
    return on.turned(on=False)


@pytest.fixture
def switch(tmp_path: Path, on: Setting) -> Path:
    """A switch on which the key is on, set by somebody."""
    (tmp_path / "nv").write_text(NV)
    (tmp_path / "nv").chmod(0o755)
    (tmp_path / "place").write_text(f"path='{' '.join(on.path)}' key={on.key} off={on.turned(on=False).value}\n")
    (tmp_path / "applied").write_text(f"{on.value}\n")
    return tmp_path


def told(verb: str, setting: Setting, how: str = "set") -> Argv:
    """``seen`` or ``stage`` of a key."""
    return nvue.shell(verb, setting.path, setting.key, setting.value, how)


def run_on_switch(switch: Path, argv: Argv) -> tuple[int, str]:
    """The exit status, and what was said."""
    env = {"PATH": f"{switch}:{os.environ['PATH']}", "NV": str(switch)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


def log(switch: Path) -> list[str]:
    """What nv was told, without looking."""
    lines = (switch / "log").read_text().splitlines()
    return [line for line in lines if line not in ("config diff", "config show -o commands") and line[:4] != "show"]


def test_nothing_pending_is_clean_and_anything_is_not(switch: Path, off: Setting) -> None:
    assert run_on_switch(switch, nvue.shell("clean", off.path))[0] == 0
    run_on_switch(switch, stage_set(off))
    status, said = run_on_switch(switch, nvue.shell("clean", off.path))
    assert (status, "edits that were not applied" in said) == (1, True)


def test_what_the_switch_says_decides(switch: Path, on: Setting, off: Setting) -> None:
    assert run_on_switch(switch, told("seen", on))[0] == 0
    status, said = run_on_switch(switch, told("seen", off))
    assert (status, said) == (1, f"fabric-nvue: {' '.join(off.path)} {off.key} is not {off.value} after the commit\n")


@pytest.mark.slow
@pytest.mark.parametrize("explicit", [True, False])
def test_an_undo_stages_what_was_seen_and_applies_it(switch: Path, off: Setting, explicit: bool) -> None:
    how = "set" if explicit else "unset"
    for _ in range(2):  # may be run twice
        assert run_on_switch(switch, told("stage", off, how))[0] == 0
        assert run_on_switch(switch, nvue.shell("commit", off.path, "fabric 01 undone"))[0] == 0
        assert (switch / "applied").read_text() == (f"{off.value}\n" if explicit else "-\n")
    first, confirm, last = log(switch)
    assert first == " ".join((stage_set if explicit else stage_unset)(off)[1:])
    assert (confirm, last) == ("config apply --confirm-yes", "config apply -m fabric 01 undone -y")


def test_where_nothing_was_altered_nothing_is_undone(switch: Path, on: Setting) -> None:
    assert run_on_switch(switch, told("stage", on)) == (0, "nothing to undo\n")
    assert log(switch) == []


def test_what_was_only_staged_is_staged_back(switch: Path, on: Setting, off: Setting) -> None:
    run_on_switch(switch, stage_set(off))
    assert run_on_switch(switch, told("stage", on))[0] == 0
    assert run_on_switch(switch, nvue.shell("commit", on.path, "fabric 01 undone")) == (0, "committed\n")
    assert not (switch / "staged").exists()


@pytest.mark.parametrize("verb", ["stage", "commit"])
def test_edits_of_somebody_else_are_not_carried_along(switch: Path, on: Setting, off: Setting, verb: str) -> None:
    run_on_switch(switch, stage_set(off))
    ours = (switch / "staged").read_text()
    (switch / "staged").write_text(f"- set:\n    system:\n      hostname: half-done\n    router:\n      bgp:\n{ours}")
    (switch / "log").unlink()
    argv = told("stage", on) if verb == "stage" else nvue.shell("commit", on.path, "fabric 01")
    status, said = run_on_switch(switch, argv)
    assert status == 1
    rest = "system: hostname: half-done bgp:" if on.path == AR else "system: hostname: half-done router: bgp:"
    assert f"would be applied with ours: {rest}" in said
    assert log(switch) == []


def test_edits_of_somebody_else_keep_no_undo_from_being_done_where_nothing_is_ours(switch: Path, on: Setting) -> None:
    (switch / "staged").write_text("- set:\n    system:\n      hostname: half-done\n")
    assert run_on_switch(switch, told("stage", on)) == (0, "nothing to undo\n")
    assert run_on_switch(switch, nvue.shell("commit", on.path, "fabric 01 undone")) == (0, "committed\n")
    assert log(switch) == []


def test_edits_of_somebody_else_stop_an_undo_where_ours_is_applied(switch: Path, off: Setting) -> None:
    (switch / "staged").write_text("- set:\n    system:\n      hostname: half-done\n")
    status, said = run_on_switch(switch, told("stage", off))
    assert (status, "hostname: half-done" in said, log(switch)) == (1, True, [])


def test_a_switch_that_cannot_say_what_waits_is_left_alone(switch: Path, off: Setting) -> None:
    (switch / "broken").touch()
    for how in ("set", "unset"):
        status, said = run_on_switch(switch, told("stage", off, how))
        assert (status, "nvued is not running" in said, log(switch)) == (1, True, [])


@pytest.mark.parametrize("on", [KEYS["ECN"], KEYS["PFC"]], ids=["ECN", "PFC"])
def test_a_default_of_the_configuration_is_what_no_command_sets(switch: Path, on: Setting) -> None:
    """And whoever prints no command at all has said nothing."""
    assert run_on_switch(switch, told("seen", on, "unset"))[0] == 1
    (switch / "applied").write_text("-\n")
    assert run_on_switch(switch, told("seen", on, "unset")) == (0, f"nv unset {' '.join(on.path)} {on.key}\n")
    assert run_on_switch(switch, told("stage", on, "unset")) == (0, "nothing to undo\n")
    (switch / "broken").touch()
    assert run_on_switch(switch, told("seen", on, "unset"))[0] == 1
