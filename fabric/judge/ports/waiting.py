"""Finding a cable between switches that carries less than its line, because its ports wait longer than their siblings.

Adaptive routing sends traffic around a cable at half its rate: no flow is much slower, and no error is counted. But a
port that has data and cannot send it counts the time (PortXmitWait). The siblings are the other cables that go up from
the same switch: they get the same traffic, in both directions. Ports wait on good fabrics, too: where there is
congestion further on, or where the routes of many flows meet. So an end stands out between two looks only if it waits
for a fifth of its time to send, far longer relative to what it sends than its siblings do, and sends no more than they
do. A cable is named only if an end stands out in nearly all windows: FAIL if both ends do, because congestion lies in
one direction only; INCONCLUSIVE if one end does, in twice as many windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fabric.judge.locate.structure import Floats
from fabric.judge.ports.health import MANY, Found
from fabric.model.outcome import Outcome
from fabric.model.sampling import TRAFFIC, CounterCourse
from fabric.runs.samples import End

WORD_BYTES, TICK_BYTES = 4, 8
"""
The bytes of one count of PortXmitData, and those that Quantum to Quantum-3 could have sent in one tick of PortXmitWait
(NVIDIA's ibdiagnet manual 2.13, congestion assessment). Other switches have longer ticks: then a port must only wait
longer to stand out.
"""

USED = 0.001
"""A window says nothing if the median sibling sent less than this share of its line: two seconds of half an hour."""

WAITS = 0.25
"""A port stands out from this ratio of waiting to sending time on: a fifth of its whole time to send."""

TIMES = 3.0
"""A port that stands out waits at least so many times as long as its median sibling."""

NO_MORE = 1.1
"""A port that stands out sends at most this multiple of its median sibling: an idle trunk fills evenly, within some
per cent."""

ALWAYS = 0.8
"""It must stand out in this share of the windows, and in ``MANY`` of them. The last four numbers are from
`benchmarks/link_faults.py 3101 40 slow=0.5 ar`."""

SENT, WAITED = TRAFFIC[0], "port_xmit_wait"
"""The readings of links.jsonl that are used, by the kernel's names."""

Courses = Mapping[End, Mapping[str, CounterCourse]]


def lagging(ways: Sequence[Sequence[End]], courses: Courses, *, rate_gbps: float) -> dict[int, Found]:
    """
    Return findings on the cables that stand out, by their place among siblings: FAIL if both ends do.

    *ways* holds two lists of ports, in the order of the cables: those that send up, and those that send down.
    """
    waits_by_way = [_waits(ends, courses, rate_gbps) for ends in ways]
    found: dict[int, Found] = {}
    for place in range(len(ways[0])):
        standing_out = [way[place] for way in waits_by_way if place in way]
        if sum(looks for looks, _ in standing_out) >= 2 * MANY:
            outcome = Outcome.FAIL if len(standing_out) == len(ways) else Outcome.INCONCLUSIVE
            text = ", ".join(text for _, text in standing_out)
            found[place] = ("waits", outcome, f"{text}: it carries less than its line, or what is behind it does")
    return found


def _waits(ends: Sequence[End], courses: Courses, rate_gbps: float) -> dict[int, tuple[int, str]]:
    """Return the ports (by place) that stand out in nearly all windows, each with the number of windows and a text."""
    own = [courses.get(end, {}) for end in ends]
    times = sorted({at_s for one in own for at_s in one.get(SENT, CounterCourse()).at_s})
    if len(times) <= MANY:
        return {}
    words, ticks = (_grown([one.get(name, CounterCourse()) for one in own], times) for name in (SENT, WAITED))
    least_bytes = USED * rate_gbps * 1e9 / 8 * np.diff(times)
    used = np.median(words, axis=0) * WORD_BYTES >= least_bytes
    words, waited = words[:, used], ticks[:, used] * TICK_BYTES / np.maximum(words[:, used], 1.0) / WORD_BYTES
    found: dict[int, tuple[int, str]] = {}
    for place, end in enumerate(ends):
        others, sent = (np.median(np.delete(one, place, axis=0), axis=0) for one in (waited, words))
        out = (waited[place] >= np.maximum(WAITS, TIMES * others)) & (words[place] <= NO_MORE * sent)
        if out.sum() >= max(MANY, ALWAYS * out.size):
            mine, theirs = (np.median(one / (1.0 + one)) for one in (waited[place], others))
            seen = f"its {len(ends) - 1} siblings {theirs:.0%}, in {out.sum()} of {out.size} looks"
            found[place] = int(out.sum()), f"{label(end)} waits for {mine:.0%} of its time to send, {seen}"
    return found


def _grown(courses: Sequence[CounterCourse], times: Sequence[float]) -> Floats:
    """Return how much a counter grew, by port (rows) and window (columns); 0 where it was not read, or was cleared."""
    values = [[one.value_at(at_s) for at_s in times] for one in courses]
    grown = np.diff(np.array(values, dtype=np.float64), axis=1)
    return np.maximum(np.nan_to_num(grown), 0.0)


def label(end: End) -> str:
    """Return the name of an end: ``spine02 port 4``, or that of an RNIC."""
    return f"{end[0]} port {end[1]}" if end[1].isdigit() else "/".join(end)
