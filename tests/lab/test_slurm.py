"""Drain, give back and gate against a real slurmctld; killed in between, no drain of ours is without its line."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.lab.slurm_site import missing, slurm_site, until
from fabric.app.restore import restore
from fabric.app.scheduler import SlurmNodes, act, hosts_of
from fabric.ports import SchedulerNode
from fabric.runs.journal import LEDGER, read_journal, reservations
from fabric.tools import slurm
from fabric.wiring import make_executor
from tests.app.test_scheduler import accepted, judged

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

NODES = [f"gpu{number:03d}" for number in range(1, 9)]
KILLS = int(os.environ.get("KILLS", "6"))


@pytest.fixture(scope="module")
def controller(root: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A slurmctld of eight nodes that this process and what it starts speak with; no job can run on them."""
    if why := missing("slurmctld", "scontrol"):
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("slurm")
    with slurm_site(folder, len(NODES), jobs=False) as env, pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        assert until(lambda: scontrol("ping").returncode == 0), (folder / "slurmctld.log").read_text()[-2000:]
        yield folder


def scontrol(*words: str) -> subprocess.CompletedProcess[str]:
    """What the real one says."""
    return subprocess.run(("scontrol", *words), capture_output=True, text=True, timeout=30, check=False)


def node(name: str) -> SchedulerNode:
    """How it stands, by the product's own reader."""
    said = scontrol(*slurm.show_node(name)[1:])
    found = slurm.node(name, said.stdout, said.stderr, said.returncode)
    assert found is not None
    return found


def free(*names: str) -> None:
    """No drain is left on them."""
    for name in names:
        if node(name).is_drained:
            scontrol("update", f"nodename={name}", "state=undrain")


def test_a_bad_host_is_drained_and_given_back(controller: Path, tmp_path: Path) -> None:
    """By the real words; a drain of somebody else, before ours or instead of it, stays."""
    free(*NODES)
    bad = judged(tmp_path, "20261123-1", gpu003=["gpu003/mlx5_2"])
    (said,) = act(bad, nodes=SlurmNodes())
    assert said == "gpu003: drained (fabric: gpu003/mlx5_2; run self-check/20261123-1)"
    assert (node("gpu003").is_drained, node("gpu004").is_drained) == (True, False)
    good = accepted(judged(tmp_path, "20261123-2"), gpu003="ACCEPT")
    scontrol("update", "nodename=gpu003", "state=drain", "reason=NHC: disk")
    assert list(act(good, nodes=SlurmNodes())) == ["gpu003: drained by root: NHC: disk; not by us, left as it is"]
    assert node("gpu003").reason == "NHC: disk"
    free("gpu003")
    bad = judged(tmp_path, "20261123-3", gpu003=["gpu003/mlx5_2"])
    list(act(bad, nodes=SlurmNodes()))
    assert "drained since" in next(iter(act(good, nodes=SlurmNodes())))
    good = accepted(judged(tmp_path, "20261123-4"), gpu003="ACCEPT")
    assert list(act(good, nodes=SlurmNodes())) == ["gpu003: given back to Slurm"]
    assert not node("gpu003").is_drained
    scontrol("update", "nodename=gpu003", "state=drain", "reason=NHC: disk")
    bad = judged(tmp_path, "20261123-5", gpu003=["gpu003/mlx5_2"])
    assert list(act(bad, nodes=SlurmNodes())) == ["gpu003: is drained already (root: NHC: disk); left as it is"]


def test_the_hosts_of_a_reservation(controller: Path) -> None:
    """Named by the real ``scontrol``; of a job that is not there it is said."""
    made = (
        "reservationname=r1",
        "nodes=gpu[002-004]",
        "user=root",
        "starttime=now",
        "duration=10",
        "flags=ignore_jobs",
    )
    assert scontrol("create", "reservation", *made).returncode == 0
    try:
        assert hosts_of(job=None, reserved="r1") == "gpu002,gpu003,gpu004"
    finally:
        scontrol("delete", "reservation", "r1")


