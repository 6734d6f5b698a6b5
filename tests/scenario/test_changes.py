"""Whole runs in which the fabric is changed, also by kinds of other packages: it happens, and nothing of it stays."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabric.app.prepare import Asked
from fabric.app.restore import Restored, restore
from fabric.cli.status import restore_command as command
from fabric.errors import ConfigError, HostUnreachable, Interrupted, MayBeLive, StoreError
from fabric.model.outcome import Outcome
from fabric.model.probe import Command
from fabric.runs.journal import JOURNAL, Journal, open_changes, read_journal
from fabric.wiring import BACKENDS
from tests import builders
from tests.builders import Watcher
from tests.scenario.changing import BER, POD, SCENARIO, Watched, injecting, prepared, run, watched


def states(path: str) -> list[str]:
    """The states of the journal, in order."""
    return [entry["state"] for entry in read_journal(Path(path) / JOURNAL)]


def verb(command: Command) -> str:
    """What a guard is told; empty for any other command."""
    return command.argv[5] if command.argv[3:4] == ("fabric-guard",) else ""


def test_the_undo_is_on_disk_before_anything_is_done_to_the_target(tmp_path: Path) -> None:
    seen: list[tuple[str, list[str]]] = []

    def look(command: Command) -> None:
        if verb(command):
            (journal,) = (tmp_path / "results").glob(f"drill/2*/{JOURNAL}")
            seen.append((verb(command), [entry["state"] for entry in read_journal(journal)]))

    run(tmp_path, on_start=look)
    assert seen[0] == ("arm", ["intent"])
    assert seen[1] == ("apply", ["intent", "armed"])
    (intent,) = (
        entry for entry in read_journal(next((tmp_path / "results").glob(f"drill/2*/{JOURNAL}"))) if entry["seq"] == 1
    )
    assert "error_type_admin=0" in " ".join(intent["alterations"][0]["undo"][0])


def test_a_change_that_a_rail_refuses_alters_nothing_and_nothing_is_measured_under_its_name(tmp_path: Path) -> None:
    commands: list[str] = []
    own_cable = "{link_down: {links: gpu001/mlx5_0}}"
    judged, _ = run(tmp_path, own_cable, via="gpu001", on_start=lambda command: commands.append(verb(command)))
    assert set(commands) == {""}
    assert judged.verdict.changes[0].state == "refused"
    assert judged.verdict.outcome is Outcome.ERROR


def test_a_change_that_cannot_be_seen_in_force_is_taken_back(tmp_path: Path) -> None:
    applied = False

    def unreadable(command: Command) -> HostUnreachable | None:
        nonlocal applied
        applied = applied or verb(command) == "apply"
        reads = applied and command.argv[0] == "mlxreg"
        return HostUnreachable(command.host, "reading PTER", "connection reset") if reads else None

    judged, executor = run(tmp_path, on_start=unreadable)
    assert judged.verdict.changes[0].state == "failed"
    assert not injecting(executor)
    assert states(judged.path)[-1] == "failed"


def test_what_cannot_be_seen_taken_back_is_said_to_be_live(tmp_path: Path) -> None:
    judged, executor = run(tmp_path, on_start=no_way_back)
    (result,) = judged.verdict.changes
    assert result.state == "open"
    assert "by hand: on gpu001: mlxreg" in result.reason
    assert judged.verdict.lines[0].startswith("a change may still be live: ")
    assert [one.change_id for one in open_changes(Path(judged.path) / JOURNAL)] == ["during/ber.gpu001/mlx5_0"]
    assert injecting(executor)


def no_way_back(command: Command) -> HostUnreachable | None:
    """The host is gone whenever it is told to undo."""
    return HostUnreachable(command.host, "connect", "no route to host") if verb(command) == "revert" else None


def test_the_guard_takes_back_what_nobody_renews(tmp_path: Path) -> None:
    _, executor = run(tmp_path, on_start=no_way_back)
    until_s = executor.now() + 61.0
    while executor.now() < until_s:
        executor.wait(until_s)
    # The mock lets go of its world's processes when it is closed; the guard is the host's, not ours.
    executor.mock.world.advance(until_s)
    assert not injecting(executor)


def test_a_run_refuses_to_start_while_an_earlier_one_may_have_left_something(tmp_path: Path) -> None:
    judged, _ = run(tmp_path, on_start=no_way_back)
    with pytest.raises(MayBeLive, match=r"may have left changes behind.*fabric restore"):
        run(tmp_path)
    found = restore(Path(judged.path), results=tmp_path / "results", make_executor=mock)
    assert [one.certain for one in found] == [True]
    run(tmp_path)


def mock(backend: str, inventory: object) -> object:
    """A fresh world: what was left is gone with the old one, and restore must see that for itself."""
    return BACKENDS[backend](inventory, 1)


def test_a_host_that_cannot_be_reached_stays_open_after_restore(tmp_path: Path) -> None:
    judged, _ = run(tmp_path, on_start=no_way_back)

    def gone(backend: str, inventory: object) -> Watched:
        unreachable = HostUnreachable("gpu001", "connect", "no route to host")
        return Watched(BACKENDS[backend](inventory, 1), lambda command: unreachable)

    found = restore(None, results=tmp_path / "results", make_executor=gone)
    assert [one.certain for one in found] == [False]
    assert open_changes(Path(judged.path) / JOURNAL)


@pytest.mark.parametrize("times", [1, 3])
def test_an_interrupted_run_takes_everything_back_however_often_it_is_told(tmp_path: Path, times: int) -> None:
    watcher, worlds = Watcher(), []

    def interrupt(command: Command) -> None:
        during = ("ber", "in_force") in watcher.states
        if (during and not worlds) or (verb(command) == "revert" and len(worlds) < times):
            worlds.append(command)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        run(tmp_path, on_start=interrupt, watcher=watcher)
    assert watcher.states[-1] == ("ber", "reverted")
    assert watcher.interruptions[0] == (1, 1)
    assert not open_changes(next((tmp_path / "results").glob(f"drill/2*/{JOURNAL}")))


@pytest.mark.timeout(40)
def test_an_interruption_while_a_fault_waits_for_routing_ends_the_run(tmp_path: Path) -> None:
    """The routing change is taken back, and the fault that was to follow it is never begun nor waited for."""
    watcher, told = Watcher(), list[str]()

    def interrupt(command: Command) -> None:
        if ("adaptive_routing", "armed") in watcher.states and not told:
            told.append("")
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        run(tmp_path, "{adaptive_routing: on, scope: fabric}, " + BER, on_start=interrupt, watcher=watcher)
    assert watcher.states[-1] == ("adaptive_routing", "reverted")
    assert "ber" not in dict(watcher.states)


def test_an_interrupted_run_that_cannot_take_back_says_so_and_not_only_that_it_was_interrupted(tmp_path: Path) -> None:
    watcher = Watcher()

    def interrupt(command: Command) -> HostUnreachable | None:
        if ("ber", "in_force") in watcher.states and not watcher.interruptions:
            os.kill(os.getpid(), signal.SIGINT)
        return no_way_back(command)

    with pytest.raises(MayBeLive, match="fabric restore"):
        run(tmp_path, on_start=interrupt, watcher=watcher)


def test_more_than_the_blast_radius_is_refused_before_anything_is_planned(tmp_path: Path) -> None:
    links = "{ber: {links: {tier: access, count: 5}, effective: 1e-6}}"
    with pytest.raises(ConfigError, match=r"drill\.yaml:8: .*allow: \[blast_radius\]"):
        prepared(tmp_path, links)


def test_a_link_that_no_traffic_of_the_run_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no traffic between the hosts of this run can take"):
        prepared(tmp_path, "{ber: {links: su1-leaf3--spine02, effective: 1e-4}}")


def test_a_phase_that_takes_longer_than_a_change_is_held_is_refused(tmp_path: Path) -> None:
    long = LONG.replace("iterations: 2000", "iterations: 10000").replace("repeat: 3", "repeat: 9")
    with pytest.raises(ConfigError, match=r"long takes about .* max_hold"):
        prepared(tmp_path, BER, long)


def test_nothing_is_measured_once_a_change_is_lost(tmp_path: Path) -> None:
    """Its guard cannot be reached: it is taken back at once, and the phase is not what was asked for."""

    def silent(command: Command) -> HostUnreachable | None:
        return HostUnreachable(command.host, "renewing", "no answer") if verb(command) == "renew" else None

    long = BER.replace("direction: up", "direction: up, for: 10m")
    judged, executor = run(tmp_path, long, on_start=silent, more=LONG)
    assert judged.verdict.changes[-1].state == "failed"
    assert not injecting(executor)


LONG = """\
  - name: long
    changes: [{ber: {links: gpu001/mlx5_0, effective: 1e-6, direction: up}}]
    probes: [{group_all_reduce: {sizes: [8G], iterations: 2000, repeat: 3}}]
