"""A fleet that is watched: on simulated hosts, some of which hang, go away, err or stop sending."""

import json
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.app import monitor as monitoring
from fabric.app.live_metrics import fleet_metrics
from fabric.app.monitor import Alarm, Fleet, FleetSeen, Monitor, closing_line, shown_parts
from fabric.hosts.mock import MockExecutor
from fabric.model.inventory import Fault, Inventory, MockSettings, TimedFault
from fabric.model.outcome import Outcome
from fabric.model.probe import Command
from fabric.sim.world import World
from tests.cli.command_line import called
from tests.places import ROOT

RACK = rack_topology(4, parts=2)
JOB = ("ib_write_bw", "--report_gbits", "-F", "--ib-dev=mlx5_0", "--port=18515", "--duration=200", "--size=65536")


def watched(
    *timed: TimedFault, given: tuple[Fault, ...] = (), lasts_s: float = 60.0, job: bool = False
) -> tuple[FleetSeen, list[Alarm]]:
    """Four hosts for so long; a *job* sends from one to another for the first 200 s."""
    mock = MockSettings(noise_cv=0.0, faults=given, timed_faults=timed)
    inventory = Inventory(name="i", source="i.yaml", topology=RACK, backend="mock", mock=mock)
    executor, said = MockExecutor(World(RACK, mock, seed=1)), list[Alarm]()
    with closing(Monitor(inventory, tuple(RACK.hosts), executor, every_s=1.0, say=said.append)) as monitor:
        if job:
            executor.start(Command("gpu002", JOB, 1000.0, ready_port=18515))
            executor.wait(1.0)
            executor.start(Command("gpu001", (*JOB, "gpu002.mgmt"), 1000.0))
        seen = monitor.run(lasts_s)
        assert list(monitor.alarms) == said
    return seen, said


def test_a_fleet_that_is_well_says_nothing() -> None:
    """And exits 0."""
    seen, said = watched()
    assert (seen.hosts, seen.ports, seen.silent, seen.exit_code, said) == (4, 8, (), 0, [])
    assert closing_line(seen) == "4 hosts read, 8 ports, 1 min 00 s: none bad"


def test_a_host_that_hangs_holds_nobody_up() -> None:
    """It is told once; a port of another host that errs is told all the same."""
    errs = TimedFault(30.0, 20.0, Fault("gpu003/mlx5_1", "symbol_errors", 1e-9))
    seen, said = watched(errs, given=(Fault("gpu002", "hanging"),))
    host, port, again, *_ = said
    assert (host.kind, host.parts, host.outcome) == ("host", ("gpu002",), Outcome.INCONCLUSIVE)
    assert (port.kind, port.parts, port.outcome) == ("counter", ("gpu003/mlx5_1:port",), Outcome.FAIL)
    assert (again.kind, again.parts) == ("counter", port.parts)  # twice as many errors
    assert (seen.exit_code, seen.silent) == (1, ("gpu002",))


def test_a_host_that_goes_away_is_read_again_when_it_is_back() -> None:
    """Then nothing is bad."""
    seen, said = watched(TimedFault(20.0, 40.0, Fault("gpu004", "broken")), lasts_s=180.0)
    assert [(one.outcome, one.parts) for one in said] == [
        (Outcome.INCONCLUSIVE, ("gpu004",)),
        (Outcome.PASS, ("gpu004",)),
    ]
    assert seen.exit_code == 0


def test_a_port_without_a_number_is_not_among_those_that_are_well() -> None:
    """An adapter that is gone, from the beginning or for a while; a host that is not read is told as a whole."""
    seen, said = watched(given=(Fault("gpu002/mlx5_0", "absent"), Fault("gpu003", "hanging")))
    assert {one.parts: (one.kind, one.outcome) for one in said} == {
        ("gpu002/mlx5_0:port",): ("port", Outcome.INCONCLUSIVE),
        ("gpu003",): ("host", Outcome.INCONCLUSIVE),
    }
    assert closing_line(seen) == "3 hosts read, 5 ports, 1 min 00 s: none bad; not read: gpu003, gpu002/mlx5_0:port"
    assert seen.exit_code == watched(given=(Fault("gpu002/mlx5_0", "absent"),))[0].exit_code == 3
    seen, said = watched(TimedFault(20.0, 40.0, Fault("gpu002/mlx5_0", "absent")), lasts_s=120.0)
    assert [(one.outcome, one.parts) for one in said] == [
        (Outcome.INCONCLUSIVE, ("gpu002/mlx5_0:port",)),
        (Outcome.PASS, ("gpu002/mlx5_0:port",)),
    ]
    assert seen.exit_code == 0


def test_traffic_that_stops_is_told() -> None:
    """Of both ends, one way each; it is no verdict on the fabric."""
    seen, said = watched(lasts_s=320.0, job=True)
    (stopped,) = said
    assert (stopped.kind, stopped.outcome) == ("traffic", Outcome.MARGINAL)
    assert set(stopped.parts) >= {"gpu001/mlx5_0:tx", "gpu002/mlx5_0:rx"}
    assert "has stopped: 0.0 Gb/s" in stopped.text
    assert seen.exit_code == 0


def test_a_counter_that_grows_each_second_is_told_when_it_has_doubled() -> None:
    """Not sixty times."""
    fleet, told = Fleet(list(RACK.hosts.values()), 1.0, 0.0), 0
    for second in range(1, 65):
        for host in RACK.hosts:
            fleet.add(host, float(second), {("mlx5_0", "link_error_recovery"): second if host == "gpu001" else 0})
        told += len(list(fleet.step(float(second))))
    assert 6 <= told <= 8
    assert fleet.bad == {"gpu001/mlx5_0:port": Outcome.MARGINAL}
    assert list(fleet.step(90_000.0))[-1].text == "counted nothing for 24 h 00 min"
    assert fleet.bad == {}


