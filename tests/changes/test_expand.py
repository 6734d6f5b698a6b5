"""From what a phase asks for to the changes that will be made."""

from __future__ import annotations

from fabric.changes.kinds import expand_changes
from fabric.model.change import (
    ChangeSettings,
    When,
)
from fabric.model.scenario import Phase
from tests.changes.asked import ber, link_down, routing, shield
from tests.changes.played import topology

HOSTS = ("gpu001", "gpu002")


def expanded(*specs, settings=None):
    """Of a phase called ``hurt``."""
    return expand_changes(Phase("hurt", (), changes=specs), topology(), settings or ChangeSettings(), HOSTS)


def test_one_change_for_each_link_with_what_it_touches():
    """Ids name phase, kind and component; the ends are known from the topology."""
    one, other = expanded(ber("gpu002/mlx5_3", "leaf1--spine0#1", raw="3e-4", direction="up", at=2.0, for_=5.0))
    assert (one.change_id, one.scope, one.switches, one.hosts) == (
        "hurt/ber.gpu002/mlx5_3",
        "port",
        ("leaf3",),
        ("gpu002",),
    )
    assert (other.component, other.switches, other.hosts) == ("leaf1--spine0#1", ("leaf1", "spine0"), ())
    assert one.spec == ber("gpu002/mlx5_3", raw="3e-4", direction="up", at=2.0, for_=5.0)
    assert (one.when, one.is_fault, one.phase) == (When(2.0, 5.0), True, "hurt")


def test_fabric_wide_ones_are_made_once_and_are_no_faults():
    """They touch every host, and no port in particular."""
    found = expanded(routing(True, "fabric"), shield(False))
    assert [(one.kind, one.component, one.scope, one.spec.on, one.is_fault) for one in found] == [
        ("adaptive_routing", "fabric", "fabric", 1, False),
        ("shield", "fabric", "fabric", 0, False),
    ]
    assert {one.hosts for one in found} == {HOSTS}


def test_scope_host_is_one_change_a_host_and_scope_job_none():
    """Jobs ask for it themselves."""
    found = expanded(routing(False, "host"), routing(True, "job"))
    assert [(one.component, one.scope, one.hosts) for one in found] == [(h, "host", (h,)) for h in HOSTS]


def test_the_tool_is_the_inventorys_unless_said():
    """``by`` is always decided."""
    specs = (link_down("gpu001/mlx5_0"), link_down("gpu001/mlx5_1", by="ip"))
    found = expanded(*specs, settings=ChangeSettings(port_state="mlxlink"))
    assert [one.spec.by for one in found] == ["mlxlink", "ip"]
