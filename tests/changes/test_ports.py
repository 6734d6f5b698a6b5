"""From the name of a cable to its ends and to the changes that will be made, also on sites as they are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.changes.guard import Guard, Guarded
from fabric.changes.kinds import expand_changes
from fabric.changes.ports import cable_of
from fabric.changes.restore import intent_fields, intent_of
from fabric.errors import Refused, ToolError
from fabric.model.change import AdapterEnd, Alteration, ChangeSettings, SwitchEnd, When
from fabric.model.scenario import Phase
from fabric.model.topology import Switch, Uplinks
from tests.changes.asked import ber, link_down, routing, shield
from tests.changes.played import VIA, Played, change, topology

SWITCHES_BELOW = 0x1000
"""In these texts the GUIDs of switches are small."""


def said(*cables):
    """
    What iblinkinfo -l prints for cables ``(guid, name, lid, port, guid, name, lid, port)``, from both ends.

    Every switch has one more port, without a cable.
    """
    lines = []
    for one in cables:
        for guid, name, lid, port, far_guid, far_name, far_lid, far_port in (one, one[4:] + one[:4]):
            lines.append(
                f'0x{guid:016x} "{name:>30}" {lid:6d} {port:4d}[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>  '
                f'0x{far_guid:016x} {far_lid:6d} {far_port:4d}[  ] "{far_name}" ( )\n'
            )
    switches = {end[:3] for one in cables for end in (one[:4], one[4:]) if end[0] < SWITCHES_BELOW}
    for guid, name, lid in sorted(switches):
        near = f'0x{guid:016x} "{name:>30}" {lid:6d}   40[  ]'
        lines.append(f'{near} ==(                Down/ Polling)==>             [  ] "" ( )\n')
    return "".join(lines)


def trunk(*names):
    """An inventory in which *names* are a leaf and a spine with two cables."""
    leaf, spine = names
    bare = replace(topology(), uplinks=(Uplinks((leaf,), (spine,), 2, 400.0),))
    return replace(bare, switches=dict(bare.switches) | {leaf: Switch(leaf, "leaf"), spine: Switch(spine, "spine")})


def found(component, text, world):
    """The cable in a fabric that looks like this."""
    played = Played(VIA, world=world)
    played.answers["gpu004 iblinkinfo"] = (text, "", 0)
    return played.run(cable_of(component, played.context))


TWO = (
    (0xA, "MF0;tor-2:MQM8700/U1", 4, 21, 0xB, "spine 1", 3, 7),
    (0xA, "MF0;tor-2:MQM8700/U1", 4, 22, 0xB, "spine 1", 3, 5),
)


def test_parallel_cables_count_by_the_port_of_the_first_switch():
    """Not by the order in which they are printed, nor by the port of the other one."""
    world = trunk("tor-2", "spine 1")
    second = found("tor-2--spine 1#1", said(*reversed(TWO)), world)
    assert (second.lower, second.upper) == (SwitchEnd("tor-2", 4, 22), SwitchEnd("spine 1", 3, 5))
    assert found("tor-2--spine 1", said(*TWO), world).lower == SwitchEnd("tor-2", 4, 21)


def test_a_name_that_two_switches_have_is_refused():
    """Their GUIDs are said; by its GUID a switch is known."""
    twins = (*TWO, (0xC, "MF0;tor-2:MQM8700/U1", 5, 21, 0xB, "spine 1", 3, 9))
    with pytest.raises(Refused, match=r"2 switches are called tor-2 \(0x000000000000000a, 0x000000000000000c\)"):
        found("tor-2--spine 1", said(*twins), trunk("tor-2", "spine 1"))
    by_guid = found("0x000000000000000a--spine 1", said(*twins), trunk("0x000000000000000a", "spine 1"))
    assert by_guid.lower == SwitchEnd("0x000000000000000a", 4, 21)


def test_a_fabric_that_cannot_be_read_is_a_tools_error():
    """Not a cable that is missing."""
    played = Played(VIA)
    played.answers["gpu004 iblinkinfo"] = ("", "Failed to open (null) port 0\n", 1)
    with pytest.raises(ToolError, match="Failed to open"):
        played.run(cable_of("gpu001/mlx5_0", played.context))


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 ._;-]{0,30}[A-Za-z0-9]", fullmatch=True)


@given(name=NAMES, lid=st.integers(1, 0xBFFF), port=st.integers(1, 254))
def test_an_end_is_read_back_as_it_was_written(name, lid, port):
    """The journal keeps ends, whichever they are."""
    ends = (SwitchEnd(name, lid, port), AdapterEnd(name.replace(" ", "-"), "mlx5_0", port))
    one = Guarded(Guard(), "ber-1.0", Alteration("gpu001", (("a",),), (("b",),), (), "", ends=ends))
    assert intent_of(intent_fields("ber", (one,), None)).guarded == (one,)


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


CABLE = "leaf1--spine0"


def made_and_undone(played, asked):
    """The whole life of a change, without its guard."""
    alterations = played.prepare(asked)
    played.apply(alterations)
    played.confirm(asked, alterations)
    played.undo(alterations)
    assert played.checks_hold(alterations)
    played.recovered(asked, alterations)


@pytest.mark.parametrize("kind", ["link_down", "ber"])
@pytest.mark.parametrize("site", ["storage", "old_mft"])
def test_a_change_is_made_there_as_elsewhere(kind, site):
    """The port is named that packets go out of; an INDEX that mlxreg does not know is left out."""
    keys = {"by": "ibportstate"} if kind == "link_down" else {"effective": "1e-6"}
    made_and_undone(Played(VIA, site=(site,)), change(kind, CABLE, **keys))


def test_without_a_named_port_the_storage_fabric_would_answer():
    """As libibumad chooses: the tools are kind nowhere but here."""
    played = Played(VIA, site=("storage",))
    assert "storage-sw1" in played.ask("gpu004", ("iblinkinfo", "-l")).stdout
    assert "leaf1" in played.ask("gpu004", ("iblinkinfo", "-C", "mlx5_0", "-P", "1", "-l")).stdout
    assert played.ask("gpu004", ("ibportstate", "9", "3", "disable")).exit_status == 255


def test_the_named_port_is_used():
    """Of another rail, say."""
    (one,) = Played(replace(VIA, via_device="mlx5_3")).prepare(change("link_down", CABLE, by="ibportstate"))
    assert {argv[1:5] for argv in (*one.apply, *one.undo, one.checks[0].argv)} == {("-C", "mlx5_3", "-P", "1")}
    with pytest.raises(Refused, match=r"no RNIC mlx5_9 .changes: via_device"):
        Played(replace(VIA, via_device="mlx5_9")).prepare(change("link_down", CABLE, by="ibportstate"))


def test_ports_with_an_m_key_are_changed_by_who_knows_it():
    """Reading needs it as well (protection level 2); mlxreg cannot be told one."""
    closing = change("link_down", CABLE, by="ibportstate")
    made_and_undone(Played(replace(VIA, m_key="0xfab"), site=("m_key",)), closing)
    for settings in (VIA, replace(VIA, m_key="0xbad")):
        with pytest.raises(ToolError, match="discover failed"):
            Played(settings, site=("m_key",)).prepare(closing)
    with pytest.raises(ToolError, match="Failed to send MAD"):
        Played(replace(VIA, m_key="0xfab"), site=("m_key",)).prepare(change("ber", CABLE, effective="1e-6"))
