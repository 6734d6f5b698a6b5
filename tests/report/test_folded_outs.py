"""Hosts, changes and rows of a comparison that are alike are told in a line or two."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.change import Change
from fabric.model.comparison import WHOLE, Compared, Difference
from fabric.report.compare import folded as rows_folded
from fabric.report.progress import HOLD_S, FoldedOuts, FoldedStates
from tests.changes.asked import ber

NAMES = [f"gpu{number:03}" for number in range(1, 9)]
ADDRESSES = {name: f"10.0.0.{number}" for number, name in enumerate(NAMES, start=1)}


class Watched:
    """What was said, by a clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.outs = FoldedOuts(self.said.append, ADDRESSES, clock=lambda: self.now_s)

    def out(self, *names: str, why: str = "does not resolve") -> None:
        """These hosts stop answering, each with its own name and address in the reason."""
        for name in names:
            self.outs.take(name, f"{name}: connecting: {ADDRESSES[name]} {why}")


def test_the_first_is_said_at_once_and_the_others_in_one_line() -> None:
    watched = Watched()
    watched.out(*NAMES)
    assert watched.said == ["gpu001 is out of the run: connecting: 10.0.0.1 does not resolve"]
    watched.outs.flush()
    assert watched.said[1:] == ["gpu[002-008] (7) are out of the run for the same reason as gpu001"]


def test_another_reason_is_said_at_once() -> None:
    watched = Watched()
    watched.out("gpu001", "gpu002")
    watched.out("gpu003", why="refuses")
    assert watched.said[-1] == "gpu003 is out of the run: connecting: 10.0.0.3 refuses"
    watched.outs.flush()
    assert watched.said[-1] == "gpu002 is out of the run for the same reason as gpu001"


def test_nobody_is_held_back_for_long() -> None:
    watched = Watched()
    watched.out("gpu001", "gpu002", "gpu003")
    watched.outs.pause()
    assert len(watched.said) == 1
    watched.now_s = HOLD_S
    watched.outs.pause()
    assert watched.said[1:] == ["gpu[002-003] (2) are out of the run for the same reason as gpu001"]
    watched.out("gpu004")  # much later is not together
    assert watched.said[-1].startswith("gpu004 is out of the run: connecting: 10.0.0.4")


def test_who_was_told_is_not_told_again() -> None:
    watched = Watched()
    watched.out("gpu001", "gpu002")
    watched.outs.flush()
    watched.outs.flush()
    assert len(watched.said) == 2


BER = Change("p/ber.l0", "p", "l0", "port", ber("l0", raw="1e-5"))
FOUR = [replace(BER, change_id=f"p/ber.l{number}", component=f"l{number}") for number in range(4)]


def folded() -> tuple[FoldedStates, list[str]]:
    """Of a phase with four links."""
    said: list[str] = []
    states = FoldedStates(said.append)
    states.planned(FOUR)
    return states, said


def test_all_of_one_sort_are_one_line_at_once() -> None:
    states, said = folded()
    for change in FOUR:
        assert said == []
        states.take(change, "is in force")
    assert said == ["p: 4 links (l0, l1, ...): ber raw 1e-5 is in force"]


def test_one_that_went_otherwise_has_its_own_line_and_comes_in_order() -> None:
    states, said = folded()
    states.take(FOUR[0], "is in force")
    states.take(FOUR[1], "is in force")
    states.take(FOUR[2], "FAILED: no answer")
    states.take(FOUR[3], "is in force")
    states.flush()
    assert said == [
        "p: 2 links (l0, l1): ber raw 1e-5 is in force",
        "p: l2: ber raw 1e-5 FAILED: no answer",
        "p: l3: ber raw 1e-5 is in force",
    ]


def test_the_next_phase_says_what_was_held_back() -> None:
    states, said = folded()
    states.take(FOUR[0], "is taken back")
    states.planned(())
    states.planned(())
    assert said == ["p: l0: ber raw 1e-5 is taken back"]


def row(
    component: str, change: Difference = Difference.WORSE, *, kind: str = "loopback", ratio: float = 0.9
) -> Compared:
    return Compared(component, kind, 8, change, 10, ratio)


def test_a_host_that_changed_as_a_whole_is_one_line_with_the_count() -> None:
    """The worst of its rows stands for all."""
    parts = [row(f"gpu002/mlx5_{number}", ratio=0.9 + number / 100) for number in range(8)]
    found = rows_folded([row(WHOLE), *parts, row("gpu002"), row("gpu003")])
    assert [one.component for one in found] == [WHOLE, "gpu002", "gpu003"]
    assert found[1].ratio == 0.9
    assert "worst of 9 rows of 9 components (loopback): gpu002/mlx5_0; all of them: --json" in found[1].note


def test_two_bad_parts_of_one_host_stay_two() -> None:
    """A part with three rows is one line of that part."""
    rows = [row(f"gpu002/{part}", kind=kind) for part in ("mlx5_1", "gpu3") for kind in ("a", "b", "c")]
    assert [one.component for one in rows_folded(rows)] == ["gpu002/mlx5_1", "gpu002/gpu3"]


def test_what_is_the_same_and_what_is_of_several_hosts_is_never_folded() -> None:
    rows = [row(f"gpu002/mlx5_{number}", Difference.SAME) for number in range(8)]
    rows += [row("gpu001/mlx5_0+gpu002/mlx5_0"), row("leaf0--spine1"), row(WHOLE)] * 3
    assert rows_folded(rows) == tuple(sorted(rows, key=rows.index))


def test_worse_and_better_rows_of_one_host_are_two_lines() -> None:
    rows = [
        row("gpu002", change, kind=kind) for change in (Difference.WORSE, Difference.BETTER) for kind in ("a", "b", "c")
    ]
    assert [(one.component, one.change) for one in rows_folded(rows)] == [
        ("gpu002", Difference.WORSE),
        ("gpu002", Difference.BETTER),
    ]
