"""Whether hosts that two runs call alike are the same ones: by their serial numbers, else by how they are described."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fabric.judge.compare.identity import changes
from fabric.model.repair import HostIdentity
from fabric.model.text import fold
from fabric.model.topology import Host, Platform, Topology

_ELSEWHERE = ("address", "rack", "leaves")
_CALLED = (
    *("baseline", "gid_index", "tools", "env", "mpirun_options", "srun_options"),
    *("nccl_tests_options", "wrapper", "use_cuda", "traffic_class", "perftest_options"),
)


def other_hardware(then: Host, now: Host) -> tuple[str, ...]:
    """What of the parts inside a host is not described as it was then, in words; empty: the same hardware."""
    if then.platform is now.platform:
        return ()
    return tuple(f"{now.name}: {text}" for text in _parts(then.platform, now.platform))


def otherwise_described(then: Host, now: Host) -> tuple[str, ...]:
    """What else of a host is not as it was: where it is, and how its tools are called and judged; in words."""
    pairs = [(name, getattr(then, name), getattr(now, name)) for name in _ELSEWHERE]
    pairs += [(name, getattr(then.platform, name), getattr(now.platform, name)) for name in _CALLED]
    return tuple(
        f"{now.name}: {name} was {_text(one)}, is {_text(other)}" for name, one, other in pairs if one != other
    )


def _parts(then: Platform, now: Platform) -> Iterator[str]:
    if then.link_layer != now.link_layer:
        yield f"link layer was {then.link_layer}, is {now.link_layer}"
    if then.numa_nodes != now.numa_nodes:
        yield f"had {then.numa_nodes} NUMA nodes, has {now.numa_nodes}"
    yield from _unlike({one.device: one for one in then.rnics}, {one.device: one for one in now.rnics})
    yield from _unlike({one.name: one for one in then.gpus}, {one.name: one for one in now.gpus})
    yield from _unlike({one.name: one for one in then.pcie_switches}, {one.name: one for one in now.pcie_switches})


def _unlike(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Parts of one kind by name: those that are gone, those that are new, and the first that is another."""
    gone, new = then.keys() - now.keys(), now.keys() - then.keys()
    if gone:
        yield f"{fold(sorted(gone))} is not described any more"
    if new:
        yield f"{fold(sorted(new))} was not described then"
    changed = [name for name in then if name in now and then[name] != now[name]]
    for name in changed[:1]:
        one, other = asdict(then[name]), asdict(now[name])
        words = [f"{key} was {_text(one[key])}, is {_text(other[key])}" for key in one if one[key] != other[key]]
        more = f" (and {len(changed) - 1} more like it)" if len(changed) > 1 else ""
        yield f"{name}: {', '.join(words)}{more}"


def _text(value: object) -> str:
    """Short, for a person."""
    if isinstance(value, tuple):
        return ", ".join(str(one) for one in value) or "none"
    return "none" if value is None else str(value)


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
