"""Slurm's own commands: hosts of a job or a reservation, steps of a job, the state of a node, drain; no I/O."""

import re
from collections.abc import Mapping, Sequence

from fabric.errors import ToolError
from fabric.model.text import fold, unfold
from fabric.ports import SchedulerNode
from fabric.tools.driver import complaint, need_success, option_word, whole, word

_LIST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,\[\]-]{0,65535}")
_STATE = re.compile(r" State=([A-Z_+*]+) ")
_REASON = re.compile(r" Reason=(.*?) \[([^\s\[\]@]+)@[0-9T:-]+\]", re.DOTALL)
_NODES = re.compile(r" Nodes=(\S+) ")
_NONE = ("", "(null)")
_NOT_LAUNCHED = re.compile(r"^srun: error: Task launch for \S+ failed on node (\S+): (.*)$", re.MULTILINE)
_PORTS = re.compile(r"^SrunPortRange\s*=\s*(\d+)-(\d+)\s*$", re.MULTILINE)


def show_node(name: str) -> tuple[str, ...]:
    """Ask for the state of a node."""
    return ("scontrol", "show", "node", "-o", word(name, "node"))


def node(name: str, stdout: str, stderr: str, exit_status: int) -> SchedulerNode | None:
    """Return its state, None where Slurm knows no such node; raises ToolError where the answer has no state."""
    if exit_status and f"Node {name} not found" in stdout + stderr:
        return None
    need_success("scontrol", stdout, stderr, exit_status)
    state = _STATE.search(stdout)
    if not stdout.startswith(f"NodeName={name} ") or state is None:
        raise ToolError(f"scontrol: no state of {name} in: {complaint(stdout, stderr)}")
    # What a person can write (comment, extra) comes after the reason, and the reason is followed by its author.
    reason = _REASON.search(stdout, state.end())
    return SchedulerNode("DRAIN" in state[1].rstrip("*").split("+"), *(reason.groups() if reason else ()))


def drain(name: str, reason: str) -> tuple[str, ...]:
    """Give the node no further job; running jobs go on to their end."""
    if not re.fullmatch(r"[ -<>-~]{1,200}", reason):
        raise ValueError(f"a reason is one printable line without '=', got {reason!r}")
    return ("scontrol", "update", f"nodename={word(name, 'node')}", "state=drain", f"reason={reason}")


def undrain(name: str) -> tuple[str, ...]:
    """Take back a drain and nothing else: a node that is DOWN stays so, which ``state=resume`` would change."""
    return ("scontrol", "update", f"nodename={word(name, 'node')}", "state=undrain")


def job_nodes(job: str) -> tuple[str, ...]:
    """Ask for the nodes of a job; ``squeue`` is used because its answer contains no other text written by users."""
    if not re.fullmatch(r"[0-9]{1,12}(_[0-9]{1,9})?", job, re.ASCII):
        raise ValueError(f"a job is a number like 1234 or 1234_7, got {job!r}")
    return ("squeue", "-h", "-j", job, "-o", "%A %i %N")


def nodes_of_job(job: str, stdout: str, stderr: str, exit_status: int) -> tuple[str, ...]:
    """
    Return the nodes of a job; raises ToolError where it has none (yet, or any more), or where the answer has none.

    The first task of an array that begins has the number of the array, for which ``squeue`` lists all tasks.
    """
    need_success("squeue", stdout, stderr, exit_status)
    found = [words for line in stdout.splitlines() if len(words := line.split()) == 3 and job in words[:2]]
    if len(found) != 1:
        raise ToolError("it has no nodes (yet, or any more)" if not found else f"it is {len(found)} jobs")
    return unfolded(found[0][2])


def step(job: str, nodes: Sequence[str], options: Sequence[str], argv: Sequence[str]) -> tuple[str, ...]:
    """
    Begin a step of a job: *argv* once on each of *nodes*, beside all other steps, even if single tasks fail.

    The site's own *options* come last: of two srun takes the last. ``env`` looks for the program on the node: srun
    itself would look for it here, and hand on the path.
    """
    job_nodes(job)
    many, listed = str(len(nodes)), fold([word(node, "node") for node in nodes])
    where = (f"--nodes={many}", f"--ntasks={many}", "--ntasks-per-node=1", f"--nodelist={listed}")
    alone = ("--no-kill", "--kill-on-bad-exit=0", "--wait=0")
    plain = ("--input=all", "--output=none", "--mpi=none", "--cpu-bind=none", "--job-name=fabric")
    own = map(option_word, options)
    return ("srun", f"--jobid={job}", "--overlap", *where, *alone, *plain, *own, "/usr/bin/env", *argv)


def not_launched(stderr: str) -> Mapping[str, str]:
    """Return the nodes on which srun could not begin a step, and why: it takes back all of the step then."""
    return dict(_NOT_LAUNCHED.findall(stderr))


SHOW_CONFIG = ("scontrol", "show", "config")
"""Ask for the configuration of the site."""


def srun_ports(stdout: str) -> range:
    """Return the TCP ports at which steps may answer to the machine where srun runs; empty where any will do."""
    found = _PORTS.search(stdout)
    first, last = map(int, found.groups()) if found else (0, 0)
    return range(first, last + 1) if first else range(0)


def reservation(name: str) -> tuple[str, ...]:
    """Ask for a reservation."""
    return ("scontrol", "show", "reservation", "-o", word(name, "reservation"))


def reserved(name: str, stdout: str, stderr: str, exit_status: int) -> str | None:
    """
    Return its nodes as Slurm folds them, None where it knows no such reservation; ToolError where none are printed.
    """
    if exit_status and f"Reservation {name} not found" in stdout + stderr:
        return None
    need_success("scontrol", stdout, stderr, exit_status)
    found = _NODES.search(stdout)
    if not stdout.startswith(f"ReservationName={name} ") or found is None or found[1] in _NONE:
        raise ToolError(f"scontrol: no nodes in: {complaint(stdout, stderr)}")
    return found[1]


def reserve(name: str, nodes: str, user: str, minutes: int) -> tuple[str, ...]:
    """
    Reserve nodes from now on: refused where a job runs on one of them, or where another reservation has it.

    The MAINT flag is not used: a reservation that has it may overlap any other (Slurm 22.05, tried; reservation.c).
    *minutes* is never 0, which Slurm takes for ever.
    """
    whole(minutes, "minutes", at_least=1, at_most=525_600)
    if not _LIST.fullmatch(nodes):
        raise ValueError(f"no list of nodes: {nodes[:80]!r}")
    made = (f"reservationname={word(name, 'reservation')}", f"nodes={nodes}", f"users={word(user, 'user')}")
    return ("scontrol", "create", "reservation", *made, "starttime=now", f"duration={minutes}")


def unreserve(name: str) -> tuple[str, ...]:
    """End a reservation; refused while a job runs in it."""
    return ("scontrol", "delete", f"reservationname={word(name, 'reservation')}")


def unfolded(listed: str) -> tuple[str, ...]:
    """Return the names in a list of nodes as Slurm folds them; raises ToolError for anything else."""
    try:
        if _LIST.fullmatch(listed):
            return unfold(listed)
    except ValueError:
        pass
    raise ToolError(f"slurm: {listed[:80]!r} is no list of nodes")
