"""What is found over time explains bad probes of others: those are suspects no more."""

from __future__ import annotations

from dataclasses import replace

from fabric.judge.course.findings import CourseFinding, with_over_time
from fabric.model.outcome import Outcome
from fabric.model.verdict import ComponentVerdict, ProbeVerdict, Suspect, Verdict

SLOW = ProbeVerdict("p1", Outcome.FAIL, "slow", value_gbps=300.0)
RACK = CourseFinding(
    "rack r1",
    "step",
    "lost 15 % at once",
    "rack",
    0.99,
    ("p1",),
    hosts=("gpu001", "gpu002"),
    explains={"p1": ("gpu001", "gpu009"), "p2": ("gpu001", "gpu002")},
)


def suspect(component: str, *probes: str, kind: str = "host", hosts: tuple[str, ...] = ("gpu009",)) -> Suspect:
    """A part that FAILs for these probes."""
    return Suspect(component, kind, Outcome.FAIL, 0.9, ("slow",), hosts=hosts, probes=probes)


def named(*suspects: Suspect, probe: ProbeVerdict = SLOW) -> list[str]:
    """Who is left beside the rack."""
    components = tuple(ComponentVerdict(one.component, Outcome.FAIL, "slow") for one in suspects)
    verdict = with_over_time(Verdict(Outcome.FAIL, (), suspects, components, (probe,)), [RACK])
    left = {one.component for one in verdict.suspects}
    for one in verdict.components:
        assert (one.outcome is Outcome.FAIL) == (one.component in left)
    return sorted(left - {"rack r1"})


def test_who_was_slow_only_with_a_bad_rack_is_cleared() -> None:
    assert named(suspect("gpu009", "p1")) == []


def test_who_was_slow_with_others_too_is_not() -> None:
    assert named(suspect("gpu009", "p1", "with another")) == ["gpu009"]


def test_a_leaf_is_cleared_when_only_some_of_its_hosts_are_bad() -> None:
    assert named(suspect("leaf0", "p1", "p2", kind="leaf", hosts=())) == []


def test_a_leaf_is_not_cleared_when_all_hosts_of_its_probes_are_bad() -> None:
    assert named(suspect("leaf0", "p2", kind="leaf", hosts=())) == ["leaf0"]


def test_a_path_from_a_bad_host_is_no_path() -> None:
    path = suspect("gpu001--gpu009", kind="path", hosts=("gpu001", "gpu009"))
    other = suspect("gpu008--gpu009", kind="path", hosts=("gpu008", "gpu009"))
    assert named(path, other) == ["gpu008--gpu009"]


def test_what_a_port_counted_is_not_explained_by_bandwidth() -> None:
    port = suspect("gpu009/mlx5_0:port", "p1", kind="link")
    assert named(replace(port, evidence=("counters: symbol_error grew",))) == ["gpu009/mlx5_0:port"]
    assert named(port) == []


def test_a_probe_that_measured_nothing_is_not_explained_by_a_slow_part() -> None:
    assert named(suspect("gpu009", "p1"), probe=replace(SLOW, value_gbps=None)) == ["gpu009"]


def test_a_rack_is_of_its_hosts_and_uplinks_of_none() -> None:
    uplinks = replace(RACK, component="leaf0:uplinks", kind="uplinks", part="uplinks", hosts=())
    verdict = with_over_time(Verdict(Outcome.PASS, (), (), (), ()), [RACK, uplinks])
    assert [(one.kind, one.hosts) for one in verdict.suspects] == [("rack", ("gpu001", "gpu002")), ("uplinks", ())]


def test_a_host_with_bad_nvlink_fails_because_of_it() -> None:
    finding = CourseFinding("gpu003/nvlink", "low", "slow", "nvlink", 0.9, ("p",), hosts=("gpu003",))
    host = ComponentVerdict("gpu003", Outcome.PASS, "")
    verdict = with_over_time(Verdict(Outcome.PASS, (), (), (host,), ()), [finding])
    assert {one.component: one.outcome for one in verdict.components} == {
        "gpu003": Outcome.FAIL,
        "gpu003/nvlink": Outcome.FAIL,
    }


def test_who_failed_only_with_a_suspected_host_did_not_come_back() -> None:
    back = CourseFinding("gpu004", "came_back", "failed in 1 of 44", "host", 0.6, ("p1",))
    back = replace(back, hosts=("gpu004",), explains={"p1": ("gpu009", "gpu004"), "p2": ("gpu004", "gpu005")})
    known = Verdict(Outcome.FAIL, (), (suspect("gpu009/mlx5_2", "p1", kind="rnic"),), (), (SLOW,))
    assert [one.component for one in with_over_time(known, [back]).suspects] == ["gpu009/mlx5_2"]
    alone = replace(back, probes=("p1", "p2"))
    assert "gpu004" in [one.component for one in with_over_time(known, [alone]).suspects]
