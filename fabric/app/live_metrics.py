"""Prometheus metrics of a run that goes on, or of a fleet that is watched (``--metrics-port``)."""

import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from fabric.app.monitor import FleetSeen
from fabric.app.status import HostState, RunStatus, Watched
from fabric.errors import ConfigError
from fabric.report.exports import LookedMetrics, Metrics

MOST_PARTS = 100
"""The most bad parts with a metric of their own (a choice: more of them have one cause)."""

CLIENT_TIMEOUT_S = 5.0
"""Seconds that a client may take to send the next part of its request (a choice); other clients wait meanwhile."""


def live_metrics(run: Path) -> Collector:
    """
    Return a collector that looks at the run at every scrape, times in seconds; StoreError if its files cannot be read.
    """
    watched = Watched(run)

    def look() -> tuple[str, Metrics]:
        seen = watched.look()
        return seen.scenario, _of_run(seen)

    return LookedMetrics("scenario", look)


def _of_run(seen: RunStatus) -> Metrics:
    at_work = seen.state in ("running", "stopping")
    yield ("fabric_live_running", "1 while the run goes on"), [((), float(at_work))]
    yield ("fabric_live_elapsed_seconds", "How long it has gone on, by its own clock"), [((), seen.at_s)]
    for name, text, seconds in (
        ("left", "How long it still takes, as fast as it went so far", seen.left_s),
        ("last_event_age", "How long ago anything was written down", seen.event_age_s),
    ):
        yield (f"fabric_live_{name}_seconds", text), [] if seconds is None else [((), seconds)]
    probes: list[tuple[tuple[str, ...], float]] = []
    for phase in seen.phases:
        numbers = {"planned": phase.planned, "done": phase.done, "failed": phase.failed, "error": phase.errors}
        probes += [((phase.name, state), number) for state, number in numbers.items()]
    yield ("fabric_live_probes", "Probes of each phase by state; failed: a tool said so", "phase", "state"), probes
    hosts = Counter(seen.hosts.values())
    yield ("fabric_live_hosts", "Hosts by state", "state"), [((one.value,), hosts[one]) for one in HostState]
    yield ("fabric_live_open_changes", "Changes in force, or that may be"), [((), len(seen.open_changes))]
    bad = [((name,), many) for name, many in list(seen.named.items())[:MOST_PARTS]]
    yield ("fabric_live_bad_part_probes", "Probes that failed because of a part, as tools said", "component"), bad


def fleet_metrics(fabric: str, now: Callable[[], FleetSeen]) -> Collector:
    """
    Return a collector of what ``fabric monitor`` knows, read from *now*, with the fabric's name as label.

    Ports have a metric only while they are bad, and only the worst ``MOST_BAD`` of them: a hall has 16,384 ports.
    """
    return LookedMetrics("fabric", lambda: (fabric, _of_fleet(now())))


MOST_BAD = 1000
"""The most ports with a metric of their own (a choice: more of them have one cause)."""


def _of_fleet(seen: FleetSeen) -> Metrics:
    hosts = ("fabric_monitor_hosts", "Hosts whose counters are read, and of which nothing is known", "state")
    yield hosts, [(("read",), seen.hosts), (("silent",), len(seen.silent))]
    worst = sorted(seen.bad.items(), key=lambda one: (-one[1].rank, one[0]))[:MOST_BAD]
    bad = ("fabric_monitor_bad_port", "1 for each port that is bad, as the verdict of a run would have it")
    yield (*bad, "component", "outcome"), [((part, outcome.value), 1.0) for part, outcome in worst]
    for place, way in enumerate(("sent", "received")):
        sent = (f"fabric_monitor_{way}_bits_per_second", f"What a host {way} in the last ten seconds", "host")
        yield sent, [((host,), both[place] * 1e9) for host, both in seen.gbps.items()]
    alarms = ("fabric_monitor_alarms_total", "Alarms since it began", "kind")
    yield alarms, [((kind,), number) for kind, number in seen.alarms.items()]
    yield ("fabric_monitor_cpu_seconds_total", "What it used itself"), [((), seen.cpu_s)]


class _QuietHandler(WSGIRequestHandler):
    timeout = CLIENT_TIMEOUT_S

    def log_message(self, *_: object) -> None:
        """Log nothing: the terminal shows the run."""


def serve(collector: Collector, port: int, address: str = "127.0.0.1") -> None:
    """
    Answer scrapes on this port of one *address*, one after the other, in one thread of this process.

    Answers in OpenMetrics if the client asks for it. Raises ConfigError if the port is not available.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        kind = type("Server", (WSGIServer,), {"address_family": family})
        server: WSGIServer = make_server(
            str(place[0]), port, make_wsgi_app(registry), kind, handler_class=_QuietHandler
        )
    except OSError as exc:
        raise ConfigError.at("--metrics-port", f"{address}:{port}: {exc.strerror}") from exc
    Thread(target=server.serve_forever, daemon=True).start()
