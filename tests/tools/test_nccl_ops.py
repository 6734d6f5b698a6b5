"""Which collective, over how many ranks: inferred where only one answer fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.tools import nccl
from fabric.tools.nccl.ops import FACTOR, factor

UNIFIED = {
    "all_reduce": ("sum", "-1", "0"),
    "reduce_scatter": ("sum", "-1", "0"),
    "sendrecv": ("sum", "-1", "N/A"),
    "all_gather": ("none", "-1", "0"),
    "alltoall": ("none", "-1", "N/A"),
    "broadcast": ("none", "0", "0"),
    "reduce": ("sum", "0", "0"),
}
HEADING = "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"


def log(op: str, ranks: int, *, wrong: str = "0", sizes=(28, 30, 32)) -> str:
    """A table of one collective as it is printed, without saying which."""
    redop, root, in_place = UNIFIED[op]
    lines = []
    for power in sizes:
        size = 1 << power
        cells = f"{size} {size // 4} float {redop} {root}"
        for checked in (wrong, in_place if wrong == "0" else wrong):
            time = size / (150e3 + power)
            busbw = size / time / 1e3 * factor(op, ranks)
            cells += f" {time:.1f} {size / time / 1e3:.2f} {busbw:.2f} {checked}"
        lines.append(cells + "\n")
    return HEADING + "".join(lines)


@pytest.mark.parametrize("op", sorted(UNIFIED))
@given(ranks=st.integers(3, 40))
def test_what_was_run_is_inferred(op: str, ranks: int) -> None:
    """From the columns and the ratio; ranks only where the ratio depends on them."""
    (test,) = nccl.parse(log(op, ranks)).tests
    assert test.op == op
    assert test.ranks == (None if FACTOR[op] == "1" else ranks)
    assert test.problems == ()


def test_all_reduce_of_two_ranks_has_a_ratio_of_one() -> None:
    """So it is told from sendrecv by its checked in-place results."""
    (test,) = nccl.parse(log("all_reduce", 2)).tests
    assert (test.op, test.ranks) == ("all_reduce", 2)
    (test,) = nccl.parse(log("all_reduce", 2, wrong="N/A")).tests
    assert (test.op, test.ranks) == (None, None)


def test_many_ranks_are_not_guessed_from_rounded_numbers() -> None:
    """1440 and 1441 ranks differ in the fifth digit only."""
    (test,) = nccl.parse(log("all_reduce", 1440)).tests
    assert (test.op, test.ranks) == ("all_reduce", None)
