"""A loopback that is older than the fault clears nobody."""

from __future__ import annotations

import pytest

from fabric.judge.verdict.conclude import without_old_loopbacks
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.verdict import ProbeVerdict

G, B = Outcome.PASS, Outcome.FAIL


def clears(loopback_s: float, *pairs: tuple[float, str, Outcome]) -> bool:
    """Whether a loopback of that time is left, with pairs that began so, sent by so, and came out so."""
    params = {"rnic": "mlx5_2", "peer_rnic": "mlx5_2"}
    probes = [Probe("lb", "loopback", "self-check", ("gpu003",), (), 1.0, {"rnic": "mlx5_2", "endpoint": "numa0"})]
    results = {"lb": ProbeResult("lb", 1, (), None, "", loopback_s, loopback_s + 1.0)}
    verdicts = {"lb": ProbeVerdict("lb", G, "")}
    for number, (at_s, sender, outcome) in enumerate(pairs):
        name = f"p{number}"
        hosts = (sender, "gpu003" if sender != "gpu003" else "gpu004")
        probes.append(Probe(name, "pairwise", f"soak-r{number}", hosts, (), 1.0, params))
        results[name] = ProbeResult(name, 1, (), None, "", at_s, at_s + 1.0)
        verdicts[name] = ProbeVerdict(name, outcome, "")
    return probes[0] in without_old_loopbacks(probes, verdicts, results)


@pytest.mark.parametrize(
    ("loopback_s", "first", "is_left"),
    [
        pytest.param(0.0, (10.0, "gpu003", G), False, id="an RNIC that changed after its loopback"),
        pytest.param(25.0, (10.0, "gpu003", G), True, id="a loopback since the fault"),
        pytest.param(0.0, (10.0, "gpu003", B), True, id="a fault that was there from the beginning is no change"),
        pytest.param(0.0, (10.0, "gpu004", G), True, id="what is bad in one direction only is no change"),
    ],
)
def test_a_loopback_clears_what_has_not_changed_since(
    loopback_s: float, first: tuple[float, str, Outcome], is_left: bool
) -> None:
    assert clears(loopback_s, first, (20.0, "gpu003", B)) is is_left
