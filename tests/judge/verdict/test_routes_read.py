"""Who could not read a table of a switch leaves nothing open where another host read it."""

from __future__ import annotations

from fabric.judge.verdict.conclude import read_elsewhere
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult


def asked(host: str, lid: int) -> Probe:
    """A table, asked for on a host."""
    params = {"plane": "rail0 400G", "lid": lid, "series": "x"}
    return Probe(f"pairs/{host}/routes.{lid}", "routes", "pairs", (host,), (), 1.0, params)


PROBES = [asked("gpu001", 5), asked("gpu002", 5), asked("gpu001", 6)]
OUTCOMES = (Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.INCONCLUSIVE)
RESULTS = {
    probe.probe_id: ProbeResult(probe.probe_id, 1, (), outcome, "cannot", 0.0, 1.0)
    for probe, outcome in zip(PROBES, OUTCOMES, strict=True)
}


def test_the_same_table_read_by_another_host_makes_up_for_it_and_no_other_table_does() -> None:
    found = read_elsewhere(PROBES, RESULTS)
    assert [found[probe.probe_id].outcome for probe in PROBES] == [Outcome.PASS, Outcome.PASS, Outcome.INCONCLUSIVE]
    assert found[PROBES[0].probe_id].reason == "cannot; read on gpu002 instead"


def test_where_nobody_read_it_it_stays_open() -> None:
    alone = {PROBES[0].probe_id: RESULTS[PROBES[0].probe_id]}
    assert read_elsewhere(PROBES, alone) is alone
