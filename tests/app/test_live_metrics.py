"""What Prometheus is told of a run that goes on."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fabric.app.live_metrics import LiveMetrics, serve
from fabric.errors import ConfigError
from fabric.runs.run_lock import holding
from tests.runs.small_run import begin, cut_after, run_of


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A run of which half is done."""
    begin(tmp_path)
    cut_after(run_of(tmp_path), "finished", 3)
    return run_of(tmp_path)


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_each_scrape_is_a_look_at_the_run(half: Path) -> None:
    registry = CollectorRegistry()
    registry.register(LiveMetrics(half))
    with holding(half.parent.parent, half.parent.name, ["gpu001"], run=half.name):
        text = generate_latest(registry).decode()
    assert 'fabric_live_running{scenario="small"} 1.0' in text
    assert 'state="done"} 3.0' in text
    assert 'fabric_live_running{scenario="small"} 0.0' in generate_latest(registry).decode()


def test_it_is_served_as_open_metrics(half: Path) -> None:
    port = free_port()
    serve(half, port)
    accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=accept)
    with urllib.request.urlopen(request, timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    assert {"fabric_live_probes", "fabric_live_hosts", "fabric_live_open_changes"} <= {one.name for one in families}
    with pytest.raises(ConfigError, match="--metrics-port"):
        serve(half, port)


def test_a_crowd_is_answered_one_after_the_other(half: Path) -> None:
    """Connections that ask nothing hold up the next one for a moment, and make no thread each."""
    port = free_port()
    before = threading.active_count()
    serve(half, port)
    with ExitStack() as crowd:
        for _ in range(4):
            crowd.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        time.sleep(0.2)
        assert threading.active_count() == before + 1
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert b"fabric_live_running" in answer.read()
