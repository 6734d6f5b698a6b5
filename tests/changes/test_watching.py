"""Links are seen to go down, each once, and only when they were up; how much a counter may grow."""

from __future__ import annotations

import pytest

from fabric.changes.watching import LOOK_S, Lookout, over, watch_cable, watch_host, watched_ports
from fabric.errors import FabricError
from fabric.model.change import When
from tests.changes.played import VIA, Played, change

HOST = "gpu001"
UP, DOWN = "4: ACTIVE\n", "1: DOWN\n"


class Watching:
    """A host with two ports that is looked at until no *answers* are left; *last* of them belong to the last look."""

    def __init__(self, *answers: str, last: int = 1) -> None:
        self.played = Played(VIA)
        self.down: list[tuple[str, str, float]] = []
        self.unreadable: list[str] = []
        self.lookout = Lookout(lambda: self.played.now_s, LOOK_S, self._went_down, self._unreadable)
        self._left, self._last = list(answers), last
        self.played.answers[f"{HOST} cat"] = self._cat
        self.lookout.ended = len(answers) == 1
        self.played.run(watch_host(HOST, [("mlx5_0", 1), ("mlx5_1", 1)], self.lookout))

    def _went_down(self, link: str, state: str, seen_s: float) -> None:
        self.down.append((link, state, seen_s))

    def _unreadable(self, host: str, error: FabricError) -> None:
        self.unreadable.append(f"{host}: {error}")

    def _cat(self, argv: tuple[str, ...]) -> tuple[str, str, int]:
        del argv
        text = self._left.pop(0)
        self.lookout.ended = len(self._left) <= self._last
        return text, "", 0 if text.count("\n") == 2 else 1


def test_a_link_that_was_up_and_is_not_any_more_is_told_with_when_it_was_last_seen_up() -> None:
    watching = Watching(UP + UP, UP + UP, UP + DOWN, UP + DOWN)
    assert watching.down == [("gpu001/mlx5_1", "DOWN", LOOK_S)]


def test_a_link_that_was_down_from_the_beginning_is_not_told() -> None:
    assert Watching(UP + DOWN, UP + DOWN).down == []


def test_the_end_looks_once_more() -> None:
    assert [link for link, _, _ in Watching(UP + UP, DOWN + UP).down] == ["gpu001/mlx5_0"]


def test_a_device_that_is_gone_is_told_by_its_name() -> None:
    watching = Watching(UP + UP, UP, "", UP, last=3)
    assert [(link, state) for link, state, _ in watching.down] == [("gpu001/mlx5_0", "gone")]


def test_what_cannot_be_read_is_told_and_is_no_link_that_went_down() -> None:
    watching = Watching(UP + UP, "what\nelse\n", UP + DOWN)
    assert len(watching.unreadable) == 1
    assert watching.down == [("gpu001/mlx5_1", "DOWN", 0.0)]


def test_a_cable_between_switches_is_seen_to_go_down() -> None:
    played = Played(VIA)
    down: list[str] = []

    def closed(link: str, state: str, seen_s: float) -> None:
        del state, seen_s
        down.append(link)

    lookout = Lookout(lambda: played.now_s, LOOK_S, closed, lambda host, error: None)
    watch = watch_cable(change("ber", "leaf0--spine0", raw="1e-6"), played.context, lookout)
    closing = change("link_down", "leaf0--spine0", by="ibportstate")
    _until_paused(played, watch)
    played.apply(played.prepare(closing))
    lookout.ended = True
    played.run(_rest(played, watch))
    assert down == ["leaf0--spine0"]


def _until_paused(played: Played, watch) -> None:
    """Carry it out until it pauses."""
    step = next(watch)
    while hasattr(step, "argv"):
        step = watch.send(played.ask(step.host, step.argv))


def _rest(played: Played, watch):
    """What is left of a procedure that pauses."""
    step = watch.send(played.now_s)
    try:
        while True:
            step = watch.send((yield step))
    except StopIteration:
        return


def test_the_ports_of_cables_that_are_to_be_closed_are_not_watched_and_those_with_errors_are() -> None:
    context = Played(VIA).context
    both = [change("link_down", "gpu001/mlx5_0"), change("ber", "gpu001/mlx5_1", raw="1e-6")]
    watched = [device for device, _ in watched_ports(HOST, both, context)]
    assert "mlx5_0" not in watched
    assert "mlx5_1" in watched
    assert watched_ports("gpu999", both, context) == ()


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (5.0, 15.0, []),
        (5.0, 16.0, ["leaf0:1.symbol_errors grew by 11, more than 10 (stop_above)"]),
        (None, 1.0, ["symbol_errors (stop_above) could not be read before it was applied"]),
    ],
)
def test_more_than_the_limit_names_the_end_and_both_numbers(before: float | None, now: float, said: list[str]) -> None:
    limited = change("ber", "gpu001/mlx5_0", raw="1e-6", when=When(stop_above=(("symbol_errors", 10.0),)))
    known = {} if before is None else {"leaf0:1.symbol_errors": before}
    assert list(over(limited, known, {"leaf0:1.symbol_errors": now})) == [
        f"phase/ber.gpu001/mlx5_0: {text}" for text in said
    ]
