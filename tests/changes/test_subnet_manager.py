"""Adaptive routing and SHIELD by the subnet managers' files, and what RNICs do by themselves on RoCE."""

from dataclasses import replace

import pytest

from fabric.errors import NotInForce, Refused, ToolError
from fabric.model.change import ChangeSettings
from fabric.tools import management
from tests.changes.played import MANAGED, Played, change, topology

CONFIG = "/etc/opensm/opensm.conf"


def toggle(kind="adaptive_routing", *, on=True):
    """A fabric-wide switch."""
    return change(kind, "fabric", scope="fabric", on=on)


def keys(played, host):
    """What a manager's file says."""
    return management.parse_conf(played.ask(host, ("cat", CONFIG)).stdout)


@pytest.mark.parametrize("kind", ["adaptive_routing", "shield"])
def test_every_manager_is_changed_and_put_back(kind):
    """Also when both steps are run twice; in the end each file is what it was."""
    played = Played(MANAGED)
    before = {host: keys(played, host) for host in ("gpu002", "gpu003")}
    there = before["gpu002"]["routing_engine" if kind == "adaptive_routing" else "shield_mode"]
    asked = toggle(kind, on=not (there.startswith("ar_") or there == "1"))
    alterations = played.prepare(asked)
    assert {one.host for one in alterations} == {"gpu002", "gpu003"}
    assert played.checks_hold(alterations)
    for _ in range(2):
        played.apply(alterations)
        played.confirm(asked, alterations)
        assert not played.checks_hold(alterations)
        played.undo(alterations)
        played.undo(alterations)
        assert played.checks_hold(alterations)
    assert {host: keys(played, host) for host in before} == before
    played.recovered(asked, alterations)
    assert len(played.prepare(asked)) == 2


def test_the_master_is_changed_last():
    """A handover on the way finds what was asked for."""
    played = Played(MANAGED)
    sm = played.ask("gpu004", ("sminfo",)).stdout
    last = played.prepare(toggle(on=not keys(played, "gpu002")["routing_engine"].startswith("ar_")))[-1].host
    assert f"sm lid {played.world.rack.ports.of_adapter(last, 'mlx5_0').node.lid} " in sm


def test_keys_that_were_not_there_are_gone_again():
    """Then the whole file is put back, and a check sees that nothing is left to put back."""
    settings = replace(MANAGED, shield_on={"shield_mode": "1", "a_key_of_my_own": "7"})
    played, asked = Played(settings), toggle("shield")
    before = keys(played, "gpu002")
    alterations = played.prepare(asked)
    assert played.checks_hold(alterations)
    played.apply(alterations)
    assert keys(played, "gpu002")["a_key_of_my_own"] == "7"
    played.undo(alterations)
    assert played.checks_hold(alterations)
    assert keys(played, "gpu002") == before


def test_two_changes_of_other_keys_may_end_in_any_order():
    """Each puts back its own keys only."""
    played = Played(MANAGED)
    before = keys(played, "gpu002")
    on = {"adaptive_routing": not before["routing_engine"].startswith("ar_"), "shield": before["shield_mode"] == "0"}
    both = [played.prepare(toggle("adaptive_routing", on=on["adaptive_routing"]))]
    played.apply(both[0])
    both.append(played.prepare(toggle("shield", on=on["shield"])))
    played.apply(both[1])
    for alterations in both:  # the first one first
        played.undo(alterations)
    assert all(played.checks_hold(alterations) for alterations in both)
    assert keys(played, "gpu002") == before


def test_a_copy_that_was_left_behind_is_refused():
    """Somebody's change was not taken back."""
    played = Played(MANAGED)
    asked = toggle(on=not keys(played, "gpu002")["routing_engine"].startswith("ar_"))
    played.apply(played.prepare(asked)[:1])
    wanted = replace(asked, spec=asked.spec.model_copy(update={"on": not asked.spec.on}))
    with pytest.raises(Refused, match="not taken back"):
        played.prepare(wanted)


def test_a_key_that_did_not_stick_is_not_in_force():
    """The manager and what its file says are named."""
    played = Played(MANAGED)
    asked = toggle(on=not keys(played, "gpu002")["routing_engine"].startswith("ar_"))
    alterations = played.prepare(asked)
    with pytest.raises(NotInForce, match=r"gpu00\d: /etc/opensm/opensm.conf: routing_engine is"):
        played.confirm(asked, alterations)


