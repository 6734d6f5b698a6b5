"""The agent as it is sent to hosts: both forms of it begin an agent, and the right one is taken."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from fabric.agent.bundle import program, receiving_argv

LIMIT_S = 20.0
OURS = importlib.util.MAGIC_NUMBER.hex()
ANOTHER = "00000000"


def first_word(sent: bytes, magic: str) -> subprocess.CompletedProcess[bytes]:
    """What an agent says that is told so little, by a Python to which *magic* is announced."""
    argv = (sys.executable, *receiving_argv("n0nce", LIMIT_S)[1:-1], magic)
    return subprocess.run(argv, input=sent, capture_output=True, timeout=LIMIT_S, check=False)


def without_source() -> bytes:
    """The program whose source is of the right size and no program."""
    size = int(receiving_argv("n0nce", LIMIT_S)[6])
    return bytes(size) + program()[size:]


@pytest.mark.parametrize("magic", [OURS, ANOTHER])
def test_an_agent_begins_from_code_and_from_source(magic: str):
    """A Python like ours runs the code that comes along, any other compiles the source."""
    assert first_word(program(), magic).stdout.startswith(b'fabric-agent-n0nce {"e":"hello"')


def test_a_python_like_ours_compiles_nothing():
    """It would cost half of the agent's start."""
    assert first_word(without_source(), OURS).stdout.startswith(b'fabric-agent-n0nce {"e":"hello"')


def test_another_python_takes_no_foreign_code():
    """What ours has compiled would crash it."""
    assert first_word(without_source(), ANOTHER).returncode == 1
