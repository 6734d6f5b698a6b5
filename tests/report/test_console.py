"""What the console says, during a run and after it: the verdict first, never markup, lines within the width."""

import io
import sys
from dataclasses import replace

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measured_rack import rack_topology
from fabric.changes.restore import MOST_WORDS, in_words
from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.model.change import Change, ChangeResult
from fabric.model.outcome import Outcome, Reason, note
from fabric.model.probe import Probe, ProbeResult
from fabric.model.scenario import Phase, Scenario
from fabric.model.text import counted
from fabric.model.verdict import JudgedRun, ProbeVerdict, Suspect, Verdict
from fabric.plan import PhasePlan, schedule
from fabric.probes.kinds import expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.report.changes import Restored, restored_json, restored_lines
from fabric.report.diagnosis import diagnosis_text
from fabric.report.output import WIDTH, wrapped
from fabric.report.plan import folded_rounds, title
from fabric.report.progress import ConsoleProgress
from fabric.report.verdict_text import verdict_text
from tests.changes.asked import port_flap
from tests.judge.locate.pairs.made import GOOD_GBPS, all_pairs, hosts, row

SCENARIO = Scenario(name="self-check", source="s.yaml", inventory="i.yaml", hosts=("gpu001", "gpu002"), phases=())


def printed(verdict: Verdict, *, terminal: bool = False) -> str:
    """What a person sees."""
    judged = JudgedRun(SCENARIO, verdict, "r", "r", 61, "ssh", ("h100-ndr (b.yaml)",), "fabric report r")
    text = verdict_text(judged)
    return text if terminal else click.unstyle(text)


def failing(evidence: str, count: int = 1) -> Verdict:
    """A verdict with suspects that were said *evidence* about."""
    suspect = Suspect("gpu001/mlx5_0", "rnic", Outcome.FAIL, 1.0, (evidence,), ("gpu001/pcie0",), "reseat it")
    probe = ProbeVerdict("p", Outcome.FAIL, evidence)
    return Verdict(Outcome.FAIL, (Reason("FAIL: 1 of 1 loopback on gpu001"),), (suspect,) * count, (), (probe,))


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
        failing("slow"), reasons=(Reason("FAIL: 1 of 1 loopback on gpu001"), note("the cables were not looked at"))
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
    verdict = replace(
        failing("slow"), reasons=tuple(map(Reason, reasons)), changes=(ChangeResult(change, "failed", why),)
    )
    text = printed(verdict)
    assert text.count(why) == 1
    assert text.count(f"{change.change_id} failed (see Changes)") == 2


def test_one_is_singular() -> None:
    assert counted(1, "probe") == "1 probe"


def test_none_and_many_are_plural_with_thousands_apart() -> None:
    assert [counted(number, "round") for number in (0, 2, 1144)] == ["0 rounds", "2 rounds", "1,144 rounds"]


@given(st.lists(st.text("abc", min_size=1, max_size=20), max_size=60), st.integers(0, 16))
def test_no_line_is_longer_and_no_word_is_lost(words: list[str], indent: int) -> None:
    text = " " * indent + " ".join(words)
    lines = wrapped(text)
    assert all(len(line) <= WIDTH for line in lines)
    assert " ".join(lines).split() == text.split()
    assert all(line.startswith(" " * indent) for line in lines)


@pytest.mark.parametrize(("columns", "widest"), [("80", 80), ("20", 44), ("400", WIDTH)])
def test_a_line_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: str, widest: int) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout", Terminal())
    lines = wrapped("    " + "word " * 100)
    assert widest - len(" word") < max(map(len, lines)) <= widest


def test_a_command_to_copy_is_never_broken() -> None:
    text = f"    by hand: sed -i {'x' * 90} && sed -i {'y' * 90}"
    assert wrapped(text) == [text]


def held(host: str, said: str, *, certain: bool = True, change: str = "") -> Restored:
    """One answer."""
    return Restored("", change, host, said, certain)


def test_hosts_with_the_same_answer_are_one_line_and_what_may_be_live_comes_first() -> None:
    found = [held(f"gpu{number:03d}", "no change is held here") for number in range(1, 17)]
    found.insert(3, held("gpu020", "connect: no route to host", certain=False))
    assert list(restored_lines(found)) == [
        "LIVE  gpu020: connect: no route to host",
        "ok    gpu[001-016]: no change is held here",
    ]


def test_the_same_words_of_two_changes_are_two_lines() -> None:
    found = [held("gpu001", "up: taken back", change=name) for name in ("p/a", "p/b")]
    assert list(restored_lines(found)) == ["ok    p/a: gpu001: up: taken back", "ok    p/b: gpu001: up: taken back"]


def test_json_has_an_entry_for_each_answer() -> None:
    (entry,) = restored_json([held("gpu001", "up: taken back", change="p/a")])
    assert (entry["host"], entry["text"], entry["certain"]) == ("gpu001", "p/a: gpu001: up: taken back", True)


def test_a_long_text_of_what_was_before_is_cut() -> None:
    assert in_words("gpu001/mlx5_0:1: no bit errors") == "gpu001/mlx5_0:1: no bit errors"
    assert len(in_words("x" * 500)) == MOST_WORDS