def hung_up():
    """Managers that are only sent a signal."""
    managers = tuple(replace(one, reload=("pkill", "-HUP", "opensm")) for one in MANAGED.subnet_managers)
    return replace(MANAGED, subnet_managers=managers)


@pytest.mark.parametrize(("kind", "many"), [("adaptive_routing", 2), ("shield", 0)])
def test_a_signal_is_refused_for_what_is_read_at_the_start_only(kind, many):
    """Before anything is altered, each manager that would get it; other options are taken at run time."""
    played, asked = Played(hung_up()), toggle(kind)
    said = [text for _, text in asked.spec.problems(played.context)]
    assert len([text for text in said if "does not make OpenSM take routing_engine" in text]) == many


def test_an_engine_that_does_not_route_is_not_in_force():
    """The file and a master are no proof: the signal changed nothing."""
    played = Played(hung_up())
    asked = toggle(on=not keys(played, "gpu002")["routing_engine"].startswith("ar_"))
    alterations = played.prepare(asked)
    played.apply(alterations)
    with pytest.raises(NotInForce, match=r"ar_updn was asked for, and gpu00.:/var/log/opensm.log .* ftree routes"):
        played.confirm(asked, alterations)


def test_a_log_that_is_not_flushed_is_made_to_be():
    """OpenSM keeps the line in a buffer otherwise; that key goes as it came."""
    played, asked = Played(MANAGED), toggle()
    played.apply(played.prepare(asked))
    assert keys(played, "gpu002")["force_log_flush"] == "TRUE"


@pytest.mark.parametrize("readable", [True, False])
def test_ufm_is_asked_where_there_is_one(readable):
    """What its manager runs with counts, and no log is looked at."""
    ufm = replace(MANAGED, ufm_url="https://ufm.example.net", ufm_insecure=True)
    played, asked = Played(ufm), toggle()
    alterations = played.prepare(asked)
    played.apply(alterations)
    if readable:
        played.confirm(asked, alterations)
        assert not [argv for _, argv in played.asked if "fabric-sm-log" in argv]
        return
    played.answers["gpu004 curl"] = ("", "curl: (7) Failed to connect\n", 7)
    with pytest.raises(NotInForce, match="nobody tells what routes: curl: exit 7"):
        played.confirm(asked, alterations)


def test_where_nothing_is_altered_a_log_that_says_otherwise_counts():
    """A file that somebody edited, and a manager that never read it."""
    played = Played(MANAGED)
    played.ask("gpu002", ("cat", CONFIG))
    settings = replace(MANAGED, adaptive_on={"routing_engine": "ar_updn"}, adaptive_off={"routing_engine": "ftree"})
    asked, same = toggle(on=False), Played(settings)
    assert same.prepare(asked) == ()
    same.confirm(asked, ())
    log = "Nov 22 -> OpenSM 5.17.2\nEntering MASTER state\nx: minhop tables configured on all switches\n"
    same.answers["gpu002 sh"] = lambda argv: (log, "", 0) if "fabric-sm-log" in argv else None
    with pytest.raises(NotInForce, match="minhop routes"):
        same.confirm(asked, ())


def test_without_the_managers_file_nothing_is_done():
    """A tool's error."""
    played = Played(MANAGED)
    played.answers["gpu003 sh"] = ("", "fabric-conf: /etc/opensm/opensm.conf: no such file\n", 1)
    with pytest.raises(ToolError, match=r"gpu003: /etc/opensm/opensm\.conf cannot be read"):
        played.prepare(toggle())


def test_a_file_that_was_not_seen_to_its_end_is_no_file_without_the_key():
    """Else the undo would take the key away that was in the part that was lost."""
    played = Played(MANAGED)
    played.answers["gpu003 sh"] = ("max_op_vls 5\n", "", 0)
    with pytest.raises(ToolError, match="not read to its end"):
        played.prepare(toggle())


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
    played.there_and_back(asked, (alteration,))


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


def played():
    """Hosts as they are delivered: go-back-N, with adaptive timers."""
    return Played(ChangeSettings(), world=topology(link_layer="ethernet"))


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
    rack.there_and_back(planned, (alteration,))


def test_only_what_differs_is_written():
    """Adaptive timers are on already, so that the undo must not touch them either."""
    (alteration,) = played().prepare(asked(selective_repeat=True, adaptive_timers=True))
    assert not any("roce_adp_retrans" in word for argv in (*alteration.apply, *alteration.undo) for word in argv)


def test_fields_that_are_so_already_are_not_written():
    """All RNICs begin with go-back-N."""
    assert played().prepare(asked(selective_repeat=False)) == ()
