"""A link closed at one end: which end, by which tool, how it is seen, how it comes back, and what keeps it up."""

import pytest

from fabric.changes.ports import cable_of, distances, end_to_close
from fabric.errors import MayBeLive, NotInForce, Refused, ToolError, UnreadableOutput
from fabric.model.change import ChangeSettings, SwitchEnd
from fabric.tools import interfaces
from tests.changes.played import VIA, Played, change, topology
from tests.changes.test_ports import said

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
    played.there_and_back(asked, alterations)
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
        (VIA, "leaf1--spin0", "ibportstate", "no switch spin0; did you mean"),
        (VIA, "leaf1--leaf2", "ibportstate", "0 are up"),
        (VIA, "leaf1--spine0#2", "ibportstate", "cables #0 to #1"),
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


STATES = {False: "4: ACTIVE\n5: LinkUp\n", True: "1: DOWN\n3: Disabled\n"}
ROUTES = "default via 10.1.0.1 table 101 proto static linkdown \n10.1.0.0/24 proto kernel scope link src 10.1.0.11 \n"


def without_mlxlink(vendor=""):
    """A RoCE host whose adapter is of that vendor (PCI), with a static route and a static IPv6 address."""
    played = Played(VIA, world=topology(link_layer="ethernet"))

    def cat(words):
        if words[1].endswith("/vendor"):
            return (vendor, "", 0) if vendor else ("", "cat: No such file or directory\n", 1)
        if words[1].endswith("/state"):
            closed = ("gpu001", ("ip", "link", "set", "dev", "eth1", "down")) in played.asked
            return STATES[closed], "", 0
        return ("eth1\n", "", 0) if words[1].endswith("/ndevs/0") else None

    def ip(words):
        address = "3: eth1    inet6 2001:db8::11/64 scope global noprefixroute \\ valid_lft forever\n"
        told = {"-4 route": ROUTES, "-6 address": address}
        return (told[" ".join(words[2:4])], "", 0) if words[1] == "-o" and " ".join(words[2:4]) in told else None

    played.answers |= {"gpu001 cat": cat, "gpu001 ip": ip, "gpu001 mlxlink": ("", "mlxlink: not found\n", 127)}
    return played


def test_an_adapter_without_mlxlink_is_read_from_the_kernel_and_gets_its_routes_back():
    """Soft RoCE, irdma, bnxt_re; with the interface the kernel forgets what only an administrator gives it."""
    played, asked = without_mlxlink(), down(by="ip")
    alterations = played.prepare(asked)
    assert alterations[0].undo == (
        ("ip", "link", "set", "dev", "eth1", "up"),
        ("ip", "-6", "address", "replace", "2001:db8::11/64", "noprefixroute", "dev", "eth1"),
        (
            "ip",
            "-4",
            "route",
            "replace",
            "default",
            "via",
            "10.1.0.1",
            "table",
            "101",
            "proto",
            "static",
            "dev",
            "eth1",
        ),
    )
    assert played.checks_hold(alterations)
    with pytest.raises(NotInForce, match="ACTIVE"):
        played.confirm(asked, alterations)
    played.apply(alterations)
    played.confirm(asked, alterations)
    played.answers["gpu001 ip"] = lambda words: ("", "", 0) if words[2:4] == ("-4", "route") else None
    played.ask("gpu001", ("ip", "link", "set", "dev", "eth1", "up"))
    assert not played.checks_hold(alterations)  # the interface is up, its route is not there


def test_the_kernels_word_is_not_enough_for_an_adapter_of_nvidia():
    """Its firmware may keep the light on, which only mlxlink shows."""
    played, asked = without_mlxlink("0x15b3\n"), down(by="ip")
    alterations = played.prepare(asked)
    played.apply(alterations)
    with pytest.raises(ToolError, match="mlxlink: not found"):
        played.confirm(asked, alterations)


@pytest.mark.parametrize("line", ["10.0.0.0/8 via $(reboot)", "3: eth1 ether $(reboot)", "-f x", "a;b"])
@pytest.mark.parametrize("what", interfaces.LOST_WHEN_OFF)
def test_what_is_no_route_never_reaches_an_undo(what, line):
    """The guard runs it as root."""
    with pytest.raises(UnreadableOutput):
        interfaces.read_lost(what, f"{line}\n")


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


ROW = "Device #1:\nConfigurations:    Next Boot\n        {setting}    {value}\n"


def told(setting: str, value: str) -> tuple[str, str, int]:
    """What mlxconfig says of one setting."""
    return ROW.format(setting=setting, value=value), "", 0


def asked(kind: str, by: str):
    """A link to be closed, or to flap, at the RNIC's own end."""
    flap = {"down": 1.0, "count": 2, "period": 5.0} if kind == "port_flap" else {}
    return change(kind, "gpu001/mlx5_0", by=by, **flap)


