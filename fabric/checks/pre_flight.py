"""The whole pre-flight over many hosts: who answers, then everything else about those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from fabric.checks import (
    clock,
    gpudirect,
    gpus,
    keep_link_up,
    locked_memory,
    login,
    loopback_mode,
    one_machine,
    programs,
    python,
    reach,
    rnics,
    root,
    versions,
)
from fabric.checks.answer import Answer, Answers, Argv
from fabric.checks.ask import ask_all
from fabric.checks.kind import Check
from fabric.checks.made_equal import made_equal
from fabric.checks.needs import HostNeeds, with_peers
from fabric.model.finding import Finding
from fabric.model.topology import Host
from fabric.ports import Executor

CHECKS: tuple[Check, ...] = (
    rnics,
    gpus,
    programs,
    python,
    root,
    gpudirect,
    locked_memory,
    loopback_mode,
    keep_link_up,
    login,
)
"""What is looked at on each host, in the order in which equally bad findings are told."""

TIMED_IN_FLIGHT = 32
"""Hosts that are timed at once; a choice: more of them wait for our own processor, not for theirs."""


def pre_flight(executor: Executor, hosts: Mapping[str, Host], needs: Mapping[str, HostNeeds]) -> Iterator[Finding]:
    """
    Everything that was found on the hosts in *needs*; alters nothing anywhere.

    Equal findings are not folded yet; those that differ in a host's own name or address only are made equal.
    """
    return made_equal(_found(executor, hosts, needs), hosts)


def _found(executor: Executor, hosts: Mapping[str, Host], needs: Mapping[str, HostNeeds]) -> Iterator[Finding]:
    first = ask_all(executor, {name: (reach.ARGV,) for name in needs})
    answering = [name for name in needs if reach.usable(_only(first[name]))]
    again = ask_all(executor, {name: (reach.ARGV,) for name in answering}, in_flight=TIMED_IN_FLIGHT)
    reached = []
    for name, wanted in needs.items():
        answers = _only(first[name]) + _only(again.get(name, MappingProxyType({})))
        yield from reach.read(name, answers, ssh=wanted.ssh)
        if reach.usable(answers):
            reached.append(name)
    yield from _looked_at(executor, hosts, with_peers(needs, tuple(reached), hosts))


def _only(answers: Answers) -> tuple[Answer, ...]:
    return tuple(answers.values())


def _looked_at(executor: Executor, hosts: Mapping[str, Host], needs: Mapping[str, HostNeeds]) -> Iterator[Finding]:
    asked = {name: _asked(hosts[name], wanted) for name, wanted in needs.items()}
    answers = ask_all(executor, asked)
    for check in CHECKS:
        for name, wanted in needs.items():
            if check.commands(hosts[name], wanted):
                yield from check.read(hosts[name], wanted, answers[name])
    found = {name: programs.versions(hosts[name], wanted, answers[name]) for name, wanted in needs.items()}
    yield from versions.read(found)
    yield from one_machine.read({name: answers[name] for name in needs})
    yield from clock.read({name: answers[name][clock.ARGV] for name in needs})


def _asked(host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    """The clock first: nothing else of ours runs on the host while it is read."""
    return (clock.ARGV, *one_machine.commands(), *(argv for check in CHECKS for argv in check.commands(host, needs)))