def test_alarms_have_the_time_of_day_though_the_clock_was_set_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a day behind when the watch began; who looks into logs of switches needs the right time."""

    class Behind(datetime):
        """A clock before it was corrected."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            """A day ago."""
            return datetime.now(tz) - timedelta(days=1)

    with monkeypatch.context() as patch:
        patch.setattr(monitoring, "datetime", Behind)
        fleet = Fleet(list(RACK.hosts.values()), 1.0, 0.0)
    apart = fleet.alarm(0.0, "host", Outcome.PASS, (), "").at - datetime.now(UTC)
    assert abs(apart) < timedelta(minutes=1)
    later = fleet.alarm(3600.0, "host", Outcome.PASS, (), "").at - datetime.now(UTC)
    assert abs(later - timedelta(hours=1)) < timedelta(minutes=1)  # simulated


def test_a_counter_that_cannot_grow_any_more_is_told_once_and_never_said_to_be_over() -> None:
    """A port that flaps each minute, from 250 times down on; of another one 255 are all that is ever read."""
    fleet, told = Fleet(list(RACK.hosts.values()), 1.0, 0.0), list[Alarm]()
    for minute in range(1, 12):
        at_s = 60.0 * minute
        fleet.add("gpu001", at_s, {("mlx5_0", "link_downed"): min(255, 249 + minute)})
        fleet.add("gpu002", at_s, {("mlx5_0", "link_downed"): 255})
        told += [one for one in fleet.step(at_s) if one.kind == "counter"]
    full = [one for one in told if one.outcome is Outcome.INCONCLUSIVE]
    assert [one.parts for one in full] == [("gpu002/mlx5_0:port",), ("gpu001/mlx5_0:port",)]
    assert {one.text.partition(":")[0] for one in full} == {"link_downed stands at its highest value"}
    assert [one.text.split()[0] for one in told if one not in full] == ["1", "2", "4"]
    list(fleet.step(90_000.0))
    assert fleet.bad == {"gpu001/mlx5_0:port": Outcome.FAIL}
    fleet.add("gpu001", 90_001.0, {("mlx5_0", "link_downed"): 0})
    list(fleet.step(90_002.0))
    assert fleet.bad == {}


def test_what_was_counted_while_a_host_was_away_is_not_known() -> None:
    """Nor is a row that a later one has overtaken believed."""
    fleet = Fleet(list(RACK.hosts.values()), 1.0, 0.0)
    fleet.add("gpu001", 1.0, {("mlx5_0", "link_downed"): 0})
    fleet.gone("gpu001", 2.0)
    fleet.add("gpu001", 60.0, {("mlx5_0", "link_downed"): 3})
    assert [one.kind for one in fleet.step(61.0)] == ["host"]  # the others
    fleet.add("gpu001", 62.0, {("mlx5_0", "link_downed"): 4})
    fleet.add("gpu001", 61.5, {("mlx5_0", "link_downed"): 3})
    (found,) = fleet.step(63.0)
    assert (found.outcome, found.text.split(" after ")[0]) == (Outcome.FAIL, "1 time down")


def test_many_parts_are_few_words() -> None:
    """Folded by what they have in common."""
    every = [f"gpu{n:03d}/mlx5_{m}:port" for n in range(1, 33) for m in (0, 1)]
    assert shown_parts([*every, "gpu007/mlx5_2:tx"]) == "gpu[001-032]/mlx5_[0-1]:port, gpu007/mlx5_2:tx"
    assert shown_parts(["gpu001", "gpu002"]) == "gpu[001-002]"


def test_openmetrics_name_bad_ports_and_what_hosts_carry() -> None:
    """Bounded: a port that is well has none of its own."""
    seen, _ = watched(lasts_s=30.0)
    seen = replace(seen, bad={"gpu001/mlx5_0:port": Outcome.FAIL}, alarms={"counter": 2}, gbps={"gpu001": (1.0, 2.0)})
    samples = {
        (one.name, one.labels.get("component") or one.labels.get("host") or one.labels.get("state")): one.value
        for metric in fleet_metrics("hall", lambda: seen).collect()
        for one in metric.samples
    }
    assert samples["fabric_monitor_bad_port", "gpu001/mlx5_0:port"] == 1.0
    assert samples["fabric_monitor_hosts", "read"] == 4.0
    assert samples["fabric_monitor_sent_bits_per_second", "gpu001"] == 1e9
    assert samples["fabric_monitor_alarms_total", None] == 2.0


@pytest.mark.slow
def test_ctrl_c_ends_it_with_what_is_known() -> None:
    """A real process, told to end while it works."""
    words = ("monitor", "--inventory", "inventory/demo-rack-healthy.yaml", "--for", "7000h")
    argv = (sys.executable, "-c", "from fabric.cli.main import run; run()", *words, "--fault", "gpu002:hanging")
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "gpu002  no counters are read" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    assert said.endswith("none bad; not read: gpu002\n")


def test_what_cannot_be_is_refused() -> None:
    """Simulated time without an end, and faults of real hosts."""
    base = ("monitor", "--inventory", "inventory/demo-rack-healthy.yaml")
    said = called(base, ROOT)
    assert (said.returncode, "--for: on simulated hosts time flies" in said.stderr) == (2, True)
    said = called((*base, "--backend", "ssh", "--fault", "gpu002:hanging"), ROOT)
    assert (said.returncode, "faults are for the mock backend" in said.stderr) == (2, True)
    said = called((*base, "--for", "20s", "--json"), ROOT)
    found = json.loads(said.stdout)
    assert (said.returncode, found["exit_code"], found["bad"], found["last_alarms"]) == (0, 0, {}, [])