"""


def test_a_full_disk_takes_the_change_back_and_leaves_it_to_restore_to_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, executors = Journal.record, []

    def full(self: Journal, change_id: str, state: str, fields: Mapping[str, object]) -> None:
        if state not in ("intent", "armed"):
            raise StoreError("changes.jsonl: cannot write: No space left on device")
        real(self, change_id, state, fields)

    monkeypatch.setattr(Journal, "record", full)
    judged, executor = run(tmp_path)
    executors.append(executor)
    assert judged.verdict.changes[0].state == "open"  # nobody can prove from the disk that it is back
    assert not injecting(executor)
    assert open_changes(Path(judged.path) / JOURNAL)


def left(tmp_path: Path, document: str | None) -> Path:
    """A run that has left its change behind, with this run.json (None: with none)."""
    judged, _ = run(tmp_path, on_start=no_way_back)
    path = Path(judged.path)
    if document is None:
        (path / "run.json").unlink()
    else:
        (path / "run.json").write_text(document)
    return path


def restored(path: Path, inventory: Path | None = None) -> list[Restored]:
    """All that was told."""
    return restore(path, results=path, make_executor=mock, inventory_path=inventory)


@pytest.mark.parametrize("document", [None, '{"format": 1, "run_', '{"format": 1}'])
def test_a_run_without_its_document_is_taken_back_by_its_journal_and_an_inventory(
    tmp_path: Path, document: str | None
) -> None:
    path = left(tmp_path, document)
    with pytest.raises(MayBeLive, match=rf"run\.json cannot be read.*{JOURNAL} says .*ber\.gpu001.*--inventory FILE"):
        restored(path)
    assert open_changes(path / JOURNAL)
    found = restored(path, tmp_path / "inventory" / "pod-64.yaml")
    assert [one.certain for one in found] == [True]
    assert not open_changes(path / JOURNAL)


def test_a_host_that_the_given_inventory_lacks_stays_open(tmp_path: Path) -> None:
    path = left(tmp_path, None)
    inventory = tmp_path / "inventory" / "pod-64.yaml"
    inventory.write_text(inventory.read_text().replace("gpu[001-004,", "gpu[002-004,"))
    (one,) = restored(path, inventory)
    assert (one.host, one.said, one.certain) == ("gpu001", "the inventory has no such host", False)
    assert open_changes(path / JOURNAL)


def test_with_neither_document_nor_journal_it_is_said_that_the_hosts_know(tmp_path: Path) -> None:
    path = left(tmp_path, "{")
    (path / JOURNAL).write_bytes(b"nonsense\n" + (path / JOURNAL).read_bytes())
    with pytest.raises(MayBeLive, match=rf"cannot be read: .*{JOURNAL}:1: .*--all-hosts"):
        restored(path, tmp_path / "inventory" / "pod-64.yaml")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--all-hosts"], "needs --inventory"),
        (["--inventory", "x.yaml"], "needs a RUN, or --all-hosts"),
        (["run", "--backend", "mock"], "--backend needs --inventory"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(words: list[str], complaint: str) -> None:
    said = CliRunner().invoke(command, words)
    assert (said.exit_code, complaint in said.output) == (2, True), said.output


MANAGING = '  - {names: "sm[1-2]", role: management}\nswitches:\n'


def asked(folder: Path) -> Asked:
    """Adaptive routing on for the whole fabric, by managers on two hosts without GPUs."""
    shutil.copytree(POD.parent, folder / "inventory")
    pod = folder / "inventory" / POD.name
    text = pod.read_text().replace("\nswitches:\n", f"\n{MANAGING}")
    pod.write_text(text.replace("[{host: gpu063}, {host: gpu064}]", "[{host: sm1}, {host: sm2}]"))
    path = folder / "drill.yaml"
    path.write_text(SCENARIO.format(inventory=pod, changes="{adaptive_routing: on, scope: fabric}", more=""))
    return builders.asked(path)


def test_a_manager_that_is_not_under_test_is_told_and_told_back(tmp_path: Path) -> None:
    told: set[str] = set()
    watcher, wanted = Watcher(), asked(tmp_path)
    make = watched([], lambda command: told.add(command.host))
    judged = builders.on_mock(wanted, tmp_path / "results", observer=watcher, make_executor=make)
    assert watcher.states[-1] == ("adaptive_routing", "reverted")
    assert {probe.outcome for probe in judged.verdict.probes} == {Outcome.INCONCLUSIVE}  # measured; it has no limit
    assert told >= {"sm1", "sm2"}
    assert {part.component.split("/")[0] for part in judged.verdict.components} == set(wanted.scenario.hosts)


ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "tests" / "plugins" / "changes"
PLUGGED_IN = """\
name: pulled
inventory: {inventory}
hosts: gpu[001-002]
phases:
  - name: during
    changes: [{change}]
    probes: [{{loopback: {{duration: 1s}}}}]
