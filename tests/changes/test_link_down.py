"""A link closed at one end: which end, by which tool, how it is seen, and how it comes back."""

from __future__ import annotations

import pytest

from fabric.errors import MayBeLive, NotInForce, Refused
from fabric.model.change import ChangeSettings
from tests.changes.played import VIA, Played, change, topology

IBPORTSTATE = ("ibportstate", "-C", "mlx5_0", "-P", "1")


def down(component="gpu001/mlx5_0", by="ibportstate", **more):
    """A link to be closed."""
    return change("link_down", component, by=by, **more)


WAYS = [
    ("gpu001/mlx5_0", "ibportstate", "gpu004", (*IBPORTSTATE, "1", "1", "disable"), ()),
    ("gpu001/mlx5_0", "mlxlink", "gpu001", ("mlxlink", "-d", "mlx5_0", "--port_state", "DN", "--yes"), ("mlx5_0",)),
    ("leaf1--spine0", "ibportstate", "gpu004", (*IBPORTSTATE, "9", "3", "disable"), ()),
    ("leaf1--spine0#1", "ibportstate", "gpu004", (*IBPORTSTATE, "9", "4", "disable"), ()),
    # via itself hangs on leaf0, so that this one is closed at the leaf: it stays within reach.
    ("leaf0--spine0#1", "ibportstate", "gpu004", (*IBPORTSTATE, "1", "6", "disable"), ()),
]


@pytest.mark.parametrize(("component", "by", "host", "argv", "devices"), WAYS)
def test_a_link_is_closed_seen_closed_and_comes_back(component, by, host, argv, devices):
    """At the end that can be opened again; Active again only after training and a sweep."""
    played, asked = Played(VIA), down(component, by)
    alterations = played.prepare(asked)
    assert [(one.host, one.apply, one.devices) for one in alterations] == [(host, (argv,), devices)]
    assert played.checks_hold(alterations)
    played.apply(alterations)
    played.confirm(asked, alterations)
    assert not played.checks_hold(alterations)
    played.undo(alterations)
    assert played.checks_hold(alterations)
    # A cable between switches also waits for routes.
    assert 1.0 < played.recovered(asked, alterations) < (30.0 if "--" in asked.component else 10.0)


def test_undone_twice_the_link_is_not_taken_down_again():
    """``on`` leaves an open port alone, where ``enable`` would bounce it."""
    played, asked = Played(VIA), down()
    alterations = played.prepare(asked)
    played.apply(alterations)
    played.undo(alterations)
    played.recovered(asked, alterations)
    played.undo(alterations)
    assert played.recovered(asked, alterations) == pytest.approx(0.05)


@pytest.mark.parametrize("by", ["ibportstate", "mlxlink"])
def test_a_link_that_is_down_already_is_refused(by):
    """Its state before could not be told from what is done to it."""
    played = Played(VIA)
    played.ask("gpu002", ("ibportstate", "1", "1", "disable"))
    with pytest.raises(Refused, match=r"down|not in the fabric"):
        played.prepare(down(by=by))


def test_a_host_that_has_closed_its_port_already_is_refused():
    """Also where nobody looks at the switch."""
    played = Played(ChangeSettings())
    played.ask("gpu001", ("mlxlink", "-d", "mlx5_0", "--port_state", "DN"))
    with pytest.raises(Refused, match=r"gpu001/mlx5_0:1 is down already \(.*Disabled"):
        played.prepare(down(by="mlxlink"))


@pytest.mark.parametrize("component", ["gpu004/mlx5_0", "leaf0--spine0"])
def test_the_only_way_to_a_port_is_not_closed(component):
    """It could not be opened again: via's own cable, and (from elsewhere) the last cable of a switch."""
    world = topology(cables=1)
    played = Played(VIA, world=world)
    if component == "gpu004/mlx5_0":
        with pytest.raises(Refused, match="only through this very cable"):
            played.prepare(down(component))
    else:  # closed at the leaf, which via hangs on, never at the spine, which would be gone with it
        assert played.prepare(down(component))[0].apply == ((*IBPORTSTATE, "1", "5", "disable"),)


def test_via_loses_traffic_when_its_other_cables_are_closed():
    """So its guard is told which device that is."""
    played = Played(VIA)
    assert played.prepare(down("gpu004/mlx5_3"))[0].devices == ("mlx5_3",)


