"""Packets that are lost when somebody has to wait: the class of RoCE is accused, and no pair of healthy hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.measured_rack import dgx_platform
from fabric.judge.locate.lossy import KIND, lossy_class
from fabric.model.outcome import Outcome
from fabric.model.probe import FailureKind, Probe, ProbeResult
from fabric.model.topology import Host, Topology
from fabric.model.verdict import ProbeVerdict, Suspect

HOSTS = tuple(f"gpu{number:03}" for number in range(1, 13))
PAIRS = tuple(zip(HOSTS[::2], HOSTS[1::2], strict=True))
"""Who talks with whom when all do at once."""
ALONE = tuple(zip(HOSTS, (*HOSTS[1:], HOSTS[0]), strict=True))
"""Who did before, one after the other."""


def said(
    lost: Sequence[tuple[str, str]],
    *,
    link_layer: str = "ethernet",
    failure: FailureKind = FailureKind.RETRIES_EXCEEDED,
    bad_alone: Sequence[str] = (),
    at_once: bool = True,
) -> list[Suspect]:
    """What becomes of one suspect a pair that *lost* its packets, where all were measured alone first."""
    platform = replace(dgx_platform("site"), link_layer=link_layer, traffic_class=0)
    topology = Topology({name: Host(name, platform, name, None, ()) for name in HOSTS}, {}, ())
    probes, results, verdicts = [], {}, {}
    for number, hosts in enumerate((*ALONE, *PAIRS)):
        load = number >= len(ALONE)
        name = f"{'load' if load else 'alone'}/{'+'.join(hosts)}/rings"
        bad = hosts in lost if load else not set(bad_alone).isdisjoint(hosts)
        began_s = 1000.0 + (0 if at_once else 10 * number) if load else 10.0 * number
        probes.append(Probe(name, "rings", "load" if load else "alone", hosts, (), 5.0, {}))
        reason = "Got completion with status=12" if bad else ""
        outcome = Outcome.FAIL if bad else None
        results[name] = ProbeResult(
            name, 1, (), outcome, reason, began_s, began_s + 5, failure=failure if bad else None
        )
        verdicts[name] = ProbeVerdict(name, outcome or Outcome.PASS, reason)
    suspects = [
        Suspect(f"{a}+{b}", "pair", Outcome.FAIL, 0.99, (f"{a} or {b}",), hosts=(a, b), probes=(f"load/{a}+{b}/rings",))
        for a, b in lost
    ]
    return lossy_class(suspects, probes, verdicts, results, topology)


def test_pairs_that_are_lost_under_load_are_one_setting() -> None:
    """The class with its DSCP, all of their hosts, what to look at, and how many of those at the time."""
    (found,) = said(PAIRS[:4])
    assert (found.kind, found.outcome, found.component) == (KIND, Outcome.FAIL, "gpu[001-008]")
    assert "traffic class 0 (DSCP 0)" in found.evidence[0]
    assert "4 of 6 probes at the same time" in found.evidence[1]
    assert "fabric check" in found.next_step
    assert len(found.probes) == 4


@pytest.mark.parametrize(
    "told",
    [
        {"lost": PAIRS[:2]},
        {"lost": PAIRS[:4], "link_layer": "infiniband"},
        {"lost": PAIRS[:4], "failure": FailureKind.REMOTE_ERROR},
        {"lost": PAIRS[:4], "bad_alone": HOSTS[:8]},
        {"lost": PAIRS[:4], "at_once": False},
    ],
    ids=["two", "infiniband", "another failure", "bad alone, too", "one after the other"],
)
def test_what_may_be_the_hosts_stays_theirs(told: dict[str, object]) -> None:
    """Few of them, no RoCE, not for lost packets, hosts that did badly before, or with nobody to wait for."""
    found = said(**told)  # type: ignore[arg-type]
    assert [one.kind for one in found] == ["pair"] * len(told["lost"])  # type: ignore[arg-type]