"""
GOOD = "{unplugged: {links: gpu001/mlx5_0, ticket: T-1, by: mlxlink, for: 5s}}"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A package whose module cannot be imported."""
    folder = tmp_path / "broken"
    (folder / "fabric_broken-1.0.dist-info").mkdir(parents=True)
    (folder / "fabric_broken-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: fabric-broken\nVersion: 1.0\n"
    )
    (folder / "fabric_broken-1.0.dist-info" / "entry_points.txt").write_text(
        "[fabric.changes]\nsmoke = fabric_broken:Smoke\nber = fabric_broken:Smoke\n"
    )
    (folder / "fabric_broken.py").write_text("raise OSError('no such smoke')\n")
    return folder


def fabric(tmp_path: Path, change: str, plugins: Path, verb: str, *words: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the program with a package on its path."""
    inventory = ROOT / "inventory" / "pod-64.yaml"
    (tmp_path / "pulled.yaml").write_text(PLUGGED_IN.format(inventory=inventory, change=change))
    program = "from fabric.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", program, verb, str(tmp_path / "pulled.yaml"), *words],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{plugins}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def rewritten(journal: Path, **fields: object) -> None:
    """Another intent of the open change, as somebody else would have written it."""
    (one,) = open_changes(journal)
    journal.unlink()
    book = Journal(journal)
    book.record(one.change_id, "intent", {**one.intent, **fields})
    book.record(one.change_id, "in_force", {})
    book.close()


@pytest.mark.slow
def test_a_kind_of_another_package_is_planned_made_and_taken_back(tmp_path: Path) -> None:
    _, said, wrong = fabric(tmp_path, GOOD, PLUGINS, "run", "--results", str(tmp_path / "results"), "--yes")
    (journal,) = (tmp_path / "results").rglob(JOURNAL)
    assert not open_changes(journal), said + wrong
    states = [json.loads(line)["state"] for line in journal.read_text().splitlines() if '"state"' in line]
    assert states[-1] == "reverted", states
    assert "unplugged for T-1" in said


def test_what_a_missing_package_left_is_taken_back_by_the_journal_and_stays_open(tmp_path: Path) -> None:
    path = left(tmp_path, None)
    journal = path / JOURNAL
    rewritten(journal, kind="unplugged")
    found = restored(path, tmp_path / "inventory" / "pod-64.yaml")
    assert [one.certain for one in found] == [True, False]
    assert "its kind 'unplugged' is not known here" in found[1].said
    assert open_changes(journal)


def test_an_entry_of_another_version_is_refused_with_its_undo(tmp_path: Path) -> None:
    path = left(tmp_path, None)
    alterations = open_changes(path / JOURNAL)[0].intent["alterations"]
    rewritten(path / JOURNAL, alterations=[{**one, "prior": 5} for one in alterations])
    (one,) = restored(path, tmp_path / "inventory" / "pod-64.yaml")
    assert not one.certain
    assert re.search(r"is not as this version writes it .*its undo by hand: .*mlxreg", one.said), one.said
    with pytest.raises(MayBeLive, match=r"or undo them by hand: .*mlxreg"):
        restored(path)
