"""A verdict with what was sampled beside the probes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.measured_rack import one_number, rack_topology
from fabric.judge.ports.verdict import PortFindings, SeenCounters, port_findings, ports_of
from fabric.model.outcome import Outcome, Reason, ReasonKind
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.sampling import CounterCourse, CounterReading, Samples
from fabric.model.verdict import ProbeVerdict, Suspect

RACK = rack_topology(2, parts=2)


def probe(name: str, kind: str = "rnic_to_rnic", **params: str) -> Probe:
    """One on gpu001."""
    return Probe(f"p/gpu001/{name}", kind, "p", ("gpu001",), (), 5.0, dict(params))


EARLY = probe("early", rnic="mlx5_0", peer_rnic="mlx5_1")
LATE = probe("late", rnic="mlx5_0", peer_rnic="mlx5_1")
INSIDE = probe("inside", "loopback", rnic="mlx5_0", endpoint="gpu0")
PROBES = (EARLY, LATE, INSIDE)
TIMES = {EARLY.probe_id: (0.0, 50.0), LATE.probe_id: (100.0, 150.0), INSIDE.probe_id: (100.0, 150.0)}
RESULTS = {name: one_number(name, 390.0, 8, at_s=began, s=ended - began) for name, (began, ended) in TIMES.items()}
GOOD = {one.probe_id: ProbeVerdict(one.probe_id, Outcome.PASS, "", 390.0, 384.0) for one in PROBES}


def samples(name: str, *steps: tuple[float, int]) -> Samples:
    """All ports of gpu001 and gpu002 counted nothing but this one."""
    courses = {
        CounterReading(host, device, "link_downed"): CounterCourse([0.0], [0], 300.0)
        for host in ("gpu001", "gpu002")
        for device in ("mlx5_0", "mlx5_1")
    }
    at_s, values = [0.0, *(at for at, _ in steps)], [0, *(value for _, value in steps)]
    courses[CounterReading("gpu001", "mlx5_0", name)] = CounterCourse(at_s, values, 300.0)
    return Samples(10.0, courses)


def judged(
    found: Samples, *suspects: Suspect, verdicts: Mapping[str, ProbeVerdict] = GOOD, watches: bool = False
) -> PortFindings:
    """With these samples."""
    seen = SeenCounters(found, tuple(RACK.hosts), watches=watches)
    return port_findings(seen, PROBES, verdicts, suspects, RESULTS, RACK)


def outcome(found: PortFindings) -> Outcome:
    """Of a run in which nothing else is bad."""
    return Outcome.worst([Outcome.PASS, *found.outcomes])


def test_nothing_changes_where_nothing_was_sampled_or_counted() -> None:
    """The verdicts themselves, or as good."""
    assert judged(Samples(10.0, {})).probes is GOOD
    assert outcome(judged(samples("link_downed"))) is Outcome.PASS


def test_a_run_that_watches_for_hours_says_that_nobody_looked_at_the_cables() -> None:
    """Also where it accepts no links."""
    found = judged(Samples(10.0, {}), watches=True)
    many = len(list(RACK.links()))
    text = f"links: none of the {many} cables was looked at from both ends"
    assert found.reasons == (Reason(text, ReasonKind.LINKS),)
    assert outcome(found) is Outcome.PASS


def test_good_bandwidth_over_a_link_that_recovers_is_marginal() -> None:
    """Only the probe in whose time it was; one that stays inside the RNIC crossed no link."""
    found = judged(samples("link_error_recovery", (120.0, 3)))
    early, late, inside = found.probes.values()
    assert (early.outcome, inside.outcome) == (Outcome.PASS, Outcome.PASS)
    assert late.outcome is Outcome.MARGINAL
    assert late.reason == "bandwidth good (390.0 Gb/s), 3 link recoveries on gpu001/mlx5_0"
    assert outcome(found) is Outcome.MARGINAL
    assert any("bandwidth good in 1 probe meanwhile" in reason.text for reason in found.reasons)


def test_a_link_that_went_down_fails_and_is_a_suspect_with_that_evidence() -> None:
    """Though every probe passed."""
    found = judged(samples("link_downed", (120.0, 2)))
    assert outcome(found) is Outcome.FAIL
    (suspect,) = found.suspects
    assert (suspect.component, suspect.kind, suspect.hosts) == ("gpu001/mlx5_0:port", "link", ("gpu001",))
    assert suspect.evidence == ("counters: 2 times down after 2 min 00 s",)
    assert suspect.probes == (LATE.probe_id,)
    (component,) = found.components.values()
    assert (component.component, component.outcome) == ("gpu001/mlx5_0:port", Outcome.FAIL)


def test_a_suspect_that_is_there_already_gets_the_evidence() -> None:
    """It is not named twice."""
    known = Suspect("gpu001/mlx5_0:port", "link", Outcome.FAIL, 0.5, ("slow",))
    found = judged(samples("link_downed", (120.0, 2)), known)
    assert [one.evidence for one in found.suspects] == [("slow", "counters: 2 times down after 2 min 00 s")]


def test_a_probe_that_failed_stays_as_it_is() -> None:
    """Its own reason says more."""
    bad = ProbeVerdict(LATE.probe_id, Outcome.ERROR, "the host went away")
    found = judged(samples("link_downed", (120.0, 2)), verdicts={**GOOD, LATE.probe_id: bad})
    assert found.probes[LATE.probe_id] == bad


@pytest.mark.parametrize(
    ("at_s", "names"), [(120.0, ["gpu001/mlx5_0:port"]), (900.0, ["gpu001+gpu002", "gpu001/mlx5_0:port"])]
)
def test_a_pair_that_failed_while_its_port_was_down_is_that_port(at_s: float, names: list[str]) -> None:
    """When it went down at another time, the pair is a suspect of its own."""
    params = {"rnic": "mlx5_0", "peer_rnic": "mlx5_0"}
    pair = Probe("p/gpu001+gpu002/pairwise", "pairwise", "p", ("gpu001", "gpu002"), (), 10.0, params)
    failed = ProbeResult(pair.probe_id, 1, (), Outcome.FAIL, "retry counter exceeded", 110.0, 130.0)
    suspect = Suspect("gpu001+gpu002", "pair", Outcome.FAIL, 0.67, ("either",), probes=(pair.probe_id,))
    verdicts = {pair.probe_id: ProbeVerdict(pair.probe_id, Outcome.FAIL, "retry")}
    seen = SeenCounters(samples("link_downed", (at_s, 1)), tuple(RACK.hosts))
    found = port_findings(seen, [pair], verdicts, [suspect], {pair.probe_id: failed}, RACK)
    assert [one.component for one in found.suspects] == names
    port = found.suspects[-1]
    assert (port.probes == (pair.probe_id,), "meanwhile 1 probe over it failed" in port.evidence) == (
        len(names) == 1,
        len(names) == 1,
    )


@pytest.mark.parametrize(("value_gbps", "names"), [(2900.0, 1), (1500.0, 2)])
def test_a_ring_that_was_a_little_slow_while_a_port_flapped_is_that_port(value_gbps: float, names: int) -> None:
    """One at half its limit has another cause."""
    ring = Probe("p/gpu001+gpu002/ring", "tor_all_reduce", "p", ("gpu001", "gpu002"), (), 10.0, {})
    numbers = (Measurement(ring.probe_id, "bus_bandwidth", value_gbps, "Gb/s", 8),)
    slow = ProbeResult(ring.probe_id, 1, numbers, None, "", 110.0, 130.0)
    suspect = Suspect("gpu001+gpu002", "pair", Outcome.FAIL, 0.67, ("either",), probes=(ring.probe_id,))
    own = ProbeVerdict(ring.probe_id, Outcome.FAIL, "", value_gbps, 2944.0)
    seen = SeenCounters(samples("link_downed", (120.0, 1)), tuple(RACK.hosts))
    found = port_findings(seen, [ring], {ring.probe_id: own}, [suspect], {ring.probe_id: slow}, RACK)
    assert len(found.suspects) == names
    assert found.suspects[-1].component == "gpu001/mlx5_0:port"


def test_errors_that_are_too_few_to_tell_are_said_and_change_nothing() -> None:
    """Nobody knows yet: the time that would show it is named."""
    found = judged(samples("symbol_error", (120.0, 1)))
    assert outcome(found) is Outcome.PASS
    said = (
        "1 symbol error in 5 min 00 s, 0.12 allowed (BER 1e-15): INCONCLUSIVE, 3 h 12 min more without another would do"
    )
    assert f"gpu001/mlx5_0:port: {said}" in map(str, found.reasons)


def test_hosts_that_could_not_be_read_are_named() -> None:
    """They did not count 0."""
    one = samples("link_downed")
    courses = {reading: course for reading, course in one.courses.items() if reading.host == "gpu001"}
    found = judged(Samples(10.0, courses))
    assert any(reason.text.startswith("counters not readable on gpu002") for reason in found.reasons)


@pytest.mark.parametrize(
    ("kind", "params", "count"),
    [("rnic_to_rnic", {"rnic": "mlx5_0", "peer_rnic": "mlx5_1"}, 2), ("all_to_all", {}, 0), ("tor_all_reduce", {}, 2)],
)
def test_a_probe_crosses_the_ports_that_its_bytes_cross(kind: str, params: dict[str, str], count: int) -> None:
    """A collective all of its hosts'."""
    assert len(ports_of(probe("x", kind, **params), RACK)) == count


@pytest.mark.parametrize(("value", "said"), [(255, True), (254, False)])
def test_a_counter_that_cannot_grow_any_more_is_told(value: int, *, said: bool) -> None:
    """A port whose link went down 255 times may go down each minute, and nothing is seen of it."""
    counted = samples("link_downed")
    counted.courses[CounterReading("gpu001", "mlx5_0", "link_downed")].values[0] = value
    found = judged(counted)
    text = "gpu001/mlx5_0:port: link_downed stands at its highest value: nothing more is seen until it is cleared"
    assert any(reason.text.startswith(text) for reason in found.reasons) is said
