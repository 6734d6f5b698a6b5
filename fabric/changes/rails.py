"""
Guard rails that need the fabric: what is looked at on the hosts before anything is altered.

That a closed switch port can be opened again in-band is looked at where the port is chosen (fabric.changes.reach); that
the session itself does not go through what is closed, by the guard on the target.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from fabric.changes.kind import Context
from fabric.changes.ports import plainly, program
from fabric.changes.procedure import Procedure
from fabric.errors import Refused
from fabric.model.change import Alteration, Change, ChangeSettings
from fabric.tools import sysfs
from fabric.tools.driver import complaint, word

BUSY, ISOLATE = "busy_hosts", "isolate"
"""Words of a scenario's ``allow``."""

_NOT_FOUND = 127

OURS = re.compile(r"(^|/)([a-z_]+_perf(_mpi)?|ib_(write|read|send)_(bw|lat))$")
"""Programs that the probes put on GPUs: NCCL's tests and perftest. A job under such a name is taken for ours."""


def check_rails(
    change: Change,
    alterations: tuple[Alteration, ...],
    context: Context,
    allow: Collection[str],
    *,
    ours_run: bool = False,
) -> Procedure[frozenset[str] | None]:
    """
    Nothing that must not be touched is touched, nobody works on the hosts, and none loses its last path.

    With *ours_run* our own probes may be on the GPUs. Returns the other RNICs of its host that are active, None where
    it needs none. Raises Refused with the word that would allow it, where one does. What cannot be looked at is
    refused.
    """
    if not alterations:
        return None
    untouchable = managed(change, alterations, context.settings)
    if untouchable:
        raise Refused(f"{change.component}: {untouchable} is for management (changes: management in the inventory)")
    for host in change.hosts if BUSY not in allow else ():
        yield from _need_idle(host, context, ours_run=ours_run)
    if change.is_fault and "/" in change.component and ISOLATE not in allow:
        return (yield from _other_paths(change, context))
    return None


def managed(change: Change, alterations: tuple[Alteration, ...], settings: ChangeSettings) -> str | None:
    """The first name of ``management`` that a change touches, None when it touches none of them."""
    host, slash, device = change.component.partition("/")
    names = {change.component, host, *change.switches, *((device,) if slash else ())}
    if change.scope != "fabric":
        names |= set(change.hosts)
    for alteration in alterations:
        names |= {f"{alteration.host}/{device}" for device in alteration.devices}
        names |= {argv[4] for argv in alteration.apply if argv[1:4] == ("link", "set", "dev")}
    one, dashes, other = change.component.partition("#")[0].partition("--")
    if dashes:  # a cable between switches, whichever end is named first
        names |= {f"{one}--{other}", f"{other}--{one}"}
    folded = {name.casefold() for name in names}
    return next((name for name in settings.management if name.casefold() in folded), None)


def _need_idle(host: str, context: Context, *, ours_run: bool) -> Procedure[None]:
    """No process on its GPUs, and no job of the batch system; a tool that is not there has nothing to say."""
    found = yield from _on_gpus(host, context, but_ours=ours_run)
    if found and ours_run:  # one of ours that ends just now has lost its name already: who works stays
        found &= yield from _on_gpus(host, context, but_ours=True)
    if found:
        raise Refused(f"{host}: its GPUs are in use (processes {', '.join(sorted(found)[:8])})", allow=BUSY)
    squeue = (program(context, host, "squeue"), "-h", "-w", word(host, "host"), "-o", "%i")
    stdout, stderr, status = yield from plainly(host, squeue)
    if status not in (0, _NOT_FOUND):
        said = complaint(stdout, stderr)
        raise Refused(f"{host}: whether jobs run there cannot be seen (squeue: {said})", allow=BUSY)
    jobs = stdout.split() if status == 0 else []
    if jobs:
        raise Refused(f"{host}: jobs run there ({', '.join(jobs[:8])})", allow=BUSY)


def _on_gpus(host: str, context: Context, *, but_ours: bool) -> Procedure[set[str]]:
    """The processes on its GPUs; *but_ours*: without those that are called as the probes' programs are."""
    asked = "pid,process_name" if but_ours else "pid"
    smi = (program(context, host, "nvidia-smi"), f"--query-compute-apps={asked}", "--format=csv,noheader")
    stdout, stderr, status = yield from plainly(host, smi)
    if status not in (0, _NOT_FOUND) and "No devices were found" not in stdout:
        said = complaint(stdout, stderr)
        raise Refused(f"{host}: whether its GPUs are in use cannot be seen (nvidia-smi: {said})", allow=BUSY)
    rows = [line.partition(",") for line in stdout.splitlines()] if status == 0 else []
    return {pid.strip() for pid, _, name in rows if pid.strip().isdigit() and not OURS.search(name.strip())}


def _other_paths(change: Change, context: Context) -> Procedure[frozenset[str]]:
    """The other RNICs of the host that are Active; Refused when there is none."""
    name, _, device = change.component.partition("/")
    host = context.topology.hosts.get(name)
    others = [] if host is None else [rnic for rnic in host.platform.rnics if rnic.device != device]
    asked = [others] if others else []
    active: set[str] = set()
    while asked:
        rnics = asked.pop()
        states = sysfs.read_states(*(yield from plainly(name, sysfs.states([(one.device, one.port) for one in rnics]))))
        if len(states) == len(rnics):
            active |= {rnic.device for rnic, state in zip(rnics, states, strict=True) if state == "ACTIVE"}
        elif len(rnics) > 1:  # some are not there, and which is not said: one by one
            asked += [[rnic] for rnic in rnics]
    if not active:
        raise Refused(f"{change.component}: {name} has no other active RNIC: it would be cut off", allow=ISOLATE)
    return frozenset(active)
