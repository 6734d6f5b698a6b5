"""A Slurm of its own on this machine: a real slurmctld and, if wanted, a slurmd for each node, so that jobs run."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from benchmarks.lab.namespaces import Namespaces, inside

NEEDED = ("slurmctld", "slurmd", "srun", "scontrol")
_CONF = """\
ClusterName=t
SlurmctldHost={host}({address})
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
{more}
{nodes}
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing(*programs: str) -> str:
    """Why there can be no such Slurm here; empty when there can."""
    absent = [name for name in programs if shutil.which(name) is None and not Path("/usr/sbin", name).exists()]
    return f"needs {', '.join(absent)} of Slurm" if absent else ""


def until(true: Callable[[], bool], *, timeout_s: float = 20.0) -> bool:
    """Whether something became true in time."""
    end_s = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.1)
    return True


def slurm(*argv: str, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
    """What one of Slurm's commands says, of the site that ``SLURM_CONF`` names."""
    return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)


@contextmanager
def slurm_site(
    folder: Path, count: int, *, jobs: bool, namespaces: Namespaces | None = None
) -> Iterator[dict[str, str]]:
    """
    *count* nodes gpu001 and up, on which jobs can run if *jobs*; each in its own of *namespaces*, else all in this one.

    Yields the environment that the site is spoken with in; all its daemons, and what they have begun, end with it.
    """
    (folder / "state").mkdir(parents=True)
    ports, host = _free_ports(count + 1), platform.node()
    names = [f"gpu{number:03d}" for number in range(1, count + 1)]
    at = dict.fromkeys(names, "127.0.0.1") if namespaces is None else namespaces.addresses
    nodes = [
        f"NodeName={name} NodeHostname={host} NodeAddr={at[name]} Port={port} CPUs=2 RealMemory=10"
        for name, port in zip(names, ports[1:], strict=True)
    ]
    plugins = os.environ.get("SLURM_PLUGINS")
    conf = folder / "slurm.conf"
    conf.write_text(
        _CONF.format(
            host=host,
            address="127.0.0.1" if namespaces is None else namespaces.orchestrator_address,
            folder=folder,
            port=ports[0],
            nodes="\n".join(nodes),
            more=f"PluginDir={plugins}" if plugins else "",
        )
    )
    env = {"SLURM_CONF": str(conf), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    daemons = [_daemon(("slurmctld", "-D", "-i"), folder / "slurmctld.log", env)]
    try:
        for name in names if jobs else ():
            (folder / "spool" / name).mkdir(parents=True)
            with nullcontext() if namespaces is None else inside(namespaces.of(name)):
                daemons.append(_daemon(("slurmd", "-D", "-N", name), folder / f"{name}.log", env))
        yield env
    finally:
        _ended(daemons, env)


def _free_ports(count: int) -> list[int]:
    """So many different ones that nobody listens on now."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in held]


def _daemon(argv: Sequence[str], log: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("w") as out:
        return subprocess.Popen(argv, stdout=out, stderr=out, env={**os.environ, **env}, start_new_session=True)


def _ended(daemons: Sequence[subprocess.Popen[bytes]], env: dict[str, str]) -> None:
    """First the jobs, for what runs in them outlives its slurmd."""
    asked = {**os.environ, **env}
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(("scancel", "--user=root"), env=asked, capture_output=True, timeout=10, check=False)
        left = ("squeue", "-h")
        until(lambda: not subprocess.run(left, env=asked, capture_output=True, timeout=10, check=False).stdout)
    for daemon in reversed(daemons):
        daemon.terminate()
    for daemon in daemons:
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
