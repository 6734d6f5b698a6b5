"""An answer to another question is never a measurement: a short version of benchmarks/altered_answers.py."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from benchmarks.altered_answers import NCCL, PERFTEST, Base, Canned, all_bases, altered, read, renamed
from fabric.engine.probe_run import NAME_WORDS
from fabric.model.outcome import Outcome
from fabric.tools import nccl, perftest
from fabric.tools.nccl.collective import Collective
from fabric.tools.perftest.command import asked, cut, otherwise, write_bw
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


def test_a_reason_says_what_was_asked_and_what_was_seen() -> None:
    """Of a device, and of hosts."""
    pair, ring = base("pairwise"), base("tor_all_reduce gpu001+ IB")
    other = read(replace(pair, client=pair.client.replace(": mlx5_3", ": mlx5_4")))
    assert other.reason == "gpu001: ib_write_bw answered for another test: asked Device mlx5_3, saw mlx5_4"
    packed = read(replace(ring, client=ring.client.replace(" gpu002 ", " gpu001 ")))
    assert packed.reason == (
        "gpu001: nccl-tests answered for another test: asked for ranks on gpu001 x 8, gpu002 x 8, saw gpu001 x 16"
    )


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
    device, size_bytes, duration_s, queue_pairs, cuda_gpu = options
    argv = write_bw(
        device=device,
        port=18515,
        peer="h",
        size_bytes=size_bytes,
        duration_s=duration_s,
        queue_pairs=queue_pairs,
        cuda_gpu=cuda_gpu,
        numa_node=None,
        gid_index=None,
    )
    (test,) = perftest.parse((CAPTURES / f"{name}.txt").read_text()).tests
    wanted = asked(argv, "Ethernet")
    assert list(otherwise(test, wanted)) == reasons
    missing = ["1 local addresses of 3 queue pairs", "1 remote addresses of 3 queue pairs"]  # left out by the poster
    assert list(cut(test, wanted)) == (missing if "bnxt" in name else [])


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
    wanted = Collective(op, 1 << least, 1 << most, 2, gpus, 20)
    assert [word for word in reasons if any(word in found for found in wanted.otherwise(test))] == reasons
    assert len(list(wanted.otherwise(test))) == len(reasons)
    assert list(wanted.cut(test)) == []
    assert len(test.listed) == len({(one.host, one.device) for one in test.listed}) == test.ranks
