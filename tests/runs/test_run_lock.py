"""One run of a scenario and on a host at a time; what is read from a results folder is a regular, bounded file."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from fabric.errors import ConfigError, StoreError
from fabric.runs.plain_file import (
    MIB,
    NotPlain,
    open_plain,
    plain_stream,
    read_plain,
    whole_lines,
    writing,
)
from fabric.runs.run_directory import RunDirectory, run_folders, run_path
from fabric.runs.run_lock import FILE, holder_of, holding, running
from tests.runs.other_account import place, shut


def test_a_second_run_on_a_host_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    with (
        holding(tmp_path, "s", ["h1"], run="one"),
        pytest.raises(StoreError, match=r"s/one is going on .* holds h1: .* fabric status"),
        holding(tmp_path, "s", ["h1", "h2"]),
    ):
        pass


@pytest.mark.parametrize("file", ["r", "r/s"])
def test_a_file_where_runs_should_lie_is_the_command_lines_mistake(tmp_path: Path, file: str) -> None:
    """The fabric and its hosts have nothing to do with it, so that the exit code is 2; the file is named."""
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with (
        pytest.raises(ConfigError, match=f"{tmp_path / file}: expected a folder, got a file"),
        holding(tmp_path / "r", "s", ["h1"]),
    ):
        pass


def test_parts_of_a_fleet_are_measured_at_once_into_one_folder(tmp_path: Path) -> None:
    """Each of them is known to go on; a third one that has a host of theirs is refused."""
    one, two = tmp_path / "s" / "one", tmp_path / "s" / "two"
    with holding(tmp_path, "s", ["h1"], run="one"):
        with holding(tmp_path, "s", ["h2"], run="two"):
            assert running(one)
            assert running(two)
            with pytest.raises(StoreError, match="s/two is going on"), holding(tmp_path, "s", ["h2", "h3"]):
                pass
        assert (running(one) is not None, running(two)) == (True, None)


def test_a_run_of_another_scenario_on_the_same_host_is_refused_and_the_host_is_named(tmp_path: Path) -> None:
    with (
        holding(tmp_path, "s", ["h1", "h2", "h3"], run="one"),
        pytest.raises(StoreError, match=r"holds h\[2-3\]"),
        holding(tmp_path, "t", ["h2", "h3", "h4"]),
    ):
        pass
    assert not (tmp_path / "t" / FILE).exists()


def test_who_runs_a_run_is_known_by_its_name_only(tmp_path: Path) -> None:
    with holding(tmp_path, "s", ["h1"]) as lock:
        lock.names(tmp_path / "s" / "one")
        found = running(tmp_path / "s" / "one")
        assert found is not None
        assert found.pid == os.getpid()
        assert running(tmp_path / "s" / "two") is None
    assert running(tmp_path / "s" / "one") is None


KEEPS_IT = """
import sys, time
from pathlib import Path
from fabric.runs.run_lock import holding
with holding(Path(sys.argv[1]), "s", ["h1"], run="dead"):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_lock_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KEEPS_IT, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        found = running(tmp_path / "s" / "dead")
        assert found is not None
        assert found.pid == other.pid
        with pytest.raises(StoreError, match=f"process {other.pid}, since .* holds h1"), holding(tmp_path, "t", ["h1"]):
            pass
        other.kill()
        other.wait()
    assert running(tmp_path / "s" / "dead") is None
    with holding(tmp_path, "s", ["h1"]):
        pass


def test_a_holder_on_another_machine_refuses_until_a_person_removes_its_lock(tmp_path: Path) -> None:
    """Its flock may not be seen from here; it says who holds it, since when, and how to remove it."""
    lock = tmp_path / "s" / FILE
    lock.parent.mkdir()
    lock.write_bytes(orjson.dumps({"run": "s/far", "machine": "login2", "pid": 1, "since": "noon", "hosts": ["h1"]}))
    with pytest.raises(StoreError) as refused, holding(tmp_path, "t", ["h1"]):
        pass
    assert "s/far is going on (login2, process 1, since noon) and holds h1" in str(refused.value)
    assert str(refused.value).endswith(f"where login2 certainly runs it no more: rm {lock}")
    lock.unlink()
    with holding(tmp_path, "t", ["h1"]):
        pass


