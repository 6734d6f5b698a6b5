"""Launchers around another command line: one process per slot on each host, with mpirun or srun."""

from collections.abc import Mapping, Sequence

from fabric.tools.driver import option_word, program, setting, whole, word

GRANTED_S = 30
"""
Within this srun has its nodes or ends: else it waits for one that is drained until the deadline of the probe.

Measured with Slurm 22.05: exit 1, ``Unable to allocate resources``, when it is over. Nodes that end the step before are
free again within seconds.
"""

Slots = tuple[str, int]
"""A host and how many processes it gets."""


def mpirun(
    argv: Sequence[str],
    *,
    hosts: Sequence[Slots],
    env: Mapping[str, str],
    launcher_path: str = "mpirun",
    options: Sequence[str] = (),
) -> tuple[str, ...]:
    """
    Wrap *argv* for Open MPI; only options that releases 4 and 5 both take, and the site's own *options* before them.

    Processes are not bound to cores: NCCL's proxy threads would share the one core of their process.
    """
    _checked(argv, hosts)
    slots = {count for _, count in hosts}
    layout = f"ppr:{hosts[0][1]}:node" if len(slots) == 1 else "slot"
    exported = [part for name, value in env.items() for part in ("-x", setting(name, value))]
    return (
        program(launcher_path),
        *(option_word(option) for option in options),
        "-np",
        str(sum(count for _, count in hosts)),
        "-H",
        ",".join(f"{name}:{count}" for name, count in hosts),
        "--map-by",
        layout,
        "--bind-to",
        "none",
        *exported,
        *argv,
    )


def srun(
    argv: Sequence[str],
    *,
    hosts: Sequence[Slots],
    env: Mapping[str, str],
    launcher_path: str = "srun",
    options: Sequence[str] = (),
) -> tuple[str, ...]:
    """
    Wrap *argv* for Slurm; every host must have the same number of slots.

    The site's own *options* come last: of two ``--mpi`` or ``--cpu-bind`` srun takes the last.
    Variables go through ``env``, not ``--export``, which splits values at commas (NCCL_IB_HCA has commas).
    """
    _checked(argv, hosts)
    slots = {count for _, count in hosts}
    if len(slots) != 1:
        raise ValueError(f"srun places equally many processes on every host, not {sorted(slots)}")
    exported = ("env", *(setting(name, value) for name, value in env.items())) if env else ()
    return (
        program(launcher_path),
        f"--nodes={len(hosts)}",
        f"--nodelist={','.join(name for name, _ in hosts)}",
        f"--ntasks={sum(count for _, count in hosts)}",
        f"--ntasks-per-node={hosts[0][1]}",
        "--mpi=pmix",
        "--cpu-bind=none",
        f"--immediate={GRANTED_S}",
        *(option_word(option) for option in options),
        *exported,
        *argv,
    )


def _checked(argv: Sequence[str], hosts: Sequence[Slots]) -> None:
    if not argv or not argv[0] or argv[0].startswith("-") or "=" in argv[0]:
        raise ValueError(f"not a program: {argv[:1]!r}")
    if not hosts:
        raise ValueError("no hosts to launch on")
    for name, count in hosts:
        word(name, "host")
        whole(count, f"slots of {name}", at_least=1, at_most=4096)
    if len({name for name, _ in hosts}) != len(hosts):
        raise ValueError(f"a host is named twice: {', '.join(name for name, _ in hosts)}")
