"""What pairs name and what single hosts show beside it: the same trouble is one suspect, and the surer one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.judge.verdict.conclude import each_once, merge_between_and_inside, not_of_bad_hosts
from fabric.model.outcome import Outcome
from fabric.model.verdict import Suspect


def suspect(component: str, outcome: Outcome, *rivals: str) -> Suspect:
    """With what it cannot be told apart from."""
    return Suspect(component, "link", outcome, 0.5, (f"{component} is slow",), ambiguous_with=rivals)


def named(between: list[Suspect], inside: list[Suspect]) -> list[str]:
    """Who is named, each once, in their order."""
    return list(dict.fromkeys(one.component for one in merge_between_and_inside(between, inside)))


SENDER, UPLINKS, PORT = "gpu007/mlx5_0:tx", "u1-leaf0:uplinks", "gpu005/mlx5_0:port"


@pytest.mark.parametrize(
    ("pairs_say", "expected"),
    [(Outcome.INCONCLUSIVE, [UPLINKS]), (Outcome.FAIL, [SENDER])],
    ids=["may be bad", "is bad"],
)
def test_a_rival_that_is_bad_for_certain_inside_is_named_instead_of_what_may_be_bad(
    pairs_say: Outcome, expected: list[str]
) -> None:
    """Some pairs of one sender drew the slow uplink of its leaf, and an RNIC beside it takes that uplink as well."""
    between, inside = [suspect(SENDER, pairs_say, UPLINKS)], [suspect(UPLINKS, Outcome.FAIL)]
    assert named(between, inside) == expected


def test_what_may_be_bad_inside_takes_nothing_from_what_pairs_say_may_be_bad() -> None:
    between = [suspect(SENDER, Outcome.INCONCLUSIVE, UPLINKS)]
    assert named(between, [suspect(UPLINKS, Outcome.INCONCLUSIVE)]) == [SENDER]


def test_trouble_elsewhere_is_named_beside_it_and_first() -> None:
    between = [suspect(SENDER, Outcome.INCONCLUSIVE, UPLINKS)]
    assert named(between, [suspect(PORT, Outcome.FAIL)]) == [PORT, SENDER]


def test_a_part_that_both_name_is_named_with_both_their_evidence() -> None:
    """As pairs say it, first."""
    mine, other = suspect(UPLINKS, Outcome.FAIL), suspect(UPLINKS, Outcome.FAIL, PORT)
    assert merge_between_and_inside([mine], [other]) == [mine, other]


def test_what_cannot_be_told_apart_from_a_part_that_pairs_named_is_the_same_trouble() -> None:
    assert named([suspect(UPLINKS, Outcome.FAIL)], [suspect(PORT, Outcome.FAIL, UPLINKS)]) == [UPLINKS]


def test_a_port_that_is_bad_is_what_pairs_say_of_its_rnic() -> None:
    """Named as the port, which a tool called down, and so before the RNIC of another host."""
    between = [suspect("gpu005/mlx5_0", Outcome.FAIL), suspect("gpu006/mlx5_0", Outcome.FAIL)]
    assert named(between, [suspect(PORT, Outcome.FAIL)]) == [PORT, "gpu006/mlx5_0"]


def test_a_port_that_cannot_be_told_apart_from_its_rnic_is_not_what_pairs_say_of_that() -> None:
    """The RNIC stays as it was named."""
    between = [suspect("gpu005/mlx5_0", Outcome.FAIL, PORT)]
    assert named(between, [suspect(PORT, Outcome.FAIL, "gpu005/mlx5_0")]) == ["gpu005/mlx5_0"]


def of_hosts(component: str, outcome: Outcome, *hosts: str) -> Suspect:
    return Suspect(component, "pair", outcome, 0.5, ("",), hosts=hosts)


def test_what_could_not_be_measured_with_a_bad_host_is_no_trouble_of_its_own() -> None:
    """Its own errors are, and those between others."""
    bad = of_hosts(PORT, Outcome.FAIL, "gpu005")
    own, others = of_hosts("gpu005", Outcome.ERROR, "gpu005"), of_hosts("a+b", Outcome.ERROR, "gpu001", "gpu002")
    beside = of_hosts("gpu004+gpu005", Outcome.ERROR, "gpu004", "gpu005")
    assert not_of_bad_hosts([own, beside, others], [bad]) == [own, others]
    assert not_of_bad_hosts([beside], [replace(bad, outcome=Outcome.INCONCLUSIVE)]) == [beside]


def test_what_is_bad_for_certain_is_not_named_again_as_doubtful() -> None:
    """As a tool calls it down, and by two slow samples."""
    doubtful, bad = suspect(PORT, Outcome.INCONCLUSIVE), suspect(PORT, Outcome.FAIL)
    assert [(one.component, one.outcome) for one in each_once([doubtful, bad])] == [(PORT, Outcome.FAIL)]


def test_what_is_between_a_bad_host_and_another_is_not_doubted() -> None:
    """A port that flaps was up, and slow, in both tests of two hosts."""
    path = replace(suspect("gpu005--gpu009", Outcome.INCONCLUSIVE), hosts=("gpu005", "gpu009"))
    bad = replace(suspect(PORT, Outcome.FAIL), hosts=("gpu005",))
    assert named([path], [bad]) == [PORT]
    assert named([path], [replace(bad, hosts=("gpu001",))]) == [PORT, path.component]


@pytest.mark.parametrize(
    ("confidence", "hosts", "expected"),
    [
        (0.12, ("gpu001", "gpu002"), ["gpu[001-004]"]),
        (0.9, ("gpu001", "gpu002"), ["leaf0", "gpu[001-004]"]),
        (0.12, ("gpu001", "gpu009"), ["leaf0", "gpu[001-004]"]),
    ],
    ids=["some of them", "for certain", "others too"],
)
def test_a_leaf_is_no_reason_for_what_all_hosts_show(
    confidence: float, hosts: tuple[str, ...], expected: list[str]
) -> None:
    """The rings of all hosts are slow because all hosts are: then each of their leaves explains some of the rings."""
    group = replace(of_hosts("gpu[001-004]", Outcome.FAIL, "gpu001", "gpu002", "gpu003", "gpu004"), kind="group")
    leaf = replace(suspect("leaf0", Outcome.FAIL, "leaf1"), kind="leaf", hosts=hosts, confidence=confidence)
    assert named([group], [leaf]) == expected
