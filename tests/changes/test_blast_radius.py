"""Guard rails, and what is too much at the same time; what would allow it."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from fabric.changes.kinds import expand_changes
from fabric.changes.rails import blast_problems, check_rails, span_s
from fabric.errors import Refused
from fabric.model.change import (
    BlastRadius,
    ChangeSettings,
    SubnetManager,
)
from fabric.model.scenario import Phase
from tests.changes.asked import ber, link_down, port_flap, routing, shield
from tests.changes.played import VIA, Played, change, topology

WIDE = BlastRadius(changes=100, per_switch=100, per_host=100, links_fraction=1.0)
SETTINGS = ChangeSettings(via="gpu004", subnet_managers=(SubnetManager("gpu002"),), blast_radius=WIDE)


def problems(*specs, allow=(), settings=SETTINGS, world=None):
    """Of one phase."""
    world = world or topology()
    changes = expand_changes(Phase("hurt", (), changes=specs), world, settings, tuple(world.hosts))
    return blast_problems(changes, world, settings, allow)


def down(*links, at_s=None, for_s=None):
    """Links closed."""
    times = {name: value for name, value in (("at", at_s), ("for_", for_s)) if value is not None}
    return link_down(*links, **times)


def radius(**more):
    """The widest but for these."""
    return replace(SETTINGS, blast_radius=replace(WIDE, **more))


@pytest.mark.parametrize(
    ("more", "links", "words"),
    [
        ({"changes": 1}, ("gpu001/mlx5_0", "gpu002/mlx5_1"), "2 changes at the same time in hurt, 1 are allowed"),
        ({"per_switch": 1}, ("gpu001/mlx5_0", "gpu002/mlx5_0"), "at switch leaf0, 1 allowed"),
        ({"per_host": 1}, ("gpu001/mlx5_0", "gpu001/mlx5_1"), "at host gpu001, 1 allowed"),
        ({"links_fraction": 0.02}, ("gpu001/mlx5_0", "gpu002/mlx5_1"), "2 of 48 links at the same time, 1 allowed"),
    ],
)
def test_each_number_of_the_blast_radius_counts(more, links, words):
    """With the word that would allow it; with that word there is no problem."""
    (found,) = problems(down(*links), settings=radius(**more))
    assert words in found
    assert found.endswith("(to do it all the same: allow: [blast_radius])")
    assert problems(down(*links), settings=radius(**more), allow=("blast_radius",)) == []
    assert problems(down(links[0]), settings=radius(**more)) == []


def test_what_is_not_at_the_same_time_does_not_add_up():
    """One ends as the other begins; a moment longer and both are there."""
    settings = radius(changes=1)
    apart = (down("gpu001/mlx5_0", at_s=0.0, for_s=5.0), down("gpu002/mlx5_1", at_s=5.0, for_s=5.0))
    assert problems(*apart, settings=settings) == []
    longer = (down("gpu001/mlx5_0", at_s=0.0, for_s=5.1), apart[1])
    assert len(problems(*longer, settings=settings)) == 1
    endless = (down("gpu001/mlx5_0"), apart[1])
    assert len(problems(*endless, settings=settings)) == 1


def test_a_flap_counts_from_its_first_closing_to_its_last_opening():
    """Also while the link is up in between."""
    flap = port_flap("gpu001/mlx5_0", down=5.0, count=3, period=30.0, at=10.0)
    (one,) = expand_changes(Phase("p", (), changes=(flap,)), topology(), SETTINGS, ())
    assert span_s(one) == (10.0, 75.0)
    settings = radius(changes=1)
    assert len(problems(flap, down("gpu002/mlx5_1", at_s=60.0, for_s=1.0), settings=settings)) == 1
    assert problems(flap, down("gpu002/mlx5_1", at_s=75.0, for_s=1.0), settings=settings) == []


@pytest.mark.parametrize(
    "specs",
    [
        (down("leaf1--spine0"), down("spine0--leaf1#0")),
        (down("gpu001/mlx5_0"), ber("gpu001/mlx5_0", raw="1e-4")),
        (shield(True), shield(False)),
    ],
)
def test_nothing_is_changed_from_both_ends(specs):
    """One cable, or one setting, is altered by one change at a time; nothing allows it."""
    (found,) = problems(*specs, allow=("blast_radius", "isolate", "busy_hosts"))
    assert found.endswith("at the same time; nothing allows it")


def test_a_host_keeps_a_path():
    """All its RNICs at once, or the only one it has."""
    every = down(*(f"gpu001/mlx5_{number}" for number in range(8)))
    (found,) = problems(every)
    assert "gpu001 would lose its last path: all its 8 RNICs" in found
    assert found.endswith("allow: [isolate])")
    assert problems(every, allow=("isolate",)) == []
    assert problems(down(*(f"gpu001/mlx5_{number}" for number in range(7)))) == []
    world = topology()
    single = {
        name: replace(host, platform=replace(host.platform, rnics=host.platform.rnics[:1]), leaves=host.leaves[:1])
        for name, host in world.hosts.items()
    }
    (found,) = problems(down("gpu001/mlx5_0"), world=replace(world, hosts=single))
    assert "its only RNIC" in found


@pytest.mark.parametrize("name", ["gpu001", "mlx5_0", "leaf0", "gpu001/mlx5_0"])
def test_management_is_never_touched(name):
    """Whatever it is: nothing allows it."""
    settings = replace(SETTINGS, management=(name,))
    found = problems(down("gpu001/mlx5_0"), settings=settings, allow=("blast_radius", "isolate"))
    assert found == [f"hurt/link_down.gpu001/mlx5_0: {name} is for management and never touched; nothing allows it"]
    assert problems(down("gpu002/mlx5_1"), settings=settings) == []


def test_switches_need_a_way_to_them_and_the_fabric_its_managers():
    """Said for each change."""
    bare = ChangeSettings(blast_radius=WIDE)
    specs = (down("gpu001/mlx5_0"), ber("leaf1--spine0", raw="1e-4", direction="up"), shield(True))
    found = problems(*specs, settings=bare)
    assert [text.partition(":")[2].split("(")[1].split(")")[0] for text in found] == [
        "changes: via",
        "changes: via",
        "changes: subnet_managers",
    ]
    own = (
        ber("gpu001/mlx5_0", raw="1e-4", direction="up"),
        link_down("gpu002/mlx5_1", by="mlxlink"),
    )
    assert problems(*own, settings=bare) == []


def test_only_what_makes_something_worse_is_counted():
    """Settings of all hosts' RNICs and of the whole fabric, beside one link that is closed."""
    specs = (routing(True, "host"), shield(True), down("gpu001/mlx5_0"))
    assert problems(*specs, settings=replace(SETTINGS, blast_radius=BlastRadius(changes=1))) == []


