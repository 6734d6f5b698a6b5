"""Who may run a probe though it was left out."""

from __future__ import annotations

from dataclasses import replace

from fabric.engine.admission import HostHealth, ProbeAdmission
from fabric.model.probe import Probe

ROUTES = Probe("pairs/gpu001/routes.x", "routes", "pairs", ("gpu001",), (), 1.0, {})
LEFT_OUT = {"gpu001": "did not pass intra-host: 1 loopback fail"}


def test_a_slow_host_that_was_left_out_may_still_read_tables_of_switches() -> None:
    admission = ProbeAdmission(LEFT_OUT, HostHealth())
    assert admission.refusal(ROUTES) is None
    assert admission.refusal(replace(ROUTES, kind="loopback")) is not None


def test_a_host_that_does_not_answer_may_not() -> None:
    assert ProbeAdmission(LEFT_OUT, HostHealth({"gpu001": "no route to host"})).refusal(ROUTES) is not None
