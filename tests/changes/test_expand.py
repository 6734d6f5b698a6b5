"""From what a phase asks for to the changes that will be made."""

from __future__ import annotations

import json

from fabric.changes.expand import expand_changes
from fabric.model.change import (
    AdaptiveRoutingSpec,
    BerSpec,
    ChangeSettings,
    LinkDownSpec,
    PortFlapSpec,
    ShieldSpec,
    When,
)
from fabric.model.scenario import Phase
from tests.changes.played import topology

HOSTS = ("gpu001", "gpu002")


def expanded(*specs, settings=None):
    """Of a phase called ``hurt``."""
    return expand_changes(Phase("hurt", (), changes=specs), topology(), settings or ChangeSettings(), HOSTS)


def test_one_change_for_each_link_with_what_it_touches():
    """Ids name phase, kind and component; the ends are known from the topology."""
    one, other = expanded(BerSpec(("gpu002/mlx5_3", "leaf1--spine0#1"), "raw", 3, 4, "up", When(2.0, 5.0)))
    assert (one.change_id, one.scope, one.switches, one.hosts) == (
        "hurt/ber.gpu002/mlx5_3",
        "port",
        ("leaf3",),
        ("gpu002",),
    )
    assert (other.component, other.switches, other.hosts) == ("leaf1--spine0#1", ("leaf1", "spine0"), ())
    assert one.params == {"errors": "raw", "mantissa": 3, "exponent": 4, "direction": "up"}
    assert (one.when, one.is_fault, one.phase) == (When(2.0, 5.0), True, "hurt")


def test_fabric_wide_ones_are_made_once_and_are_no_faults():
    """They touch every host, and no port in particular."""
    found = expanded(AdaptiveRoutingSpec(True, "fabric"), ShieldSpec(False))
    assert [(one.kind, one.component, one.scope, one.params["on"], one.is_fault) for one in found] == [
        ("adaptive_routing", "fabric", "fabric", 1, False),
        ("shield", "fabric", "fabric", 0, False),
    ]
    assert {one.hosts for one in found} == {HOSTS}


def test_scope_host_is_one_change_a_host_and_scope_job_none():
    """Jobs ask for it themselves."""
    found = expanded(AdaptiveRoutingSpec(False, "host"), AdaptiveRoutingSpec(True, "job"))
    assert [(one.component, one.scope, one.hosts) for one in found] == [(h, "host", (h,)) for h in HOSTS]


def test_the_same_link_twice_has_two_ids():
    """A number is added."""
    spec = LinkDownSpec(("gpu001/mlx5_0",), when=When(1.0, 1.0))
    later = LinkDownSpec(("gpu001/mlx5_0",), when=When(9.0, 1.0))
    name = "hurt/link_down.gpu001/mlx5_0"
    assert [one.change_id for one in expanded(spec, later, later)] == [name, f"{name}.2", f"{name}.3"]


def test_the_tool_is_the_inventorys_unless_said():
    """``by`` is always decided."""
    specs = (LinkDownSpec(("gpu001/mlx5_0",)), LinkDownSpec(("gpu001/mlx5_1",), by="ip"))
    found = expanded(*specs, settings=ChangeSettings(port_state="mlxlink"))
    assert [one.params["by"] for one in found] == ["mlxlink", "ip"]


def test_jitter_is_drawn_once_and_the_same_everywhere():
    """From the seed and the link, within its bounds; every period has its own, none without jitter."""
    spec = PortFlapSpec(("gpu001/mlx5_0", "gpu002/mlx5_0"), 5.0, count=4, period_s=30.0, jitter_s=2.0, seed=7)
    one, other = expanded(spec)
    drawn = [one.params[f"jitter_{number}_s"] for number in range(3)]
    assert "jitter_3_s" not in one.params
    assert len(set(drawn)) == 3
    assert all(-2.0 <= value <= 2.0 for value in drawn)
    assert expanded(spec) == (one, other)
    assert other.params["jitter_0_s"] != drawn[0]
    (steady,) = expanded(PortFlapSpec(("gpu001/mlx5_0",), 5.0, count=4, period_s=30.0))
    assert not any(name.startswith("jitter") for name in steady.params)


def test_params_can_be_written_down():
    """As JSON, and read back the same."""
    for one in expanded(BerSpec(("leaf1--spine0",), "effective", 1, 7), PortFlapSpec(("gpu001/mlx5_0",), 5.0)):
        assert json.loads(json.dumps(dict(one.params))) == one.params
