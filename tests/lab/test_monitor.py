"""``fabric monitor`` with real agents: a counter that grows, traffic that stops, and a host that hangs meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured_rack import rack_topology
from benchmarks.monitor import fake_sysfs
from fabric.app.monitor import Alarm, Monitor
from fabric.hosts.process import ProcessExecutor
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

SCRIPT = (
    'mount -t tmpfs none /sys/class && ln -s "$1/$2" /sys/class/infiniband && echo $$ >"$1/$2.pid" '
    '&& shift 2 && exec "$@"'
)


@contextmanager
def living(folder: Path, at: dict[float, list[tuple[str, str | signal.Signals]]]) -> Iterator[None]:
    """Meanwhile mlx5_0 of both hosts sends until it is told to stop; *at* so many seconds something happens."""
    over, stopped = threading.Event(), set[str]()
    begun_s = time.monotonic()

    def live() -> None:
        words, due = 10**12, dict(at)
        while not over.wait(0.1):
            words += 1_250_000_000 // 10 * 8  # 320 Gb/s
            for host in {"gpu001", "gpu002"} - stopped:
                (folder / host / "mlx5_0/ports/1/counters/port_xmit_data").write_text(f"{words}\n")
            for when in [when for when in due if time.monotonic() - begun_s >= when]:
                for host, what in due.pop(when):
                    if isinstance(what, signal.Signals):
                        os.kill(int((folder / f"{host}.pid").read_text()), what)
                    elif what == "stop":
                        stopped.add(host)
                    else:
                        (folder / host / what).write_text("3\n")

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_host_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    """Its agent is stopped for half a minute; the other one's counter and its traffic are told meanwhile."""
    for host in ("gpu001", "gpu002"):
        fake_sysfs(tmp_path / host)
    topology = rack_topology(2)
    inventory = Inventory(name="i", source="i.yaml", topology=topology, backend="process")
    prefix = ("unshare", "-m", "sh", "-c", SCRIPT, "sh", str(tmp_path), "{host}")
    said: list[Alarm] = []
    downed = "mlx5_3/ports/1/counters/link_downed"
    happens = {
        75.0: [("gpu002", signal.SIGSTOP), ("gpu001", "stop")],
        80.0: [("gpu001", downed)],
        102.0: [("gpu002", signal.SIGCONT)],
    }
    with (
        closing(Monitor(inventory, ("gpu001", "gpu002"), ProcessExecutor(prefix), every_s=1.0, say=said.append)) as one,
        living(tmp_path, happens),
    ):
        seen = one.run(130.0)
    first = {(alarm.kind, alarm.parts): alarm for alarm in reversed(said)}
    counter, traffic = first["counter", ("gpu001/mlx5_3:port",)], first["traffic", ("gpu001/mlx5_0:tx",)]
    silent, back = (alarm for alarm in said if alarm.kind == "host")
    assert (counter.outcome, counter.text.partition(" after")[0]) == (Outcome.FAIL, "3 times down")
    assert traffic.text.startswith("traffic has stopped: 0.0 Gb/s, usually ")
    assert (silent.parts, back.parts, back.outcome) == (("gpu002",), ("gpu002",), Outcome.PASS)
    assert silent.at < back.at
    assert (seen.exit_code, seen.silent, seen.hosts) == (1, (), 2)
    assert replace(seen, alarms={}).bad == {"gpu001/mlx5_3:port": Outcome.FAIL}
