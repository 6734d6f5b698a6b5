"""Whether two descriptions of a host are of the same hardware, and of the same host: two inventories compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from fabric.model.names import fold
from fabric.model.topology import Host, Platform

_ELSEWHERE = ("address", "rack", "leaves")
_CALLED = ("baseline", "gid_index", "tools", "env", "mpirun_options")


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
