"""What RNICs do by themselves on RoCE, told by their registers: adaptive routing, and how they send again."""

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


FIELDS = "selective_repeat_forced_en=1,roce_adp_retrans_en=0"
CHOSEN = "selective_repeat_forced_en_field_select=1,roce_adp_retrans_field_select=1"


def played(link_layer="ethernet"):
    """Hosts as they are delivered: go-back-N, with adaptive timers."""
    return Played(ChangeSettings(), world=topology(link_layer=link_layer))


def asked(**more):
    """Of one host."""
    return change("retransmission", "gpu001", scope="host", **more)


def test_both_fields_of_every_rnic_are_changed_and_given_back():
    """In one write an RNIC, with the bits that say which fields are meant."""
    rack, planned = played(), asked(selective_repeat=True, adaptive_timers=False)
    (alteration,) = rack.prepare(planned)
    assert {argv[-2] for argv in alteration.apply} == {f"{FIELDS},{CHOSEN}"}
    assert len(alteration.apply) == len(alteration.checks) == 8
    with pytest.raises(NotInForce, match="mlx5_0: selective_repeat_forced_en is 0"):
        rack.confirm(planned, (alteration,))
    rack.apply((alteration,))
    rack.confirm(planned, (alteration,))
    assert not rack.checks_hold((alteration,))
    rack.undo((alteration,))
    assert rack.checks_hold((alteration,))


def test_only_what_differs_is_written():
    """Adaptive timers are on already, so that the undo must not touch them either."""
    (alteration,) = played().prepare(asked(selective_repeat=True, adaptive_timers=True))
    assert not any("roce_adp_retrans" in word for argv in (*alteration.apply, *alteration.undo) for word in argv)


def test_fields_that_are_so_already_are_not_written():
    """All RNICs begin with go-back-N."""
    assert played().prepare(asked(selective_repeat=False)) == ()


def test_infiniband_is_refused():
    """Its RNICs answer for the register, and it means nothing there."""
    with pytest.raises(Refused, match="its links are InfiniBand"):
        played("infiniband").prepare(asked(selective_repeat=True))
