"""Launchers around another command line: a process for each GPU of several hosts, with mpirun or srun."""

from collections.abc import Mapping, Sequence

from fabric.model.topology import Platform
from fabric.tools.driver import option_word, program, setting, whole, word

GRANTED_S = 30
"""
Within this srun has its nodes or ends: else it waits for one that is drained until the deadline of the probe.

Measured with Slurm 22.05: exit 1, ``Unable to allocate resources``, when it is over. Nodes that end the step before are
free again within seconds.
"""


def mpirun(argv: Sequence[str], *, hosts: Sequence[str], platform: Platform, env: Mapping[str, str]) -> tuple[str, ...]:
    """
    Wrap *argv* for Open MPI; only options that releases 4 and 5 both take, and the site's own options before them.

    Processes are not bound to cores: NCCL's proxy threads would share the one core of their process.
    """
    per_host = _per_host(argv, hosts, platform)
    many = ("-np", str(len(hosts) * per_host), "-H", ",".join(f"{name}:{per_host}" for name in hosts))
    layout = ("--map-by", f"ppr:{per_host}:node", "--bind-to", "none")
    exported = (part for name, value in env.items() for part in ("-x", setting(name, value)))
    own = map(option_word, platform.mpirun_options)
    return (program(platform.program("mpirun")), *own, *many, *layout, *exported, *argv)


def srun(argv: Sequence[str], *, hosts: Sequence[str], platform: Platform, env: Mapping[str, str]) -> tuple[str, ...]:
    """
    Wrap *argv* for Slurm.

    The site's own options come last: of two ``--mpi`` or ``--cpu-bind`` srun takes the last.
    Variables go through ``env``, not ``--export``, which splits values at commas (NCCL_IB_HCA has commas).
    """
    per_host = _per_host(argv, hosts, platform)
    many = (f"--ntasks={len(hosts) * per_host}", f"--ntasks-per-node={per_host}")
    where = (f"--nodes={len(hosts)}", f"--nodelist={','.join(hosts)}", *many)
    how = ("--mpi=pmix", "--cpu-bind=none", f"--immediate={GRANTED_S}", *map(option_word, platform.srun_options))
    exported = ("env", *(setting(name, value) for name, value in env.items())) if env else ()
    return (program(platform.program("srun")), *where, *how, *exported, *argv)


def _per_host(argv: Sequence[str], hosts: Sequence[str], platform: Platform) -> int:
    """A process for each GPU; ValueError for a command, or hosts, that no launcher starts."""
    if not argv or not argv[0] or argv[0].startswith("-") or "=" in argv[0]:
        raise ValueError(f"not a program: {argv[:1]!r}")
    if not hosts or len({word(name, "host") for name in hosts}) != len(hosts):
        raise ValueError(f"no hosts to launch on, or one is named twice: {', '.join(hosts)}")
    return whole(len(platform.gpus), "processes per host", at_least=1, at_most=4096)
