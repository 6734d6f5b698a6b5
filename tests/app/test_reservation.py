"""A run's own reservation of its hosts, against a Slurm in memory; the real one is in tests/lab/test_slurm.py."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fabric.app.restore import restore
from fabric.app.scheduler import Reservation, give_back_all, minutes
from fabric.errors import ConfigError, MayBeLive, StoreError, ToolError
from fabric.model.probe import Command, CommandResult
from fabric.plan import Plan
from fabric.runs.journal import LEDGER, Journal, read_journal, reservations, reserved_by
from tests.builders import asked
from tests.places import SCENARIOS

HOSTS = ("gpu001", "gpu002")


class Slurm:
    """Reservations in memory; *fails* says what a command answers instead, None: what it should."""

    def __init__(self, fails: Callable[[tuple[str, ...]], str | None] = lambda _: None) -> None:
        self.there: dict[str, str] = {}
        self.fails = fails

    def __call__(self, argv: tuple[str, ...]) -> CommandResult:
        """Answer as ``scontrol`` of 22.05 does."""
        failed = self.fails(argv)
        said, status = (failed, 1) if failed is not None else self._answer(argv)
        return CommandResult(Command("here", argv, 1.0), status, said, "", 0.0, 0.0)

    def _answer(self, argv: tuple[str, ...]) -> tuple[str, int]:
        words = dict(word.split("=") for word in argv if "=" in word)
        name = words.get("reservationname", argv[-1])
        if argv[1] == "create":
            self.there[name] = words["nodes"]
            return f"Reservation created: {name}\n", 0
        if name not in self.there:
            return f"Reservation {name} not found\n", 1
        if argv[1] == "delete":
            del self.there[name]
            return "", 0
        return f"ReservationName={name} StartTime=x Nodes={self.there[name]} NodeCnt=2\n", 0


@pytest.fixture(scope="module")
def plan() -> Plan:
    """Of the shipped self-check on two hosts."""
    return asked(SCENARIOS / "self-check.yaml").plan


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's directory."""
    path = tmp_path / "self-check" / "20261123-120000-000001"
    path.mkdir(parents=True)
    return path


def lines(run: Path) -> list[tuple[str, str]]:
    """What the ledger has: the act and its state."""
    return [(line["act"], line["state"]) for line in read_journal(run.parent.parent / LEDGER)]


def test_hosts_are_reserved_and_given_back(run: Path, plan: Plan) -> None:
    """Named by the run, for longer than planned; a line before each step and one after it."""
    slurm, said = Slurm(), list[str]()
    with Reservation(said.append, run=slurm) as reservation:
        reservation.take(run, HOSTS, plan)
        assert slurm.there == {"fabric-20261123-120000-000001": "gpu[001-002]"}
        assert reserved_by(run) == ("fabric-20261123-120000-000001",)
    assert (slurm.there, reserved_by(run)) == ({}, ())
    assert lines(run) == [(act, state) for act in ("reserve", "unreserve") for state in ("intended", "done")]
    assert minutes(plan) * 60 >= plan.duration_s + 600
    assert said[-1] == "slurm: given back"


def test_what_slurm_refuses_is_told_and_nothing_is_left(run: Path, plan: Plan) -> None:
    """In its own words."""
    slurm = Slurm(lambda argv: "Error creating the reservation: Requested nodes are busy" if "create" in argv else None)
    refused = pytest.raises(ToolError, match=r"cannot be reserved: .*Requested nodes are busy")
    with Reservation(print, run=slurm) as reservation, refused:
        reservation.take(run, HOSTS, plan)
    assert (lines(run), reserved_by(run)) == ([("reserve", "intended"), ("reserve", "refused")], ())


def test_one_of_which_nothing_is_known_is_taken_for_there(run: Path, plan: Plan) -> None:
    """Slurm goes away behind the step; restore gives it back when it answers again."""
    slurm = Slurm()
    slurm.fails = lambda argv: "Unable to contact slurm controller" if slurm.there and argv[1] != "create" else None
    live = pytest.raises(MayBeLive, match=f"fabric restore {run}")
    with live, Reservation(print, run=slurm) as reservation:
        reservation.take(run, HOSTS, plan)
    (name,) = reserved_by(run)
    (told,) = give_back_all(run.parent.parent, run=slurm)
    assert not told.certain
    slurm.fails = lambda _: None
    slurm.there["somebody-else"] = "gpu003"
    (told,) = give_back_all(run.parent.parent, run=slurm)
    assert (told.change, told.said, told.certain) == (name, "given back", True)
    assert (slurm.there, reserved_by(run)) == ({"somebody-else": "gpu003"}, ())


def test_other_hosts_than_asked_are_not_measured(run: Path, plan: Plan) -> None:
    """They are read back."""
    slurm = Slurm()
    slurm.fails = lambda argv: slurm.there.update(dict.fromkeys(slurm.there, "gpu001") if argv[1] == "show" else {})
    with Reservation(print, run=slurm) as reservation, pytest.raises(ToolError, match="has gpu001 instead"):
        reservation.take(run, HOSTS, plan)
    assert reserved_by(run) == ()


def test_one_that_ended_by_itself_is_told(run: Path, plan: Plan) -> None:
    """Its time was over before the run's."""
    slurm, said = Slurm(), list[str]()
    with Reservation(said.append, run=slurm) as reservation:
        reservation.take(run, HOSTS, plan)
        slurm.there.clear()
    assert said[-1] == "slurm: it had ended already: jobs may have run beside us"


def test_slurm_is_told_nothing_where_nothing_can_be_written(run: Path, plan: Plan) -> None:
    """No reservation without its line."""
    (run.parent.parent / LEDGER).mkdir()
    slurm = Slurm()
    with Reservation(print, run=slurm) as reservation, pytest.raises(StoreError):
        reservation.take(run, HOSTS, plan)
    assert slurm.there == {}


def test_a_plan_that_srun_starts_is_refused(plan: Plan, tmp_path: Path) -> None:
    """Its jobs would wait for the run's own reservation."""
    file = tmp_path / "srun.yaml"
    probes = "[{group_all_reduce: {launcher: srun, sizes: [1G]}}]"
    inventory = SCENARIOS.parent / "inventory" / "pod-64.yaml"
    file.write_text(f"name: srun\ninventory: {inventory}\nhosts: all\nphases:\n  - {{name: all, probes: {probes}}}\n")
    with pytest.raises(ConfigError, match="--reserve: not with launcher: srun"):
        minutes(asked(file).plan)
    assert reservations(tmp_path) == {}


@pytest.mark.parametrize("fields", [{}, {"run": "../elsewhere"}, {"run": "/etc"}])
def test_a_reservation_without_a_run_below_its_folder_is_told_and_hides_nothing(
    tmp_path: Path, fields: dict[str, str]
) -> None:
    """A ledger that somebody damaged ends no restore: what it says is uncertain."""
    with closing(Journal(tmp_path / LEDGER)) as ledger:
        ledger.record("fabric-x", "intended", {"act": "reserve", **fields})
    with pytest.raises(StoreError, match="has no run"):
        reservations(tmp_path)
    (told,) = restore(None, results=tmp_path, make_executor=lambda *_: pytest.fail("no host is asked"))
    assert not told.certain