@pytest.mark.parametrize(
    ("settings", "component", "by", "reason"),
    [
        (ChangeSettings(), "gpu001/mlx5_0", "ibportstate", "changes: via"),
        (ChangeSettings(), "leaf1--spine0", "ibportstate", "changes: via"),
        (VIA, "leaf1--spine0", "mlxlink", "closed by ibportstate"),
        (VIA, "leaf1--spine0", "ip", "closed by ibportstate"),
        (VIA, "gpu001/mlx5_0", "ip", "closes no InfiniBand port"),
        (VIA, "gpu001/mlx5_9", "ibportstate", "no RNIC mlx5_9; did you mean"),
        (VIA, "gpu01/mlx5_0", "ibportstate", "no host gpu01; did you mean"),
        (VIA, "leaf1--spin0", "ibportstate", "no switch spin0; did you mean"),
        (VIA, "leaf1--leaf2", "ibportstate", "0 are up"),
        (VIA, "leaf1--spine0#2", "ibportstate", "cables #0 to #1"),
        (VIA, "leaf1", "ibportstate", "no cable between switches"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(settings, component, by, reason):
    """Before anything is altered."""
    with pytest.raises(Refused, match=reason):
        Played(settings).prepare(down(component, by))


def test_one_of_two_parallel_cables_is_not_guessed():
    """When one of them is down, which is #0 cannot be told."""
    played = Played(VIA)
    played.ask("gpu004", ("ibportstate", "2", "5", "disable"))
    with pytest.raises(Refused, match="of 2 cables between leaf1 and spine0 1 are up"):
        played.prepare(down("leaf1--spine0"))


def test_ethernet_ports_are_closed_by_their_hosts():
    """No management packet reaches their switches."""
    played, asked = Played(VIA, world=topology(link_layer="ethernet")), down(by="mlxlink")
    with pytest.raises(Refused, match="InfiniBand ports only"):
        played.prepare(down())
    alterations = played.prepare(asked)
    played.apply(alterations)
    played.confirm(asked, alterations)
    played.undo(alterations)
    assert played.recovered(asked, alterations) > 1.0


def test_an_interface_that_is_off_while_the_light_stays_on_is_no_closed_link():
    """The firmware keeps the link up: KEEP_ETH_LINK_UP."""
    played, asked = Played(VIA, world=topology(link_layer="ethernet")), down(by="ip")
    played.answers["gpu001 cat"] = lambda words: ("eth1\n", "", 0) if words[1].endswith("/ndevs/0") else None
    alterations = played.prepare(asked)
    assert alterations[0].apply == (("ip", "link", "set", "dev", "eth1", "down"),)
    played.apply(alterations)
    assert not played.checks_hold(alterations)
    with pytest.raises(NotInForce, match="KEEP_ETH_LINK_UP"):
        played.confirm(asked, alterations)
    played.undo(alterations)
    assert played.checks_hold(alterations)


def test_a_port_that_was_never_closed_is_not_in_force():
    """What was seen at both ends is said."""
    played, asked = Played(VIA), down()
    alterations = played.prepare(asked)
    with pytest.raises(NotInForce, match=r"leaf0:1 \(lid 1\) is Active/LinkUp, gpu001/mlx5_0:1 is ACTIVE/LinkUp"):
        played.confirm(asked, alterations)


def test_a_link_that_is_down_at_one_end_only_is_not_in_force():
    """The other end is asked too, and given a little time."""
    played, asked = Played(VIA), down()
    alterations = played.prepare(asked)
    played.apply(alterations)
    played.answers["gpu001 cat"] = ("4: ACTIVE\n5: LinkUp\n", "", 0)
    began_s = played.now_s
    with pytest.raises(NotInForce, match=r"Down/Disabled, gpu001/mlx5_0:1 is ACTIVE/LinkUp"):
        played.confirm(asked, alterations)
    assert 5.0 <= played.now_s - began_s < 6.0


def test_a_link_that_stays_down_is_said_to_be_open():
    """With what was seen, and not before its time."""
    played, asked = Played(VIA), down()
    alterations = played.prepare(asked)
    played.apply(alterations)
    began_s = played.now_s
    with pytest.raises(MayBeLive, match="does not come up: Down/Disabled"):
        played.recovered(asked, alterations, within_s=20.0)
    assert 20.0 <= played.now_s - began_s < 21.0


def test_a_question_lost_on_the_way_is_asked_again():
    """While routes change, a management packet gets no answer for a while."""
    played, asked = Played(VIA), down()
    alterations = played.prepare(asked)
    lost = iter([True, True])
    said = ("", "smpquery: iberror: failed: smp query nodeinfo failed\n", 255)
    played.answers["gpu004 smpquery"] = lambda words: said if next(lost, False) else None
    assert 0.9 < played.recovered(asked, alterations) < 2.0
