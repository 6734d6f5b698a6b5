"""An answer to another question is never a measurement; probes of an earlier run and of other packages."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from benchmarks.alterations import NCCL, PERFTEST
from benchmarks.altered_answers import Base, Canned, all_bases, altered, read, renamed
from benchmarks.measured_rack import dgx_platform
from fabric.engine.probe_run import NAME_WORDS
from fabric.model.outcome import Outcome
from fabric.model.probe import Command, CommandResult, Probe
from fabric.model.repair import Because, Evidence
from fabric.model.scenario import Phase
from fabric.model.topology import Topology
from fabric.probes.again import AgainSpec, shortened
from fabric.probes.collective import START_S
from fabric.probes.kinds import KINDS, expand_phase, left_out
from fabric.probes.loopback import LoopbackSpec
from fabric.probes.pairwise import PairwiseSpec
from fabric.probes.shapes import last_line
from fabric.tools import nccl, perftest
from fabric.tools.nccl.collective import Collective
from fabric.tools.perftest.command import CommandSide, asked, mismatches, missing_lines, write_bw
from tests.places import CAPTURES

BLAMED = ("status 12", "wrong elements", "out of bounds")
"""What is said in these is that the fabric is bad."""


@cache
def bases() -> tuple[Base, ...]:
    """Every kind of probe, with what its tools printed."""
    return tuple(all_bases())


@cache
def alterations() -> dict[str, list[Base]]:
    """All altered answers, by what was altered."""
    found: dict[str, list[Base]] = {}
    for one in bases():
        for name, other in altered(one):
            found.setdefault(name.removesuffix(", the server"), []).append(other)
    return found


def base(name: str) -> Base:
    """The one whose name begins so."""
    return next(one for one in bases() if one.name.startswith(name))


def test_what_was_asked_is_measured() -> None:
    """Every kind of probe, on InfiniBand and RoCE, by both launchers, and recordings of real tools."""
    assert [(one.name, found.reason) for one in bases() if (found := read(one)).outcome is not None] == []


@pytest.mark.parametrize("name", [*PERFTEST, *NCCL])
def test_no_altered_answer_is_a_measurement(name: str) -> None:
    """It is an ERROR, and FAIL only where the tool itself says that the fabric is bad."""
    allowed = {Outcome.ERROR, Outcome.FAIL} if any(word in name for word in BLAMED) else {Outcome.ERROR}
    tried = alterations()[name]
    # The first and the last that it alters; the benchmark takes all of them.
    for one in (tried[0], tried[-1]):
        assert read(one).outcome in allowed, one.name


@pytest.mark.parametrize("which", ["output of the same command before", "output of another probe"])
def test_the_output_of_another_run_is_no_measurement(which: str) -> None:
    """Queue pairs have new numbers in each run, and ranks run on other hosts."""
    assert {read(one).outcome for one in alterations()[which]} == {Outcome.ERROR}


@pytest.mark.parametrize("name", ["pairwise", "latency"])
def test_both_sides_answer_what_they_were_asked_and_of_one_transfer(name: str) -> None:
    """Neither a server that says nothing or has another RNIC, nor the client of an earlier run."""
    pair = base(name)
    (server,) = pair.servers
    assert read(pair).outcome is None
    for other in (
        *(replace(pair, servers=(text,)) for text in ("", server.replace(": mlx5_3", ": mlx5_4"))),
        replace(pair, client=pair.before),
    ):
        assert read(other).outcome is Outcome.ERROR


def test_a_reason_says_what_was_asked_and_what_was_seen() -> None:
    """Of a device, and of hosts."""
    pair, ring = base("pairwise"), base("tor_all_reduce gpu001+ IB")
    other = read(replace(pair, client=pair.client.replace(": mlx5_3", ": mlx5_4")))
    assert other.reason == "gpu001: ib_write_bw answered for another test: asked Device mlx5_3, saw mlx5_4"
    packed = read(replace(ring, client=ring.client.replace(" gpu002 ", " gpu001 ")))
    assert packed.reason == (
        "gpu001: nccl-tests answered for another test: asked for ranks on gpu001 x 8, gpu002 x 8, saw gpu001 x 16"
    )


@pytest.mark.parametrize(
    "line",
    [
        "/home/op/.bashrc: line 3: module: command not found",
        "bash: /etc/profile.d/lmod.sh: No such file or directory",
        "nvidia-smi: error while loading shared libraries: libnvidia-ml.so.1: cannot open shared object file",
    ],
)
def test_what_a_login_shell_lacks_is_told_only_of_a_job_that_did_not_run(line: str) -> None:
    """Mpirun reaches the other hosts through their login shells, whose start-up files print what they like."""
    ring = base("tor_all_reduce gpu001+ IB")
    for text in (f"{line}\n{ring.client}", f"{ring.client}{line}\n"):
        assert read(replace(ring, client=text)).outcome is None
    alone = read(replace(ring, client=f"{line}\n"))
    assert (alone.outcome, alone.reason) == (Outcome.ERROR, f"gpu001: {line}")


NUMACTL = """\
libnuma: Warning: node argument 1 is out of range

