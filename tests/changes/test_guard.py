"""The calls of a guard as argv, and every answer that it can give, or that is none."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.changes.guard import (
    GUARD,
    Guard,
    GuardCannotWrite,
    GuardMissingTool,
    GuardUnclear,
    LeaseGone,
    Listed,
    NotUndone,
    StepFailed,
    UnknownChange,
    checks_text,
    steps_text,
)
from fabric.errors import ChangeError, Refused
from fabric.model.change import Alteration, Check, Lease
from fabric.model.command import Command, CommandResult

PLAIN = Guard("/run/fabric-guard")
WHAT = Alteration("h", (("a",),), (("port", "up"),), (Check(("port",), ("^up$",)),), "up", ("mlx5_0", "mlx5_1"))
WORDS = st.lists(st.text(st.characters(exclude_characters="\n\r\0")), max_size=5)


def _said(argv: tuple[str, ...], status: int, stdout: str, stderr: str = "") -> CommandResult:
    return CommandResult(Command("gpu001", argv, 20.0), status, stdout, stderr, 0.0, 1.0)


def test_values_arrive_beside_the_text_and_never_in_it() -> None:
    """One constant text, then the directory, the verb, and its arguments in the protocol's order."""
    argv = PLAIN.arm("x.1", owner="run", lease=Lease(2.5, 60), peer="192.0.2.7", what=WHAT)
    assert argv[:6] == ("sh", "-c", GUARD, "fabric-guard", "/run/fabric-guard", "arm")
    rest = ("x.1", "run", "2.50", "60.00", "192.0.2.7", "mlx5_0,mlx5_1", "port up", "'^up$' -- port", "")
    assert argv[6:] == rest


@given(st.lists(WORDS.map(lambda words: ("tool", *words)), max_size=4))
def test_steps_come_apart_again_as_they_were(steps: list[tuple[str, ...]]) -> None:
    """One line a step, whatever the words."""
    lines = steps_text(steps).split("\n") if steps else []
    assert [tuple(shlex.split(line)) for line in lines] == steps


@pytest.mark.parametrize("words", [("a\nb",), ("a", "b\0"), ("a", "\r"), (), ("",), ("", "x")])
def test_words_that_no_line_can_hold_are_refused(words: tuple[str, ...]) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match=r"line break|without a name"):
        steps_text([words])


@pytest.mark.parametrize("pattern", ["--", "", r"\d+", "(?i)up", "a*?", "up\n"])
def test_a_pattern_that_grep_would_read_otherwise_is_refused(pattern: str) -> None:
    """POSIX extended expressions only, and none that ends the list of patterns."""
    with pytest.raises(ValueError, match=r"pattern|line break"):
        checks_text([Check(("port",), (pattern,))])


@pytest.mark.parametrize("guard_id", ["", ".hidden", "a/b", "a b", "a\n", "é", "x" * 129, "-x;", "a:b"])
def test_a_name_that_is_no_folder_of_its_own_is_refused(guard_id: str) -> None:
    """It becomes a path on the target."""
    with pytest.raises(ValueError, match="guard's id"):
        PLAIN.revert(guard_id)


@pytest.mark.parametrize("owner", ["", "a b", "a\n", "x" * 256, "a'b"])
def test_an_owner_that_is_no_single_word_is_refused(owner: str) -> None:
    """It is a word of the list's lines."""
    with pytest.raises(ValueError, match="owner"):
        PLAIN.arm("x", owner=owner, lease=Lease(), peer="", what=WHAT)


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, float("inf"), float("nan"), 1e6])
def test_a_lease_that_no_clock_can_keep_is_refused(ttl_s: float) -> None:
    """Seconds, more than none and less than a million."""
    with pytest.raises(ValueError, match="lease"):
        PLAIN.renew("x", ttl_s)


def test_what_cannot_be_guarded_is_refused() -> None:
    """No undo, no device name, more than one argument can carry."""
    for what in (replace(WHAT, undo=()), replace(WHAT, devices=("",)), replace(WHAT, devices=("a,b",))):
        with pytest.raises(ValueError, match=r"undo|device"):
            PLAIN.arm("x", owner="run", lease=Lease(), peer="", what=what)
    with pytest.raises(ValueError, match="fit"):
        PLAIN.apply("x", (("echo", "x" * 130_000),))


ERRORS = [
    (71, "failed 1 port down", StepFailed, "a step ended with 1 port down"),
    (72, "unknown x", UnknownChange, "no change x is known here"),
    (73, "busy y owner other", Refused, "another change is held here: y owner other"),
    (74, "unwritable /d", GuardCannotWrite, "the guard cannot write: /d"),
    (75, "gone x", LeaseGone, "the lease of x is gone"),
    (76, "not-undone x", NotUndone, "x is not undone"),
    (77, "forbidden eth0 carries the session through eth0", Refused, "eth0 carries the session through eth0"),
    (78, "missing flock", GuardMissingTool, "there is no flock"),
]


@pytest.mark.parametrize(("status", "line", "kind", "text"), ERRORS)
def test_every_refusal_has_an_error_of_its_own(status: int, line: str, kind: type[ChangeError], text: str) -> None:
    """With the host, the words of the guard, and what the tools printed."""
    answer = _said(PLAIN.apply("x", (("a",),)), status, f"tool says\n\n{line}\n", "port: no answer\n")
    with pytest.raises(kind) as caught:
        PLAIN.read_applied(answer)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"gpu001: {text}")
    assert str(caught.value).endswith("port: no answer")


@pytest.mark.parametrize(
    ("status", "stdout"),
    [
        (0, ""),
        (0, "applied y\n"),
        (0, "reverted x\n"),
        (1, "applied x\n"),
        (127, "sh: not found\n"),
        (75, ""),
        (76, "gone x\n"),
    ],
)
def test_what_is_no_answer_of_the_guard_is_unclear(status: int, stdout: str) -> None:
    """Status and words must agree, and be about this change; nothing is guessed."""
    with pytest.raises(GuardUnclear, match=f"ended with {status}"):
        PLAIN.read_applied(_said(PLAIN.apply("x", (("a",),)), status, stdout))


def test_a_list_is_read_line_by_line() -> None:
    """Every field of an entry."""
    text = (
        "change a owner run/1 state applied left 12.30 guard alive boot same\n"
        "change b owner ? state torn left 0.00 guard dead boot other\n"
    )
    assert PLAIN.read_list(_said(PLAIN.list(), 0, text)) == (
        Listed("a", "run/1", "applied", 12.3, True, True),
        Listed("b", "?", "torn", 0.0, False, False),
    )
    assert PLAIN.read_list(_said(PLAIN.list(), 0, "")) == ()


@pytest.mark.parametrize("line", ["change a owner run state lost left 1.00 guard alive boot same", "hello", "change a"])
def test_a_line_of_a_list_that_is_none_is_unclear(line: str) -> None:
    """An entry that is skipped could be a change that is live."""
    with pytest.raises(GuardUnclear):
        PLAIN.read_list(_said(PLAIN.list(), 0, f"{line}\n"))
