"""Launchers keep every value apart from their own options."""

from __future__ import annotations

import pytest

from fabric.tools import launch

HOSTS = (("gpu001", 8), ("gpu002", 8))
ARGV = ("all_reduce_perf", "-b", "1024")


def test_mpirun_starts_one_process_per_slot() -> None:
    """The whole command line, as Open MPI 4 and 5 take it."""
    argv = launch.mpirun(ARGV, hosts=HOSTS, env={"NCCL_ALGO": "RING", "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"})
    assert argv == (
        *("mpirun", "-np", "16", "-H", "gpu001:8,gpu002:8", "--map-by", "ppr:8:node", "--bind-to", "none"),
        *("-x", "NCCL_ALGO=RING", "-x", "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"),
        *ARGV,
    )


def test_mpirun_maps_unequal_hosts_by_slot() -> None:
    """ppr:N:node would start N processes on every host."""
    argv = launch.mpirun(ARGV, hosts=(("a", 8), ("b", 4)), env={})
    assert argv[argv.index("--map-by") + 1] == "slot"
    assert argv[argv.index("-np") + 1] == "12"


def test_srun_passes_values_with_commas_whole() -> None:
    """Variables go through env, because --export splits at commas; a drained node is not waited for."""
    argv = launch.srun(ARGV, hosts=HOSTS, env={"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"})
    assert argv == (
        *("srun", "--nodes=2", "--nodelist=gpu001,gpu002", "--ntasks=16", "--ntasks-per-node=8"),
        *("--mpi=pmix", "--cpu-bind=none", "--immediate=30", "env", "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"),
        *ARGV,
    )


def test_srun_refuses_unequal_hosts() -> None:
    """It could not place the processes as asked."""
    with pytest.raises(ValueError, match="equally many"):
        launch.srun(ARGV, hosts=(("a", 8), ("b", 4)), env={})


@pytest.mark.parametrize("wrap", [launch.mpirun, launch.srun])
@pytest.mark.parametrize("name", ["-x", "", "a,b", "a:8", "a b", "@file", "a;b", "--host", "a\n"])
def test_no_host_name_can_be_misread(wrap, name: str) -> None:
    """A name that is an option, a list or a script is refused."""
    with pytest.raises(ValueError, match="command line could misread"):
        wrap(ARGV, hosts=((name, 8), ("b", 8)), env={})


@pytest.mark.parametrize("wrap", [launch.mpirun, launch.srun])
@pytest.mark.parametrize(
    ("argv", "hosts", "env"),
    [
        ((), HOSTS, {}),
        (("",), HOSTS, {}),
        (("-x",), HOSTS, {}),
        (("A=b",), HOSTS, {}),
        (ARGV, (), {}),
        (ARGV, (("a", 0),), {}),
        (ARGV, (("a", 8), ("a", 8)), {}),
        (ARGV, HOSTS, {"-x": "1"}),
        (ARGV, HOSTS, {"A B": "1"}),
        (ARGV, HOSTS, {"A": "1\n2"}),
    ],
)
def test_what_cannot_be_launched_is_refused(wrap, argv, hosts, env) -> None:
    """No program, no hosts, no slots, a host twice, or a variable that is none."""
    with pytest.raises(ValueError, match=r"."):
        wrap(argv, hosts=hosts, env=env)
