"""Detecting traffic that declines or stops, on every port and in both directions, compared with what it carried before.

MegaScale (arXiv 2402.15627, section 4.2) watches RDMA traffic like this: training is periodic, so a significant decline
is worth a look, and traffic that ceases altogether means that the job stands still. It publishes no numbers; those
below are choices. Neither accuses the fabric: a job may have ended, write a checkpoint or wait for data. So nothing
here is worse than MARGINAL, and if most ports that carried something change together, they are reported as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabric.judge.locate.structure import Bools, Floats
from fabric.judge.ports.health import MANY
from fabric.judge.ports.waiting import WORD_BYTES

WINDOW_S = 10.0
"""The length of a window: longer than most steps of a training job."""

KEPT = 30
"""How many past windows say what is usual: five minutes."""

LEAST = 6
"""How many of these windows must be known before a port is judged: one minute."""

STOPPED, STOPPED_FOR = 0.01, 3
"""Traffic below this share of the usual in so many successive windows, half a minute, has stopped."""

DECLINED, DECLINED_FOR = 0.5, 6
"""Traffic below this share of the usual in so many successive windows, a minute, has declined."""

USED = 0.01
"""A port that usually carries less than this share of its line carries no job, and is not judged."""

FLOWS, LESS, NONE = 0, 1, 2
STATE_WORDS = {FLOWS: "is back to", LESS: "has declined to", NONE: "has stopped:"}

States = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Shift:
    """
    A change of the traffic of some *rows* at one window: their new *state* is FLOWS, LESS or NONE.

    *usual_gbps* and *now_gbps* are medians over the rows. *job*: they are most of the rows that carried something.
    """

    state: int
    rows: tuple[int, ...]
    usual_gbps: float
    now_gbps: float
    job: bool = False

    @property
    def text(self) -> str:
        """Return the shift in words."""
        return f"traffic {STATE_WORDS[self.state]} {self.now_gbps:.1f} Gb/s, usually {self.usual_gbps:.1f}"


class PortTraffic:
    """
    The traffic of each row (one direction of one port), window by window; *line_gbps* is the line rate of each row.

    ``read`` takes counters that have changed, ``window`` closes a window. *gbps* is the traffic of the last window, NaN
    where it is not known.
    """

    def __init__(self, line_gbps: Sequence[float]) -> None:
        number = len(line_gbps)
        self._least = USED * np.asarray(line_gbps)
        self._words = np.full(number, np.nan)  # the last reading
        self._then = self._words.copy(), self._words.copy()  # the readings at the end of the last window, their times
        self._past = np.full((KEPT, number), np.nan)
        self._last = np.full((DECLINED_FOR, number), np.nan)
        self._state = np.full(number, FLOWS, np.int8)
        self._usual, self._still = np.zeros(number), np.zeros(number, np.int32)
        self.gbps = np.full(number, np.nan)

    def read(self, row: int, words: float | None) -> None:
        """Take the current value of the counter of a row; None: it cannot be read."""
        self._words[row] = np.nan if words is None else words

    def window(self, at_s: Floats) -> list[Shift]:
        """
        Close the window; return one shift for all rows that change to the same state.

        *at_s*: when each row was last read, NaN where it is not read.
        """
        words, took_s = self._words - self._then[0], at_s - self._then[1]
        known = (took_s > 0) & (words >= 0)  # a counter that was cleared says nothing
        self.gbps = np.where(known, words * WORD_BYTES * 8e-9 / np.where(known, took_s, 1.0), np.nan)
        self._then = self._words.copy(), at_s
        self._last = _pushed(self._last, self.gbps)
        middle, enough = _middles(self._past)
        self._usual = np.where(self._state == FLOWS, middle, self._usual)
        carries = enough & (self._usual > self._least)
        before, self._state = self._state, self._seen(carries)
        # Windows with less traffic do not count as usual, until they have lasted longer than all windows kept.
        self._still = np.where(self._state == FLOWS, 0, self._still + 1)
        idle = self._still > KEPT
        self._state[idle] = FLOWS
        self._past[:, idle] = np.nan
        kept = self._state == FLOWS
        self._past[:, kept] = _pushed(self._past[:, kept], self.gbps[kept])
        return list(self._shifts(before, (self._state != before) & ~idle, int(np.count_nonzero(carries))))

    def _seen(self, carries: Bools) -> States:
        """Return the new state of each row; an unknown window keeps the state, and NONE never becomes LESS."""
        stopped = carries & (self._last[-STOPPED_FOR:] < STOPPED * self._usual).all(axis=0)
        declined = carries & (self._last < DECLINED * self._usual).all(axis=0) & (self._state != NONE)
        state = np.where(self._last[-1] >= DECLINED * self._usual, FLOWS, self._state)
        return np.where(stopped, NONE, np.where(declined, LESS, state)).astype(np.int8)

    def _shifts(self, before: States, changed: Bools, carry: int) -> Iterator[Shift]:
        for state in (NONE, LESS, FLOWS):
            of = carry if state != FLOWS else int(np.count_nonzero(before != FLOWS))
            rows = np.flatnonzero(changed & (self._state == state))
            if len(rows):
                usual, now = (float(np.median(one[rows])) for one in (self._usual, self.gbps))
                yield Shift(state, tuple(rows.tolist()), usual, now, job=len(rows) >= MANY and 2 * len(rows) > of)


def _pushed(windows: Floats, newest: Floats) -> Floats:
    """Return the windows without the oldest, and with the newest."""
    return np.concatenate((windows[1:], newest[None, :]))


def _middles(past: Floats) -> tuple[Floats, Bools]:
    """Return the median of the known windows of each row, 0 if none is known; and whether enough are known."""
    ordered = np.sort(past, axis=0)  # NaN (unknown) comes last
    number = np.count_nonzero(~np.isnan(past), axis=0)
    middle = np.take_along_axis(ordered, (number // 2).clip(max=KEPT - 1)[None, :], axis=0)[0]
    return np.nan_to_num(middle), number >= LEAST
