"""Procedures move on by what they are told, each by its own answers, and their errors reach whoever moved them."""

from __future__ import annotations

import pytest

from fabric.changes.procedure import Conductor, Procedure, ask, carry_out, pause
from fabric.errors import CommandTimeout, HostUnreachable
from tests.engine.scripted import Script, ScriptedExecutor


def said(text: str) -> Script:
    """Every command says this after a second."""
    return lambda command: (1.0, f"{text} {command.host}")


def test_a_timeout_says_what_the_command_said_last() -> None:
    """The last line of stderr often tells why nothing came."""
    queued = "srun: job 7 queued and waiting for resources\n\n"
    assert str(CommandTimeout("h", 60.0, "", queued)) == (
        "h: no answer within 60 s; its last words: srun: job 7 queued and waiting for resources"
    )


def test_each_procedure_gets_the_answers_of_its_own_commands() -> None:
    heard: list[str] = []

    def two(host: str) -> Procedure[None]:
        for _ in range(2):
            heard.append((yield from ask(host, ("say",))).stdout)

    carry_out([two("gpu001"), two("gpu002")], ScriptedExecutor(said("this is")))
    assert sorted(heard) == ["this is gpu001"] * 2 + ["this is gpu002"] * 2


def test_a_wake_ends_every_pause_at_once() -> None:
    conductor = Conductor(ScriptedExecutor(said("")))
    times: list[float] = []

    def wait() -> Procedure[None]:
        times.append((yield from pause(1e9)))

    conductor.begin(wait())
    conductor.wake()
    assert times == [0.0]
    assert not conductor.busy


def test_an_error_of_one_procedure_leaves_the_others_to_be_moved_on() -> None:
    executor = ScriptedExecutor(said(""))
    conductor = Conductor(executor)
    ended: list[str] = []

    def broken() -> Procedure[None]:
        yield from pause(1.0)
        raise ZeroDivisionError

    def sound() -> Procedure[None]:
        yield from pause(2.0)
        ended.append("sound")

    conductor.begin(broken())
    conductor.begin(sound())
    executor.wait(1.0)
    with pytest.raises(ZeroDivisionError):
        conductor.fire()
    executor.wait(2.0)
    conductor.fire()
    assert ended == ["sound"]
    assert not conductor.busy


def test_what_is_not_waited_for_any_more_is_cancelled_and_its_procedure_told() -> None:
    executor = ScriptedExecutor(lambda command: (0.0, None))
    conductor = Conductor(executor)
    caught: list[str] = []

    def waiting() -> Procedure[None]:
        try:
            yield from ask("gpu001", ("hang",))
        except CommandTimeout as exc:
            caught.append(str(exc))

    procedure = waiting()
    conductor.begin(procedure)
    conductor.give_up(procedure, CommandTimeout("gpu001", 3.0))
    assert caught == ["gpu001: no answer within 3 s"]
    assert not conductor.busy
    (late,) = executor.wait(1.0)
    assert not conductor.take(late)


def test_silence_begins_with_the_first_question_that_got_no_answer() -> None:
    executor = ScriptedExecutor(lambda command: (1.0, HostUnreachable("gpu001", "connect", "no route")))
    conductor = Conductor(executor)

    def stubborn() -> Procedure[None]:
        while True:
            try:
                yield from ask("gpu001", ("renew",))
            except HostUnreachable:
                yield from pause(executor.now() + 1.0)

    conductor.begin(stubborn())
    for _ in range(3):
        for happening in executor.wait(executor.now() + 1.0):
            conductor.take(happening)
        conductor.fire()
    (silence,) = conductor.silences
    assert (silence.since_s, silence.command.argv) == (0.0, ("renew",))
    assert executor.now() > 1.0
