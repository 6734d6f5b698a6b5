"""The example files decode to what their comments say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from fabric import config
from fabric.changes.ber import Ber
from fabric.changes.link_down import LinkDown, PortFlap
from fabric.model.inventory import Fault
from fabric.model.scenario import ExpectedEnd, ExpectedRatio, Phase, PhaseRef, Scenario
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from fabric.probes.tor_all_reduce import TorAllReduceSpec
from tests.changes.asked import routing as adaptive_routing
from tests.changes.asked import shield
from tests.places import INVENTORY, ROOT, SCENARIOS, SHIPPED_SCENARIOS


def test_the_demo_rack_has_two_faults() -> None:
    """Eight hosts of eight rails under one set of leaves, one slow PCIe path, one slow NVLink."""
    inventory = config.load_inventory(INVENTORY / "demo-rack.yaml")
    topology = inventory.topology
    assert inventory.backend == "mock"
    assert topology.tor_groups == (tuple(f"gpu{number:03}" for number in range(1, 9)),)
    assert topology.hosts["gpu001"].leaves == tuple(f"su0-leaf{rail}" for rail in range(8))
    assert inventory.mock.faults == (
        Fault("gpu003/mlx5_2->numa1-gpus", "slow", 0.5),
        Fault("gpu006/gpu5:nvlink", "slow", 0.6),
    )


def test_the_healthy_rack_is_the_same_without_faults() -> None:
    """Only the faults and the name differ."""
    healthy = config.load_inventory(INVENTORY / "demo-rack-healthy.yaml")
    demo = config.load_inventory(INVENTORY / "demo-rack.yaml")
    assert healthy.mock.faults == ()
    assert healthy.topology == demo.topology
    assert (healthy.ssh, healthy.process) == (demo.ssh, demo.process)


def test_the_h100_layout_has_every_link_class() -> None:
    """Two RNICs and two GPUs behind each of four PCIe switches on two sockets."""
    platform = config.load_inventory(INVENTORY / "demo-rack.yaml").topology.hosts["gpu001"].platform
    rnic = platform.rnic_by_device["mlx5_2"]
    classes = [platform.link_class(rnic, endpoint) for endpoint in platform.endpoints]
    assert classes == ["mem_local", "mem_remote", "node", "node", "pix", "pix", "sys", "sys", "sys", "sys"]


def test_a_hall_fits_in_sixty_lines() -> None:
    """2,048 hosts, 16,384 RNICs, as many cables again; leaves and spines of 64 ports."""
    path = INVENTORY / "hall-2048.yaml"
    assert len(path.read_text().splitlines()) < 60
    topology = config.load_inventory(path).topology
    assert len(topology.hosts) == 2048
    assert topology.hosts["gpu2048"].leaves[7] == "su63-leaf7"
    assert topology.hosts["gpu2048"].rack == "r511"
    assert len({id(host.platform) for host in topology.hosts.values()}) == 1
    assert [len(group) for group in topology.tor_groups] == [32] * 64
    ports: dict[str, int] = {}
    for link in topology.links():
        for end in (link.a, link.b):
            ports[end] = ports.get(end, 0) + 1
    assert {count for name, count in ports.items() if name in topology.switches} == {64}


def test_the_self_check_is_the_published_one() -> None:
    """Inside the host first; then, for hosts that passed, all-reduce under the ToR (MegaScale 4.3)."""
    scenario, _ = config.load_scenario(SCENARIOS / "self-check.yaml")
    assert [(phase.name, phase.needs) for phase in scenario.phases] == [("intra-host", ()), ("tor", ("intra-host",))]
    assert scenario.phases[0].probes == (LoopbackSpec(), RnicToRnicSpec(), AllToAllSpec())
    assert scenario.phases[1].probes == (TorAllReduceSpec(),)
    assert len(scenario.hosts) == 8


@pytest.mark.parametrize("name", ["scenario", "inventory"])
def test_every_key_is_documented(name: str) -> None:
    """docs/*.md names each key of the schema."""
    schema = config.scenario_schema() if name == "scenario" else config.inventory_schema()
    text = (ROOT / "docs" / f"{name}.md").read_text()
    parts = [schema, *schema["$defs"].values()]
    keys = {key for part in parts for key in part.get("properties", {})}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


def combinations(phases: Sequence[Phase], each: int) -> Iterator[Sequence[Phase]]:
    """The phases of one combination after the other."""
    assert len(phases) % each == 0
    return (phases[at : at + each] for at in range(0, len(phases), each))


def shipped(name: str) -> Scenario:
    """A scenario that we ship, on the inventory that it names."""
    return config.load_scenario(SCENARIOS / f"{name}.yaml")[0]


def test_ar_under_ber_is_meta_s_experiment() -> None:
    """512 GPUs in random order, errors on four links in one phase of two, off and on twice in the order A B B A."""
    scenario = shipped("ar-under-ber")
    assert [dict(phase.where)["adaptive_routing"] for phase in scenario.phases[::2]] == ["off", "on", "on", "off"]
    assert [phase.written for phase in scenario.phases] == ["healthy", "degraded"] * 4
    for phase in scenario.phases:
        (probe,) = phase.probes
        assert isinstance(probe, GroupAllReduceSpec)
        assert (probe.gpus, probe.order) == (512, "random")
        assert probe.repeat >= 5
        routing, *errors = phase.changes
        assert routing == adaptive_routing(dict(phase.where)["adaptive_routing"] == "on")
        assert [len(change.link_names) for change in errors if isinstance(change, Ber)] == (
            [4] if phase.written == "degraded" else []
        )
    kept, *_ = scenario.expect
    assert kept == ExpectedRatio(
        PhaseRef("degraded", (("adaptive_routing", "on"),)), PhaseRef("healthy", (("adaptive_routing", "on"),)), 0.9
    )


def test_the_sweep_has_the_same_errors_before_and_behind_the_correction() -> None:
    """Each rate once raw and once effective, on the same links, after a healthy phase of its own."""
    scenario = shipped("ber-sweep")
    assert [phase.written for phase in scenario.phases] == ["healthy", "raw", "effective"] * 4
    for healthy, raw, effective in combinations(scenario.phases, 3):
        (one,), (other,) = raw.changes, effective.changes
        assert isinstance(one, Ber)
        assert isinstance(other, Ber)
        assert (healthy.changes, one.effective, other.raw) == ((), None, None)
        assert one.model_copy(update={"raw": None, "effective": one.raw}) == other
        assert str(one.raw) == dict(raw.where)["rate"]


def test_flaps_are_expected_to_end_as_nccl_s_timeout_says() -> None:
    """Completed when the outage is shorter than eight timeouts of 4.096 us x 2^t, aborted when it is longer."""
    scenario = shipped("flap-tolerance")
    ends = [expected for expected in scenario.expect if isinstance(expected, ExpectedEnd)]
    for phase in scenario.phases:
        (change,) = phase.changes
        assert isinstance(change, PortFlap)
        window_s = 8 * 4.096e-6 * 2 ** int(dict(phase.env)["NCCL_IB_TIMEOUT"])
        said = {end.completes for end in ends if set(end.phase.where) <= set(phase.where)}
        assert said == {change.down_s < window_s}, phase.name


def test_shield_is_tried_on_a_bad_link_and_on_a_dead_one() -> None:
    """Off and on; the dead link dies while it is used."""
    scenario = shipped("shield-on-off")
    assert [phase.written for phase in scenario.phases] == ["bad-link", "dead-link"] * 6
    order = [False, True] * 3  # switched after every dead link, so that routes are dealt out anew
    assert [phase.changes[0] for phase in scenario.phases[::2]] == [shield(on) for on in order]
    assert [phase.changes[0] for phase in scenario.phases[1::2]] == [shield(on) for on in order]
    for bad, dead in combinations(scenario.phases, 2):
        errors, down = bad.changes[1], dead.changes[1]
        assert isinstance(errors, Ber)
        assert isinstance(down, LinkDown)
        assert errors.link_names == down.link_names
        assert down.when.at_s


def test_rings_are_measured_with_both_routings() -> None:
    """The same 32 pairs, in three rounds of the order A B B A."""
    phases = shipped("ring-contention").phases
    assert [phase.written for phase in phases] == ["rings"] * 6
    off, on = phases[:2]
    assert off.probes == on.probes
    assert (off.changes, on.changes) == (
        (adaptive_routing(False),),
        (adaptive_routing(True),),
    )


def test_the_pod_can_be_altered() -> None:
    """Two subnet managers, and a way to the switches that no shipped scenario cuts."""
    inventory = config.load_inventory(INVENTORY / "pod-64.yaml")
    assert len(inventory.changes.subnet_managers) == 2
    for path in SHIPPED_SCENARIOS:
        for phase in config.load_scenario(path)[0].phases:
            for change in phase.changes:
                names = getattr(change, "link_names", ())
                assert not any(name.startswith(f"{inventory.changes.via}/") for name in names)
                switches = [end for name in names if "--" in name for end in name.split("--")]
                assert len(switches) == len(set(switches)), "more than one link of a switch at a time"
                assert len(names) <= inventory.changes.blast_radius.changes


def test_a_run_that_may_fail_a_host_notes_who_is_who() -> None:
    """Else a validation after the repair cannot tell what was replaced."""
    for name in ("self-check.yaml", "post-repair.yaml"):
        scenario, _ = config.load_scenario(SCENARIOS / name)
        assert scenario.identity, name
