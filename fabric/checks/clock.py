"""Whether the clocks of the hosts agree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median_low

from fabric.checks.answer import Answer, excuse
from fabric.model.finding import Finding, Severity

NAME = "clock"
ARGV = ("date", "+%s.%N")
OFF_S = 0.1
"""Offsets are told when they are surely beyond this; a choice: NTP keeps hosts within milliseconds."""
_TIME = re.compile(r"([0-9]{1,11}\.[0-9]{9})\n?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a host's clock is ahead of ours, seconds; surely within *error_s*, half of the way there and back."""

    ahead_s: float
    error_s: float


def offset(answer: Answer) -> Offset | None:
    """The host read its clock some time between question and answer; None when it did not say it."""
    match = None if answer.lost or answer.status != 0 else _TIME.fullmatch(answer.stdout)
    if not match:
        return None
    middle_s = (answer.started_s + answer.ended_s) / 2
    return Offset(float(match[1]) - middle_s, (answer.ended_s - answer.started_s) / 2)


def read(answers: Mapping[str, Answer]) -> Iterator[Finding]:
    """Hosts that are surely off from the median host; ours counts from an arbitrary instant."""
    offsets: dict[str, Offset] = {}
    for host, answer in answers.items():
        found = offset(answer)
        if found is not None:
            offsets[host] = found
        else:
            what = f"the time was not said: {excuse(answer)}"
            yield Finding(NAME, Severity.UNKNOWN, (host,), what, "logs of hosts are compared by time", "date there")
    if len(offsets) < 2:
        return
    middle_s = median_low(one.ahead_s for one in offsets.values())
    middle = min(offsets.values(), key=lambda one: (abs(one.ahead_s - middle_s), one.error_s))
    for host, one in offsets.items():
        off_s = one.ahead_s - middle.ahead_s
        if abs(off_s) - one.error_s - middle.error_s > OFF_S:
            yield Finding(
                NAME,
                Severity.WARNING,
                (host,),
                f"its clock is {_rounded(abs(off_s))} {'ahead of' if off_s > 0 else 'behind'} the others",
                "its logs cannot be laid beside those of the others, nor beside events.jsonl",
                "mend its time synchronisation (chronyc tracking, ptp4l)",
            )


def _rounded(seconds: float) -> str:
    """Two digits, so that hosts that are off together are folded."""
    return f"{float(f'{seconds:.2g}'):g} s"