DOWN = change("link_down", "gpu001/mlx5_0", by="ibportstate", hosts=("gpu001",), switches=("leaf0",))
IDLE = ("", "", 0)


def railed(played, *, asked=DOWN, allow=()):
    """Look up the change, then pass the rails."""
    alterations = played.prepare(asked)
    played.run(check_rails(asked, alterations, played.context, allow))


def idle():
    """A rack where nobody works."""
    played = Played(VIA)
    played.answers["gpu001 nvidia-smi"] = IDLE
    return played


def test_an_idle_host_with_other_paths_may_be_altered():
    """Slurm is not there (127), and has nothing to say."""
    railed(idle())


@pytest.mark.parametrize(
    ("program", "answer", "reason"),
    [
        ("nvidia-smi", ("4711\n4712\n", "", 0), "GPUs are in use .processes 4711, 4712"),
        ("nvidia-smi", ("", "Failed to initialize NVML: Driver/library version mismatch\n", 18), "cannot be seen"),
        ("squeue", ("1201\n", "", 0), "jobs run there .1201"),
        ("squeue", ("", "slurm_load_jobs error: Unable to contact slurm controller\n", 1), "cannot be seen"),
    ],
)
def test_a_host_in_use_is_refused(program, answer, reason):
    """Also one of which it cannot be said; ``busy_hosts`` allows both."""
    played = idle()
    played.answers[f"gpu001 {program}"] = answer
    with pytest.raises(Refused, match=reason) as refused:
        railed(played)
    assert refused.value.allow == "busy_hosts"
    railed(played, allow=("busy_hosts",))


def test_processes_on_gpus_of_amd_are_asked_of_rocm_smi():
    """As it prints them; our own programs do not count while our probes run."""
    played = idle()
    world = played.context.topology
    amd = replace(world.hosts["gpu001"], platform=replace(world.hosts["gpu001"].platform, gpu_maker="amd"))
    context = replace(played.context, topology=replace(world, hosts={**world.hosts, "gpu001": amd}))
    alterations = played.prepare(DOWN)
    head = "process,PROCESS NAME,GPU(s),VRAM USED,SDMA USED,CU OCCUPANCY"
    for ours_run, name, busy in ((False, "ib_write_bw", True), (True, "python3", True), (True, "ib_write_bw", False)):
        played.answers["gpu001 rocm-smi"] = (f'{head}\nPID4711,"{name}, 1, 0, 0, 0"\n', "", 0)
        with pytest.raises(Refused, match="processes 4711") if busy else nullcontext():
            played.run(check_rails(DOWN, alterations, context, (), ours_run=ours_run))


def test_the_last_active_path_of_a_host_stays():
    """All its other ports are down: ``isolate`` allows it."""
    played = idle()
    for lid in range(2, 9):
        played.ask("gpu004", ("ibportstate", str(lid), "1", "disable"))
    with pytest.raises(Refused, match="no other active RNIC") as refused:
        railed(played)
    assert refused.value.allow == "isolate"
    railed(played, allow=("isolate",))


@pytest.mark.parametrize("name", ["gpu001", "LEAF0", "mlx5_0", "gpu001/mlx5_0"])
def test_management_is_refused_whatever_is_allowed(name):
    """However it is written; nothing allows it."""
    played = Played(replace(VIA, management=(name,)))
    with pytest.raises(Refused, match="is for management") as refused:
        railed(played, allow=("busy_hosts", "isolate", "blast_radius"))
    assert refused.value.allow is None
