"""Rows of a comparison in as few lines as tell it."""

from __future__ import annotations

from fabric.model.comparison import WHOLE, Compared, Difference
from fabric.report.compare import folded


def row(
    component: str, change: Difference = Difference.WORSE, *, kind: str = "loopback", ratio: float = 0.9
) -> Compared:
    return Compared(component, kind, 8, change, 10, ratio)


def test_a_host_that_changed_as_a_whole_is_one_line_with_the_count() -> None:
    """The worst of its rows stands for all."""
    parts = [row(f"gpu002/mlx5_{number}", ratio=0.9 + number / 100) for number in range(8)]
    found = folded([row(WHOLE), *parts, row("gpu002"), row("gpu003")])
    assert [one.component for one in found] == [WHOLE, "gpu002", "gpu003"]
    assert found[1].ratio == 0.9
    assert "worst of 9 rows of 9 components (loopback): gpu002/mlx5_0; all of them: --json" in found[1].note


def test_two_bad_parts_of_one_host_stay_two() -> None:
    """A part with three rows is one line of that part."""
    rows = [row(f"gpu002/{part}", kind=kind) for part in ("mlx5_1", "gpu3") for kind in ("a", "b", "c")]
    assert [one.component for one in folded(rows)] == ["gpu002/mlx5_1", "gpu002/gpu3"]


def test_what_is_the_same_and_what_is_of_several_hosts_is_never_folded() -> None:
    rows = [row(f"gpu002/mlx5_{number}", Difference.SAME) for number in range(8)]
    rows += [row("gpu001/mlx5_0+gpu002/mlx5_0"), row("leaf0--spine1"), row(WHOLE)] * 3
    assert folded(rows) == tuple(sorted(rows, key=rows.index))


def test_worse_and_better_rows_of_one_host_are_two_lines() -> None:
    rows = [
        row("gpu002", change, kind=kind) for change in (Difference.WORSE, Difference.BETTER) for kind in ("a", "b", "c")
    ]
    assert [(one.component, one.change) for one in folded(rows)] == [
        ("gpu002", Difference.WORSE),
        ("gpu002", Difference.BETTER),
    ]
