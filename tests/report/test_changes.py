"""Expectations and changes as people and pipelines see them: in the verdict, the plan and while the run goes on."""

import json
import re
from dataclasses import replace

import click
import pytest

from fabric.model.change import Change, ChangeResult, ChangeSettings, ChangeSpec, When, Window
from fabric.model.outcome import Outcome, Reason
from fabric.model.scenario import Phase, Scenario
from fabric.model.verdict import ChangeEffect, ExpectationVerdict, JudgedRun, Verdict, WindowEffect
from fabric.plan import PhasePlan, Plan, schedule
from fabric.report.changes import when
from fabric.report.plan import plan_document, plan_text
from fabric.report.progress import ConsoleProgress
from fabric.report.verdict_json import exit_code, verdict_document
from fabric.report.verdict_text import verdict_text
from tests.changes.asked import ber, link_down, port_flap, routing, shield

SCENARIO = Scenario(
    name="ar-under-ber",
    source="s.yaml",
    inventory="i.yaml",
    hosts=("gpu001", "gpu002"),
    phases=(),
    allow=("busy_hosts",),
)
CABLE = "leaf1--spine1"
ERRORS = ber(CABLE, raw="1e-5", at=20.0, for_=60.0)
BER = Change("degraded/ber.x", "degraded", CABLE, "port", ERRORS, ("leaf1", "spine1"))
ROUTING = Change("degraded/ar", "degraded", "fabric", "fabric", routing(True))
RATIO = ExpectationVerdict("degraded: ar=on / ar=off at least 1.2", Outcome.PASS, "5 each", 1.62, 1.58, 1.66, 10)
LATE = ExpectationVerdict("flap: back in 30 s", Outcome.FAIL, "samples 10 s apart", 45.5, n=7)
EFFECT = ChangeEffect(
    "degraded/ber.x", 0.61, "before it", 4, 1, 10.0, (WindowEffect(100.0, 160.0, 12.5, 8.25),), "corrected by RS-FEC"
)


def run(
    *results: ChangeResult,
    expectations: tuple[ExpectationVerdict, ...] = (),
    effects: tuple[ChangeEffect, ...] = (),
) -> JudgedRun:
    """A judged run with changes."""
    verdict = Verdict(Outcome.FAIL, (Reason("FAIL: something"),), (), (), (), expectations, results, effects)
    return JudgedRun(SCENARIO, verdict, "r", "r", 61, "ssh", ("h100-ndr (b.yaml)",), "fabric report r")


def shown(judged: JudgedRun) -> str:
    """What a person sees of a verdict."""
    return click.unstyle(verdict_text(judged))


REVERTED = ChangeResult(
    BER, "reverted", "", (Window(100.0, 160.0),), {"leaf1.symbol_errors": 12345.0, "leaf1.link_downed": 0.0}
)


def test_a_ratio_reads_at_a_glance() -> None:
    """Outcome, value, interval, n and bound on one line, aligned, before what did not pass."""
    text = shown(run(expectations=(RATIO, LATE)))
    assert "  PASS          1.62    1.58 to 1.66  n 10  degraded: ar=on / ar=off at least 1.2\n" in text
    assert "  FAIL          45.5 s                n 7   flap: back in 30 s\n" in text
    assert text.index("Expected") < text.index("What did not pass")


def test_a_change_says_what_it_did() -> None:
    """Where, how long, what was kept, when it was seen and over, which counters grew, and why not more."""
    text = shown(run(REVERTED, effects=(EFFECT,)))
    for part in (
        "degraded  ber raw 1e-5  leaf1--spine1  in force 60.0 s",
        "kept 0.61 of what was before; 1 of 4 probes given up",
        "loss seen after 12.5 s; back 8.2 s after its end (samples 10.0 s apart)",
        "counters: symbol_errors +12,345\n",
        "corrected by RS-FEC",
    ):
        assert part in re.sub(r"\n {4}(?! )", " ", text)
    assert max(len(line) for line in text.splitlines()) <= 160


def test_bandwidth_is_said_in_numbers_where_all_samples_are_alike() -> None:
    """A share alone does not say whether the link was fast before."""
    text = shown(run(REVERTED, effects=(replace(EFFECT, gbps=(1128.44, 1850.0)),)))
    assert "kept 0.61 of what was before (1,128.4 of 1,850.0 Gb/s)" in text