def test_two_that_cannot_be_told_apart_are_said_together_with_the_tests_that_would():
    rows = [each for each in all_pairs(hosts(8)) if {each.a, each.b}.isdisjoint({"gpu007", "gpu008"})]
    text = diagnosis_text(diagnose([*rows, *[row("gpu007", "gpu008", 0.5 * GOOD_GBPS)] * 3]))
    assert "cannot be told apart from" in text
    assert "test next" in text
    assert "gpu007" in text[text.index("test next") :]


def test_a_matrix_shows_percent_where_it_is_slow_and_dots_where_nothing_was_measured():
    rows = [
        each for each in all_pairs(hosts(6), {"gpu002": 0.25}, cv=0.001) if (each.a, each.b) != ("gpu001", "gpu003")
    ]
    lines = diagnosis_text(diagnose(rows)).splitlines()
    drawn = {
        line.split()[0]: line.split()[1:] for line in lines if line.startswith("  gpu00") and len(line.split()) == 7
    }
    assert drawn["gpu002"] == ["75", ".", "75", "75", "75", "75"]
    assert drawn["gpu001"] == [".", "75", ".", "-", "-", "-"]


def test_a_class_by_results_shows_its_groups():
    names = hosts(8)
    rows = all_pairs(names, level=lambda a, b: 1.0 if (a <= "gpu004") == (b <= "gpu004") else 0.7)
    assert "gpu[001-004]; gpu[005-008]" in diagnosis_text(diagnose(rows))


RACK = rack_topology(1)


def planned(name: str, label: str = "", number: int = 1, duration_s: int = 5) -> PhasePlan:
    """A phase on one host."""
    phase = Phase(name, (LoopbackSpec(duration_s=duration_s),), label=label, round=number)
    return PhasePlan(phase, schedule(expand_phase(phase, RACK, tuple(RACK.hosts))), ())


def soak(number: int, duration_s: int = 5) -> PhasePlan:
    """A round."""
    return planned(f"soak-r{number}", "soak", number, duration_s)


def titles(*phases: PhasePlan) -> list[str]:
    """What is shown, in order."""
    return [title(rounds) for rounds in folded_rounds(phases)]


def test_equal_rounds_are_one_line_that_says_how_many_and_how_long() -> None:
    found = titles(planned("self-check"), *(soak(number) for number in range(1, 97)), planned("after"))
    assert found[0] == "self-check"
    assert found[1].startswith("soak-r1 to soak-r96: 96 rounds, each ")
    assert found[2] == "after"
    assert len(found) == 3


def test_rounds_that_take_longer_with_other_partners_are_folded_and_the_range_is_said() -> None:
    (said,) = titles(soak(1), soak(2, duration_s=60), soak(3))
    assert said == "soak-r1 to soak-r3: 3 rounds, each 3 min 30 s to 31 min 00 s, 38 min 00 s in all"


def test_rounds_that_differ_are_not_folded() -> None:
    other = planned("soak-r2", "soak", 2)
    other = replace(other, schedule=schedule([other.planned[0]]))
    assert len(titles(soak(1), other, soak(3))) == 3
    noted = replace(soak(2), notes=(Reason("x"),))
    assert len(titles(soak(1), noted)) == 2


def test_stages_that_are_repeated_together_are_folded_each_by_itself() -> None:
    rounds = [
        planned(f"burn-s{stage}-r{number}", "burn", number, 5 * stage) for number in (1, 2, 3) for stage in (1, 2)
    ]
    assert [said.split(":")[0] for said in titles(*rounds)] == [
        "burn-s1-r1 to burn-s1-r3",
        "burn-s2-r1 to burn-s2-r3",
    ]


def test_phases_that_only_happen_to_be_called_like_rounds_are_shown_one_by_one() -> None:
    assert titles(planned("x-r1"), planned("x-r2")) == ["x-r1", "x-r2"]


def test_nothing_is_lost() -> None:
    phases = [planned("a"), soak(1), soak(2), planned("b"), soak(3)]
    shown = [one for rounds in folded_rounds(phases) for one in rounds]
    assert sorted(one.phase.name for one in shown) == sorted(one.phase.name for one in phases)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


def watched(planned: int, results: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[float, float | None]:
    """Done and total on the bar after these results of a phase with so many planned probes."""
    probes = [Probe(f"p{number}", "none", "one", ("h",), (), 1.0, {}) for number in range(planned)]
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with ConsoleProgress() as progress:
        progress.phase_started(PhasePlan(Phase("one", (), ()), schedule(probes), ()))
        for name in results:
            progress.probe_finished(ProbeResult(name, 1, (), None, "", 0.0, 1.0))
        (task,) = progress._bar.tasks
        return task.completed, task.total


def test_a_probe_that_was_not_planned_is_one_more_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(2, ["p0", "p1"], monkeypatch) == (2, 2)
    assert watched(2, ["p0", "p1", "instead of p1"], monkeypatch) == (3, 3)


def test_hosts_that_cannot_be_reached_for_one_reason_are_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"gpu{number:03}" for number in range(1, 9)]
    with ConsoleProgress(addresses={name: f"{name}.mgmt" for name in names}) as progress:
        for name in names:
            progress.probe_finished(ProbeResult("p", 1, (), None, "", 0.0, 1.0))
            progress.out_of_run(name, f"connecting: name does not resolve: {name}.mgmt")
    assert capsys.readouterr().err.splitlines() == [
        "gpu001 is out of the run: connecting: name does not resolve: gpu001.mgmt",
        "gpu[002-008] (7) are out of the run for the same reason as gpu001",
    ]
