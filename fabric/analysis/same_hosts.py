"""Whether hosts that two runs call alike are the same ones: by their serial numbers, else by how they are described."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fabric.analysis.hardware import other_hardware, otherwise_described
from fabric.analysis.identity import changes
from fabric.model.identity import HostIdentity
from fabric.model.names import fold
from fabric.model.topology import Topology

_MOST_PARTS = 4  # named in a line

Identities = Mapping[str, HostIdentity]


def not_the_same(
    hosts: Sequence[str],
    topologies: tuple[Topology, Topology],
    identities: tuple[Identities | None, Identities | None],
    *,
    files: tuple[str, str],
) -> Iterator[str]:
    """
    Notes for who compares two runs by the names of their *hosts* (those of both): parts that are others by now.

    *topologies*, *identities* and inventory *files* are those of either run, None where serial numbers were not read.
    Of two files one name may mean two hosts; a file of the same name that describes the same is taken for the same.
    """
    described = list(_described(hosts, *topologies))
    other_file = bool(described) or files[0].rpartition("/")[2] != files[1].rpartition("/")[2]
    if other_file and files[0] != files[1]:
        yield f"the second run has another inventory file: {files[1]}, not {files[0]}"
    yield from described
    before, after = identities
    read = [host for host in hosts if before and after and host in before and host in after]
    if before is not None and after is not None:
        yield from _swapped(read, before, after)
    if other_file and len(read) < len(hosts):
        unread = fold([host for host in hosts if host not in set(read)])
        yield f"no serial numbers in both runs (identity: true): only the name says that {unread} is the same by now"


def _described(hosts: Sequence[str], then: Topology, now: Topology) -> Iterator[str]:
    found = {
        host: texts
        for host in hosts
        for pair in [(then.hosts[host], now.hosts[host])]
        if (texts := (*other_hardware(*pair), *otherwise_described(*pair)))
    }
    if found:
        first = next(iter(found.values()))[0]
        said = f"{fold(found)} is described otherwise in the second run's inventory"
        yield f"{said}, such as {first}: it may be another host"


def _swapped(hosts: Sequence[str], before: Identities, after: Identities) -> Iterator[str]:
    others, parts = [], []
    for host in hosts:
        old = before[host].by_part
        replaced = [one.part for one in changes(before[host], after[host], after) if one.replaced and one.before]
        if replaced and len(replaced) == len(old):
            others.append(host)
        else:
            parts += [f"{host}/{name}" for name in replaced]
    if others:
        yield f"{fold(others)} is another host by now: none of its serial numbers is as it was"
    if parts:
        more = f" and {len(parts) - _MOST_PARTS} more" if len(parts) > _MOST_PARTS else ""
        named = f"{', '.join(parts[:_MOST_PARTS])}{more}"
        yield f"replaced between the runs, by serial number: {named}: what is better or worse there is another part"
