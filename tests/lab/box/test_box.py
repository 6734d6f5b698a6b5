"""Real faults on real traffic: the right part first, no healthy one named, nothing passed that is bad."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import fabric
from benchmarks.lab.box_matrix import CASES, PAIRS, Row, judged, measure
from benchmarks.lab.lab import own_environment
from fabric import lab as machine
from fabric.errors import ConfigError, FabricError
from fabric.lab.layout import Box
from fabric.model.text import fold

pytestmark = pytest.mark.lab

NAME = f"t{os.getpid()}"
RINGS = """\
name: rings
hosts: all
phases:
  - name: rings
    probes: [tor_all_reduce: {sizes: [512K], iterations: 5}]
"""


def interfaces() -> str:
    """The machine's own interfaces and routes."""
    asked = (("ip", "-o", "link"), ("ip", "route", "show", "table", "all"))
    return "".join(
        subprocess.run(argv, capture_output=True, text=True, timeout=10, check=True).stdout for argv in asked
    )


@pytest.fixture(scope="module")
def box(root: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """Six hosts under two leaves and two spines, shared by these tests, which mend what they break."""
    try:
        machine.refuse_where_impossible()
    except ConfigError as exc:
        pytest.skip(str(exc))
    before = interfaces()
    made = Box(NAME, str(machine.STATE / NAME))
    machine.up(made, tmp_path_factory.mktemp("box") / "box.yaml")
    yield made
    assert interfaces() == before
    assert machine.down(NAME) == []
    assert interfaces() == before
    assert not Path(made.folder).exists()
    assert not list(Path("/run/netns").glob(f"fabric-{NAME}-*"))


def said_of(name: str, box: Box, results: Path, budget: str = "10s") -> Row:
    """
    What a run says while the fault of that name is in force.

    Once more where it asks for that (INCONCLUSIVE), and where it says that all hosts are slow alike, which none of
    these faults is: then the machine stood still. The shipped scenario, with that much time for further rounds.
    """
    case = next(case for case in CASES if case.name == name)
    pairs, text = results / "pairs.yaml", PAIRS.read_text()
    assert "budget: 25s" in text
    pairs.write_text(text.replace("budget: 25s", f"budget: {budget}"))
    row = judged(case, box, 1, results, pairs=pairs)
    if row.outcome == "inconclusive" or row.suspects == (fold(box.leaf_of),):
        sys.stdout.write(f"measured again: {(Path(row.run) / 'verdict.json').read_text()}\n")
        row = judged(case, box, 1, results, pairs=pairs)
    return row


@pytest.mark.parametrize(("name", "budget"), [("none", "10s"), ("uplink one way", "25s"), ("cable down", "10s")])
def test_the_bad_part_is_the_first_suspect(box: Box, name: str, budget: str, tmp_path: Path) -> None:
    """
    And the only one; a box without a fault passes.

    Each connection takes one of two uplinks by chance: of the seven or eight that ten seconds have time for, fewer than
    three, which name nobody, take the bad one in one run of seven; in one of fifty with all the time of the scenario.
    """
    row = said_of(name, box, tmp_path, budget)
    assert row.first, row
    assert row.healthy == (), row
    assert row.passed is (name == "none"), row


def test_a_small_rate_is_told_with_its_digits(box: Box, tmp_path: Path) -> None:
    """A host that sends at 29 of 96 Mb/s, and which way it is slow."""
    row = said_of("host tx slow", box, tmp_path)
    assert (row.first, row.healthy, row.passed) == (True, (), False), row
    (suspect,) = json.loads((Path(row.run) / "verdict.json").read_text())["suspects"]
    assert suspect["component"].endswith(":tx"), suspect
    assert re.search(r"about 0\.02\d+ of 0\.09\d+ Gb/s", " ".join(suspect["evidence"])), suspect


def test_a_grey_spine_is_not_mistaken_for_a_host(box: Box, tmp_path: Path) -> None:
    """Some pairs across the leaves are bad and others are not: something above the leaves, and nobody below."""
    row = said_of("spine grey", box, tmp_path)
    assert not row.passed, row
    assert row.healthy == (), row
    assert row.first, row


@pytest.mark.skipif(shutil.which("mpicc") is None, reason="needs openmpi-bin and libopenmpi-dev")
def test_all_reduces_move_real_bytes(box: Box, tmp_path: Path) -> None:
    """
    Six all-reduces over Open MPI, each byte checked; those with the host that sends slowly are slower than all others.

    How fast the others are, and with it their number below a limit, depends on what else the machine does.
    """
    scenario = tmp_path / "rings.yaml"
    scenario.write_text(RINGS)
    machine.break_part(NAME, "h2/mlx5_0:tx:slow=0.3")
    try:
        said = measure(NAME, scenario, tmp_path)
    finally:
        machine.mend(NAME)
    speeds = fabric.load(Path(said["path"])).samples.groupby("probe", observed=True)["gbps"].max()
    with_h2 = speeds.index.str.contains("h2")
    assert (len(speeds), sum(with_h2)) == (6, 2), speeds
    assert speeds[with_h2].max() < speeds[~with_h2].min()
    assert said["counts"]["fail"] >= 2
    assert any(suspect["component"].startswith("h2") for suspect in said["suspects"]), said["suspects"]


def test_a_box_is_gone_after_a_crash(box: Box, tmp_path: Path) -> None:
    """Killed in the middle of being made, it is taken away whole by ``down``, and nobody else's is."""
    name = f"{NAME}k"
    code = (
        "import os, signal; from pathlib import Path\n"
        "from fabric import lab as machine; from fabric.lab.layout import Box\n"
        "machine._daemons = lambda box: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"machine.up(Box({name!r}, str(machine.STATE / {name!r}), hosts=2), Path({str(tmp_path)!r}) / 'k.yaml')"
    )
    done = subprocess.run((sys.executable, "-c", code), env=own_environment(), timeout=60, check=False)
    assert done.returncode == -9
    assert list(Path("/run/netns").glob(f"fabric-{name}-*"))
    machine.down(name)
    assert not list(Path("/run/netns").glob(f"fabric-{name}-*"))
    assert not (machine.STATE / name).exists()
    assert machine.status(NAME).namespaces == len(box.nodes)


def test_what_cannot_be_made_leaves_nothing(box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure on the way takes back what was there; a box of that name, or a file in the way, is not touched."""
    with pytest.raises(ConfigError, match="there is a box"):
        machine.up(box, tmp_path / "other.yaml")
    name = f"{NAME}f"
    other = Box(name, str(machine.STATE / name), hosts=2)
    (tmp_path / "mine.yaml").write_text("mine")
    with pytest.raises(ConfigError, match="is not overwritten"):
        machine.up(other, tmp_path / "mine.yaml")
    monkeypatch.setattr(machine, "READY_S", 0.0)
    with pytest.raises(FabricError, match="the box is not ready"):
        machine.up(other, tmp_path / "other.yaml")
    assert not list(Path("/run/netns").glob(f"fabric-{name}-*"))
    assert [path.name for path in tmp_path.glob("*.yaml")] == ["mine.yaml"]


TAKES = "import socket as s; c = s.create_server(('0.0.0.0', 9999)).accept()[0]\nwhile c.recv(65536): pass"
SENDS = "import socket as s, sys; c = s.create_connection((sys.argv[1], 9999))\nwhile True: c.sendall(bytes(65536))"
BUSY_S = 5.0


def test_no_route_is_lost_on_full_links_and_a_busy_machine(box: Box) -> None:
    """Six flows over slow uplinks, two busy loops beside them: BFD's packets and the daemons have to come through."""
    hosts = list(box.leaf_of)
    apart = list(zip(hosts, hosts[3:] + hosts[:3], strict=True))
    with contextlib.ExitStack() as started:
        started.callback(machine.mend, NAME)
        for spine in box.spine_names:
            machine.break_part(NAME, f"{spine}:slow=0.1")

        def start(argv: tuple[str, ...], node: str | None = None) -> subprocess.Popen[str]:
            inside = () if node is None else ("ip", "netns", "exec", box.namespace(node))
            run = started.enter_context(subprocess.Popen((*inside, *argv), stdout=subprocess.PIPE, text=True))
            started.callback(run.kill)
            return run

        for host in hosts:
            start((sys.executable, "-c", TAKES), host)
        until_s = time.monotonic() + 20
        while not all(listening(box, host) for host in hosts) and time.monotonic() < until_s:
            time.sleep(0.1)
        for host, other in apart:
            start((sys.executable, "-c", SENDS, box.data_address(other)), host)
        for _ in range(2):
            start((sys.executable, "-c", "while True: pass"))
        watching = [start(("ip", "monitor", "route"), switch) for switch in box.switches]
        time.sleep(BUSY_S)
        for watch in watching:
            watch.terminate()
        said = [line for watch in watching for line in watch.communicate()[0].splitlines() if "proto bgp" in line]
    assert said == []


def listening(box: Box, host: str) -> bool:
    """Whether the program that takes bytes is there."""
    said = subprocess.run(
        ("ip", "netns", "exec", box.namespace(host), "grep", "-c", ":270F ", "/proc/net/tcp"),
        capture_output=True, text=True, timeout=10, check=False,
    )  # fmt: skip
    return said.returncode == 0


def test_one_next_hop_left_is_seen_by_nobody_else(box: Box) -> None:
    """The routing daemon keeps saying two while the kernel has one; ``mend`` brings the other back."""
    space = box.namespace("l1")
    machine.break_part(NAME, "l1:one_path")
    try:
        kernel = subprocess.run(
            ("ip", "-j", "-n", space, "route", "show", box.subnet("l2")), capture_output=True, timeout=10, check=True
        )
        assert "nexthops" not in json.loads(kernel.stdout)[0]
    finally:
        machine.mend(NAME)
    assert machine.status(NAME).faults == ()
