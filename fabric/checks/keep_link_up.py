"""Whether the firmware lets a port go down when it is told to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fabric.checks.answer import Answers, Argv, excuse
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host, Rnic

NAME = "keep-link-up"
# The row of one setting in ``mlxconfig query``; True(1) keeps the light on.
_ROW = re.compile(r"^[\s*]*(KEEP_(?:ETH|IB)_LINK_UP_P[0-9])\s+(True|False)\(([01])\)\s*$", re.MULTILINE | re.ASCII)


def commands(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """Each RNIC whose own end is to be closed."""
    return tuple(_argv(host, needs, rnic) for rnic in _closed(host, needs))


def read(host: Host, needs: HostNeeds, answers: Answers) -> Iterator[Finding]:
    """Settings that keep a port from going down, as the next reset or this very boot has them."""
    for rnic in _closed(host, needs):
        answer = answers[_argv(host, needs, rnic)]
        rows = [] if answer.lost else _ROW.findall(answer.text)
        if not rows:
            reason = "mlxconfig is not there" if answer.absent else excuse(answer)
            yield Finding(
                NAME,
                Severity.UNKNOWN,
                (host.name,),
                f"whether {rnic.device} can be closed was not said: {reason}",
                "with KEEP_ETH_LINK_UP or KEEP_IB_LINK_UP the light stays on, and the flap is none",
                f"mlxconfig -d {rnic.device} query {_setting(host, rnic)}",
            )
        for name, _, value in rows:
            if value == "1" and name == _setting(host, rnic):
                yield Finding(
                    NAME,
                    Severity.PROBLEM,
                    (host.name,),
                    f"{name} is on for {rnic.device}",
                    "its link stays up when the port is closed: there would be no flap",
                    f"mlxconfig -d {rnic.device} set {name}=0, then reset the adapter (mlxfwreset) or reboot",
                )


def _closed(host: Host, needs: HostNeeds) -> list[Rnic]:
    return [host.platform.rnic_by_device[device] for device in needs.alters.closes]


def _setting(host: Host, rnic: Rnic) -> str:
    kind = "ETH" if host.platform.link_layer == "ethernet" else "IB"
    return f"KEEP_{kind}_LINK_UP_P{rnic.port}"


def _argv(host: Host, needs: HostNeeds, rnic: Rnic) -> Argv:
    prefix = ("sudo", "-n") if needs.sudo else ()
    return (*prefix, "mlxconfig", "-d", rnic.device, "query", _setting(host, rnic))
