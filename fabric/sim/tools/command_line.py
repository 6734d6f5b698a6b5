"""From words to a job: takes ``env``, ``timeout``, ``numactl`` and launchers off the front of a command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from fabric.sim.hosts.timeline import Process
from fabric.sim.rack import Rack
from fabric.sim.tools import launchers
from fabric.sim.tools.call import SAY_S, Program, Say, Surroundings, Tool, ToolJob
from fabric.sim.tools.curl import curl
from fabric.sim.tools.ethtool import ethtool
from fabric.sim.tools.guard import LOOK, GuardCall, anything_kept
from fabric.sim.tools.guard import NAME as GUARD_NAME
from fabric.sim.tools.host_programs import host_program, seconds_of, small_program
from fabric.sim.tools.iblinkinfo import iblinkinfo, sminfo
from fabric.sim.tools.ibportstate import ibportstate
from fabric.sim.tools.ibqueryerrors import ibqueryerrors
from fabric.sim.tools.ibroute import ibroute
from fabric.sim.tools.ip_link import ip
from fabric.sim.tools.mlxlink import mlxlink
from fabric.sim.tools.mlxreg import mlxreg
from fabric.sim.tools.nccl_tests.model import OPERATIONS
from fabric.sim.tools.nccl_tests.program import CollectiveJob
from fabric.sim.tools.nccl_tests.text import collective_options
from fabric.sim.tools.nvidia_smi import nvidia_smi
from fabric.sim.tools.nvue import nv
from fabric.sim.tools.opensm import pkill, shell_tool, systemctl
from fabric.sim.tools.options import BadOption, options, taken_apart
from fabric.sim.tools.perfquery import perfquery
from fabric.sim.tools.perftest.kinds import WriteBothWays, WriteLat
from fabric.sim.tools.perftest.program import WriteBw
from fabric.sim.tools.perftest.text import REFUSED, NotSimulated, write_bw_options
from fabric.sim.tools.sysfs import cat

TOOLS: Mapping[str, Tool] = MappingProxyType(
    dict(cat=cat, curl=curl, ethtool=ethtool, ip=ip, nv=nv, pkill=pkill, sh=shell_tool, systemctl=systemctl)
    | dict(iblinkinfo=iblinkinfo, ibportstate=ibportstate, ibqueryerrors=ibqueryerrors, ibroute=ibroute)
    | dict(mlxlink=mlxlink, mlxreg=mlxreg, mstlink=mlxlink, mstreg=mlxreg, perfquery=perfquery, sminfo=sminfo)
    | {"nvidia-smi": nvidia_smi}
)
"""By the name they are called."""

_COLLECTIVES = {f"{operation}_perf": operation for operation in OPERATIONS}
_NUMACTL = options("""
    cpu=     -N --cpunodebind
    memory=  -m --membind
    plain=   -C --physcpubind -i --interleave -p --preferred
    flag     -l --localalloc
""")
_SUDO = options("flag -n -E\nuser= -u")
_TIMEOUT = options("""
    kill=    -k --kill-after
    signal=  -s --signal
    flag     -v --verbose --foreground --preserve-status
""")


def job_of(words: Sequence[str], setting: Surroundings) -> Program:
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


def _job(name: str, words: list[str], setting: Surroundings) -> Program:
    program = host_program(name, tuple(words))
    if program is not None:
        return ToolJob(program, tuple(words), setting)
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
        return GuardCall(rest, job_of) if words[2] == GUARD_NAME else ToolJob(anything_kept, rest, setting)
    if name in TOOLS:
        return ToolJob(TOOLS[name], tuple(words), setting)
    if name in _COLLECTIVES:
        return CollectiveJob(_COLLECTIVES[name], collective_options(words), setting)
    if name in ("ib_write_bw", "ib_write_lat"):
        if len(setting.hosts) > 1:
            raise NotSimulated(f"{len(setting.hosts)} ranks of this program")
        options = write_bw_options(words)
        kind = WriteLat if name == "ib_write_lat" else WriteBothWays if options.both_ways else WriteBw
        return kind(options, setting)
    return Say(setting, stderr=f"bash: line 1: {name}: command not found\n", status=127)


def _launched(launch: launchers.Launch, setting: Surroundings) -> Program:
    if not launch.words:
        raise BadOption("no executable was specified")
    names = launchers.placed(launch) if launch.hosts else ()
    if names is None:
        return launchers.refused(launch, setting)
    tag = launch.launcher if launch.tag else None
    inner = job_of(launch.words, replace(setting, env=launch.env, hosts=names, tag=tag))
    if not names:
        return inner
    return launchers.Launched(launch, names, inner, many=isinstance(inner, Say | CollectiveJob))


def _env(words: list[str], setting: Surroundings) -> Program:
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


def _numactl(words: list[str], setting: Surroundings) -> Program:
    """Memory is where ``--membind`` says, else on the node that the CPUs are on."""
    fields, rest = taken_apart(words, _NUMACTL, stop_early=True)
    node = fields.get("memory", fields.get("cpu"))
    if node is None:
        return job_of(rest, setting)
    first = node.partition(",")[0].partition("-")[0]
    if not first.isdigit():
        raise BadOption(f"<{node}> is invalid")
    return job_of(rest, replace(setting, numa=int(first)))


def _timeout(words: list[str], setting: Surroundings) -> Program:
    """``timeout [-k N] [-s SIGNAL] N PROGRAM``."""
    fields, rest = taken_apart(words, _TIMEOUT, stop_early=True)
    limit_s = seconds_of(rest[0]) if rest else None
    if limit_s is None:
        raise BadOption(f"invalid time interval '{rest[0]}'" if rest else "missing operand")
    killed = fields.get("signal", "TERM").upper().removeprefix("SIG") in ("KILL", "9")
    return Timed(job_of(rest[1:], setting), limit_s, status=137 if killed else 124)


@dataclass(frozen=True, slots=True)
class Timed:
    """A program that is ended after *limit_s* if it still runs then; 0 means no limit."""

    inner: Program
    limit_s: float
    status: int

    def begin(self, rack: Rack, process: Process, at_s: float) -> None:
        """Start it, and the clock."""
        self.inner.begin(rack, process, at_s)
        if self.limit_s <= 0:
            return

        def expire(now_s: float) -> None:
            if process.pid in rack.timeline.alive:
                rack.timeline.kill(process, now_s, status=self.status)

        rack.timeline.at(at_s + self.limit_s, expire)


def _sudo(words: list[str], setting: Surroundings) -> Program:
    """``sudo [-n] [-E] PROGRAM``: everybody is root here, and nobody is asked for a password."""
    fields, rest = taken_apart(words, _SUDO, stop_early=True)
    del fields
    return job_of(rest, setting)


_PREFIXES = {"sudo": _sudo, "env": _env, "numactl": _numactl, "timeout": _timeout}


def _refused(name: str, reason: str, setting: Surroundings) -> Program:
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


def setting_of(env: Mapping[str, str]) -> Surroundings:
    """The setting of a command as it reaches a host."""
    return Surroundings(env=dict(env))
