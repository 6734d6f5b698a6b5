"""Guard rails: busy hosts, last paths, management; refused before anything is altered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.changes.rails import check_rails
from fabric.errors import Refused
from tests.changes.played import VIA, Played, change

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
