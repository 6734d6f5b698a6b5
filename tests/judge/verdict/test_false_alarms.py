"""How often a healthy rack is called bad, and a bad part is found: seeded, on measured racks with noise."""

from __future__ import annotations

import pytest

from benchmarks.measured_rack import judged, measured, probes_of, rack_topology, slow_rnic
from fabric.model.outcome import Outcome
from tests.builders import suspects

RUNS = 6
HOSTS = 8


@pytest.mark.slow
@pytest.mark.parametrize("cv", [0.01, 0.03])
def test_a_healthy_rack_has_no_suspects(cv: float) -> None:
    """No FAIL in any run, and hardly a number to be measured again."""
    topology = rack_topology(HOSTS)
    probes = probes_of(topology)
    odd = []
    for seed in range(RUNS):
        verdicts = judged(measured(probes, cv=cv, seed=seed, host_spread=0.004), topology)
        odd += [verdict.outcome for verdict in verdicts.values() if verdict.outcome is not Outcome.PASS]
    assert Outcome.FAIL not in odd
    assert len(odd) <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "cv", "repeat"),
    [
        (0.10, 0.01, 1),
        (0.10, 0.02, 1),
        (0.10, 0.03, 5),
        (0.06, 0.01, 1),
        (0.06, 0.01, 3),
    ],
)
def test_a_slow_rnic_is_found_and_nothing_else(loss: float, cv: float, repeat: int) -> None:
    """One RNIC of 64 that lost 6 or 10 %, each limit met: named in every run, and it alone."""
    topology = rack_topology(HOSTS)
    probes = probes_of(topology, repeat=repeat)
    for seed in range(2):
        factor = slow_rnic("gpu005/mlx5_6", 1 - loss)
        pairs = measured(probes, cv=cv, seed=seed, factor=factor)
        results = {result.probe_id: result for _, result in pairs}
        verdicts = judged(pairs, topology)
        found = suspects(probes, verdicts, topology=topology, outcome=Outcome.FAIL, results=results)
        assert [suspect.component for suspect in found] == ["gpu005/mlx5_6"]
