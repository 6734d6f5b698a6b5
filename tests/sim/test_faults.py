"""The table of fault kinds: what each can be on, and what of it a host feels."""

from __future__ import annotations

import pytest

from fabric.model.inventory import Fault
from fabric.sim.faults import KINDS, faults_by_host, require_passing

PARTS = {"host": "gpu001", "rnic": "gpu001/mlx5_0", "gpu": "gpu001/gpu0", "part": "gpu001/numa0"}
PARTS |= {"cable": "gpu001/mlx5_0:port", "leaf": "leaf1"}


@pytest.mark.parametrize("part", sorted(PARTS))
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_part_has_the_kinds_that_the_table_gives_it(kit, part, kind):
    """Every other kind is refused, with those that are possible."""
    topology = kit.topology_of(2, kit.platform_like())
    component = PARTS[part] if part != "leaf" else next(iter(topology.switches))
    fault = Fault(component, kind, 0.5)
    if part in KINDS[kind].parts.split():
        assert "gpu001" in faults_by_host(topology, (fault,))
    else:
        with pytest.raises(ValueError, match=f"cannot be '{kind}'; it can be "):
            faults_by_host(topology, (fault,))


def test_what_comes_over_a_running_rack_is_checked_too(kit):
    """A lemon is no GPU."""
    topology = kit.topology_of(1, kit.platform_like())
    require_passing(Fault("gpu001", "lemon"), topology)
    with pytest.raises(ValueError, match="can be a lemon"):
        require_passing(Fault("gpu001/gpu0", "lemon"), topology)
