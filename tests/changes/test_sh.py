"""What is run on a target is sh that any shell can read."""

from __future__ import annotations

import subprocess

import pytest

from fabric.changes.guard import GUARD
from fabric.changes.sh import one_line, text_of


@pytest.mark.parametrize("text", [GUARD, one_line("nvue.sh"), one_line("opensm_conf.sh")])
def test_a_text_can_be_read_by_sh(text: str) -> None:
    """As it is sent: whole, or in one line."""
    assert subprocess.run(["sh", "-n", "-c", text], capture_output=True, timeout=20, check=False).stderr == b""


def test_comments_are_not_sent() -> None:
    """They are for whoever reads the file."""
    assert not any(line.startswith("#") for line in text_of("guard.sh").splitlines())
    assert "\n" not in one_line("nvue.sh")
