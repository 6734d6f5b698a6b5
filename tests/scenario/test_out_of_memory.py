"""Where no memory is left it is said, with what to do; what was changed is taken back, or told as open."""

import resource
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from fabric.errors import HostUnreachable, MayBeLive, OutOfMemory
from fabric.model.inventory import Inventory
from fabric.model.probe import Command
from fabric.ports import Executor, Happening, Ticket
from fabric.probes.group_all_reduce import GroupAllReduceSpec
from fabric.runs.journal import JOURNAL, open_changes
from fabric.wiring import BACKENDS
from tests.builders import on_mock
from tests.places import ROOT, SCENARIOS
from tests.scenario.changing import BER, Watched, prepared, run
from tests.scenario.test_changes import verb

MIB = 1 << 20


def path_of(folder: Path) -> Path:
    """The directory of the one run."""
    (file,) = (folder / "results").glob("*/2*/run.json")
    return file.parent


def in_a_thread(command: Command) -> HostUnreachable | None:
    """Some thread of the testbench finds no memory while the change is in force."""
    if verb(command) == "renew":
        thread = threading.Thread(target=_fails)
        thread.start()
        thread.join()
    return None


def _fails() -> None:
    raise MemoryError


def test_a_probe_without_memory_ends_the_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no ERROR of that probe: the next one would find none either."""
    read = GroupAllReduceSpec.read

    def short(*args: object) -> object:
        if any(tmp_path.glob(f"results/*/2*/{JOURNAL}")):
            raise MemoryError
        return read(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(GroupAllReduceSpec, "read", short)
    with pytest.raises(OutOfMemory, match=r"out of memory: .*what was measured is kept: fabric resume"):
        run(tmp_path)
    assert not open_changes(path_of(tmp_path) / JOURNAL)


def test_a_thread_without_memory_ends_the_run_in_order(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What it was doing would never be done; nobody is shown its traceback."""
    with pytest.raises(OutOfMemory, match="fabric resume"):
        run(tmp_path, on_start=in_a_thread)
    assert not open_changes(path_of(tmp_path) / JOURNAL)
    assert "Traceback" not in capfd.readouterr().err


class Losing(Watched):
    """An executor that finds no memory when a renewal is answered, and loses the answer."""

    renewal: Ticket = -1
    waits = 0

    def start(self, command: Command) -> Ticket:
        """As the mock."""
        ticket = super().start(command)
        if verb(command) == "renew":
            self.renewal = ticket
        return ticket

    def wait(self, until_s: float) -> Sequence[Happening]:
        """As the mock, but once."""
        happened = super().wait(until_s)
        self.waits += 1
        if any(one.ticket == self.renewal for one in happened):
            self.renewal = -1
            raise MemoryError
        return happened


def test_an_undo_whose_answer_was_lost_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """The run ends, and tells as open what it did not see taken back; its guard undoes it when the lease is over."""

    made: list[Losing] = []

    def make(inventory: Inventory, seed: int) -> Executor:
        made.append(Losing(BACKENDS["mock"](inventory, seed), lambda command: None))
        return made[0]

    with pytest.raises(MayBeLive, match="fabric restore"):
        on_mock(prepared(tmp_path, BER), tmp_path / "results", make_executor=make)
    assert made[0].waits < 1000, "who waits until what is due already never sleeps"


def limited(mib: int, *words: str) -> subprocess.CompletedProcess[str]:
    """``fabric`` in a process of its own that may have so much address space."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

    code = "import sys; sys.argv[0] = 'fabric'; from fabric.cli.main import run; run()"
    argv = [sys.executable, "-c", code, *words]
    return subprocess.run(argv, cwd=ROOT, preexec_fn=limit, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("mib", [150, 1000])
def test_a_limit_that_is_too_low_is_said_before_anything_is_begun(tmp_path: Path, mib: int) -> None:
    """Its libraries would end the process with the exit code of a bad fabric, or hang."""
    done = limited(mib, "run", str(SCENARIOS / "self-check.yaml"), "--results", str(tmp_path / "results"))
    assert (done.returncode, done.stdout) == (3, "")
    assert (
        done.stderr
        == f"error: out of memory: {mib:,} MiB are allowed, 2,048 MiB of address space are needed: raise ulimit -v\n"
    )
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_what_takes_changes_back_is_never_refused_for_memory(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    assert limited(150, "restore", "--results", str(tmp_path / "results")).returncode == 0
