"""Findings that say the same of many hosts, each with its own name or address in it: made equal, to be folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from fabric.model.finding import Finding
from fabric.model.own_name import ADDRESS, without_own
from fabric.model.topology import Host


def made_equal(findings: Iterable[Finding], hosts: Mapping[str, Host]) -> Iterator[Finding]:
    """
    The findings; where several hosts have the same one but for their own names and addresses, these are replaced.

    The first host's address is told as an example. What only one host has keeps its own words.
    """
    listed = list(findings)
    neutral = [_neutral(one, hosts) for one in listed]
    many = Counter((one.check, one.severity, one.what) for one in neutral)
    example: dict[tuple[object, ...], str] = {}
    for one, other in zip(listed, neutral, strict=True):
        key = (other.check, other.severity, other.what)
        if one.what == other.what or many[key] == 1:
            yield one
            continue
        name = one.hosts[0]
        said = f" ({ADDRESS} of {name}: {hosts[name].address})" if ADDRESS in other.what else ""
        yield replace(other, what=other.what + example.setdefault(key, said))


def _neutral(one: Finding, hosts: Mapping[str, Host]) -> Finding:
    """Without the host's own name and address; what is found on several hosts at once names none."""
    if len(one.hosts) != 1 or one.hosts[0] not in hosts:
        return one
    return replace(one, what=without_own(one.what, one.hosts[0], hosts[one.hosts[0]].address))
