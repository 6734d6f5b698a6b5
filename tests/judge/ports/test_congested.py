"""Slow because others send is told from slow because bad, by what RNICs and the cables of leaves counted."""

from __future__ import annotations

import pytest

from fabric.judge.ports.congested import Excused, excuse_congested
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.verdict import ProbeVerdict, Suspect
from fabric.runs.samples import LinkSamples
from tests.builders import asked
from tests.places import SCENARIOS

TOPOLOGY = asked(SCENARIOS / "incast.yaml").inventory.topology
PAIRS = (("gpu01", "gpu09"), ("gpu02", "gpu10"), ("gpu03", "gpu11"))
LOOKS_S = (0.0, 20.0, 40.0)


def probe(number: int, sender: str, receiver: str) -> Probe:
    """A pair of the first rail."""
    params = {"rnic": "mlx5_0", "peer_rnic": "mlx5_0", "duration_s": 10, "series": f"{sender}-{receiver}"}
    return Probe(f"p/{number}", "pairwise", "p", (sender, receiver), (), 12.0, params)


def judged(
    *,
    cnps: int = 1000,
    others_gbps: float = 200.0,
    read: bool = True,
    slow: int = 3,
    component: str = "su0-leaf0:uplinks",
    pairs: tuple[tuple[str, str], ...] = PAIRS,
) -> Excused:
    """
    The first *slow* of some pairs, at the same time, reach half of 384 Gb/s, and one suspect is accused of it.

    *cnps* a second are handled by each sender; *others_gbps* go up from the leaf beside what pairs send. *read*:
    switches told what their ports sent.
    """
    probes = [probe(number, *pair) for number, pair in enumerate(pairs)]
    gbps = [192.0 if number < slow else 384.0 for number in range(len(probes))]
    results = {
        one.probe_id: ProbeResult(
            one.probe_id, 1, (Measurement(one.probe_id, "bandwidth", value, "Gb/s"),), None, "", 22.0, 34.0
        )
        for one, value in zip(probes, gbps, strict=True)
    }
    verdicts = {
        one.probe_id: ProbeVerdict(
            one.probe_id, Outcome.FAIL if value < 384.0 else Outcome.PASS, "", value, 384.0, expected_gbps=384.0
        )
        for one, value in zip(probes, gbps, strict=True)
    }
    courses = {
        CounterReading(sender, "mlx5_0", "rp_cnp_handled"): CounterCourse(
            [0.0, 22.0, 34.0], [0, 5, 5 + 12 * cnps], 40.0
        )
        for sender, _ in pairs
    }
    spines = [f"spine{number}" for number in range(8)]
    cables = tuple(
        ((leaf, f"swp{9 + at}"), (spine, leaf))
        for leaf in ("su0-leaf0", "su1-leaf0")
        for at, spine in enumerate(spines)
    )
    ours = sum(gbps) * 10.0
    sent: dict[CounterReading, CounterCourse] = {}
    for (near, far), first in zip(cables, (True, *[False] * 15), strict=True):
        up = (ours + others_gbps * 20.0) if first else 0.0
        for end, gbit in ((near, up), (far, ours if (near[0], far[0]) == ("su1-leaf0", "spine0") else 0.0)):
            words = [0, 0, round(gbit / 32e-9)]
            sent[CounterReading(*end, "port_xmit_data")] = CounterCourse(list(LOOKS_S), words, 40.0)
    links = LinkSamples(Samples(20.0, sent if read else {}), cables)
    suspect = Suspect(
        component, "uplinks", Outcome.FAIL, 0.9, ("x",), hosts=("gpu01",), probes=tuple(list(results)[:slow])
    )
    return excuse_congested(probes, verdicts, [suspect], results, Samples(0.5, courses), links, TOPOLOGY)


def test_what_was_held_back_while_others_sent_is_congested() -> None:
    """No part is accused; it says how many marks and CNPs there were, and who was let go."""
    found = judged()
    assert {one.outcome for one in found.verdicts.values()} == {Outcome.MARGINAL}
    assert "192.0 Gb/s, slow because congested" in found.verdicts["p/0"].reason
    assert found.suspects == []
    assert "1,000 CNPs a second" in found.lines[0]
    assert "su0-leaf0:uplinks" in found.lines[0]


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({"others_gbps": 0.0}, Outcome.FAIL),  # the queue before a bad cable
        ({"cnps": 5}, Outcome.FAIL),  # nobody told them to slow down
        ({"read": False}, Outcome.INCONCLUSIVE),  # congested, or the queue before a bad cable
        ({"pairs": (("gpu01", "gpu09"), ("gpu01", "gpu10")), "slow": 2, "component": "gpu01/mlx5_0"}, Outcome.FAIL),
    ],
)
def test_a_part_stays_accused_where_that_does_not_explain_it(given: dict[str, object], outcome: Outcome) -> None:
    """Nobody else sent; it was not held back; nobody read it; or an RNIC is slow with everybody."""
    found = judged(**given)  # type: ignore[arg-type]
    assert [one.outcome for one in found.suspects] == [outcome]
    assert {one.outcome for one in found.verdicts.values()} == {outcome}


def test_an_rnic_that_is_good_with_others_is_let_go() -> None:
    """While others send, its slow pairs say nothing of it."""
    pairs = (("gpu01", "gpu09"), ("gpu01", "gpu10"), ("gpu01", "gpu11"))
    found = judged(pairs=pairs, slow=1, component="gpu01/mlx5_0")
    assert found.suspects == []
    assert [one.outcome for one in found.verdicts.values()] == [Outcome.MARGINAL, Outcome.PASS, Outcome.PASS]


def test_where_congestion_was_not_sampled_nothing_is_said() -> None:
    """Counters that are read seldom do not tell of one probe."""
    verdict = ProbeVerdict("p/0", Outcome.FAIL, "", 192.0, 384.0)
    found = excuse_congested([probe(0, *PAIRS[0])], {"p/0": verdict}, [], {}, Samples(10.0, {}), None, TOPOLOGY)
    assert (found.verdicts, found.lines) == ({"p/0": verdict}, [])
