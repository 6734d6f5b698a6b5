"""From words to a job: takes ``env``, ``timeout``, ``numactl`` and launchers off the front of a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fabric.sim import launchers
from fabric.sim.collective import Collective
from fabric.sim.collective_model import OPERATIONS
from fabric.sim.collective_options import collective_options
from fabric.sim.guard import LOOK, GuardCall, anything_kept
from fabric.sim.guard import NAME as GUARD_NAME
from fabric.sim.host_programs import host_program
from fabric.sim.job import Job, Setting
from fabric.sim.options import BadOption, Option, taken_apart
from fabric.sim.port_tool import Ask
from fabric.sim.port_tools import TOOLS
from fabric.sim.process import Process
from fabric.sim.programs import SAY_S, Say, seconds_of, small_program
from fabric.sim.rack import Rack
from fabric.sim.write_bw import WriteBw
from fabric.sim.write_bw_options import NotSimulated, write_bw_options
from fabric.sim.write_bw_text import REFUSED
from fabric.sim.write_lat import WriteBothWays, WriteLat

_COLLECTIVES = {f"{operation}_perf": operation for operation in OPERATIONS}
_NUMACTL = {
    name: Option(field, "no" if field == "flag" else "yes")
    for field, names in (
        ("cpu", "-N --cpunodebind"),
        ("memory", "-m --membind"),
        ("plain", "-C --physcpubind -i --interleave -p --preferred"),
        ("flag", "-l --localalloc"),
    )
    for name in names.split()
}
_SUDO = {"-n": Option("flag", "no"), "-E": Option("flag", "no"), "-u": Option("user")}
_TIMEOUT = {
    name: Option(field, "no" if field == "flag" else "yes")
    for field, names in (
        ("kill", "-k --kill-after"),
        ("signal", "-s --signal"),
        ("flag", "-v --verbose --foreground --preserve-status"),
    )
    for name in names.split()
}


def job_of(words: Sequence[str], setting: Setting) -> Job:
    """What a command line does; one that its tool would refuse is a job that says so."""
    if not words:
        return Say(setting)
    name = words[0].rpartition("/")[2]
    rest = list(words[1:])
    try:
        return _job(name, rest, setting)
    except BadOption as exc:
        return _refused(name, str(exc), setting)
    except NotSimulated as exc:
        return Say(setting, stderr=f"{name}: simulated rack: {exc}\n", status=1)


def _job(name: str, words: list[str], setting: Setting) -> Job:
    asked = host_program(name, words, setting)
    if asked is not None:
        return asked
    if name in ("mpirun", "mpiexec", "srun"):
        launch = (launchers.srun if name == "srun" else launchers.mpirun)(words, setting.env)
        return _launched(launch, setting)
    if name in _PREFIXES:
        return _PREFIXES[name](words, setting)
    job = small_program(name, words, setting)
    if job is not None:
        return job
    if name == "sh" and words[:1] == ["-c"] and words[2:3] in ([GUARD_NAME], [LOOK]):
        rest = tuple(words[3:])
        return GuardCall(rest, job_of) if words[2] == GUARD_NAME else Ask(anything_kept, rest, setting)
    if name in TOOLS:
        return Ask(TOOLS[name], tuple(words), setting)
    if name in _COLLECTIVES:
        return Collective(_COLLECTIVES[name], collective_options(words), setting)
    if name in ("ib_write_bw", "ib_write_lat"):
        if len(setting.hosts) > 1:
            raise NotSimulated(f"{len(setting.hosts)} ranks of this program")
        options = write_bw_options(words)
        kind = WriteLat if name == "ib_write_lat" else WriteBothWays if options.both_ways else WriteBw
        return kind(options, setting)
    return Say(setting, stderr=f"bash: line 1: {name}: command not found\n", status=127)


def _launched(launch: launchers.Launch, setting: Setting) -> Job:
    if not launch.words:
        raise BadOption("no executable was specified")
    names = launchers.placed(launch) if launch.hosts else ()
    if names is None:
        return launchers.refused(launch, setting)
    tag = launch.launcher if launch.tag else None
    inner = job_of(launch.words, replace(setting, env=launch.env, hosts=names, tag=tag))
    if not names:
        return inner
    return launchers.Launched(launch, names, inner, many=isinstance(inner, Say | Collective))


def _env(words: list[str], setting: Setting) -> Job:
    """``env [-i] [-u NAME] [NAME=VALUE]... PROGRAM``."""
    env: dict[str, str] = dict(setting.env)
    position = 0
    while position < len(words):
        text = words[position]
        if text in ("-i", "-", "--ignore-environment"):
            env = {}
        elif text in ("-u", "--unset"):
            position += 1
            env.pop(words[position] if position < len(words) else "", None)
        elif "=" in text and not text.startswith("-"):
            key, _, value = text.partition("=")
            env[key] = value
        elif text.startswith("-"):
            raise BadOption(f"unrecognized option '{text}'")
        else:
            break
        position += 1
    if position >= len(words):
        return Say(setting, stdout="".join(f"{key}={value}\n" for key, value in env.items()))
    return job_of(words[position:], replace(setting, env=env))


def _numactl(words: list[str], setting: Setting) -> Job:
    """Memory is where ``--membind`` says, else on the node that the CPUs are on."""
    fields, rest = taken_apart(words, _NUMACTL, stop_early=True)
    node = fields.get("memory", fields.get("cpu"))
    if node is None:
        return job_of(rest, setting)
    first = node.partition(",")[0].partition("-")[0]
    if not first.isdigit():
        raise BadOption(f"<{node}> is invalid")
    return job_of(rest, replace(setting, numa=int(first)))


def _stdbuf(words: list[str], setting: Setting) -> Job:
    """Buffers do not matter here."""
    skip = next((position for position, text in enumerate(words) if not text.startswith("-")), len(words))
    return job_of(words[skip:], setting)


def _timeout(words: list[str], setting: Setting) -> Job:
    """``timeout [-k N] [-s SIGNAL] N PROGRAM``."""
    fields, rest = taken_apart(words, _TIMEOUT, stop_early=True)
    limit_s = seconds_of(rest[0]) if rest else None
    if limit_s is None:
        raise BadOption(f"invalid time interval '{rest[0]}'" if rest else "missing operand")
    killed = fields.get("signal", "TERM").upper().removeprefix("SIG") in ("KILL", "9")
    return Timed(job_of(rest[1:], setting), limit_s, status=137 if killed else 124)


class Timed:
    """A program that is ended after *limit_s* if it still runs then; 0 means no limit."""

    def __init__(self, inner: Job, limit_s: float, *, status: int) -> None:
        self._inner = inner
        self._limit_s = limit_s
        self._status = status

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Start it, and the clock."""
        self._inner.begin(rack, process, at_s)
        if self._limit_s <= 0:
            return

        def expire(now_s: float) -> None:
            if process.pid not in rack.timeline.alive:
                return
            if process.work is not None:
                process.work.abandon(process, now_s)
            rack.timeline.exit(process, now_s, status=self._status, stdout=process.printed)

        rack.timeline.at(at_s + self._limit_s, expire)


