"""Only what the scenario's phases and changes need is asked for."""

from dataclasses import replace

from fabric.changes.kind import Alters
from fabric.checks.kind import HostNeeds, host_needs, with_peers
from fabric.checks.pre_flight import installed, inventory_findings
from fabric.config.inventory import load_inventory
from fabric.model.change import ChangeSettings, ChangeSpec, SubnetManager
from fabric.model.inventory import Inventory
from fabric.model.sampling import SampleSettings
from fabric.model.scenario import Phase, ProbeSpec, Scenario
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.rnic_to_rnic import RnicToRnicSpec
from tests.changes.asked import ber, link_down, port_flap, routing
from tests.places import INVENTORY

RACK = load_inventory(INVENTORY / "demo-rack-healthy.yaml")
HOSTS = ("gpu001", "gpu002")


def _scenario(probes: tuple[ProbeSpec, ...] = (), changes: tuple[ChangeSpec, ...] = ()) -> Scenario:
    phase = Phase("only", probes, changes=changes)
    return Scenario(name="s", source="s.yaml", inventory=RACK.source, hosts=HOSTS, phases=(phase,))


def _needs(
    probes: tuple[ProbeSpec, ...] = (), changes: tuple[ChangeSpec, ...] = (), inventory: Inventory = RACK
) -> dict[str, HostNeeds]:
    return host_needs(_scenario(probes, changes), HOSTS, inventory, backend="mock")


def _with(**settings: object) -> Inventory:
    return replace(RACK, changes=replace(ChangeSettings(), **settings))  # type: ignore[arg-type]


def test_each_probe_needs_its_own_programs() -> None:
    """And no others."""
    assert _needs((RnicToRnicSpec(),))["gpu001"].programs == ("ib_write_bw", "numactl")
    assert not _needs((RnicToRnicSpec(),))["gpu001"].cuda
    assert _needs((LoopbackSpec(size_bytes=1 << 20, queue_pairs=4),))["gpu001"].pinned_bytes == 8 << 20
    assert _needs((LoopbackSpec(),))["gpu001"].cuda
    assert _needs((AllToAllSpec(),))["gpu001"].programs == ("alltoall_perf",)
    assert _needs((GroupAllReduceSpec(launcher="srun"),))["gpu001"].programs == ("all_reduce_perf", "srun")


def test_hosts_that_use_mpirun_form_a_ring() -> None:
    """Each host is tried from one and to one; srun needs none of it."""
    hosts = RACK.topology.hosts
    ring = with_peers(_needs((GroupAllReduceSpec(),)), HOSTS, hosts)
    assert {name: needs.peer for name, needs in ring.items()} == {"gpu001": "gpu002", "gpu002": "gpu001"}
    alone = with_peers(_needs((GroupAllReduceSpec(),)), ("gpu002",), hosts)
    assert {name: needs.peer for name, needs in alone.items()} == {"gpu002": None}
    slurm = with_peers(_needs((GroupAllReduceSpec(launcher="srun"),)), HOSTS, hosts)
    assert all(needs.peer is None for needs in slurm.values())


def test_another_way_to_start_processes_needs_no_login() -> None:
    """``--mca plm_rsh_agent`` and ``--mca plm slurm`` are not ssh."""
    hosts = {
        name: replace(host, platform=replace(host.platform, mpirun_options=("--mca", "plm", "slurm")))
        for name, host in RACK.topology.hosts.items()
    }
    assert all(needs.peer is None for needs in with_peers(_needs((GroupAllReduceSpec(),)), HOSTS, hosts).values())


def test_switch_ports_are_closed_from_via() -> None:
    """Which need not be measured itself."""
    flap = port_flap("su0-leaf3--spine2", down=5.0)
    needs = _needs(changes=(flap,), inventory=_with(via="gpu008"))
    assert needs["gpu008"].alters == Alters(("ibportstate", "smpquery", "iblinkinfo"), guarded=True)
    assert not needs["gpu008"].measured
    assert needs["gpu001"].alters == Alters()


def test_a_hosts_own_end_is_closed_on_the_host() -> None:
    """And its firmware must let it."""
    needs = _needs(changes=(link_down("gpu001/mlx5_2", by="ip"),))
    assert needs["gpu001"].alters == Alters(("ip", "mlxlink"), guarded=True)


def test_bit_errors_of_a_host_need_its_register() -> None:
    """``up``: what the host sends."""
    needs = _needs(changes=(ber("gpu001/mlx5_2", raw="1e-6", direction="up"),), inventory=_with(via="gpu002"))
    assert needs["gpu001"].alters == Alters(("mlxreg",), guarded=True)
    assert needs["gpu002"].alters == Alters(("iblinkinfo", "perfquery"))


def test_routing_is_changed_where_the_subnet_managers_are() -> None:
    """Scope ``job`` alters nothing."""
    inventory = _with(subnet_managers=(SubnetManager("gpu007"),))
    needs = _needs(changes=(routing(True),), inventory=inventory)
    assert needs["gpu007"].alters == Alters(("cat", "systemctl", "sminfo"), guarded=True)
    assert set(_needs(changes=(routing(True, "job"),), inventory=inventory)) == set(HOSTS)


def test_switches_that_nobody_can_reach_are_told() -> None:
    """``via`` is missing in the inventory."""
    scenario = _scenario(changes=(port_flap("su0-leaf3--spine2", down=5.0),))
    (one,) = inventory_findings(scenario, RACK)
    assert "'via'" in one.advice
    assert list(inventory_findings(scenario, _with(via="gpu001"))) == []
    assert list(inventory_findings(_scenario(), RACK)) == []


def test_another_fabric_in_the_environment_is_told() -> None:
    """PyPI's fabric mixes with ours."""
    (one,) = installed({"fabric": "3.2.3"}.get)
    assert (one.what.split()[3], one.hosts) == ("3.2.3", ())
    assert list(installed({}.get)) == []


def test_cables_are_looked_at_where_counters_are_sampled() -> None:
    """By any InfiniBand host of the scenario; where via may do it and is not asked, nothing is known."""
    sampled = replace(_scenario((LoopbackSpec(),)), sample=SampleSettings())
    through = ("-C", "mlx5_0", "-P", "1", "-D", "0")
    asked = (("iblinkinfo", *through, "-l"), ("ibqueryerrors", *through))
    assert all(needs.links[:2] == asked for needs in host_needs(sampled, HOSTS, RACK, backend="mock").values())
    assert not any(needs.links for needs in _needs((LoopbackSpec(),)).values())
    assert not any(needs.links for needs in host_needs(sampled, HOSTS, _with(via="gpu008"), backend="mock").values())