def test_a_lock_that_is_held_and_cannot_be_read_holds_its_scenario(tmp_path: Path) -> None:
    with holding(tmp_path, "s", ["h1"]):
        (tmp_path / "s" / FILE).write_text("torn {")
        with pytest.raises(StoreError, match="is of the same scenario"), holding(tmp_path, "s", ["h2"]):
            pass
    assert holder_of(tmp_path / "s" / FILE) is None


def test_who_is_at_work_is_known_in_the_run_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "s" / "one")
    with holding(tmp_path, "s", ["h1"], run="one"):
        assert running(Path()) is not None
    assert running(Path()) is None


__all__ = ["place"]


def runs(results: Path, *names: str) -> list[Path]:
    """Folders of runs with nothing in them but the file that makes them one."""
    made = []
    for name in names:
        (results / name).mkdir(parents=True)
        (results / name / "run.json").write_text("{}")
        made.append(results / name)
    return made


def test_runs_begun_at_once_in_different_results_have_ids_of_their_own(tmp_path: Path) -> None:
    """Guards know by it whose change they hold."""
    made = [RunDirectory.create(tmp_path / str(number), "drill", {}) for number in range(20)]
    for one in made:
        one.close()
    names = [one.path.name for one in made]
    assert sorted(set(names)) == names


def test_every_run_is_found_once_and_in_order(tmp_path: Path) -> None:
    wanted = runs(tmp_path, "a/1", "a/2", "b/1")
    (tmp_path / "a" / "latest").symlink_to("2")
    (tmp_path / "a" / "3").mkdir()
    (tmp_path / "notes.txt").touch()
    found = run_folders(tmp_path)
    assert (found.runs, found.closed) == (wanted, {})


def test_a_shut_scenario_and_a_shut_run_are_told_beside_the_others(place: Path) -> None:
    first, second, third = runs(place, "a/1", "a/2", "b/1")
    with shut(second, third.parent):
        found = run_folders(place)
    assert found.runs == [first]
    assert found.closed == {second: "Permission denied", third.parent: "Permission denied"}


def test_a_run_that_is_meant_and_shut_is_not_said_to_be_none(place: Path) -> None:
    (run,) = runs(place, "a/1")
    for named, closed in ((run, run), (run.parent, run.parent), (run.parent, run)):
        with shut(closed), pytest.raises(ConfigError, match="cannot read: Permission denied"):
            run_path(named)
    assert run_path(run.parent) == run


_SECRET = "root:$6$canary"


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def _link_to_file(path: Path) -> None:
    path.with_name("secret").write_text(_SECRET)
    path.symlink_to(path.with_name("secret"))


def _link_to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


KINDS = [
    (_fifo, "a FIFO"),
    (_socket, "a socket"),
    (Path.mkdir, "a directory"),
    (_link_to_file, "a link"),
    (_link_to_zero, "a link"),
    (_dangling, "a link"),
    (_loop, "a link"),
]


@pytest.mark.parametrize(("make", "what"), KINDS)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_APPEND, os.O_RDWR | os.O_CREAT])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, make, what: str, flags: int) -> None:
    """Nothing but a regular file is opened, to be read or to be written, and the refusal says what it is and where."""
    path = tmp_path / "events.jsonl"
    make(path)
    with pytest.raises(NotPlain) as refused:
        open_plain(path, flags)
    assert refused.value.strerror == f"not a plain file ({what})"
    assert refused.value.filename == str(path)


def test_a_device_is_refused() -> None:
    """A device is not even opened: opening some of them does something."""
    with pytest.raises(NotPlain, match="a device"):
        read_plain(Path("/dev/zero"), MIB)


