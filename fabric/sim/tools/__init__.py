"""From words to a job: strips ``env``, ``timeout``, ``numactl`` and launchers off the front of a command line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from fabric.sim import page
from fabric.sim.tools import launchers
from fabric.sim.tools.call import BadOption, Program, Surroundings, Tool, ToolJob, ToolOutput, options, parse_options
from fabric.sim.tools.guard import NAME as GUARD_NAME
from fabric.sim.tools.guard import NOT_FOUND, GuardCall
from fabric.sim.tools.host_programs import QUICK_TOOLS, SMALL_TOOLS, host_program, sleep
from fabric.sim.tools.infiniband import iblinkinfo, ibportstate, ibqueryerrors, ibroute, perfquery, sminfo, smpquery
from fabric.sim.tools.interfaces import ethtool, ip, lldpctl
from fabric.sim.tools.management import curl, pkill, shell_tool, systemctl
from fabric.sim.tools.mlxlink import mlxlink
from fabric.sim.tools.mlxreg import mlxreg
from fabric.sim.tools.nccl_tests import CollectiveJob
from fabric.sim.tools.nccl_tests.model import OPERATIONS
from fabric.sim.tools.nccl_tests.text import collective_options
from fabric.sim.tools.nvidia_smi import nvidia_smi, rocm_smi
from fabric.sim.tools.nvue import nv
from fabric.sim.tools.perftest import BothWays, PingPong, Transfer, WriteBw
from fabric.sim.tools.perftest.text import failure, write_bw_options
from fabric.sim.tools.sysfs import cat

TOOLS: Mapping[str, Tool] = MappingProxyType(
    dict[str, Tool](cat=cat, curl=curl, ethtool=ethtool, ip=ip, nv=nv, pkill=pkill, sh=shell_tool, systemctl=systemctl)
    | dict[str, Tool](iblinkinfo=iblinkinfo, ibportstate=ibportstate, ibqueryerrors=ibqueryerrors, ibroute=ibroute)
    | dict[str, Tool](mlxlink=mlxlink, mlxreg=mlxreg, mstlink=mlxlink, mstreg=mlxreg, perfquery=perfquery)
    | dict[str, Tool](lldpctl=lldpctl, sminfo=sminfo, smpquery=smpquery)
    | SMALL_TOOLS
    | {"nvidia-smi": nvidia_smi, "rocm-smi": rocm_smi}
)
"""Tools by the name they are called."""

_COLLECTIVES = {f"{operation}_perf": operation for operation in OPERATIONS}
_NUMACTL = options("cpu= -N --cpunodebind\nmemory= -m --membind")
_SUDO = options("flag -n")


def job_of(words: Sequence[str], setting: Surroundings) -> Program:
    """Return the program of a command line; one that its tool would refuse becomes a job that prints the refusal."""
    if not words:
        return ToolJob.at_once(ToolOutput(), (), setting)
    name = words[0].rpartition("/")[2]
    try:
        return _job(name, tuple(words[1:]), setting)
    except BadOption as exc:
        return ToolJob.at_once(_refused(name, str(exc)), (), setting)


def _job(name: str, words: tuple[str, ...], setting: Surroundings) -> Program:
    program = host_program(name, words)
    if program is not None:
        return ToolJob(program, words, setting)
    if name in _PROGRAMS:
        return _PROGRAMS[name](words, setting)
    if name == "sh" and words[:1] == ("-c",) and words[2:3] == (GUARD_NAME,):
        return GuardCall(words[3:], job_of)
    if name in QUICK_TOOLS:
        return ToolJob.at_once(QUICK_TOOLS[name], words, setting)
    if name in TOOLS:
        return ToolJob(TOOLS[name], words, setting, walks=name == "ibqueryerrors")
    if name in _COLLECTIVES:
        return CollectiveJob(_COLLECTIVES[name], collective_options(words), setting)
    if name in _PERFTEST:
        if len(setting.hosts) > 1:
            raise BadOption(f"simulated rack: {len(setting.hosts)} ranks of this program")
        options = write_bw_options(words)
        kind = PingPong if name == "ib_write_lat" else BothWays if options.both_ways else Transfer
        return WriteBw(options, setting, kind)
    not_found = ToolOutput(stderr=f"bash: line 1: {name}: command not found\n", status=NOT_FOUND)
    return ToolJob.at_once(not_found, words, setting)


def _launched(words: tuple[str, ...], setting: Surroundings, *, read: Callable[..., launchers.Launch]) -> Program:
    launch = read(words, setting.env)
    if not launch.words:
        raise BadOption("no executable was specified")
    names = launch.slots[: launch.ranks]
    if launch.slots and launch.ranks is not None and launch.ranks > len(names):
        refusal = ToolOutput(stderr=page("mpirun-no-slots", slots=launch.ranks, program=launch.words[0]), status=1)
        return ToolJob(refusal, (), setting, after_s=launchers.LAUNCH_S)
    inside = replace(setting, env=launch.env, hosts=names, tag=launch.launcher if launch.tag else None)
    inner = blind = job_of(launch.words, inside)
    if not launch.shows_gpus:
        blind = job_of(launch.words, replace(inside, env={**launch.env, "CUDA_VISIBLE_DEVICES": "NoDevFiles"}))
    return launchers.Launched(launch, names, inner, blind, many=isinstance(inner, CollectiveJob))


def _env(words: tuple[str, ...], setting: Surroundings) -> Program:
    """Read ``env [NAME=VALUE]... PROGRAM``."""
    count = next((number for number, text in enumerate(words) if "=" not in text), len(words))
    env = {**setting.env, **dict(text.split("=", 1) for text in words[:count])}
    if words[count:] and words[count].startswith("-"):
        raise BadOption(f"unrecognized option '{words[count]}'")
    if not words[count:]:
        listing = ToolOutput("".join(f"{key}={value}\n" for key, value in env.items()))
        return ToolJob.at_once(listing, words, setting)
    return job_of(words[count:], replace(setting, env=env))


def _numactl(words: tuple[str, ...], setting: Surroundings) -> Program:
    """Read ``numactl``: memory is where ``--membind`` says, else on the node of the CPUs."""
    fields, rest = parse_options(words, _NUMACTL, stop_early=True)
    node = fields.get("memory", fields.get("cpu"))
    if node is None:
        return job_of(rest, setting)
    first = node.partition(",")[0].partition("-")[0]
    if not first.isdigit():
        raise BadOption(f"<{node}> is invalid")
    return job_of(rest, replace(setting, numa=int(first), cpus_bound="cpu" in fields))


def _sudo(words: tuple[str, ...], setting: Surroundings) -> Program:
    """Read ``sudo [-n] PROGRAM``: everybody is root here, and nobody is asked for a password."""
    return job_of(parse_options(words, _SUDO, stop_early=True)[1], setting)


def _container(words: tuple[str, ...], setting: Surroundings) -> Program:
    """Read ``apptainer exec [OPTION]... IMAGE PROGRAM``: every image has the same programs."""
    image = next((at for at, word in enumerate(words) if at and not word.startswith("-")), len(words))
    if words[:1] != ("exec",) or not words[image + 1 :]:
        raise BadOption("simulated rack: only `exec [OPTION]... IMAGE PROGRAM` is simulated")
    return job_of(words[image + 1 :], setting)


_MPIRUN, _SRUN = partial(_launched, read=launchers.mpirun), partial(_launched, read=launchers.srun)
_PERFTEST = ("ib_write_bw", "ib_write_lat")
_PROGRAMS = {"apptainer": _container, "singularity": _container, "sudo": _sudo, "env": _env, "numactl": _numactl}
_PROGRAMS |= {"mpirun": _MPIRUN, "mpiexec": _MPIRUN, "srun": _SRUN, "sleep": sleep}


def _refused(name: str, reason: str) -> ToolOutput:
    """Return the tool's own complaint about its command line."""
    if name in _PERFTEST:
        return ToolOutput(stderr=failure("usage", program=name, reason=reason), status=1)
    if name in ("mpirun", "mpiexec"):
        return ToolOutput(stderr=f'mpirun: Error: {reason}\nType "mpirun --help" for usage.\n', status=1)
    if name in _COLLECTIVES:
        # nccl-tests' own exit code for a usage error (its documentation: 6).
        return ToolOutput(stderr=f"{name}: {reason}\nUSAGE: {name} \n", status=6)
    return ToolOutput(stderr=f"{name}: {reason}\n", status=125 if name == "env" else 1)
