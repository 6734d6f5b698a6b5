"""Whether a host answers at all, how fast, and whether it answers only what it was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fabric.checks.answer import Answer, excuse, quoted
from fabric.model.finding import Finding, Severity

NAME = "reach"
ARGV = ("true",)
SLOW_S = 0.05
"""Over SSH ``true`` takes 3 to 10 ms on a live connection; beyond this a login shell does more than it should."""


def usable(answers: Sequence[Answer]) -> bool:
    """The host answers, and says nothing that the parsers would take for a tool's output."""
    return all(not one.lost and one.status == 0 and not one.stdout.strip() for one in answers)


def read(host: str, answers: Sequence[Answer], *, ssh: bool) -> Iterator[Finding]:
    """What several runs of ``true`` say, the first of them on a new connection."""
    for one in answers:
        if one.lost or one.status != 0:
            yield _silent(host, one)
            return
    said = next((one.stdout for one in answers if one.stdout.strip()), "")
    if said:
        yield Finding(
            NAME,
            Severity.PROBLEM,
            (host,),
            f"'true' printed {quoted(said)!r}",
            "this text would stand before the output of every tool; nothing else was checked here",
            "let the login shell be silent when it is not interactive (~/.bashrc, /etc/profile.d, ForceCommand)",
        )
        return
    if complained := next((one.stderr for one in answers if one.stderr.strip()), ""):
        yield Finding(
            NAME,
            Severity.WARNING,
            (host,),
            f"'true' complained: {quoted(complained)!r}",
            "every command will; it may be taken for a tool's own complaint",
            "mend the login shell or the locale of this account",
        )
    # The quicker of two: the first may have waited for a connection, either for our own processor.
    fastest_s = min(one.ended_s - one.started_s for one in answers)
    if ssh and fastest_s > SLOW_S:
        yield Finding(
            NAME,
            Severity.WARNING,
            (host,),
            f"'true' takes more than {_rounded(fastest_s)}",
            "each command pays this; hundreds are run on each host",
            "look at ~/.bashrc, PAM and DNS (UseDNS no) there; a non-interactive login should take milliseconds",
        )


def _silent(host: str, answer: Answer) -> Finding:
    return Finding(
        NAME,
        Severity.UNKNOWN,
        (host,),
        f"cannot run 'true': {excuse(answer)}",
        "nothing could be checked here, and nothing will be measured",
        "ssh to it by hand; take it out with --hosts until it answers",
    )


def _rounded(seconds: float) -> str:
    """In steps, so that equally slow hosts are folded."""
    step_s = next(step_s for step_s in (10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, SLOW_S) if seconds > step_s)
    return f"{step_s * 1000:g} ms" if step_s < 1 else f"{step_s:g} s"
