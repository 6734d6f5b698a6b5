"""Whatever comes over one or two hosts in the middle of a run, it ends, blames them alone, and measures all others."""

import os
from pathlib import Path

import pytest

from fabric.app.analyze import analyze
from fabric.app.prepare import Asked
from fabric.judge.locate.merged import names
from fabric.model.outcome import Outcome
from tests.scenario.chaos import Blow, Ran, asked_in, blows, run

SEEDS = [
    pytest.param(seed, marks=[pytest.mark.slow] * (seed > 3)) for seed in range(int(os.environ.get("CHAOS_SEEDS", "8")))
]
LONGEST_S = 130.0 + 8 * (162.3 + 15.0 + 15.1)
"""A quiet run, and for two hosts four pairs each that wait for their deadline, the roll call and a connection."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """The self-check of sixteen hosts, planned once."""
    return asked_in(tmp_path_factory.mktemp("chaos"))


@pytest.fixture(scope="module")
def quiet_s(asked: Asked, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long it takes when nothing happens."""
    quiet = run(asked, (), tmp_path_factory.mktemp("quiet"))
    assert quiet.judged.verdict.outcome is Outcome.PASS
    return quiet.judged.elapsed_s


def on(probe_id: str, hosts: set[str]) -> bool:
    """Whether a probe is of one of these hosts."""
    return not hosts.isdisjoint(probe_id.split("/")[1].split("+"))


def blamed(ran: Ran) -> set[str]:
    """Every host that a suspect or an error names."""
    suspects = {part for suspect in ran.judged.verdict.suspects for part in names(suspect)}
    errors = {result.error_host for result in ran.results.values() if result.error_host is not None}
    return errors | {name.split("/")[0].split(":")[0] for name in suspects}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_ends_blames_those_befallen_and_measures_all_others(
    asked: Asked, quiet_s: float, tmp_path: Path, seed: int
) -> None:
    befalling = blows(seed, asked.scenario.hosts, quiet_s)
    befallen = {blow.host for blow in befalling}
    ran = run(asked, befalling, tmp_path)
    assert ran.judged.elapsed_s <= LONGEST_S
    assert blamed(ran) <= befallen, befalling
    verdicts = {verdict.probe_id: verdict for verdict in ran.judged.verdict.probes}
    bad = {name: one for name, one in verdicts.items() if one.outcome not in (Outcome.PASS, Outcome.MARGINAL)}
    assert all(on(name, befallen) for name in bad), befalling
    # What a tool itself says of a port, of a host that is back and whose links still train, is a measurement.
    failed = [one.reason for one in bad.values() if one.outcome is Outcome.FAIL and "state is Down" not in one.reason]
    assert failed == [], befalling
    assert analyze(Path(ran.judged.path)).judged.verdict == ran.judged.verdict


def test_lost_sessions_alone_cost_nothing(asked: Asked, tmp_path: Path) -> None:
    """Two hosts lose theirs once: what ran there is run again, and the verdict is as good as any."""
    ran = run(asked, [Blow("gpu003", "session", 7.0, 0.0), Blow("gpu009", "session", 80.0, 0.0)], tmp_path)
    assert ran.judged.verdict.outcome is Outcome.PASS
    again = [event["probe"] for event in ran.events if event["event"] == "finished" and event["attempt"] == 2]
    assert again
    assert all(on(name, {"gpu003", "gpu009"}) for name in again)


def test_a_partner_that_freezes_is_to_blame_and_not_who_waited_for_it(asked: Asked, tmp_path: Path) -> None:
    """The launcher's host times out; the frozen one is named, and its neighbours are measured with each other."""
    ran = run(asked, [Blow("gpu005", "hanging", 75.0, 1e6)], tmp_path)
    assert blamed(ran) == {"gpu005"}
    assert [suspect.component for suspect in ran.judged.verdict.suspects] == ["gpu005"]
    assert ran.results["tor/gpu004+gpu006/tor_all_reduce.r1"].outcome is None


def test_a_partner_that_dies_is_no_bad_fabric(asked: Asked, tmp_path: Path) -> None:
    """NCCL calls it a network error; that the host is gone is known better."""
    ran = run(asked, [Blow("gpu015", "broken", 105.0, 1e6)], tmp_path)
    assert ran.judged.verdict.outcome is Outcome.ERROR
    assert blamed(ran) == {"gpu015"}
