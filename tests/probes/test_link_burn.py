"""Flows of a burn-in: who sends to whom, what each holds alone, and what is run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.model.command import CommandResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, Probe
from fabric.model.scenario import Phase
from fabric.probes.kinds import expand_phase
from fabric.probes.link_burn import BurnFlow, LinkBurnSpec
from tests.conftest import rack_topology

RACK = rack_topology(3)
RING = tuple(
    BurnFlow(f"gpu00{a}", f"mlx5_{rail}", f"gpu00{b}", f"mlx5_{rail}")
    for a, b in ((1, 2), (2, 3), (3, 1))
    for rail in range(8)
)
BACK = tuple(BurnFlow(flow.peer, flow.peer_device, flow.host, flow.device) for flow in RING)


def expanded(spec: LinkBurnSpec, hosts: tuple[str, ...] = tuple(RACK.hosts)) -> list[Probe]:
    """Its probes."""
    return expand_phase(Phase("burn", (spec,)), RACK, hosts)


def test_an_rnic_sends_and_receives_at_once_but_each_only_once() -> None:
    claims = [claim for probe in expanded(LinkBurnSpec(stages=(RING,))) for claim in probe.claims]
    assert len(set(claims)) == len(claims) == 2 * 24
    assert {"gpu001/mlx5_0:out", "gpu001/mlx5_0:in"} <= set(claims)


def test_servers_on_one_host_listen_on_ports_of_their_own() -> None:
    probes = expanded(LinkBurnSpec(stages=(RING,)))
    ports = [(probe.hosts[-1], probe.params["port"]) for probe in probes]
    assert len(set(ports)) == len(ports)


def test_stages_have_ids_of_their_own_and_keep_their_numbers_when_split() -> None:
    spec = LinkBurnSpec(stages=(RING, BACK))
    together = expanded(spec)
    apart = [probe for one in spec.one_by_one() for probe in expanded(one)]
    assert together == apart
    assert len({probe.probe_id for probe in together}) == 48
    assert [probe.params["stage"] for probe in together] == [0] * 24 + [1] * 24


@pytest.mark.parametrize(("memory", "gpu"), [("gpu", True), ("host", False)])
def test_buffers_are_on_the_nearest_gpu_or_next_to_the_rnic(memory: str, gpu: bool) -> None:
    probe = expanded(LinkBurnSpec(stages=(RING[3:4],), memory=memory))[0]
    made = LinkBurnSpec.commands(probe, RACK)
    for command in (made.client, *made.servers):
        assert ("--use_cuda=3" in command.argv) is gpu
        assert "--ib-dev=mlx5_3" in command.argv
        assert "--report_gbits" in command.argv
        assert "--duration=1800" in command.argv
    assert (made.servers[0].host, made.client.host, made.client.argv[-1]) == ("gpu002", "gpu001", "gpu002")


def test_a_port_that_is_down_is_named() -> None:
    probe = expanded(LinkBurnSpec(stages=(RING[:1],)))[0]
    made = LinkBurnSpec.commands(probe, RACK)
    down = "Port number 1 state is Down\n Couldn't set the link layer\n"
    server = CommandResult(replace(made.servers[0]), 1, "", down, 0.0, 1.0)
    found = LinkBurnSpec.read(probe, RACK, Answered([server], None))
    assert found.outcome is Outcome.FAIL
    assert found.named is not None
    assert (found.named.component, found.named.condition) == ("gpu002/mlx5_0", "down")
