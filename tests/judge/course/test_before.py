"""A loopback that is older than the fault clears nobody."""

from __future__ import annotations

from fabric.judge.course.findings import not_cleared_by_older
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.verdict import ProbeVerdict, Suspect

PORT = Suspect(
    "gpu003/mlx5_2:port",
    "link",
    Outcome.FAIL,
    0.98,
    ("its loopback reaches 100% of others", "2 of 2 are slow"),
    hosts=("gpu003",),
    probes=("p3",),
)
G, B = Outcome.PASS, Outcome.FAIL


def after(loopback_s: float, *pairs: tuple[float, str, Outcome], found: tuple[Suspect, ...] = (PORT,)) -> list[Suspect]:
    """What is left, with a loopback then, and pairs that began so, sent by so, and came out so."""
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
    return not_cleared_by_older(found, probes, verdicts, results)


def test_an_rnic_that_changed_after_its_loopback_is_not_cleared_by_it() -> None:
    (one,) = after(0.0, (10.0, "gpu003", G), (20.0, "gpu003", B))
    assert (one.component, one.kind, one.ambiguous_with) == ("gpu003/mlx5_2", "rnic", ("gpu003/mlx5_2:port",))
    assert one.confidence == 0.49
    assert "before it became bad" in one.evidence[0]
    assert "loopback" in one.next_step


def test_a_loopback_since_the_fault_clears_it() -> None:
    assert after(25.0, (10.0, "gpu003", G), (20.0, "gpu003", B)) == [PORT]


def test_a_fault_that_was_there_from_the_beginning_is_no_change() -> None:
    assert after(0.0, (10.0, "gpu003", B), (20.0, "gpu003", B)) == [PORT]


def test_what_is_bad_in_one_direction_only_is_no_change() -> None:
    assert after(0.0, (10.0, "gpu004", G), (20.0, "gpu003", B)) == [PORT]


def test_a_part_that_was_blamed_for_both_directions_is_listed_once() -> None:
    (one,) = after(0.0, (10.0, "gpu003", G), (20.0, "gpu003", B), found=(PORT, PORT))
    assert one.component == "gpu003/mlx5_2"