def _sudo(words: list[str], setting: Setting) -> Job:
    """``sudo [-n] [-E] PROGRAM``: everybody is root here, and nobody is asked for a password."""
    fields, rest = taken_apart(words, _SUDO, stop_early=True)
    del fields
    return job_of(rest, setting)


_PREFIXES = {"sudo": _sudo, "env": _env, "numactl": _numactl, "stdbuf": _stdbuf, "timeout": _timeout}


def _refused(name: str, reason: str, setting: Setting) -> Job:
    """The tool's own complaint about its command line."""
    if name == "ib_write_bw":
        return Say(setting, stderr=REFUSED % reason, status=1, after_s=SAY_S)
    if name in ("mpirun", "mpiexec"):
        said = f'mpirun: Error: {reason}\nType "mpirun --help" for usage.\n'
        return Say(setting, stderr=said, status=1)
    if name in _COLLECTIVES:
        # nccl-tests' own exit code for a usage error (its documentation: 6).
        return Say(setting, stderr=f"{name}: {reason}\nUSAGE: {name} \n", status=6)
    return Say(setting, stderr=f"{name}: {reason}\n", status=125 if name in ("env", "timeout") else 1)


def setting_of(env: Mapping[str, str]) -> Setting:
    """The setting of a command as it reaches a host."""
    return Setting(env=dict(env))
