"""Hosts with AMD's GPUs: what is run there, what it answers, and that NVIDIA's programs are not there."""

from __future__ import annotations

from dataclasses import replace

from fabric.checks.parts import AMD_JOBS, AMD_LIST, GPUDIRECT, GPUS
from fabric.config import load_inventory
from fabric.model.finding import Severity
from fabric.model.inventory import MockSettings
from fabric.model.scenario import Phase
from fabric.probes.all_to_all import AllToAllSpec
from fabric.probes.kinds import KINDS, expand_phase
from fabric.probes.loopback import LoopbackSpec
from fabric.sim.world import World
from fabric.tools import nccl
from tests.checks.asked import EVERYTHING, answer, found
from tests.places import INVENTORY

RACK = load_inventory(INVENTORY / "mi300x.yaml").topology
HOST = RACK.hosts["amd01"]


def world() -> World:
    """The shipped rack."""
    return World(RACK, MockSettings(noise_cv=0.0), seed=1)


def commands(spec) -> list:
    """Every command of a spec on one host."""
    probes = expand_phase(Phase("p", (spec,)), RACK, ("amd01",))
    made = [KINDS[probe.kind].commands(probe, RACK) for probe in probes]
    return [command for each in made for command in (*each.servers, each.client)]


def test_perftest_uses_rocm_and_collectives_hips_variable() -> None:
    """``--use_rocm``, ``HIP_VISIBLE_DEVICES``; no word of CUDA."""
    words = {word for command in commands(LoopbackSpec()) for word in command.argv}
    assert "--use_rocm=3" in words
    assert not any("cuda" in word for word in words)
    env = dict(commands(AllToAllSpec())[0].env)
    assert (env.get("HIP_VISIBLE_DEVICES"), "CUDA_VISIBLE_DEVICES" in env) == ("0,1,2,3,4,5,6,7", False)


def test_rccl_tests_are_read(kit) -> None:
    """With RCCL's lines and its three columns."""
    (done,) = kit.played(world(), [(0.0, "amd01", "all_reduce_perf -b 8G -e 8G -g 8")])
    (test,) = nccl.parse(done.stdout).tests
    assert "nchannels" in done.stdout
    assert not test.problems
    assert (test.ranks, test.told["version"]) == (8, "2.17.8")


def test_gpus_are_listed_by_rocm_smi(kit) -> None:
    """As many as the inventory has, and nobody on them."""
    said = {argv: kit.ask(world(), "amd01", " ".join(argv), 1.0).stdout for argv in (AMD_LIST, AMD_JOBS)}
    answers = {argv: answer(argv, text) for argv, text in said.items()}
    assert found(GPUS, answers, EVERYTHING, HOST) == []
    assert GPUDIRECT.ask(HOST, EVERYTHING) == ()
    (one,) = found(GPUS, answers | {AMD_LIST: answer(AMD_LIST, said[AMD_LIST].partition("card7")[0])}, EVERYTHING, HOST)
    assert (one.severity, one.what) == (Severity.PROBLEM, "7 GPUs, the inventory has 8")
    busy = answer(AMD_JOBS, f"{said[AMD_JOBS]}PID3625,python3,1,0,0,0\n")
    (one,) = found(GPUS, answers | {AMD_JOBS: busy}, EVERYTHING, HOST)
    assert one.what == "1 GPU process: python3"
    (one,) = found(GPUS, {}, EVERYTHING, replace(HOST))
    assert one.severity is Severity.UNKNOWN