def test_a_gate_answers_by_its_exit_code(controller: Path, tmp_path: Path) -> None:
    """As a prolog calls it, without a PATH of its own."""
    free(*NODES)
    run = judged(tmp_path, f"{datetime.now(UTC):%Y%m%d-%H%M%S}", gpu003=["gpu003/mlx5_2"])
    code = "from fabric.cli.main import run; run()"
    own = ("SLURM_CONF", "PYTHONPATH", "LD_LIBRARY_PATH", "PATH" if os.environ.get("SLURM_PLUGINS") else "HOME")
    env = {name: os.environ[name] for name in own if name in os.environ}
    for host, wanted in (("gpu003", 1), ("gpu001", 0), ("gpu099", 3)):
        argv = (sys.executable, "-c", code, "gate", "--results", str(tmp_path), "--act", "drain")
        said = subprocess.run(
            argv, env={**env, "SLURMD_NODENAME": host}, capture_output=True, text=True, timeout=60, check=False
        )
        assert (said.returncode, host in said.stdout) == (wanted, True), said.stderr
    assert node("gpu003").reason == f"fabric: gpu003/mlx5_2; run self-check/{run.name}"


ACTING = """\
import sys; from pathlib import Path; from types import SimpleNamespace
from fabric.app import scheduler
scheduler.MOST_SHARE = 1.0
run, nodes = Path(sys.argv[1]), [f"gpu{number:03d}" for number in range(1, 9)]
plan = SimpleNamespace(phases=(), duration_s=60.0)
print("ready", flush=True)
with scheduler.Reservation(print) as reservation:
    reservation.take(run, nodes, plan)
    for line in scheduler.act(run, nodes=scheduler.SlurmNodes()):
        print(line, flush=True)
"""


@pytest.mark.timeout(120 + 20 * KILLS)
def test_killed_anywhere_every_drain_and_reservation_has_its_line(controller: Path, tmp_path: Path) -> None:
    """SIGKILL at a random moment of reserving eight hosts and draining or freeing them; then once more to the end."""
    chance = random.Random(5)
    parts = {name: [f"{name}/mlx5_0"] for name in NODES}
    killed = left_drains = left_reserved = 0
    for number in range(KILLS):
        free(*NODES)
        run = judged(tmp_path, f"20261123-{number:03d}1", **parts)
        if number % 2:
            subprocess.run((sys.executable, "-c", ACTING, str(run)), capture_output=True, timeout=60, check=True)
            run = accepted(judged(tmp_path, f"20261123-{number:03d}2"), **dict.fromkeys(NODES, "ACCEPT"))
        process = subprocess.Popen((sys.executable, "-c", ACTING, str(run)), stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.8))
        process.kill()
        killed += process.wait(10) == -9
        process.stdout.close()
        written = {(line["change"], line.get("reason")) for line in read_journal(tmp_path / LEDGER)}
        drained = [(name, one.reason) for name, one in ((name, node(name)) for name in NODES) if one.is_drained]
        assert set(drained) <= written
        assert {*reserved()} <= {*reservations(tmp_path)}
        left_drains, left_reserved = left_drains + bool(drained), left_reserved + bool(reserved())
        assert all(one.certain for one in restore(None, results=tmp_path, make_executor=make_executor))
        assert (reserved(), reservations(tmp_path)) == ({}, {})
        good = accepted(judged(tmp_path, f"20261123-{number:03d}3"), **dict.fromkeys(NODES, "ACCEPT"))
        argv = (sys.executable, "-c", ACTING, str(good))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        assert "not by us" not in done.stdout
        assert not any(node(name).is_drained for name in NODES), done.stdout
    said = f"{killed} of {KILLS} met a live process, drains were left by {left_drains}, reservations by {left_reserved}"
    assert killed >= KILLS // 3, said


def reserved() -> dict[str, str]:
    """The nodes of every reservation that there is."""
    words = (
        dict(word.split("=", 1) for word in line.split()) for line in scontrol(*SHOW).stdout.splitlines() if "=" in line
    )
    return {one["ReservationName"]: one["Nodes"] for one in words}


