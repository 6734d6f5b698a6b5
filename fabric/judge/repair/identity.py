"""Finding what was replaced in a host between two runs, by serial numbers: the right part, a wrong one, the whole host.

Without serial numbers, only the inventory's description of a host can tell.

A part whose serial number was not read in both runs is compared by its GUID or UUID; without that either, nothing is
said of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum

from fabric.judge.locate.gpus import GPUS
from fabric.model.part import PORT, Part
from fabric.model.repair import HostIdentity, PartIdentity
from fabric.model.text import fold, some
from fabric.model.topology import Host, Platform, Topology
from fabric.model.verdict import Suspect


class Repair(Enum):
    """What the serial numbers say of a repair. UNKNOWN: they were not read before or now, or the part has none."""

    RIGHT_PART = "the named part was replaced"
    WRONG_PART = "the wrong part was replaced"
    NOTHING = "nothing was replaced"
    UNKNOWN = "what was replaced is not known"


@dataclass(frozen=True, slots=True)
class PartChange:
    """
    A part that changed between two runs; *before* or *after* is None if it was not there in that run.

    *replaced*: it is another part; else only its firmware changed. *peers_firmware* is what most parts of its kind on
    the other hosts run, None if none was read.
    """

    host: str
    part: str
    before: PartIdentity | None
    after: PartIdentity | None
    replaced: bool
    peers_firmware: str | None = None

    def __str__(self) -> str:
        old, new = self.before, self.after
        if old is None or new is None:
            one = old or new
            return f"{self.host}/{self.part}: {'gone' if old else 'new'}: SN {(one and one.serial) or '?'}"
        words = []
        if self.replaced:
            serial = old.serial and new.serial
            before, after = (old.serial, new.serial) if serial else (old.unique, new.unique)
            words.append(f"replaced: {'SN' if serial else 'id'} {before or '?'} -> {after or '?'}")
        if old.firmware != new.firmware:
            words.append(f"firmware {old.firmware or '?'} -> {new.firmware or '?'}")
        elif self.replaced:
            words.append(f"firmware {new.firmware or '?'}")
        if self.odd_firmware:
            words.append(f"peers have {self.peers_firmware}")
        return f"{self.host}/{self.part}: {', '.join(words)}"

    @property
    def odd_firmware(self) -> bool:
        """Return whether it runs another firmware than most of its peers."""
        now = self.after.firmware if self.after else None
        return None not in (now, self.peers_firmware) and now != self.peers_firmware


@dataclass(frozen=True, slots=True)
class Repaired:
    """What the serial numbers say of a repair: *what* in one word, *lines* in full, *changes* part by part."""

    what: Repair
    lines: tuple[str, ...]
    changes: tuple[PartChange, ...] = ()


def repaired(
    before: Mapping[str, HostIdentity] | None,
    after: Mapping[str, HostIdentity] | None,
    hosts: Sequence[str],
    suspects: Iterable[Suspect],
) -> Repaired:
    """Find what was replaced in *hosts* since they were suspected; *before* or *after* is None if nothing was read."""
    missing = _not_read(before, after, hosts)
    if before is None or after is None or missing:
        return Repaired(Repair.UNKNOWN, (f"{Repair.UNKNOWN.value}: {missing}",))
    found = [change for host in hosts for change in changes(before[host], after[host], after)]
    lines = [str(change) for change in found]
    lines += [f"{host}: not read: {text}" for host in hosts for text in after[host].unread]
    swapped = {f"{change.host}/{change.part}" for change in found if change.replaced}
    known = {f"{host}/{one.part}" for host in hosts for one in (*before[host].parts, *after[host].parts)}
    named = {
        suspect.component: _any_gpu(parts_of(suspect, hosts), known) & known
        for suspect in suspects
        if set(suspect.hosts) & set(hosts)
    }
    what, summary = _judged(named, swapped, before, after)
    return Repaired(what, (summary, *lines), tuple(found))


def changes(before: HostIdentity, after: HostIdentity, everybody: Mapping[str, HostIdentity]) -> Iterator[PartChange]:
    """Yield every part of one host that changed, in the order of its parts."""
    old, new = before.by_part, after.by_part
    usual = _usual_firmware(everybody, after.host)
    for name, part in {**old, **new}.items():
        one, other = old.get(name), new.get(name)
        unread = (one is None and before.unread) or (other is None and after.unread)  # the part may well be there
        replaced = one is None or other is None or _is_another(one, other)
        if not unread and (replaced or (one and one.firmware) != (other and other.firmware)):
            yield PartChange(after.host, name, one, other, replaced, usual.get(part.kind))


def parts_of(suspect: Suspect, hosts: Sequence[str]) -> frozenset[str]:
    """Return the parts of *hosts*, as serial numbers name them, whose replacement would be right for *suspect*."""
    found: set[str] = set()
    for component in (suspect.component, *suspect.ambiguous_with):
        part = Part.of(component)
        if part.host not in hosts or not part.item:
            continue
        found.add(f"{part.host}/{part.device}")
        if part.end and not part.end.startswith("numa"):
            found.add(f"{part.host}/{part.end}")
        if part.is_port or suspect.kind in ("host", "link"):
            found.add(f"{part.host}/{part.device}:{PORT}")
    return frozenset(found)


def _any_gpu(parts: frozenset[str], known: Iterable[str]) -> frozenset[str]:
    """Return the parts; where a host lacked a GPU and nobody knew which, add each GPU that it had or has."""
    lacking = tuple(name.removesuffix(GPUS) for name in parts if name.endswith(f"/{GPUS}"))
    return parts.union(name for name in known if lacking and name.startswith(tuple(f"{one}gpu" for one in lacking)))


def _judged(
    named: Mapping[str, frozenset[str]],
    swapped: set[str],
    before: Mapping[str, HostIdentity],
    after: Mapping[str, HostIdentity],
) -> tuple[Repair, str]:
    with_serial = {name: parts for name, parts in named.items() if parts}
    others = f"; replaced was {', '.join(sorted(swapped))}" if swapped else ""
    if not swapped:
        seen = [found[host] for found in (before, after) for host in before if host in found]
        which = " that was read" if any(one.unread for one in seen) else ""
        return Repair.NOTHING, f"{Repair.NOTHING.value}: every serial number{which} is as it was"
    if not with_serial:
        text = f"{Repair.UNKNOWN.value}: no serial number is read of {', '.join(named) or 'what was named'}{others}"
        return Repair.UNKNOWN, text
    left = {name: parts for name, parts in with_serial.items() if not parts & swapped}
    if not left:
        right = sorted(swapped & frozenset().union(*with_serial.values()))
        return Repair.RIGHT_PART, f"{Repair.RIGHT_PART.value}: {', '.join(right)}"
    texts = [f"{name} is still SN {_serials(parts, after)}" for name, parts in left.items()]
    return Repair.WRONG_PART, f"{Repair.WRONG_PART.value}: {'; '.join(texts)}{others}"


def _serials(parts: Iterable[str], after: Mapping[str, HostIdentity]) -> str:
    found = (after[part.host].by_part.get(part.inside) for part in map(Part.of, sorted(parts)))
    return ", ".join((one and (one.serial or one.unique)) or "?" for one in found)


def _not_read(
    before: Mapping[str, HostIdentity] | None, after: Mapping[str, HostIdentity] | None, hosts: Sequence[str]
) -> str:
    """Return why serial numbers say nothing; empty if they were read on both sides."""
    for found, when in ((before, "when it failed"), (after, "now")):
        if found is None:
            return f"serial numbers were not read {when} (identity: true in the scenario)"
        for host in hosts:
            if host not in found or not found[host].parts:
                reasons = found[host].unread[:1] if host in found else ()
                return f"serial numbers of {host} were not read {when}{''.join(f': {text}' for text in reasons)}"
    return ""


def _is_another(one: PartIdentity, other: PartIdentity) -> bool:
    """Return whether these are two different parts; False if no serial number or id of both can be compared."""
    if one.serial and other.serial:
        return one.serial != other.serial
    return bool(one.unique and other.unique and one.unique != other.unique)


def _usual_firmware(everybody: Mapping[str, HostIdentity], but: str) -> dict[str, str]:
    """Return the most frequent firmware by kind of part, on all hosts but one."""
    others = (part for host in everybody.values() if host.host != but for part in host.parts)
    versions = Counter((part.kind, part.firmware) for part in others if part.firmware)
    return dict(pair for pair, _ in reversed(versions.most_common()))


INSIDE = frozenset({"link_layer", "numa_nodes", "rnics", "gpus", "pcie_switches"})
"""Platform keys that describe what is inside a host; the other keys say how its tools are called and it is judged."""


def differing(then: Host, now: Host) -> set[str]:
    """Return the keys by which two descriptions of one host differ."""
    keys = {one.name for one in fields(Host) if getattr(then, one.name) != getattr(now, one.name)}
    old, new = then.platform, now.platform
    keys |= {one.name for one in fields(Platform) if getattr(old, one.name) != getattr(new, one.name)}
    return keys - {"name", "platform"}


Identities = Mapping[str, HostIdentity]


def not_the_same(
    hosts: Sequence[str],
    topologies: tuple[Topology, Topology],
    identities: tuple[Identities | None, Identities | None],
    *,
    files: tuple[str, str],
) -> Iterator[str]:
    """
    Yield notes for a comparison of two runs by host names: which *hosts* (those in both) or parts are others by now.

    *topologies*, *identities* and inventory *files* are (first run, second run); *identities* are None if serial
    numbers were not read. One name may mean two hosts in two inventory files; a file of the same name that describes
    the hosts the same is taken for the same file.
    """
    found = {host: differing(*(topology.hosts[host] for topology in topologies)) for host in hosts}
    others = [host for host, keys in found.items() if keys]
    other_file = bool(others) or files[0].rpartition("/")[2] != files[1].rpartition("/")[2]
    if other_file and files[0] != files[1]:
        yield f"the second run has another inventory file: {files[1]}, not {files[0]}"
    if others:
        keys = ", ".join(sorted(set[str]().union(*found.values())))
        yield f"{fold(others)} is described otherwise in the second run's inventory ({keys}): it may be another host"
    before, after = identities
    read = [host for host in hosts if before and after and host in before and host in after]
    if before is not None and after is not None:
        yield from _swapped(read, before, after)
    if other_file and len(read) < len(hosts):
        unread = fold([host for host in hosts if host not in set(read)])
        yield f"no serial numbers in both runs (identity: true): only the name says that {unread} is the same by now"


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
        named = some(parts)
        yield f"replaced between the runs, by serial number: {named}: what is better or worse there is another part"
