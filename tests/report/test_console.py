"""The console says the verdict first, and never takes names or outputs for markup."""

from __future__ import annotations

from dataclasses import replace

import click

from fabric.model.change import Change, ChangeResult
from fabric.model.outcome import Outcome
from fabric.model.scenario import JudgeSettings, Scenario
from fabric.model.verdict import JudgedRun, ProbeVerdict, Suspect, Verdict
from fabric.report.console import verdict_text
from tests.changes.asked import port_flap

SCENARIO = Scenario("self-check", "", "s.yaml", "i.yaml", ("gpu001", "gpu002"), (), JudgeSettings())


def printed(verdict: Verdict, *, terminal: bool = False) -> str:
    """What a person sees."""
    judged = JudgedRun(SCENARIO, verdict, "r", "r", 61, "ssh", ("h100-ndr (b.yaml)",), "fabric report r")
    text = verdict_text(judged)
    return text if terminal else click.unstyle(text)


def failing(evidence: str, count: int = 1) -> Verdict:
    """A verdict with suspects that were said *evidence* about."""
    suspect = Suspect("gpu001/mlx5_0", "rnic", Outcome.FAIL, 1.0, (evidence,), ("gpu001/pcie0",), "reseat it")
    probe = ProbeVerdict("p", Outcome.FAIL, evidence)
    return Verdict(Outcome.FAIL, ("FAIL: 1 of 1 loopback on gpu001",), (suspect,) * count, (), (probe,))


def test_verdict_comes_first() -> None:
    """The first word is the outcome; the suspect, its rivals, the next step and the place follow."""
    text = printed(failing("slow"))
    assert text.startswith("FAIL  self-check on 2 hosts (gpu[001-002])")
    for part in ("1 min 01 s", "gpu001/mlx5_0", "cannot be told apart from: gpu001/pcie0", "reseat it", "report r"):
        assert part in text


def test_output_is_not_markup() -> None:
    """Square brackets in a tool's words are printed as they are."""
    assert "[bold red]no[/] [exit 1]" in printed(failing("[bold red]no[/] [exit 1]"))


def test_the_outcome_has_a_colour() -> None:
    assert printed(failing("slow"), terminal=True).startswith("\x1b[31m\x1b[1mFAIL\x1b[0m")


def test_control_characters_do_not_reach_the_terminal() -> None:
    """What a host printed cannot move the cursor or ring the bell."""
    text = printed(failing("evil \x1b[2J\x07\rtext"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\r" not in text


def test_many_suspects_are_counted_not_listed() -> None:
    """A long list ends with where to read on."""
    assert "and 5 more: see verdict.json" in printed(failing("slow", count=25))


def test_a_note_is_not_what_did_not_pass() -> None:
    verdict = replace(
        failing("slow"), reasons=("FAIL: 1 of 1 loopback on gpu001", "note: the cables were not looked at")
    )
    failed, _, noted = printed(verdict).partition("What did not pass")[2].partition("Also noted")
    assert "loopback" in failed
    assert "the cables were not looked at" in noted


def test_a_suspect_that_shares_the_blame_says_among_how_many() -> None:
    """Half as sure of each of two is not half as sure that something is bad."""
    assert "confidence 100%, one of 2 alike" in printed(failing("slow"))


def test_the_reason_of_a_change_is_said_once() -> None:
    """Where the change is listed; what it spoiled refers to it."""
    why = "nothing was altered: the phase ended before its time came"
    change = Change("flap/port_flap.x", "flap", "gpu001/mlx5_0", "port", port_flap("gpu001/mlx5_0", down=1.0, at=20.0))
    reasons = (
        f"ERROR: change {change.change_id} failed: {why}",
        f"ERROR: 1 of 1 loopback on gpu001\n  not measured as asked: {change.change_id} failed: {why}",
    )
    verdict = replace(failing("slow"), reasons=reasons, changes=(ChangeResult(change, "failed", why),))
    text = printed(verdict)
    assert text.count(why) == 1
    assert text.count(f"{change.change_id} failed (see Changes)") == 2
