"""What a tool calls down within a host, beside pairs of other hosts that passed through the same leaf."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.outcome import Outcome
from fabric.model.probe import NamedPart
from tests.judge.locate.pairs.test_in_run import POD, Ran, World, ran


def with_down_ports(*hosts: str) -> Ran:
    """Loopbacks of the second RNIC of these hosts say that its port is down; their pairs are not measured."""
    found = ran(World(POD, skipped=frozenset()), loopback=True)
    for probe in found.probes:
        result = found.results[probe.probe_id]
        if probe.kind == "loopback" and probe.hosts[0] in hosts and probe.params["rnic"] == "mlx5_1":
            named = NamedPart(f"{probe.hosts[0]}/mlx5_1", "down")
            found.results[probe.probe_id] = replace(
                result, measurements=(), outcome=Outcome.FAIL, reason="Port number 1 state is Down", named=named
            )
        elif probe.kind == "pairwise" and not set(hosts).isdisjoint(probe.hosts):
            found.results[probe.probe_id] = replace(result, measurements=(), outcome=Outcome.SKIPPED, reason="gate")
    return found


def test_a_leaf_that_other_hosts_passed_through_is_not_taken_for_a_port_that_is_down() -> None:
    (suspect,) = with_down_ports("gpu007").verdict.suspects
    assert (suspect.component, suspect.ambiguous_with) == ("gpu007/mlx5_1:port", ())
    assert suspect.confidence > 0.8


def test_two_ports_that_are_down_are_two_and_not_their_leaf() -> None:
    assert with_down_ports("gpu007", "gpu009").named == ["gpu007/mlx5_1:port", "gpu009/mlx5_1:port"]