@pytest.mark.parametrize("kind", ["link_down", "port_flap"])
@pytest.mark.parametrize("by", ["mlxlink"])
def test_a_way_that_the_firmware_defeats_is_refused_with_what_to_do(kind: str, by: str) -> None:
    played = Played(VIA)
    played.answers["gpu001 mlxconfig"] = told("KEEP_IB_LINK_UP_P1", "True(1)")
    with pytest.raises(Refused, match=f"KEEP_IB_LINK_UP_P1.*{by} would close nothing.*set KEEP_IB_LINK_UP_P1=0"):
        played.prepare(asked(kind, by))


def test_the_kernels_own_switch_is_defeated_too() -> None:
    played = Played(VIA, world=topology(link_layer="ethernet"))
    played.answers["gpu001 mlxconfig"] = told("KEEP_ETH_LINK_UP_P1", "True(1)")
    with pytest.raises(Refused, match=r"KEEP_ETH_LINK_UP_P1.*ip would close nothing"):
        played.prepare(asked("link_down", "ip"))


def test_a_port_that_is_closed_at_the_switch_does_not_ask_the_rnic() -> None:
    played = Played(VIA)
    played.answers["gpu001 mlxconfig"] = told("KEEP_IB_LINK_UP_P1", "True(1)")
    (alteration,) = played.prepare(asked("link_down", "ibportstate"))
    assert alteration.host == "gpu004"


def test_a_port_that_is_not_kept_up_is_closed() -> None:
    played = Played(VIA)
    (alteration,) = played.prepare(asked("link_down", "mlxlink"))
    assert ("gpu001", ("mlxconfig", "-d", "mlx5_0", "query", "KEEP_IB_LINK_UP_P1")) in played.asked
    assert alteration.host == "gpu001"


def test_without_mlxconfig_what_is_read_back_decides() -> None:
    played = Played(VIA)
    played.answers["gpu001 mlxconfig"] = ("", "bash: line 1: mlxconfig: command not found\n", 127)
    assert played.prepare(asked("link_down", "mlxlink"))


def test_an_answer_that_cannot_be_read_alters_nothing() -> None:
    played = Played(VIA)
    played.answers["gpu001 mlxconfig"] = ("", "-E- Failed to open device: permission denied\n", 3)
    with pytest.raises(ToolError, match="permission denied"):
        played.prepare(asked("link_down", "mlxlink"))


VIA_GUID = 0xB8599F0300004000
"""gpu004/mlx5_0 of the simulated rack, whose sysfs answers."""

# via - leaf0 - spine0 - leaf1, spine0 - leaf2, leaf1 - leaf2: a ring behind a single cable.
LEAF0, SPINE0, LEAF1, LEAF2 = (
    (0xA0, "leaf0", 1), (0xB0, "spine0", 9), (0xA1, "leaf1", 2), (0xA2, "leaf2", 3)
)  # fmt: skip
RING = (
    (VIA_GUID, "gpu004 mlx5_0", 20, 1, *LEAF0, 1),
    (*LEAF0, 5, *SPINE0, 1),
    (*LEAF1, 5, *SPINE0, 2),
    (*LEAF2, 5, *SPINE0, 3),
    (*LEAF1, 6, *LEAF2, 6),
)


def closing(component, *cables):
    """The end that would be closed."""
    played = Played(VIA, world=topology(cables=1))
    played.answers["gpu004 iblinkinfo"] = (said(*cables), "", 0)
    cable = played.run(cable_of(component, played.context))
    return played.run(end_to_close(cable, played.context))


def test_the_nearer_end_is_closed():
    """The farther one might be out of reach afterwards."""
    assert closing("leaf1--spine0", *RING) == SwitchEnd("spine0", 9, 2)
    assert closing("leaf0--spine0", *RING) == SwitchEnd("leaf0", 1, 5)


def test_a_switch_behind_the_cable_itself_is_never_closed_there():
    """Without the ring leaf2 hangs on this cable alone."""
    assert closing("leaf2--spine0", *RING[:4]) == SwitchEnd("spine0", 9, 3)


def test_where_neither_end_can_be_reached_nothing_is_closed():
    """via's own port is not in the fabric that it sees."""
    with pytest.raises(Refused, match="gpu004/mlx5_0 is not active in the fabric"):
        closing("leaf1--spine0", *RING[1:])


def test_distances_do_not_go_through_the_cable_nor_through_one_that_is_not_active():
    """Packets by LID pass only where the subnet manager has been."""
    text = said(*RING)
    assert far(text) == {VIA_GUID: 0, 0xA0: 1, 0xB0: 2, 0xA2: 3, 0xA1: 4}
    lines = text.splitlines(keepends=True)
    asleep = [
        line.replace("Active/", "Initialize/") if "leaf2" in line and "spine0" in line else line for line in lines
    ]
    assert far("".join(asleep)) == {VIA_GUID: 0, 0xA0: 1, 0xB0: 2}


def far(text):
    """From via, without leaf1--spine0."""
    played = Played(VIA, world=topology(cables=1))
    played.answers["gpu004 iblinkinfo"] = (text, "", 0)
    cable = played.run(cable_of("leaf1--spine0", played.context))
    return distances(cable.fabric, VIA_GUID, without=cable)
