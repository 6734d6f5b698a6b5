"""Guard rails: checks on the hosts before anything is altered, and limits on what is altered at the same time.

Two checks are elsewhere: fabric.changes.ports makes sure that a closed switch port can be opened again in-band, and the
guard on the target that its caller's session does not go through what is closed.

Changes that are fine alone may be too much together. Looks run side by side, and things take longer than planned. So a
change is compared with the others twice: when it is looked at, with those planned for the same time, and when it is
about to be made, with those that are live then.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import permutations
from math import inf

from fabric.changes.kind import Context, kind_of
from fabric.changes.ports import port_states
from fabric.changes.procedure import Procedure, plainly
from fabric.errors import Refused
from fabric.model import gathered
from fabric.model.change import Alterations, Argv, Change, ChangeSettings
from fabric.model.topology import Topology
from fabric.tools.driver import complaint, word

BUSY, ISOLATE = "busy_hosts", "isolate"
"""Words of a scenario's ``allow``."""

_NOT_FOUND = 127

OURS = re.compile(r"(^|/)([a-z_]+_perf(_mpi)?|ib_(write|read|send)_(bw|lat))$")
"""Programs that the probes put on GPUs: NCCL's tests and perftest. A job under such a name is taken for ours."""

_AMD_PROCESS = re.compile(r"PID(?P<pid>[0-9]{1,10}),\"?(?P<name>[^\",]{0,64})", re.ASCII)


def check_rails(
    change: Change,
    alterations: Alterations,
    context: Context,
    allow: Collection[str],
    *,
    ours_run: bool = False,
) -> Procedure[frozenset[str] | None]:
    """
    Check that nothing forbidden is touched, nobody works on the hosts, and no host loses its last path.

    With *ours_run* our own probes may be on the GPUs. Returns the other RNICs of the host that are active, None where
    it needs none. Raises Refused, with the word that would allow the change if there is one. What cannot be checked is
    refused.
    """
    if not alterations:
        return None
    untouchable = managed(change, alterations, context.settings)
    if untouchable:
        raise Refused(f"{change.component}: {untouchable} is for management (changes: management in the inventory)")
    for host in change.hosts if BUSY not in allow else ():
        yield from _need_idle(host, amd=context.topology.hosts[host].platform.amd, ours_run=ours_run)
    if change.is_fault and "/" in change.component and ISOLATE not in allow:
        return (yield from _other_paths(change, context))
    return None


def managed(change: Change, alterations: Alterations, settings: ChangeSettings) -> str | None:
    """Return the first name under ``management`` that a change touches, None when it touches none."""
    part = change.part
    names = {change.component, part.host, *change.switches, *((part.item,) if part.item else ())}
    if change.scope != "fabric":
        names |= set(change.hosts)
    for alteration in alterations:
        names |= {f"{alteration.host}/{device}" for device in alteration.devices}
        names |= {argv[4] for argv in alteration.apply if argv[1:4] == ("link", "set", "dev")}
    if part.link_ends:  # a cable may be named from either end
        names |= {"--".join(ends) for ends in permutations(part.link_ends)}
    folded = {name.casefold() for name in names}
    return next((name for name in settings.management if name.casefold() in folded), None)


def _need_idle(host: str, *, amd: bool, ours_run: bool) -> Procedure[None]:
    """Raise Refused if its GPUs run processes or the batch system runs jobs there; a missing tool reports nothing."""
    on_gpus = _on_amd_gpus if amd else _on_gpus
    found = yield from on_gpus(host, but_ours=ours_run)
    if found and ours_run:  # one of our processes loses its name while it ends: keep only those seen twice
        found &= yield from on_gpus(host, but_ours=True)
    if found:
        raise Refused(f"{host}: its GPUs are in use (processes {', '.join(sorted(found)[:8])})", allow=BUSY)
    squeue = ("squeue", "-h", "-w", word(host, "host"), "-o", "%i")
    jobs = " ".join((yield from _printed_lines(host, squeue, "jobs run there"))).split()
    if jobs:
        raise Refused(f"{host}: jobs run there ({', '.join(jobs[:8])})", allow=BUSY)


def _on_gpus(host: str, *, but_ours: bool) -> Procedure[set[str]]:
    """Return the processes on its GPUs; *but_ours* leaves out those named like the probes' programs."""
    asked = "pid,process_name" if but_ours else "pid"
    smi = ("nvidia-smi", f"--query-compute-apps={asked}", "--format=csv,noheader")
    rows = [line.partition(",") for line in (yield from _printed_lines(host, smi, "its GPUs are in use"))]
    return {pid.strip() for pid, _, name in rows if pid.strip().isdigit() and not OURS.search(name.strip())}


