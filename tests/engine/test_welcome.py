"""Who may run a probe though it was left out."""

from __future__ import annotations

from dataclasses import replace

from fabric.engine.host_health import HostHealth
from fabric.engine.welcome import Welcome
from fabric.model.probe import Probe

ROUTES = Probe("pairs/gpu001/routes.x", "routes", "pairs", ("gpu001",), (), 1.0, {})
LEFT_OUT = {"gpu001": "did not pass intra-host: 1 loopback fail"}


def test_a_slow_host_that_was_left_out_may_still_read_tables_of_switches() -> None:
    welcome = Welcome(LEFT_OUT, HostHealth())
    assert welcome.refusal(ROUTES) is None
    assert welcome.refusal(replace(ROUTES, kind="loopback")) is not None


def test_a_host_that_does_not_answer_may_not() -> None:
    assert Welcome(LEFT_OUT, HostHealth({"gpu001": "no route to host"})).refusal(ROUTES) is not None
