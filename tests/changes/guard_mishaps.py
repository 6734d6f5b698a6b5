"""What can happen to the guards of a simulated rack: a host restarts, a guard is killed, a file or a lock is lost."""

from fabric.sim.rack import TORN, ChangeFolder, Rack

KILLED = 137
"""Exit status of a shell that SIGKILL ended."""

FILES = ("lease", "state", "undo", "checks", "owner")
"""What can be lost of a folder."""


def reboot(rack: Rack, host: str, at_s: float) -> None:
    """
    A host starts anew: its processes have ended, /run is empty, its RNICs are as at power-on.

    A guard's folder that is not under /run stays, of another boot and without a guard. What was done through the host
    to a switch stays as well; where its guard kept it on disk, and something was applied, it is undone now. The host is
    up again at once (choice: a change sees no more of the time between).
    """
    for process in [one for one in rack.timeline.alive.values() if one.site.host.name == host]:
        rack.timeline.exit(process, at_s, status=KILLED)
    rack.boots[host] = rack.boots.get(host, 0) + 1
    for (name, directory), folder in rack.guards.items():
        if name == host and directory.startswith("/run/"):
            for held in [one for one in folder.values() if not (one.kept and one.state in ("applied", "stuck"))]:
                del folder[held.guard_id]
        for held in folder.values() if name == host else ():
            held.alive, held.lock_pid = False, None
            if held.kept:
                _begin_anew(rack, host, held, at_s)
    for rnic in rack.hosts.site(host).host.platform.rnics:
        port = rack.ports.of_adapter(host, rnic.device)
        rack.ports.inject(port, None, at_s)
        rack.ports.set_interface(port, at_s, up=True)
        rack.ports.enable(port, at_s)


def _begin_anew(rack: Rack, host: str, held: ChangeFolder, at_s: float) -> None:
    """As the unit does that the guard left behind: its lease is over."""
    held.boot, held.lease_s, held.alive = rack.boots[host], None, True
    if held.watch is not None:
        held.watch(at_s)


def kill_guard(rack: Rack, host: str, guard_id: str) -> None:
    """SIGKILL of a guard; KeyError when there is none of this name."""
    _held(rack, host, guard_id).alive = False


def lose_file(rack: Rack, host: str, guard_id: str, name: str, at_s: float) -> None:
    """One of FILES is gone, or holds nothing that can be read; KeyError when there is no such change or file."""
    held = _held(rack, host, guard_id)
    if name not in FILES:
        raise KeyError(name)
    if name == "state":
        held.state = TORN
    elif name == "owner":
        held.owner = "?"
    else:
        setattr(held, "lease_s" if name == "lease" else name, None)
    if held.watch is not None and held.alive:
        held.watch(at_s)


def hold_lock(rack: Rack, host: str, guard_id: str, until_s: float) -> None:
    """Somebody holds the lock of a change and hangs."""
    _held(rack, host, guard_id).lock_until_s = until_s


def _held(rack: Rack, host: str, guard_id: str) -> ChangeFolder:
    for (name, _), folder in rack.guards.items():
        if name == host and guard_id in folder:
            return folder[guard_id]
    raise KeyError(guard_id)
