"""What is read from a results folder is a regular file of a bounded size, or an error at once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from fabric.runs.plain_file import (
    MIB,
    NotPlain,
    open_plain,
    plain_stream,
    read_plain,
    whole_lines,
    writing,
)

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