def _on_amd_gpus(host: str, *, but_ours: bool) -> Procedure[set[str]]:
    """Return the processes on AMD GPUs by rocm-smi, which prints lines such as ``PID4711,"python3, 1, 0, 0, 0"``."""
    lines = yield from _printed_lines(host, ("rocm-smi", "--showpids", "--csv"), "its GPUs are in use")
    found = (_AMD_PROCESS.match(line) for line in lines)
    return {one["pid"] for one in found if one and not (but_ours and OURS.search(one["name"]))}


def _printed_lines(host: str, argv: Argv, what: str) -> Procedure[list[str]]:
    """Return the lines that a tool prints, none if it is missing; Refused if it cannot tell whether *what* is so."""
    stdout, stderr, status = yield from plainly(host, argv)
    if status in (0, _NOT_FOUND) or "No devices were found" in stdout:
        return stdout.splitlines() if status == 0 else []
    raise Refused(f"{host}: whether {what} cannot be seen ({argv[0]}: {complaint(stdout, stderr)})", allow=BUSY)


def _other_paths(change: Change, context: Context) -> Procedure[frozenset[str]]:
    """Return the other RNICs of the host that are Active; Refused when there is none."""
    name = change.part.host
    rnics = context.topology.hosts[name].platform.rnics
    others = [(rnic.device, rnic.port) for rnic in rnics if rnic.device != change.part.item]
    states = (yield from port_states(name, others)) if others else {}
    active = frozenset(device for (device, _), state in states.items() if state == "ACTIVE")
    if not active:
        raise Refused(f"{change.component}: {name} has no other active RNIC: it would be cut off", allow=ISOLATE)
    return active


ALLOW = "blast_radius"
"""The word of a scenario's ``allow`` for more than the blast radius."""

HANDOVER_S = 90.0
"""
How long a change waits for one that should be over and is not taken back yet (seconds; choice).

An undo and the training of a link take some seconds, a subnet manager's new routes up to 80.
"""

_NEVER = "nothing allows it"


def blast_problems(
    changes: Sequence[Change], topology: Topology, settings: ChangeSettings, allow: Collection[str]
) -> list[str]:
    """Return everything that is too much, in words; each text says what would allow it, or that nothing does."""
    context = Context(topology, settings)
    found = list(_single(changes, context))
    for together in at_once(changes):
        found += _together(together, context, allow)
    return list(dict.fromkeys(found))


def _together(together: tuple[Change, ...], context: Context, allow: Collection[str]) -> Iterator[str]:
    """Yield what is too much among changes that are in force at the same time."""
    yield from _pairs(together)
    yield from _same_keys(together, context)
    yield from _commits(together, context)
    if ALLOW not in allow:
        yield from (f"{text}{_unless(ALLOW)}" for text in _counted(together, context))
    if ISOLATE not in allow:
        yield from (f"{text}{_unless(ISOLATE)}" for text in _cut_off(together, context.topology))


def _unless(word: str) -> str:
    return f" (to do it all the same: allow: [{word}])"


def span_s(change: Change) -> tuple[float, float]:
    """Return when a change may be in force, seconds after the phase's first probe; for a flap its whole span."""
    at_s, lasts_s = change.when.at_s, inf if change.lasts_s is None else change.lasts_s
    return (-inf, lasts_s) if at_s is None else (at_s, at_s + lasts_s)


