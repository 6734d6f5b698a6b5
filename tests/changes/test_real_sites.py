"""Changes on sites as they are: a storage fabric, ports with an M_Key, an old MFT, peers that do not answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.errors import Refused, ToolError
from tests.changes.played import VIA, Played, change

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
@pytest.mark.parametrize("site", ["storage", "silent_peers", "old_mft"])
def test_a_change_is_made_there_as_elsewhere(kind, site):
    """The port is named that packets go out of; no peer is asked; an INDEX that mlxreg does not know is left out."""
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
