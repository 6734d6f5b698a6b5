"""Adaptive routing in the RNICs of a host (RoCE)."""

from __future__ import annotations

import pytest

from fabric.errors import NotInForce, Refused
from fabric.model.change import ChangeSettings
from tests.changes.played import Played, change, topology


def forced(*, on=True, host="gpu001"):
    """Of one host."""
    return change("adaptive_routing", host, scope="host", on=on)


def test_every_rnic_of_the_host_is_changed_and_put_back():
    """With the bit that says which field is meant."""
    played, asked = Played(ChangeSettings(), world=topology(link_layer="ethernet")), forced()
    (alteration,) = played.prepare(asked)
    wanted = "adaptive_routing_forced_en=1,adaptive_routing_forced_en_field_select=1"
    assert {argv[-2] for argv in alteration.apply} == {wanted}
    assert len(alteration.apply) == len(alteration.checks) == 8
    with pytest.raises(NotInForce, match="mlx5_0: adaptive_routing_forced_en is 0"):
        played.confirm(asked, (alteration,))
    played.apply((alteration,))
    played.confirm(asked, (alteration,))
    assert not played.checks_hold((alteration,))
    played.undo((alteration,))
    assert played.checks_hold((alteration,))


def test_what_is_so_already_is_not_done():
    """All RNICs of a healthy host have it off."""
    played = Played(ChangeSettings(), world=topology(link_layer="ethernet"))
    assert played.prepare(forced(on=False)) == ()


def test_a_field_that_may_not_be_chosen_is_refused():
    """Firmware says so with its field_select bit."""
    played = Played(ChangeSettings(), world=topology(link_layer="ethernet"))
    rows = "adaptive_routing_forced_en_field_select | 0x00000000\nadaptive_routing_forced_en | 0x00000000\n"
    played.answers["gpu001 mlxreg"] = (f"Sending access register...\n\nField Name | Data\n===\n{rows}===\n", "", 0)
    with pytest.raises(Refused, match="does not let adaptive_routing_forced_en be chosen"):
        played.prepare(forced())
