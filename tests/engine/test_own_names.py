"""What hosts call themselves, asked where a tool names them otherwise than the inventory does."""

from __future__ import annotations

from fabric.engine.probe_run import NAME_WORDS, roll_call_problem
from fabric.model.command import Command, CommandResult


def answered(names: dict[str, str], host: str, status: int, said: str) -> str:
    """A host answers its own name; what is wrong with that."""
    return roll_call_problem(CommandResult(Command(host, NAME_WORDS, 15.0), status, said, "", 0.0, 1.0), names)


def test_each_host_is_asked_and_remembered() -> None:
    """By its name in the inventory."""
    names: dict[str, str] = {}
    assert answered(names, "gpu001", 0, "node-01.rack.example\n") == ""
    assert answered(names, "gpu002", 0, "node-02\n") == ""
    assert names == {"gpu001": "node-01.rack.example", "gpu002": "node-02"}


def test_a_host_without_the_program_is_there_and_its_name_stays_unknown() -> None:
    """It answered; what it calls itself is not guessed."""
    names: dict[str, str] = {}
    assert (answered(names, "gpu001", 127, ""), names) == ("", {})
