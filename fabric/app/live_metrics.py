"""A run that goes on, or a fleet that is watched, as metrics that Prometheus scrapes (``--metrics-port``)."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Metric, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from fabric.app.monitor import FleetSeen
from fabric.app.status import HostState, RunStatus, Watched
from fabric.errors import ConfigError
from fabric.report.output import visible

MOST_PARTS = 100
"""Bad parts with a metric of their own (a choice: more are one cause)."""

ASKS_S = 5.0
"""Who asks has so long for the next part of the question (a choice); the next one waits meanwhile."""


class LiveMetrics(Collector):
    """Looks at the run each time it is asked: gauges, times in seconds, all with the scenario as label."""

    def __init__(self, run: Path) -> None:
        self._watched = Watched(run)

    def describe(self) -> list[Metric]:
        """Nothing: a look at the run is not needed to register it."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One look; StoreError where the run's files cannot be read."""
        seen = self._watched.look()
        scenario = visible(seen.scenario)
        for name, text, labels, found in _gauges(seen):
            made = GaugeMetricFamily(f"fabric_live_{name}", text, labels=("scenario", *labels))
            for values, number in found:
                made.add_metric((scenario, *map(visible, values)), number)
            yield made


_Found = list[tuple[tuple[str, ...], float]]


def _gauges(seen: RunStatus) -> Iterator[tuple[str, str, tuple[str, ...], _Found]]:
    """Of each its name, what it is, its labels; then their values with the number."""
    at_work = seen.state in ("running", "stopping")
    yield "running", "1 while the run goes on", (), [((), float(at_work))]
    yield "elapsed_seconds", "How long it has gone on, by its own clock", (), [((), seen.at_s)]
    left: _Found = [((), seen.left_s)] if seen.left_s is not None else []
    yield "left_seconds", "How long it still takes, as fast as it went so far", (), left
    age: _Found = [((), seen.event_age_s)] if seen.event_age_s is not None else []
    yield "last_event_age_seconds", "How long ago anything was written down", (), age
    probes: _Found = []
    for phase in seen.phases:
        numbers = {"planned": phase.planned, "done": phase.done, "failed": phase.failed, "error": phase.errors}
        probes += [((phase.name, state), float(number)) for state, number in numbers.items()]
    yield "probes", "Probes of each phase by state; failed: a tool said so", ("phase", "state"), probes
    hosts = Counter(seen.hosts.values())
    yield "hosts", "Hosts by state", ("state",), [((one.value,), float(hosts[one])) for one in HostState]
    yield "open_changes", "Changes in force, or that may be", (), [((), float(len(seen.open_changes)))]
    bad: _Found = [((name,), float(many)) for name, many in list(seen.named.items())[:MOST_PARTS]]
    yield "bad_part_probes", "Probes that failed because of a part, as tools said", ("component",), bad


class FleetMetrics(Collector):
    """
    What ``fabric monitor`` knows, by *now*: gauges of hosts, counters of alarms, all with the fabric's name as label.

    Ports have a metric only while they are bad, the worst ``MOST_BAD`` of them: a hall has 16,384.
    """

    def __init__(self, fabric: str, now: Callable[[], FleetSeen]) -> None:
        self._fabric, self._now = visible(fabric), now

    def describe(self) -> list[Metric]:
        """Nothing, as above."""
        return []

    def collect(self) -> Iterator[Metric]:
        """What is known at this moment."""
        seen = self._now()
        for name, text, labels, found in _of_fleet(seen):
            made = GaugeMetricFamily(f"fabric_monitor_{name}", text, labels=("fabric", *labels))
            for values, number in found:
                made.add_metric((self._fabric, *map(visible, values)), number)
            yield made
        counter = CounterMetricFamily("fabric_monitor_alarms", "Alarms since it began", labels=("fabric", "kind"))
        for kind, number in seen.alarms.items():
            counter.add_metric((self._fabric, kind), number)
        yield counter
        cpu = CounterMetricFamily("fabric_monitor_cpu_seconds", "What it used itself", labels=("fabric",))
        cpu.add_metric((self._fabric,), seen.cpu_s)
        yield cpu


MOST_BAD = 1000
"""Ports with a metric of their own (a choice: more are one cause)."""


def _of_fleet(seen: FleetSeen) -> Iterator[tuple[str, str, tuple[str, ...], _Found]]:
    """As ``_gauges``."""
    states: _Found = [(("read",), float(seen.hosts)), (("silent",), float(len(seen.silent)))]
    yield "hosts", "Hosts whose counters are read, and of which nothing is known", ("state",), states
    worst = sorted(seen.bad.items(), key=lambda one: (-one[1].rank, one[0]))[:MOST_BAD]
    bad: _Found = [((part, outcome.value), 1.0) for part, outcome in worst]
    yield (
        "bad_port",
        "1 for each port that is bad, as the verdict of a run would have it",
        ("component", "outcome"),
        bad,
    )
    for place, way in enumerate(("sent", "received")):
        bits: _Found = [((host,), both[place] * 1e9) for host, both in seen.gbps.items()]
        yield f"{way}_bits_per_second", f"What a host {way} in the last ten seconds", ("host",), bits


class _Asked(WSGIRequestHandler):
    timeout = ASKS_S

    def log_message(self, *_: object) -> None:
        """Nothing: the terminal shows the run."""


def serve(collector: Collector, port: int, address: str = "127.0.0.1") -> None:
    """
    Answer scrapes on this port of one *address*, one after the other, in one thread of this process.

    As OpenMetrics where that is asked for. Raises ConfigError for a port that cannot be had.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        kind = type("Server", (WSGIServer,), {"address_family": family})
        server: WSGIServer = make_server(str(place[0]), port, make_wsgi_app(registry), kind, handler_class=_Asked)
    except OSError as exc:
        raise ConfigError.at("--metrics-port", f"{address}:{port}: {exc.strerror}") from exc
    Thread(target=server.serve_forever, daemon=True).start()
