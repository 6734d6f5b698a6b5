"""``fabric watch --metrics-port`` with the real thing: promtool reads what is served, and a Prometheus scrapes it."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fabric.app.live_metrics import live_metrics, serve
from fabric.runs.run_lock import holding
from tests.runs.small_run import begin, cut_after, run_of

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("promtool")), reason="needs prometheus and promtool"
    ),
]
DEADLINE_S = 60.0


def free_port() -> int:
    """A port that nobody has just now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[int]:
    """A run of which half is done, and that goes on; the port where it is told."""
    begin(tmp_path)
    cut_after(run_of(tmp_path), "finished", 3)
    run, port = run_of(tmp_path), free_port()
    serve(live_metrics(run), port)
    with holding(run.parent.parent, run.parent.name, ["gpu001"], run=run.name):
        yield port


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[int]:
    """A Prometheus that scrapes the port each second; its own port."""
    port = free_port()
    jobs = [{"job_name": "fabric", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}]
    config = folder / "prometheus.yml"  # JSON is YAML
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
    argv = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    argv += [f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            yield port
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(DEADLINE_S)


def answered(port: int, query: str) -> list[dict[str, Any]]:
    """What Prometheus answers, as soon as it has something to say."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    until_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < until_s:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        except (urllib.error.URLError, ConnectionError):
            found = []
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"Prometheus has no {query}")


def test_promtool_finds_nothing_to_say_about_what_is_served(served: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{served}/metrics", timeout=10) as answer:
        text = answer.read()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_a_prometheus_scrapes_it_and_knows_how_far_the_run_is(served: int, tmp_path: Path) -> None:
    with prometheus(tmp_path, served) as port:
        assert [one["value"][1] for one in answered(port, "fabric_live_running")] == ["1"]
        done = answered(port, 'max(fabric_live_probes{state="done"})')
        assert [one["value"][1] for one in done] == ["3"]
        assert [one["value"][1] for one in answered(port, 'up{job="fabric"}')] == ["1"]


def test_every_query_of_the_dashboard_is_one(tmp_path: Path) -> None:
    """promtool parses each expression of docs/grafana-dashboard.json as a rule."""
    board = json.loads((Path(__file__).parents[2] / "docs" / "grafana-dashboard.json").read_text())
    said = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert said
    rules = [{"record": f"q{number}", "expr": _filled(text)} for number, text in enumerate(said)]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", path], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _filled(expression: str) -> str:
    """With a value for each variable of Grafana's."""
    for name, value in (("$__rate_interval", "5m"), ("$__interval", "1m"), ("$__range", "1h")):
        expression = expression.replace(name, value)
    return expression
