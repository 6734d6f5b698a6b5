"""What a history says is done, begun and decided."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.errors import StoreError
from fabric.runs.events import Progress, Round, progress_of


def history(*events: dict[str, Any]) -> Progress:
    """Events at 0, 1, 2 ... seconds."""
    return progress_of([{"seq": n + 1, "at_s": float(n), **event} for n, event in enumerate(events)])


def started(*probes: str) -> dict[str, Any]:
    """Probes began."""
    return {"event": "started", "probes": list(probes)}


def finished(probe: str, attempt: int = 1, **more: Any) -> dict[str, Any]:
    """A probe ended."""
    fields = {"attempt": attempt, "outcome": "measured", "started_s": 0.0, "ended_s": 1.0}
    return {"event": "finished", "probe": probe, **fields, **more}


def added(name: str, **why: Any) -> dict[str, Any]:
    """A probe that no plan had."""
    fields = {"kind": "loopback", "hosts": ["h"], "claims": [], "duration_s": 1.0, "params": {}}
    return {"event": "replanned", "probe": name, "phase": "a", **fields, **why}


def test_a_finished_probe_stands_and_a_begun_one_is_half_done() -> None:
    found = history(started("p", "q"), finished("p"))
    assert (set(found.results), found.half_done, found.attempts) == ({"p"}, ("q",), {"p": 1, "q": 1})


def test_a_probe_that_is_to_be_tried_again_is_half_done() -> None:
    found = history(started("p"), finished("p", again=True))
    assert (dict(found.results), found.half_done) == ({}, ("p",))


def test_a_probe_begun_anew_after_it_ended_is_half_done() -> None:
    found = history(started("p"), finished("p"), started("p"))
    assert (found.half_done, found.attempts["p"]) == (("p",), 2)


def test_what_one_follow_up_was_given_at_one_moment_is_one_round() -> None:
    rows = [added("x", because="more", at_s=5.0), added("y", because="more", at_s=5.0)]
    found = history(*rows, added("z", because="more", at_s=9.0), added("other", instead_of="p"))
    assert found.rounds == {"a": {"more": Round(2, 3, 5.0)}}
    assert [(lost, probe.probe_id) for lost, probe in found.instead] == [("p", "other")]


def test_its_clock_and_how_often_it_went_on_are_known() -> None:
    found = history({"event": "run_started"}, {"event": "resumed"}, {"event": "resumed"}, {"event": "run_ended"})
    assert (found.began_s, found.at_s, found.resumed, found.begun, found.over) == (0.0, 3.0, 2, True, True)


def test_a_history_of_another_make_is_refused() -> None:
    with pytest.raises(StoreError, match="not as this version"):
        history({"event": "finished"})