usage: numactl [--all | -a] [--balancing | -b] [--interleave= | -i <nodes>]
<length> can have g (GB), m (MB) or k (KB) suffixes
"""
"""What numactl 2.0.16 says on a host with one memory node, shortened."""


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        ("<1> is invalid\n", NUMACTL, "libnuma: Warning: node argument 1 is out of range"),
        ("<1> is invalid\n", NUMACTL[NUMACTL.index("usage") :], "<1> is invalid"),
        ("", " Usage: x\n  -h  this\n", "Usage: x"),
        ("one\ntwo \n\n", "", "two"),
        ("", "", "no output"),
    ],
)
def test_how_a_program_is_used_is_no_reason_for_its_end(stdout: str, stderr: str, said: str) -> None:
    assert last_line(CommandResult(Command("a", ("x",), 1.0), 1, stdout, stderr, 0.0, 1.0)) == said


def test_hosts_that_call_themselves_otherwise_are_asked_once() -> None:
    """Nobody is asked where the names agree; where they do not, every host of the probe is, and that is remembered."""
    ring = base("tor_all_reduce gpu001+ IB")
    other = renamed(ring)
    names: dict[str, str] = {}
    asked = []
    for one in (ring, other, other):
        executor = Canned(one)
        assert read(one, executor, names).outcome is None
        asked.append([command.host for command in executor.started if command.argv == NAME_WORDS])
    assert asked == [[], list(ring.probe.hosts), []]


def test_a_host_that_says_another_name_than_its_ranks_do_is_another_host() -> None:
    """The host under that address is none of those that ranks ran on."""
    ring = base("tor_all_reduce gpu001+ IB")
    found = read(replace(renamed(ring), own={"gpu001": "node-01", "gpu002": "node-77"}))
    assert found.outcome is Outcome.ERROR
    assert "asked for ranks on node-77 x 8, node-01 x 8, saw node-02 x 8, node-01 x 8" in found.reason


def test_hosts_that_call_themselves_alike_cannot_be_told_apart() -> None:
    """All ranks may have run on one of them."""
    ring = base("tor_all_reduce gpu001+ IB")
    text = ring.client.replace("gpu001", "localhost").replace("gpu002", "localhost")
    found = read(replace(ring, client=text, own=dict.fromkeys(ring.probe.hosts, "localhost")))
    assert found.outcome is Outcome.ERROR
    assert found.reason.endswith("hosts that call themselves alike cannot be told apart")


@pytest.mark.parametrize(
    ("name", "options", "reasons"),
    [
        ("rxe/ib_write_bw_D_4k", ("mlx5_0", 4096, 8, 1, None), []),
        (
            "perftest/08-gpudirect-a40-dmabuf-rdmacm-16qp-duration-client",
            ("mlx5_1", 65536, 60, 16, 0),
            ["asked rdma_cm QPs OFF, saw ON"],
        ),
        (
            "more/perftest-bnxt_re-400g-rdmacm-duration",
            ("bnxt_re0", 65536, 10, 3, None),
            ["asked rdma_cm QPs OFF, saw ON"],
        ),
    ],
)
def test_real_outputs_of_ib_write_bw_answer_their_own_command(
    name: str, options: tuple[str, int, int, int, int | None], reasons: list[str]
) -> None:
    """But for an option of theirs that is never given here: each field is where it is looked for."""
    device, size_bytes, duration_s, queue_pairs, gpu = options
    platform = dgx_platform()
    rnic = replace(platform.rnics[0], device=device)
    side = CommandSide(platform=platform, rnic=rnic, port=18515, peer="h", size_bytes=size_bytes, numa_node=0, gpu=gpu)
    argv = write_bw(side, duration_s=duration_s, queue_pairs=queue_pairs)
    (test,) = perftest.parse((CAPTURES / f"{name}.txt").read_text()).tests
    wanted = asked(argv, "Ethernet")
    assert list(mismatches(test, wanted)) == reasons
    missing = ["1 local addresses of 3 queue pairs", "1 remote addresses of 3 queue pairs"]  # left out by the poster
    assert list(missing_lines(test, wanted)) == (missing if "bnxt" in name else [])


@pytest.mark.parametrize(
    ("name", "number", "asked", "reasons"),
    [
        ("35-gcm-a100-pair-150.209", 0, ("all_reduce", 25, 30, 1), []),
        ("17-h100-pair-g1-alltoall+sendrecv-2.17.6", 0, ("alltoall", 25, 34, 1), ["double"]),
        ("21-h100-10node-80gpu-5ops-2.17.8", 0, ("all_reduce", 25, 36, 1), ["double"]),
        ("21-h100-10node-80gpu-5ops-2.17.8", 3, ("alltoall", 25, 36, 1), ["double"]),
        ("23-h100-single-node-nccl_N1_G4_cnode3-003", 3, ("alltoall", 25, 36, 1), ["double"]),
        ("24-ar-off-2node-16gpu-cx8-2.18.3", 0, ("all_reduce", 10, 33, 1), ["warmup iters 5, saw 1"]),
        ("26-ar-on-ddp-on-2node-16gpu-cx8-2.18.3", 0, ("all_reduce", 10, 33, 1), ["warmup iters 5, saw 1"]),
        ("01-superbench-a100x8-allreduce-old-format", 0, ("all_reduce", 0, 33, 8), ["validation 1, saw 0"]),
    ],
)
def test_real_outputs_of_nccl_tests_answer_their_own_command(
    name: str, number: int, asked: tuple[str, int, int, int], reasons: list[str]
) -> None:
    """But for an option of theirs that is never given here: each field is where it is looked for, from 2019 on."""
    op, least, most, gpus = asked
    test = nccl.parse((CAPTURES / "nccl-tests" / f"{name}.txt").read_text()).tests[number]
    wanted = Collective(op, tuple(1 << power for power in range(least, most + 1)), gpus, 20)
    assert [word for word in reasons if any(word in found for found in wanted.mismatches(test))] == reasons
    assert len(list(wanted.mismatches(test))) == len(reasons)
    assert list(wanted.missing_lines(test)) == []
    assert len(test.listed) == len({(one.host, one.device) for one in test.listed}) == test.ranks


def phase(rack: Topology, *, repeat: int = 3) -> tuple[Phase, Phase]:
    """A phase, and one that repeats its first two probes."""
    first = Phase("intra", (LoopbackSpec(),))
    probes = expand_phase(first, rack, ["gpu001", "gpu002"])[:2]
    evidence = tuple(Evidence(probe, Outcome.FAIL, "") for probe in probes)
    because = Because("check/1", "/x", ("gpu001",), False, (), evidence)
    return first, Phase("evidence", (AgainSpec(repeat=repeat, because=because),))


def test_each_is_measured_so_often_with_a_port_and_an_id_of_its_own(rack: Topology) -> None:
    first, again = phase(rack)
    before = expand_phase(first, rack, ["gpu001", "gpu002"])[:2]
    found = expand_phase(again, rack, list(rack.hosts))
    assert [probe.probe_id for probe in found] == [
        f"evidence/{one.probe_id.partition('/')[2]}.r{number}" for one in before for number in (1, 2, 3)
    ]
    assert len({probe.params["port"] for probe in found}) == 6
    assert {(probe.kind, probe.claims, probe.hosts) for probe in found} == {
        (one.kind, one.claims, one.hosts) for one in before
    }
    assert all(KINDS[probe.kind].commands(probe, rack) for probe in found)


def test_what_needs_a_host_that_does_not_take_part_is_left_out(rack: Topology) -> None:
    _, again = phase(rack)
    assert expand_phase(again, rack, ["gpu002"]) == []


def test_evidence_is_said_to_be_missing_only_where_it_is(rack: Topology) -> None:
    _, again = phase(rack)
    assert left_out(again, list(rack.hosts), expand_phase(again, rack, list(rack.hosts)), rack) == []
    empty = Phase("evidence", (AgainSpec(),))
    assert "fabric run --because RUN" in left_out(empty, ["gpu001"], [], rack)[0].text


def test_pairs_can_be_kept_to_some_hosts_and_the_others_miss_nothing(rack: Topology) -> None:
    pairs = Phase("pairs", (PairwiseSpec(only=("gpu002",)),))
    probes = expand_phase(pairs, rack, list(rack.hosts))
    assert probes
    assert all("gpu002" in probe.hosts for probe in probes)
    assert left_out(pairs, list(rack.hosts), probes, rack) == []


def collective(iterations: int, expected_s: float) -> Probe:
    """Of one host."""
    return Probe("soak/a/all_to_all", "all_to_all", "soak", ("a",), (), expected_s, {"iterations": iterations})


def test_fewer_iterations_take_less_time_but_for_the_start() -> None:
    found = shortened(collective(3995, START_S + 400.0), iterations=20, duration_s=5)
    assert found.params["iterations"] == 20
    assert START_S < found.duration_s < START_S + 5.0
    assert found.probe_id == "soak/a/all_to_all"


def test_traffic_by_the_second_is_cut_as_well() -> None:
    probe = Probe("p", "pairwise", "soak", ("a", "b"), (), 62.0, {"duration_s": 60, "size_bytes": 8})
    found = shortened(probe, iterations=20, duration_s=5)
    assert (found.params, found.duration_s) == ({"duration_s": 5, "size_bytes": 8}, 7.0)


ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests" / "plugins" / "own_kind"
RACK = ROOT / "inventory" / "demo-rack-healthy.yaml"


BROKEN = {
    "called = own_kind:Missing": "AttributeError",
    "absent = no_such_module:Spec": "ModuleNotFoundError: No module named 'no_such_module'",
    "other = own_kind:HostnameSpec": "ValueError: its class calls itself 'called'",
    "classless = own_kind:Probe": "TypeError: own_kind:Probe is no subclass of fabric.model.scenario.ProbeSpec",
}


def fabric(folder: Path, package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own that finds the package."""
    program = "from fabric.cli.main import run; run()"
    path = os.pathsep.join((str(package), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def scenario(folder: Path, probe: str) -> str:
    path = folder / "own.yaml"
    path.write_text(f"name: own\ninventory: {RACK}\nphases:\n  - name: p\n    probes:\n      - {probe}\n")
    return str(path)


@pytest.mark.slow
def test_a_kind_of_another_package_is_planned_run_judged_and_judged_again(tmp_path: Path) -> None:
    ran = fabric(tmp_path, PACKAGE, "run", scenario(tmp_path, "called: {patience: 9}"), "--yes")
    assert (ran.returncode, ran.stderr.count("Traceback")) == (0, 0), ran.stdout + ran.stderr
    assert "8 probes" in ran.stdout
    latest = tmp_path / "results" / "own" / "latest"
    kept = json.loads((latest / "run.json").read_text())
    assert '["called", {' in json.dumps(kept)
    assert fabric(tmp_path, PACKAGE, "analyze", str(latest)).returncode == 0


@pytest.mark.slow
def test_its_keys_are_checked_and_described_as_our_own(tmp_path: Path) -> None:
    wrong = fabric(tmp_path, PACKAGE, "plan", scenario(tmp_path, "called: {patience: 99, patiense: 1}"))
    assert wrong.returncode == 2
    assert "own.yaml:6: expected a whole number from 1 to 60, got '99'" in wrong.stderr
    assert "own.yaml:6: unknown key 'patiense'; did you mean 'patience'?" in wrong.stderr


@pytest.mark.slow
def test_a_broken_package_is_named(tmp_path: Path) -> None:
    """Exit 2 and no traceback, where its kinds are asked for."""
    info = tmp_path / "broken" / "own_kind-1.2.dist-info"
    info.mkdir(parents=True)
    (info.parent / "own_kind.py").write_text((PACKAGE / "own_kind.py").read_text())
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-kind\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("\n".join(("[fabric.probes]", *BROKEN)))
    assert fabric(tmp_path, info.parent, "plan", scenario(tmp_path, "loopback")).returncode == 0
    asked = "\n      - ".join(point.split(" = ")[0] for point in BROKEN)
    found = fabric(tmp_path, info.parent, "plan", scenario(tmp_path, asked))
    assert found.returncode == 2
    for point, said in BROKEN.items():
        name, value = point.split(" = ")
        told = f"unknown probe '{name}': kind '{name}' of own-kind 1.2 (fabric.probes: {value}) cannot be used: {said}"
        assert told in found.stderr
    assert "Traceback" not in found.stderr
