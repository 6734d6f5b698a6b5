"""Hosts that go out of a run for the same reason are told in a line or two."""

from __future__ import annotations

from fabric.report.progress import HOLD_S, FoldedOuts

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
