"""Whose it is when the output of a collective cannot be read."""

from __future__ import annotations

import pytest

from fabric.model.command import Command, CommandResult
from fabric.model.outcome import Outcome
from fabric.model.probe import Answered, NamedPart, ParamValue, Probe
from fabric.probes.collective import read_busbw

PARAMS: dict[str, ParamValue] = {"sizes_bytes": (1 << 30,), "ranks": 16, "iterations": 20}


@pytest.mark.parametrize("said", ["\x00\x1b[2J", "", "# nThread 1 nGpus 1\n# 1 2 3 4\n" * 9])
@pytest.mark.parametrize("hosts", [("gpu001", "gpu002"), ("gpu001",)])
def test_nonsense_with_exit_0_is_the_host_that_started_the_job(hosts: tuple[str, ...], said: str) -> None:
    probe = Probe("p", "tor_all_reduce", "tor", hosts, (), 1.0, PARAMS)
    client = CommandResult(Command("gpu001", ("mpirun",), 1.0), 0, said, "", 0.0, 1.0)
    reading = read_busbw(probe, Answered((), client), op="all_reduce")
    assert reading.outcome is Outcome.ERROR
    assert reading.named == (NamedPart("gpu001", "garbled") if len(hosts) > 1 else None)


def test_a_job_that_ended_with_an_error_is_nobodys_yet() -> None:
    probe = Probe("p", "tor_all_reduce", "tor", ("gpu001", "gpu002"), (), 1.0, PARAMS)
    client = CommandResult(Command("gpu001", ("mpirun",), 1.0), 1, "", "ssh: no route", 0.0, 1.0)
    reading = read_busbw(probe, Answered((), client), op="all_reduce")
    assert (reading.outcome, reading.named) == (Outcome.ERROR, None)