def test_what_went_wrong_says_what_to_do_next() -> None:
    """A change that is still live, an expectation that was not met; not what went as asked."""
    still = replace(REVERTED, state="open")
    text = shown(run(still, expectations=(RATIO, LATE)))
    assert "next: fabric restore r takes it back" in text
    assert "said above" not in text  # there is nothing to do by hand above
    assert text.count("next: look at these phases in time (fabric report r --open)") == 1
    assert "next:" not in shown(run(REVERTED, expectations=(RATIO,)))


def test_changes_that_did_the_same_share_a_line() -> None:
    """Four cables at once are one line, their counters added up; one that went otherwise has its own."""
    alike = [
        replace(REVERTED, change=replace(BER, change_id=f"c{number}", component=f"leaf{number}--spine1"))
        for number in range(4)
    ]
    lost = replace(alike[0], change=replace(BER, change_id="lost"), state="lost")
    text = shown(run(*alike, lost, effects=tuple(replace(EFFECT, change_id=f"c{number}") for number in range(4))))
    assert text.count("ber raw 1e-5") == 2
    assert "4: leaf0--spine1, leaf1--spine1, ...  in force 60.0 s; kept 0.61" in text
    assert "counters: symbol_errors +49,380 at 4 ends" in text
    assert text.index("LOST, in force 60.0 s") < text.index("4: leaf0")


def test_open_stands_first_and_shouts() -> None:
    """Before all others, with what to do."""
    still = ChangeResult(replace(BER, change_id="z"), "open", "by hand: mlxreg ...", (Window(1.0, None),))
    text = shown(run(REVERTED, still))
    assert text.index("MAY STILL BE LIVE") < text.index("in force 60.0 s")
    assert "by hand: mlxreg ..." in text
    assert "what to do by hand is said above" in text


def test_a_run_that_was_killed_says_what_to_type_first() -> None:
    """In its order, with the run's name; not that the testbench could not measure, nor that more samples tell."""
    not_reached = replace(
        RATIO, outcome=Outcome.INCONCLUSIVE, reason="the change was not in force: degraded was not reached", value=None
    )
    still = replace(REVERTED, state="open", reason="it was not seen taken back")
    judged = run(still, expectations=(not_reached,))
    killed = replace(
        judged, complete=False, go_on="fabric resume r", verdict=replace(judged.verdict, outcome=Outcome.ERROR)
    )
    text = shown(killed)
    first = text.splitlines()[0]
    assert first.endswith("1 change may still be live on the fabric; the run ended before everything was measured")
    assert (
        text.index("Take back  fabric restore r\n")
        < text.index("Go on      fabric resume r\n")
        < text.index("Expected")
    )
    assert "more samples tell" not in text
    assert "could not measure everything" not in text
    assert "fabric resume r measures what is left" in text


def test_an_expectation_without_its_change_is_not_told_by_more_samples() -> None:
    """Of a run that went to its end."""
    refused = replace(RATIO, outcome=Outcome.INCONCLUSIVE, reason="it was refused", in_force=False)
    text = shown(run(replace(REVERTED, state="refused", reason="no"), expectations=(refused,)))
    assert "more samples do not tell: see below what became of the change" in text
    assert "fabric restore" not in text
    assert "fabric resume" not in text


def test_a_run_without_changes_shows_none() -> None:
    """Nothing new in the output of a self-check."""
    text = shown(run())
    assert "Expected" not in text
    assert "Changes" not in text


def test_verdict_json_holds_both() -> None:
    """Numbers as numbers, outcomes as texts; the format is the same, since nothing that was there changed."""
    document = json.loads(json.dumps(verdict_document(run(REVERTED, expectations=(RATIO,), effects=(EFFECT,)))))
    assert document["format"] == 1
    (expectation,) = document["expectations"]
    assert (expectation["outcome"], expectation["value"], expectation["high"]) == ("pass", 1.62, 1.66)
    (change,) = document["changes"]
    assert (change["change_id"], change["state"], change["windows"]) == ("degraded/ber.x", "reverted", [[100.0, 160.0]])
    assert change["counters"]["leaf1.symbol_errors"] == 12345.0
    assert (change["effect"]["retained"], change["effect"]["windows"]) == (0.61, [[12.5, 8.25]])
    assert verdict_document(run(REVERTED))["changes"][0]["effect"] is None


def test_a_change_that_may_be_live_beats_a_failed_fabric() -> None:
    """Exit code 4, in the document as well; 1 when all was taken back."""
    still = ChangeResult(BER, "open", "", (Window(1.0, None),))
    assert exit_code(run(REVERTED, still).verdict) == 4
    assert verdict_document(run(REVERTED, still))["exit_code"] == 4
    assert exit_code(run(REVERTED).verdict) == 1