def at_once(changes: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
    """Yield every set of changes that are in force together, as of the moment at which each one begins."""
    spans = [(change, *span_s(change)) for change in changes]
    sets = dict.fromkeys((change.phase, begin_s) for change, begin_s, _ in spans)
    for phase, now_s in sets:
        yield tuple(change for change, from_s, until_s in spans if change.phase == phase and from_s <= now_s < until_s)


def _single(changes: Sequence[Change], context: Context) -> Iterator[str]:
    """Yield problems of single changes, whatever the others are."""
    for change in changes:
        kind, name = kind_of(change), managed(change, (), context.settings)
        if name is not None:
            yield f"{change.change_id}: {name} is for management and never touched; {_NEVER}"
        if kind.sets(context) and not context.settings.subnet_managers:
            yield f"{change.change_id}: the inventory names no subnet managers (changes: subnet_managers); {_NEVER}"
        if context.settings.via is None and kind.through_via(change.component):
            yield f"{change.change_id}: switch ports are reached through a host (changes: via); {_NEVER}"


def _pairs(together: tuple[Change, ...]) -> Iterator[str]:
    """Yield pairs of changes of one cable or setting, whose effects could not be told apart."""
    seen: dict[object, Change] = {}
    for change in together:
        key = (change.scope, change.kind if change.scope != "port" else "", _cable(change))
        first = seen.setdefault(key, change)
        if first is not change:
            yield f"{change.change_id}: {first.change_id} alters {change.component} at the same time; {_NEVER}"


def _same_keys(together: tuple[Change, ...], context: Context) -> Iterator[str]:
    """Yield pairs of changes that set one key of the subnet managers' file: the undo of one would undo the other."""
    seen: dict[str, Change] = {}
    for change in together:
        for key in kind_of(change).sets(context):
            first = seen.setdefault(key, change)
            if first.kind != change.kind:
                yield f"{change.change_id}: {first.change_id} sets {key} of the same file; {_NEVER}"


def _commits(together: tuple[Change, ...], context: Context) -> Iterator[str]:
    """Yield pairs of changes that switches commit: the commit of one would carry along the other."""
    committed = [change for change in together if kind_of(change).commits(context)]
    for change in committed[1:]:
        first = committed[0].change_id
        yield f"{change.change_id}: {first} is committed on the same switches at the same time; {_NEVER}"


def _cable(change: Change) -> tuple[object, ...]:
    """Return a key that is equal for both ways to write a cable: ``a--b``, ``b--a#0``."""
    return (*sorted(change.part.link_ends or (change.component,)), change.part.number)


def _counted(together: tuple[Change, ...], context: Context) -> Iterator[str]:
    """
    Yield which of the four numbers of the blast radius are exceeded.

    Only faults count: routing changes are limited by their scope, not by a number. At least one link may always be
    altered, however few there are.
    """
    most = context.settings.blast_radius
    faults = [change for change in together if change.is_fault]
    if len(faults) > most.changes:
        yield f"{len(faults)} changes at the same time in {together[0].phase}, {most.changes} are allowed"
    for what, names, limit in (
        ("switch", [name for change in faults for name in change.switches], most.per_switch),
        ("host", [name for change in faults for name in change.hosts], most.per_host),
    ):
        for name in dict.fromkeys(names):
            if names.count(name) > limit:
                yield f"{names.count(name)} changes at the same time at {what} {name}, {limit} allowed for each {what}"
    links = {_cable(change) for change in faults if change.scope == "port"}
    if links:
        total = context.topology.link_count
        share = max(1, int(most.links_fraction * total))
        if len(links) > share:
            part = f"links_fraction {most.links_fraction:g}"
            yield f"{len(links)} of {total} links at the same time, {share} allowed ({part})"


def _altered(together: Iterable[Change]) -> dict[str, list[str]]:
    """Return the RNICs of each host that faults alter."""
    parts = (change.part for change in together if change.is_fault)
    return gathered((part.host, part.item) for part in parts if part.item)


def _cut_off(together: tuple[Change, ...], topology: Topology) -> Iterator[str]:
    """Yield hosts whose cabled RNICs would all be altered at the same time."""
    for name, devices in _altered(together).items():
        host = topology.hosts[name]
        cabled = {rnic.device for rnic in host.platform.rnics if host.leaf(rnic.rail)}
        if cabled and cabled.issubset(devices):
            what = "its only RNIC" if len(cabled) == 1 else f"all its {len(cabled)} RNICs"
            yield f"{name} would lose its last path: {what} would be altered at the same time"


class Concurrency:
    """The changes of one phase that were not refused and have not ended."""

    def __init__(self, context: Context, allow: Collection[str]) -> None:
        self._context, self._allow = context, allow
        self._planned: dict[str, Change] = {}
        self._live: dict[str, Change] = {}

    def join(self, change: Change, other_paths: frozenset[str] | None) -> None:
        """
        Add a change that was looked at. *other_paths*: RNICs of its host seen active; None: it needs none.

        Raises Refused if it is too much together with those added before.
        """
        planned = (*self._planned.values(), change)
        for together in at_once(planned):
            if change in together:
                wrong = self._wrong(together, change, other_paths)
                if wrong:
                    raise Refused(f"together with {_others(together, change)}: {wrong}")
        self._planned[change.change_id] = change

    def begin(self, change: Change, other_paths: frozenset[str] | None) -> str:
        """Mark a change as live just before it is made; return what forbids it now, empty when it is live."""
        live = tuple(one for one in self._live.values() if one is not change)
        wrong = self._wrong((*live, change), change, other_paths)
        if wrong:
            return f"{_others((*live, change), change)} not taken back yet: {wrong}"
        self._live[change.change_id] = change
        return ""

    def leave(self, change: Change) -> None:
        """Remove a change that was refused or of which nothing is left."""
        self._planned.pop(change.change_id, None)
        self._live.pop(change.change_id, None)

    def _wrong(self, together: tuple[Change, ...], change: Change, other_paths: frozenset[str] | None) -> str:
        if len(together) < 2:
            return ""
        found = next(_together(together, self._context, self._allow), "")
        if found:
            return found
        host = change.part.host
        if other_paths is not None and other_paths.issubset(_altered(together).get(host, ())):
            return f"{host} would lose its last active path (to do it all the same: allow: [{ISOLATE}])"
        return ""


def _others(together: tuple[Change, ...], change: Change) -> str:
    return ", ".join(one.change_id for one in together if one is not change)
