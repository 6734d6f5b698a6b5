"""Latency between RNICs of two hosts: what is asked, what is read, and what is judged, all on the simulated rack."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.altered_answers import printed
from fabric.app.prepare import Given, prepare
from fabric.config import load_scenario
from fabric.errors import ConfigError
from fabric.judge.normal.latency import latency_verdicts
from fabric.model.command import CommandResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, Measurement, Probe, ProbeResult
from fabric.model.scenario import Phase
from fabric.probes.kinds import expand_phase
from fabric.probes.latency import P99, TYPICAL, LatencySpec
from tests.probes.test_pairwise import pod

TOPOLOGY = pod()
RACK = Path(__file__).parents[2] / "inventory" / "demo-rack-healthy.yaml"
TEXT = "name: lat\ninventory: {rack}\nphases: [{{name: p, probes: [{probe}]}}]\n"


def probes_of(spec: LatencySpec) -> list[Probe]:
    return expand_phase(Phase("p", (spec,)), TOPOLOGY, tuple(TOPOLOGY.hosts))


def verdicts(probes: list[Probe], slow_rnic: str = "", *, p99_us: float = 2.1) -> dict[str, tuple[Outcome, str]]:
    """Every latency is 2 us, but for those of one RNIC."""
    listed = []
    for probe in probes:
        ends = [f"{host}/{probe.params[end]}" for host, end in zip(probe.hosts, ("rnic", "peer_rnic"), strict=True)]
        typical = 5.0 if slow_rnic in ends else 2.0
        numbers = [Measurement(probe.probe_id, name, us, "us", 2) for name, us in ((TYPICAL, typical), (P99, p99_us))]
        listed.append((probe, ProbeResult(probe.probe_id, 1, tuple(numbers), None, "", 0.0, 1.0)))
    return {name: (one.outcome, one.reason) for name, one in latency_verdicts(listed, TOPOLOGY).items()}


def test_client_and_server_ask_for_the_same_on_their_own_rnics() -> None:
    probe = probes_of(LatencySpec(iterations=500))[0]
    commands = LatencySpec.commands(probe, TOPOLOGY)
    server, client = commands.servers[0], commands.client
    assert (server.host, client.host) == (probe.hosts[1], probe.hosts[0])
    assert "--iters=500" in client.argv
    assert client.argv == (*(word.replace(server.host, client.host) for word in server.argv), server.host)
    assert not any(word.startswith("--duration") for word in client.argv)  # of such a run there are no percentiles


def test_an_rnic_that_is_slow_with_every_partner_is_bad_and_its_partners_are_not() -> None:
    found = verdicts(probes_of(LatencySpec(at_most_us=9.0)), "gpu002/mlx5_1")
    failed = {name for name, (outcome, _) in found.items() if outcome is Outcome.FAIL}
    assert len(failed) == 3
    assert all("so is every latency of gpu002/mlx5_1" in found[name][1] for name in failed)
    assert {outcome for name, (outcome, _) in found.items() if name not in failed} == {Outcome.PASS}


def test_slow_once_is_measured_again() -> None:
    found = verdicts(probes_of(LatencySpec(at_most_us=9.0, rounds=1)), "gpu002/mlx5_1")
    assert Outcome.worst([outcome for outcome, _ in found.values()]) is Outcome.MARGINAL
    assert any("2.5 times the median of" in reason for _, reason in found.values())


def test_limits_are_of_the_median_and_of_the_tail() -> None:
    assert {one for one, _ in verdicts(probes_of(LatencySpec(at_most_us=1.5))).values()} == {Outcome.FAIL}
    found = verdicts(probes_of(LatencySpec(p99_at_most_us=4.0)), p99_us=4.5)
    assert set(found.values()) == {(Outcome.FAIL, "4.50 us of 99 of 100, at most 4 allowed")}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Latency Test", "BW Test", "output not usable"),
        (" mlx5_", " mlx5_9", "asked Device"),
        ("10000", "1000", "asked iterations 10000, saw 1000"),
    ],
)
def test_what_is_no_answer_is_an_error(tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "s.yaml").write_text(TEXT.format(rack=RACK, probe="latency: {rounds: 1}"))
    asked = prepare(Given(tmp_path / "s.yaml", hosts="gpu[001-002]"))
    topology = asked.inventory.topology
    probe = expand_phase(asked.scenario.phases[0], topology, asked.scenario.hosts)[0]
    client, *servers = printed(asked.inventory, probe, 0)
    commands = LatencySpec.commands(probe, topology)

    def answered(text: str) -> Answered:
        sides = zip(commands.servers, servers, strict=True)
        return Answered(
            [CommandResult(one, 0, said, "", 0.0, 1.0) for one, said in sides],
            CommandResult(commands.client, 0, text, "", 0.0, 1.0),
        )

    good = LatencySpec.read(probe, topology, answered(client))
    assert (good.outcome, [one.unit for one in good.measurements]) == (None, ["us"] * 3)
    found = LatencySpec.read(probe, topology, answered(client.replace(old, new)))
    assert found.outcome is Outcome.ERROR
    assert said in found.reason


def test_a_mistake_in_a_key_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(TEXT.format(rack=RACK, probe="latency: {at_most: 5us, duration: 3s, only: [a]}"))
    with pytest.raises(ConfigError) as raised:
        load_scenario(tmp_path / "s.yaml")
    assert [str(one).partition("s.yaml:")[2] for one in raised.value.problems] == [
        "3: unknown key 'at_most'; did you mean 'at_most_us'?",
        "3: unknown key 'duration'; did you mean 'iterations'?",
        "3: unknown key 'only'",
    ]
