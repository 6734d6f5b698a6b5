"""Results written as events come back equal."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, ProbeResult
from fabric.runs.events import Event, EventLog, history_of, read_events, to_fields

RESULTS = st.builds(
    ProbeResult,
    probe_id=st.just("p"),
    attempt=st.integers(1, 9),
    measurements=st.lists(
        st.builds(
            Measurement,
            st.just("p"),
            st.just("bandwidth"),
            st.floats(0, 1e6),
            st.just("Gb/s"),
            st.none() | st.integers(0, 2**40),
        ),
        max_size=3,
    ).map(tuple),
    outcome=st.none() | st.sampled_from(Outcome),
    reason=st.text(st.characters(exclude_categories=("Cs",))),
    started_s=st.just(1.5),
    ended_s=st.just(2.5),
    error_host=st.none() | st.just("gpu001"),
)


@given(RESULTS)
def test_round_trip(result: ProbeResult) -> None:
    """Every field survives."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e"
        log = EventLog(path)
        log.append("finished", 2.5, to_fields(result))
        log.close()
        assert history_of(read_events(path)).results == {"p": result}


def test_a_history_is_sorted_into_last_results_and_all_else() -> None:
    """The last result of a probe counts, at its place; what is no result stays as it was written."""
    events: list[Event] = [{"event": "run_started", "at_s": 1.0, "run_id": "r"}]
    for at_s, probe_id, reason in ((2.0, "a", "first"), (3.0, "b", ""), (4.0, "a", "again")):
        result = ProbeResult(probe_id, 1, (), Outcome.ERROR, reason, 0.0, at_s)
        events.append({"event": "finished", "at_s": at_s, **to_fields(result)})
        events.append({"event": "started", "at_s": at_s, "probes": [probe_id]})
    events.pop()
    found = history_of(iter(events))
    assert [(result.probe_id, result.reason) for result in found.results.values()] == [("b", ""), ("a", "again")]
    assert [event["event"] for event in found.others] == ["run_started", "started", "started"]
    assert (found.first, found.at_s) == (events[0], 4.0)