def plan(*changes: Change) -> Plan:
    """One phase with changes."""
    return Plan((PhasePlan(Phase("degraded", ()), schedule([]), (), changes),))


def planned(what_plan: Plan) -> list[str]:
    """The lines of ``fabric plan``."""
    return click.unstyle(plan_text(what_plan, scenario=SCENARIO, settings=ChangeSettings())).splitlines()


def test_the_plan_says_first_who_is_affected() -> None:
    """Scope in the second line, the widest first; then how much at once, and what undoes it."""
    lines = planned(plan(BER, ROUTING))
    assert lines[1] == "  changes: adaptive_routing (whole fabric: every user is affected), ber (1 cable)"
    allowed = "allowed: 4, 1 a switch, 1 a host, 5% of the links"
    assert lines[2] == f"  blast radius: up to 1 fault at once ({allowed}), at leaf1,spine1"
    assert lines[3] == "  lease: undone 60 s after this program is last heard of, and after 600 s at the latest"
    assert lines[4] == "  guard rails lifted: busy_hosts"
    assert "    change: leaf1--spine1: ber raw 1e-5, from 20 s on, for 60 s" in lines
    assert "    change: fabric: adaptive_routing on, for the whole phase (no fault: limits apply)" in lines


def test_a_plan_without_changes_says_nothing_of_them() -> None:
    """A self-check alters nothing, and its plan reads as before."""
    assert not [line for line in planned(plan()) if "change" in line or "lease" in line]


def test_plan_json_lists_changes() -> None:
    """With their times, and the limits they keep to."""
    document = plan_document(plan(BER), SCENARIO, settings=ChangeSettings())
    (change,) = document["phases"][0]["changes"]
    assert (change["component"], change["at_s"], change["params"]["exponent"]) == ("leaf1--spine1", 20.0, 5)
    assert document["change_limits"]["lease_ttl_s"] == 60.0


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (ERRORS, "ber raw 1e-5"),
        (ber(CABLE, effective="1e-5", direction="up"), "ber effective 1e-5 up"),
        (port_flap(CABLE, down=0.5, count=3, period=5.0), "port_flap 3 x 0.5 s"),
        (routing(True), "adaptive_routing on"),
        (shield(False), "shield off"),
        (link_down(CABLE, by="mlxlink"), "link_down by mlxlink"),
    ],
)
def test_changes_in_words(spec: ChangeSpec, text: str) -> None:
    """What it does, in a few words."""
    assert str(spec) == text


def test_times_in_words() -> None:
    """When it begins and how long it lasts."""
    assert when(When()) == "for the whole phase"
    assert when(When(5.0)) == "from 5 s on, until its end"
    assert when(When(None, 5.0)) == "for 5 s"


def test_progress_says_when_a_change_comes_and_goes(capsys: pytest.CaptureFixture[str]) -> None:
    """Once at its first time in force, once at its end; not each time of a flap, nor what only the journal needs."""
    progress = ConsoleProgress()
    for state in ("intent", "armed", "in_force", "lifted", "in_force", "lifted"):
        progress.change_state(BER, state, "")
    progress.change_state(BER, "lost", "its guard took it back\x1b[2J")
    assert capsys.readouterr().err.splitlines() == [
        "degraded: leaf1--spine1: ber raw 1e-5 is in force",
        "degraded: leaf1--spine1: ber raw 1e-5 was LOST: its guard took it back\\x1b[2J",
    ]


def test_progress_folds_links_that_change_together(capsys: pytest.CaptureFixture[str]) -> None:
    """Four cables of one phase are one line when the last is in force, and one when the last is back."""
    four = [replace(BER, change_id=f"c{number}", component=f"leaf{number}--spine1") for number in range(4)]
    progress = ConsoleProgress()
    progress.phase_started(PhasePlan(Phase("degraded", (), ()), schedule([]), (), tuple(four)))
    for state in ("in_force", "reverted"):
        for change in four:
            progress.change_state(change, state, "")
    assert capsys.readouterr().err.splitlines()[1:] == [
        "degraded: 4 links (leaf0--spine1, leaf1--spine1, ...): ber raw 1e-5 is in force",
        "degraded: 4 links (leaf0--spine1, leaf1--spine1, ...): ber raw 1e-5 is taken back",
    ]


def test_progress_says_what_an_interrupted_run_still_does(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever pressed Ctrl-C knows why it does not end at once."""
    progress = ConsoleProgress()
    progress.interrupted(0, 1)
    progress.interrupted(1, 1)
    progress.interrupted(2, 2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "interrupted: ending the run"
    assert "taking back 1 change first" in lines[1]
    assert "taking back 2 changes" in lines[2]