SHOW = ("show", "reservation", "-o")
RUN = """\
import sys; from pathlib import Path
from fabric.app.scheduler import Reservation
from tests.builders import BACKENDS, ConsoleProgress, asked, run_asked
wanted = asked(Path("scenarios/self-check.yaml"), inventory=Path("inventory/pod-64.yaml"), hosts="gpu[001-004]")
def say(text): print(text, flush=True)
print("ready", flush=True)
with Reservation(say) as reservation:
    run_asked(wanted, backend="mock", executor=BACKENDS["mock"](wanted.inventory, 1), results=Path(sys.argv[1]), seed=1,
              observer=ConsoleProgress(quiet=True), reports=False, reservation=reservation)
"""


def test_a_run_reserves_its_hosts_and_gives_them_back(controller: Path, tmp_path: Path) -> None:
    """Drained ones, too; where Slurm refuses nothing is measured, and the reservation of somebody else stays."""
    scontrol("update", "nodename=gpu004", "state=drain", "reason=NHC: disk")
    mine = ("reservationname=mine", "user=root", "starttime=now", "duration=10")
    argv = (sys.executable, "-c", RUN, str(tmp_path))
    try:
        assert scontrol("create", "reservation", *mine, "nodes=gpu[005-006]").returncode == 0
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
        assert "slurm: gpu[001-004] reserved for" in done.stdout
        assert done.stdout.endswith("slurm: given back\n")
        assert reserved() == {"mine": "gpu[005-006]"}
        scontrol("delete", "reservation", "mine")
        assert scontrol("create", "reservation", *mine, "nodes=gpu[004-006]").returncode == 0
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert "Requested reservation overlaps with another reservation" in done.stderr
        assert reserved() == {"mine": "gpu[004-006]"}
    finally:
        scontrol("delete", "reservation", "mine")
        free("gpu004")
    assert reservations(tmp_path) == {}


STEPS = 11
KILLED = """\
import os, sys; from pathlib import Path
from fabric.app.scheduler import Reservation, ask_slurm
from tests.builders import asked
plan = asked(Path("scenarios/self-check.yaml"), inventory=Path("inventory/pod-64.yaml"), hosts="gpu[001-004]").plan
steps = iter(range(1, 100))
def step():
    if next(steps) == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
def run(argv):
    step()
    said = ask_slurm(argv)
    step()
    return said
with Reservation(print, run=run) as reservation:
    reservation.take(Path(sys.argv[1]), [f"gpu00{number}" for number in range(1, 5)], plan)
"""


def test_killed_between_any_two_steps_every_reservation_has_its_line(controller: Path, tmp_path: Path) -> None:
    """SIGKILL before and after each word to Slurm; what is left ends by itself, or at once by restore."""
    left = []
    for step in range(1, STEPS + 1):
        results = tmp_path / str(step)
        run = results / "self-check" / f"20261123-12000{step}"
        run.mkdir(parents=True)
        done = subprocess.run((sys.executable, "-c", KILLED, str(run), str(step)), capture_output=True, timeout=60)
        assert done.returncode == (-9 if step < STEPS else 0), done.stderr
        assert {*reserved()} <= {*reservations(results)}
        left += [step] if reserved() else []
        assert all(one.certain for one in restore(None, results=results, make_executor=make_executor))
        assert (reserved(), reservations(results)) == ({}, {})
    assert left == [*range(2, 8)]  # from the answer that it is made to the word that it shall go


def test_a_reservation_ends_by_itself(controller: Path) -> None:
    """No time is read back as for ever: Slurm takes 0 minutes for that."""
    argv = slurm.reserve("lease", "gpu001", "root", 1)
    assert scontrol(*argv[1:]).returncode == 0
    try:
        assert " Duration=00:01:00 " in scontrol(*SHOW, "lease").stdout
    finally:
        scontrol("delete", "reservation", "lease")
