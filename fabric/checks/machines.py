"""
Whether a host answers, how fast and only what it was asked; whether two names are one machine, and clocks agree.

The kernel draws a boot id at each start, so no two machines share one. Containers of one machine do, each with its own
network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from fabric.checks.ask import Answers, Argv, HostAnswer, excuse, quoted
from fabric.checks.kind import HostCheck, Looked, problem, unknown, warning
from fabric.model.finding import Finding

REACH = "reach"
TRUE = ("true",)
SLOW_S = 0.05
"""Over SSH ``true`` takes 3 to 10 ms on a live connection; beyond this a login shell does more than it should."""

_BOOT = "/proc/sys/kernel/random/boot_id"
IDS: Argv = ("grep", "-H", ".", _BOOT)
NETWORK: Argv = ("readlink", "/proc/self/ns/net")
DATE: Argv = ("date", "+%s.%N")
OFF_S = 0.1
"""A clock that is surely further off is told; a choice: NTP keeps hosts within milliseconds."""
_TIME = re.compile(r"([0-9]{1,11}\.[0-9]{9})\n?", re.ASCII)
_SHOWN = 8
"""Of an id in a message: enough to tell machines apart, and to find it again on the host (digits; a choice)."""
_LINE = re.compile(rf"{_BOOT}:([0-9a-f-]{{16,64}})\n", re.ASCII)


def usable(answers: Sequence[HostAnswer]) -> bool:
    """The host answers, and says nothing that the parsers would take for a tool's output."""
    return all(not one.lost and one.exit_status == 0 and not one.stdout.strip() for one in answers)


def read_reach(answers: Sequence[HostAnswer], *, ssh: bool) -> Iterator[Finding]:
    """What several runs of ``true`` say, the first of them on a new connection."""
    silent = next((one for one in answers if one.lost or one.exit_status != 0), None)
    if silent is not None:
        why = "nothing could be checked here, and nothing will be measured"
        advice = "ssh to it by hand; take it out with --hosts until it answers"
        yield unknown(f"cannot run 'true': {excuse(silent)}", why, advice)
        return
    if said := next((one.stdout for one in answers if one.stdout.strip()), ""):
        yield problem(
            f"'true' printed {quoted(said)!r}",
            "this text would stand before the output of every tool; nothing else was checked here",
            "let the login shell be silent when it is not interactive (~/.bashrc, /etc/profile.d, ForceCommand)",
        )
        return
    if complained := next((one.stderr for one in answers if one.stderr.strip()), ""):
        why = "every command will; it may be taken for a tool's own complaint"
        advice = "mend the login shell or the locale of this account"
        yield warning(f"'true' complained: {quoted(complained)!r}", why, advice)
    # The quicker of two: the first may have waited for a connection, either for our own processor.
    fastest_s = min(one.ended_s - one.started_s for one in answers)
    if ssh and fastest_s > SLOW_S:
        yield warning(
            f"'true' takes more than {_step(fastest_s)}",
            "each command pays this; hundreds are run on each host",
            "look at ~/.bashrc, PAM and DNS (UseDNS no) there; a non-interactive login should take milliseconds",
        )


def _step(seconds: float) -> str:
    """In steps, so that equally slow hosts are folded."""
    step_s = next(step_s for step_s in (10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, SLOW_S) if seconds > step_s)
    return f"{step_s * 1000:g} ms" if step_s < 1 else f"{step_s:g} s"


def machine(answers: Answers) -> tuple[str, str] | None:
    """Its boot id and its network, as far as that is said; None where it does not say who it is."""
    ids, network = answers[IDS], answers[NETWORK]
    boot = None if ids.lost else _LINE.match(ids.stdout)
    return None if boot is None else (boot[1], "" if network.lost else network.stdout.strip()[:64])


def _compare_machines(hosts: Mapping[str, Looked]) -> Iterator[Finding]:
    """Names that are one machine."""
    known: dict[tuple[str, str], list[str]] = {}
    for host, looked in hosts.items():
        if found := machine(looked.answers):
            known.setdefault(found, []).append(host)
            continue
        what = f"its boot id was not said: {excuse(looked.answers[IDS])}"
        yield unknown(what, "two names of one machine would not be noticed", f"cat {_BOOT} there", host)
    for (boot, _), names in known.items():
        if len(names) > 1:
            yield problem(
                f"these names are one machine (boot id {boot[:_SHOWN]})",
                "it would be measured against itself, and another machine not at all",
                "see which address is wrong: in the inventory, in DNS or /etc/hosts, or given to two machines",
                *names,
            )


MACHINE = HostCheck("machine", lambda _host, _needs: (IDS, NETWORK), compare=_compare_machines)


def _compare_clocks(hosts: Mapping[str, Looked]) -> Iterator[Finding]:
    """Hosts that are surely off from the median host, whatever part of there and back each way took."""
    why = "what several hosts say is laid side by side by time: their logs, events, link counters"
    read: dict[str, tuple[float, float]] = {}  # ahead of our clock, which counts from an arbitrary instant; error
    for host, looked in hosts.items():
        answer = looked.answers[DATE]
        said = None if answer.lost else _TIME.fullmatch(answer.stdout)
        if said is None:
            yield unknown(f"its time was not said: {excuse(answer)}", why, "date +%s.%N there", host)
        else:
            half_s = (answer.ended_s - answer.started_s) / 2
            read[host] = float(said[1]) - answer.started_s - half_s, half_s
    middle_s, error_s = sorted(read.values())[len(read) // 2] if read else (0.0, 0.0)
    for host, (ahead_s, half_s) in read.items():
        off_s = ahead_s - middle_s
        if abs(off_s) - half_s - error_s > OFF_S:
            rounded = float(f"{abs(off_s):.2g}")  # two digits, so that hosts that are off together are folded
            what = f"its clock is {rounded:g} s {'ahead of' if off_s > 0 else 'behind'} the others"
            yield warning(what, why, "mend its time synchronisation (chronyc tracking, ptp4l)", host)


CLOCK = HostCheck("clock", lambda _host, _needs: (DATE,), compare=_compare_clocks)
