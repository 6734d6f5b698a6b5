"""Results written as events come back equal."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, ProbeResult
from fabric.store.events import EventLog, read_events
from fabric.store.results import from_events, to_fields

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
        assert from_events(read_events(path)) == {"p": result}
