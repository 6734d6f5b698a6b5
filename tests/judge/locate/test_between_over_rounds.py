"""Who is bad with every partner from some round on is a suspect, in runs of few rounds, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from benchmarks.measured_rack import rack_topology
from fabric.judge.locate.suspects import locate
from fabric.model.outcome import Outcome
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.model.verdict import ProbeVerdict, Suspect
from fabric.probes.tor_all_reduce import TorAllReduceSpec

RACK = rack_topology(8)
NAMES = tuple(RACK.hosts)
How = Callable[[Probe, int], Outcome]
"""How a probe of a round ends."""


def probes_of(number: int) -> Iterator[Probe]:
    """A ring of each two neighbours, and two pair tests of each host on each of two rails, with changing partners."""
    phase = f"soak-r{number}"
    for a, b in pairwise(NAMES):
        yield Probe(f"{phase}/{a}+{b}/ring", "tor_all_reduce", phase, (a, b), (), 10.0, {"name": "tor_all_reduce"})
    for device in ("mlx5_0", "mlx5_1"):
        for away in (1 + number % 3, 4):
            for place, a in enumerate(NAMES):
                b = NAMES[(place + away) % len(NAMES)]
                params = {"rnic": device, "peer_rnic": device, "name": "pairwise", "link_class": "same_leaf"}
                yield Probe(f"{phase}/{a}+{b}/{device}.{away}", "pairwise", phase, (a, b), (), 10.0, params)


def named(how: How, *, rounds: int = 6, gbps: dict[str, float] | None = None) -> list[Suspect]:
    """Who is named after so many rounds of half an hour; *gbps* of some probes is other than of those like them."""
    phases = [Phase(f"soak-r{n}", (TorAllReduceSpec(),), label="soak", round=n) for n in range(rounds)]
    probes, verdicts, results = [], {}, {}
    for number in range(rounds):
        for place, probe in enumerate(probes_of(number)):
            outcome, began_s = how(probe, number), 1800.0 * number + place
            value = (gbps or {}).get(probe.probe_id, {Outcome.PASS: 390.0, Outcome.FAIL: 200.0}.get(outcome))
            probes.append(probe)
            numbers = (Measurement(probe.probe_id, "bandwidth", value, "Gb/s"),) if value else ()
            ended = None if value else outcome
            results[probe.probe_id] = ProbeResult(probe.probe_id, 1, numbers, ended, "", began_s, began_s + 0.5)
            verdicts[probe.probe_id] = ProbeVerdict(
                probe.probe_id, outcome, "no answer", value_gbps=value, limit_gbps=350.0
            )
    written = {phase.name: phase.written for phase in phases}
    return [
        suspect
        for outcome in (Outcome.FAIL, Outcome.ERROR)
        for suspect in locate(probes, verdicts, results, topology=RACK, outcome=outcome, written=written).suspects
    ]


def rings_of(host: str, since: int, until: int = 99) -> How:
    """All rings of a host fail from one round on."""

    def how(probe: Probe, number: int) -> Outcome:
        bad = host in probe.hosts and probe.kind == "tor_all_reduce" and since <= number < until
        return Outcome.FAIL if bad else Outcome.PASS

    return how


def either(first: How, second: How) -> How:
    """The worse of both."""
    return lambda probe, number: max(first(probe, number), second(probe, number), key=lambda one: one.rank)


def hangs(rnic: str, since: int) -> How:
    """What goes through an RNIC hangs from one round on."""
    host, _, device = rnic.partition("/")

    def how(probe: Probe, number: int) -> Outcome:
        through = host in probe.hosts and probe.params.get("rnic", device) == device
        return Outcome.ERROR if through and number >= since else Outcome.PASS

    return how


def test_a_host_whose_rings_fail_since_two_rounds_is_named() -> None:
    (one,) = named(rings_of("gpu003", since=4))
    assert (one.component, one.kind, one.outcome, one.hosts) == ("gpu003", "host", Outcome.FAIL, ("gpu003",))
    assert any("4 of 4 probes" in line and "from 2.0 h on" in line for line in one.evidence)


def test_the_last_round_names_somebody_for_nothing_clears_it() -> None:
    (one,) = named(rings_of("gpu003", since=5))
    assert one.component == "gpu003"


def test_neighbours_that_are_both_bad_are_both_named_and_theirs_are_not() -> None:
    first, second = rings_of("gpu003", since=2), rings_of("gpu004", since=2)
    found = named(either(first, second), rounds=4)
    assert [one.component for one in found] == ["gpu003", "gpu004"]


def test_of_two_that_were_measured_together_it_is_the_one_that_no_other_clears() -> None:
    (one,) = named(rings_of("gpu001", since=3))  # the first of the row
    assert one.component == "gpu001"


def test_a_bandwidth_that_sank_in_the_middle_of_a_ring_is_of_the_host_too() -> None:
    """The first bad ring was measured while it sank, and is faster than the others."""
    how = rings_of("gpu003", since=3)
    (one,) = named(how, gbps={"soak-r3/gpu002+gpu003/ring": 320.0})
    assert one.component == "gpu003"


def test_who_was_bad_for_a_time_is_said_to_be_well_again() -> None:
    (one,) = named(rings_of("gpu003", since=1, until=4))
    assert any("and then it was well again" in line for line in one.evidence)


def test_two_hosts_that_became_bad_at_other_times_are_both_named() -> None:
    first, second = rings_of("gpu002", since=2), rings_of("gpu006", since=4)
    found = named(either(first, second))
    assert sorted(one.component for one in found) == ["gpu002", "gpu006"]


def test_an_rnic_that_hangs_is_named_with_its_port_and_explains_the_rings() -> None:
    (one,) = named(hangs("gpu004/mlx5_1", since=3))
    assert (one.component, one.kind, one.outcome) == ("gpu004/mlx5_1", "rnic", Outcome.ERROR)
    assert one.ambiguous_with == ("gpu004/mlx5_1:port",)
    assert any("18 of 18 probes" in line and "from 1.5 h on" in line for line in one.evidence)


def test_several_rnics_that_hang_are_their_host() -> None:
    one, other = hangs("gpu004/mlx5_0", since=3), hangs("gpu004/mlx5_1", since=3)
    (found,) = named(either(one, other))
    assert (found.component, found.kind) == ("gpu004", "host")


def test_healthy_rounds_name_nobody() -> None:
    assert named(lambda probe, number: Outcome.PASS) == []