def test_a_link_that_appears_after_the_look_is_refused(tmp_path: Path) -> None:
    """A file that turns into a link between the look at it and its opening is not followed."""
    path = tmp_path / "one"
    secret = tmp_path / "secret"
    secret.write_text(_SECRET)
    swap = (
        "import os, sys\n"
        "a, b, c = sys.argv[1:]\n"
        "while True:\n"
        "    open(b, 'w').close(); os.rename(b, a); os.symlink(c, b); os.rename(b, a)\n"
    )
    path.write_text("")
    with subprocess.Popen([sys.executable, "-c", swap, path, tmp_path / "two", secret]) as swapping:
        try:
            for _ in range(2_000):
                with suppress(NotPlain):
                    assert read_plain(path, MIB) == b""
        finally:
            swapping.kill()


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    """A file of just the size that is allowed is read, an empty one too."""
    path = tmp_path / "one"
    path.write_bytes(b"")
    assert read_plain(path, 0) == b""
    path.write_bytes(b"x" * 1_000)
    assert read_plain(path, 1_000) == b"x" * 1_000
    assert read_plain(str(path), 5_000) == b"x" * 1_000


def test_a_file_larger_than_the_bound_is_refused(tmp_path: Path) -> None:
    """One byte more than allowed is too large, and so is a sparse file of 20 GiB, of which nothing is read."""
    path = tmp_path / "one"
    path.write_bytes(b"x" * 1_001)
    with pytest.raises(NotPlain, match="larger than 1000 bytes"):
        read_plain(path, 1_000)
    os.truncate(path, 20 << 30)
    with pytest.raises(NotPlain, match="larger than 64 MiB"):
        read_plain(path, 64 * MIB)


@pytest.mark.slow
def test_a_file_that_grows_while_it_is_read_is_bounded(tmp_path: Path) -> None:
    """A file that grows faster than it is read does not make the answer larger than the bound."""
    path = tmp_path / "one"
    path.write_bytes(b"")
    grow = "import sys\nwith open(sys.argv[1], 'ab', 0) as one:\n    [one.write(bytes(1 << 18)) for _ in range(400)]\n"
    with subprocess.Popen([sys.executable, "-c", grow, path]) as growing:
        try:
            while growing.poll() is None:
                with suppress(NotPlain):
                    assert len(read_plain(path, 8 * MIB)) <= 8 * MIB
        finally:
            growing.kill()


def test_a_descriptor_is_not_left_open_by_a_refusal(tmp_path: Path) -> None:
    """A thousand refusals leave no descriptor behind."""
    _fifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"xx")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(200):
        for name in ("fifo", "large", "none"):
            with pytest.raises(OSError, match=name):
                read_plain(tmp_path / name, 1)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_line_is_bounded(tmp_path: Path) -> None:
    """Lines come one by one with their ends; one that is longer than allowed is refused."""
    path = tmp_path / "one"
    path.write_bytes(b"123\n\n1234\n12")
    with plain_stream(path) as file:
        assert list(whole_lines(file, path, 5)) == [b"123\n", b"\n", b"1234\n", b"12"]
    with plain_stream(path) as file, pytest.raises(NotPlain, match="a line larger than 4 bytes"):
        list(whole_lines(file, path, 4))


def test_what_is_written_anew_is_a_plain_file(tmp_path: Path) -> None:
    """A link is not written through, a FIFO is not waited for."""
    secret = tmp_path / "secret"
    secret.write_text(_SECRET)
    (tmp_path / "link").symlink_to(secret)
    _fifo(tmp_path / "fifo")
    for name in ("link", "fifo"):
        with pytest.raises(NotPlain):
            writing(tmp_path / name)
    assert secret.read_text() == _SECRET
    with writing(tmp_path / "new") as file:
        file.write(b"x")
    assert (tmp_path / "new").read_bytes() == b"x"
