"""The score of benchmarks: what became of a part that is bad, and whom a verdict blames beside it."""

from __future__ import annotations

import pytest

from benchmarks.measured_rack import rack_topology
from benchmarks.scoring import OFFERED, RIGHT, SILENT, UNSURE, WRONG, Planted, scored
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect, Verdict

RACK = rack_topology(12, parts=4)


def planted(component: str) -> Planted:
    return Planted("layer", f"{component}:slow=0.5", frozenset({component}))


def suspect(component: str, *rivals: str, kind: str = "part", hosts: tuple[str, ...] = ()) -> Suspect:
    return Suspect(component, kind, Outcome.FAIL, 0.9, (), rivals, hosts=hosts)


def verdict(*suspects: Suspect, outcome: Outcome = Outcome.FAIL) -> Verdict:
    return Verdict(outcome, (), suspects, (), ())


@pytest.mark.parametrize(
    ("bad", "said", "found"),
    [
        ("gpu001/mlx5_0", suspect("gpu001/mlx5_0"), RIGHT),
        ("gpu001/mlx5_0:port", suspect("gpu001/mlx5_0", "gpu001/mlx5_0:port"), RIGHT),
        ("gpu001/mlx5_0", suspect("gpu001"), OFFERED),
        ("gpu001", suspect("gpu001/mlx5_0"), OFFERED),
        ("gpu001/mlx5_0->gpu2", suspect("gpu001/gpu2"), OFFERED),
        ("gpu001/mlx5_0", suspect("gpu001+gpu002", kind="pair", hosts=("gpu001", "gpu002")), OFFERED),
        ("leaf0--spine0", suspect("leaf0:uplinks"), OFFERED),
        ("leaf0--spine0", suspect("spines"), OFFERED),
        ("leaf0--spine0", suspect("gpu001/mlx5_0:above"), OFFERED),
        ("spine0", suspect("gpu001:above"), OFFERED),
        ("leaf0", suspect("gpu001/mlx5_0:port"), OFFERED),
        ("gpu001/mlx5_0:port", suspect("gpu001/mlx5_0"), WRONG),
        ("gpu001/mlx5_0", suspect("gpu001/mlx5_1"), WRONG),
        ("leaf0--spine0", suspect("leaf1:uplinks"), WRONG),
        ("leaf1--spine0", suspect("gpu001/mlx5_0:above"), WRONG),
    ],
)
def test_what_became_of_it(bad: str, said: Suspect, found: str) -> None:
    """Named, or as a rival: right; around it or a part of it: offered; else wrong, and a healthy part is blamed."""
    score = scored(verdict(said), [planted(bad)], RACK)
    assert score.found == (found,)
    assert bool(score.healthy) == (found is WRONG)


def test_who_is_named_after_another_is_offered() -> None:
    """With two planted the first two suspects count; each that is healthy is blamed, and its confidence is wrong."""
    bad = [planted("gpu001"), planted("gpu002")]
    score = scored(verdict(suspect("gpu001"), suspect("gpu005"), suspect("gpu002")), bad, RACK)
    assert (score.found, score.healthy) == ((RIGHT, OFFERED), ("gpu005",))
    assert [(one.component, one.bad) for one in score.printed] == [
        ("gpu001", True),
        ("gpu005", False),
        ("gpu002", True),
    ]


def test_a_class_blames_nobody_and_offers_nobody() -> None:
    """A fifth of all hosts or more that are slow alike are no broken part."""
    hosts = tuple(RACK.hosts)[:3]
    said = verdict(suspect("+".join(hosts), kind="group", hosts=hosts))
    assert scored(said, [planted("gpu001")], RACK).healthy == ()
    assert scored(said, [planted("gpu001")], RACK).found == (UNSURE,)


def test_silent_is_only_who_passes() -> None:
    """INCONCLUSIVE names nobody, and is not silent."""
    assert scored(verdict(outcome=Outcome.PASS), [planted("gpu001")], RACK).found == (SILENT,)
    assert scored(verdict(outcome=Outcome.INCONCLUSIVE), [planted("gpu001")], RACK).found == (UNSURE,)
