"""The edits of a manager's file: kept once, set, undone, and all of it twice."""

from __future__ import annotations

from fabric.model.change import SubnetManager
from fabric.model.inventory import MockSettings
from fabric.sim.net.managers import forwarding_of
from fabric.sim.world import World

CONFIG, BACKUP = "/etc/opensm/opensm.conf", "/run/fabric-guard/opensm.conf"


def edit(kit, world, *words, host="gpu001", at_s):
    """One edit; its status and all it says."""
    pid = world.start(host, ("sh", "-c", "anything at all", "fabric-conf", *words), {}, at_s)
    (said,) = world.advance(at_s + 0.1)
    assert said.pid == pid
    return said.exit_status, said.stdout, said.stderr


def managed(kit):
    """A world with one manager."""
    managers = (SubnetManager("gpu001"),)
    return World(kit.topology_of(2, kit.platform_like()), MockSettings(noise_cv=0.0), seed=1, subnet_managers=managers)


def text_of(kit, world, at_s, path=CONFIG):
    """The file as ``cat`` prints it."""
    return kit.ask(world, "gpu001", f"cat {path}", at_s).stdout


def test_set_keeps_the_first_file_and_undo_brings_its_lines_back(kit):
    """Twice set is once kept; undone, there is nothing left to undo; what is not there is dropped as well."""
    world = managed(kit)
    before = text_of(kit, world, 0.0)
    for at_s, value in ((1.0, "ar_updn"), (2.0, "ar_ftree")):
        status, said, _ = edit(kit, world, "set", CONFIG, BACKUP, f"routing_engine={value}", "new_key=a=b", at_s=at_s)
        assert (status, said.count("\n")) == (0, 1)
    assert text_of(kit, world, 3.0, BACKUP) == before
    assert {"routing_engine ar_ftree", "new_key a=b"} <= set(text_of(kit, world, 4.0).splitlines())
    assert edit(kit, world, "absent", CONFIG, BACKUP, "new_key", at_s=4.5)[0] == 1
    for at_s, said in ((5.0, f"undone {CONFIG}\n"), (6.0, f"nothing to undo: {CONFIG}\n")):
        assert edit(kit, world, "undo", CONFIG, BACKUP, "routing_engine=x", "new_key", at_s=at_s) == (0, said, "")
        assert text_of(kit, world, at_s + 0.5) == before
    for at_s in (7.0, 8.0):
        assert edit(kit, world, "drop", CONFIG, BACKUP, at_s=at_s)[0] == 0


def test_nonsense_changes_nothing(kit):
    """Unknown verbs, missing words, pairs without a key."""
    world = managed(kit)
    before = text_of(kit, world, 0.0)
    for at_s, words in enumerate((("burn", CONFIG, BACKUP), ("set",), ("set", CONFIG, BACKUP, "=x")), 1):
        status, _, why = edit(kit, world, *words, at_s=float(at_s))
        assert (status, bool(why)) == (1, True)
    assert text_of(kit, world, 10.0) == before


def test_engines_mean_what_they_mean_to_opensm():
    """``ar_X`` is adaptive over X; the first of several; none or unknown is minhop."""
    for value, meant in (
        ("ar_updn", ("updn", True)),
        ("ar_ftree,updn", ("ftree", True)),
        ("updn", ("updn", False)),
        ("(null)", ("minhop", False)),
        ("ar_torus", ("minhop", False)),
    ):
        found = forwarding_of({"routing_engine": value}, None)
        assert (found.engine, found.adaptive) == meant
    assert forwarding_of({"routing_engine": "updn"}, "lft_random").engine == "lft_random"
    assert not forwarding_of({"shield_mode": "0"}, None).shield
    assert forwarding_of({"shield_mode": "2"}, None).shield
