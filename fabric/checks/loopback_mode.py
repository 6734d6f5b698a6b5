"""Whether an RNIC was left in loopback mode, where it measures well and carries nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks import rnics
from fabric.checks.answer import Answer, Answers, Argv, excuse, quoted
from fabric.checks.needs import HostNeeds
from fabric.checks.rnics import devices_there
from fabric.errors import ToolError
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host, Rnic
from fabric.tools import mlxlink

NAME = "loopback"
# Both as text and as JSON; the driver's own reader does not keep this row.
_MODE = re.compile(r"^\s*\"?Loopback Mode\"?\s*: *\"?([^\"\r\n]*?)\"?,?\s*$", re.MULTILINE)
_OFF = "No Loopback"
_CANNOT = ("ermission", "Failed to open device", "must be root", "not permitted")


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Each RNIC; through sudo where changes go through it and use mlxlink anyway."""
    if not needs.measured or not host.platform.rnics:
        return ()
    return (rnics.LIST, *(_argv(host, needs, rnic) for rnic in host.platform.rnics))


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """RNICs in loopback; and, once a host, that it was not looked at."""
    unseen: list[Answer] = []
    there = devices_there(answers[rnics.LIST])
    for rnic in host.platform.rnics:
        if there is not None and rnic.device not in there:
            continue  # it is missing: check "rnics" says so
        answer = answers[_argv(host, needs, rnic)]
        match = None if answer.lost else _MODE.search(answer.text)
        mode = quoted(match[1]) if match else ""
        if not mode:
            unseen.append(answer)
        elif mode not in (_OFF, "N/A"):
            yield Finding(
                NAME,
                Severity.PROBLEM,
                (host.name,),
                f"{rnic.device} is in loopback mode: {mode}",
                "it talks to itself: bandwidth looks good and nothing reaches the network",
                f"mlxlink -d {rnic.device} --loopback NO",
            )
    if unseen:
        yield _unseen(host, needs, unseen)


def _reason(answer: Answer) -> str:
    """The tool's own words, which are inside its JSON document where it prints one."""
    if not answer.lost:
        try:
            mlxlink.read(answer.stdout, answer.stderr, answer.status)
        except ToolError as exc:
            return quoted(str(exc))
    return excuse(answer)


def _argv(host: Host, needs: HostNeeds, rnic: Rnic) -> Argv:
    prefix = ("sudo", "-n") if needs.sudo and "mlxlink" in needs.alters.programs else ()
    return (*prefix, *mlxlink.show(rnic.device, tool=host.platform.program("mlxlink")))


def _unseen(host: Host, needs: HostNeeds, unseen: list[Answer]) -> Finding:
    """Nothing else needs mlxlink in a scenario without changes, so that its absence is only told."""
    first = unseen[0]
    optional = not needs.alters.programs and (
        first.absent or (not first.lost and any(word in first.text for word in _CANNOT))
    )
    reason = "mlxlink is not there" if first.absent else _reason(first)
    return Finding(
        NAME,
        Severity.WARNING if optional else Severity.UNKNOWN,
        (host.name,),
        f"loopback mode was not looked at: {reason}",
        "an adapter that somebody left in loopback measures well and carries nothing",
        "install NVIDIA MFT and run as root to have it looked at",
    )
