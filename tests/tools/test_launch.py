"""Launchers keep every value apart from their own options; what others wrote down of jobs and hosts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fabric.errors import UnreadableOutput
from fabric.tools import launch
from fabric.tools.records import Record, read_records

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


SACCT = """\
JobID|JobName|State|NodeList|End
7|train|COMPLETED|gpu003|2026-11-20T10:00:00
8|train|NODE_FAIL|gpu[003-004]|2026-11-21T10:00:00
8.0|train|FAILED|gpu[003-004]|2026-11-21T10:00:00
9|eval|NODE_FAIL|gpu003|2026-11-22T10:00:00
10|eval|CANCELLED by 1000|None assigned|2026-11-22T10:00:00
11|eval|RUNNING|gpu003|Unknown
"""
TICKETS = 'component,opened,kind,note\ngpu003,2026-11-20,cable,"again, the same"\nleaf3,2026-11-21T08:00:00+01:00,,\n'
KERNEL = """\
2026-11-20T10:00:00+0100 gpu003 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.
2026-11-20T10:00:01+0100 gpu003 kernel: mlx5_core 0000:5c:00.0 ens1f0np0: Link down
2026-11-20T10:00:02+0100 gpu003 kernel: mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Bus stuck
2026-11-20T10:00:03+0100 gpu003 kernel: mlx5_core 0000:5c:00.0 ens1f0np0: Link up
2026-11-20T10:00:04+0100 gpu003 systemd[1]: NVRM: Xid (PCI:0000:3b:00): 79, said by somebody else
"""


def at(day: int, hour: int = 10, second: int = 0) -> datetime:
    """A time of that month."""
    return datetime(2026, 11, day, hour, 0, second, tzinfo=UTC)


def test_jobs_that_a_node_ended_count_by_how_many_nodes_they_had() -> None:
    """Steps, jobs that never ran and jobs that go on are none."""
    assert read_records(SACCT) == (
        Record(at(20), ("gpu003",), "jobs"),
        Record(at(21), ("gpu003", "gpu004"), "multi_fails"),
        Record(at(22), ("gpu003",), "single_fails"),
    )


def test_tickets_have_a_component_and_a_kind() -> None:
    """Hosts, leaves and links alike; a time without a zone is UTC."""
    assert read_records(TICKETS) == (
        Record(at(20, 0), ("gpu003",), "tickets", "cable"),
        Record(at(21, 7), ("leaf3",), "tickets", ""),
    )


def test_the_kernel_tells_kinds_of_trouble() -> None:
    """Xids by their number, links and modules; nobody else may say so in its name."""
    found = read_records(KERNEL)
    assert [(one.names, one.signal, one.kind) for one in found] == [
        (("gpu003",), "", kind) for kind in ("xid 79", "link down", "module error")
    ]
    assert found[0].at == at(20, 9)


def test_a_text_of_a_spreadsheet_is_read_as_it_is() -> None:
    """With its byte order mark, its line ends, and separators of lines inside a cell."""
    text = "\ufeff" + TICKETS.replace("again, the same", "again\u2028the\nsame").replace("cable", "a\u2028b")
    with pytest.raises(UnreadableOutput, match="printable"):
        read_records(text)
    assert len(read_records(text.replace("a\u2028b", "cable").replace("\n", "\r\n"))) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected columns"),
        ("hello\n", "got 'hello'"),
        (SACCT + "12|x|FAILED|gpu003\n", "line 8: "),
        (SACCT + "12|x|FAILED|gpu[003|2026-11-20T10:00:00\n", "line 8: "),
        (SACCT + "12|x|FAILED|gpu003|yesterday\n", "line 8: expected a time"),
        (TICKETS + "-rf,2026-11-20,,\n", "line 4: expected a host or a part"),
        (TICKETS + f"gpu003,2026-11-20,{'x' * 99},\n", "line 4: expected a kind"),
        (TICKETS + '"gpu003,2026-11-20\n', "line 4: "),
        (TICKETS.replace("note", "kind"), "a column is there twice"),
        (SACCT + "12|x|FAILED|gpu003|0001-01-01T00:00:00+14:00\n", "line 8: expected a time"),
        (SACCT + "12|x|FAILED|a[1-3000000]|2026-11-20T10:00:00\n", "line 8: expected at most 16384 names"),
        (SACCT + "12|x|FAILED|@all|2026-11-20T10:00:00\n", "line 8: "),
        (
            KERNEL + "2026-13-45T10:00:00+00:00 gpu003 kernel: NVRM: Xid (PCI:1): 79, x\n",
            "expected a time",
        ),
    ],
)
def test_another_text_is_refused_with_its_line(text: str, words: str) -> None:
    """Nothing is guessed, nothing left out in silence."""
    with pytest.raises(UnreadableOutput, match=words):
        read_records(text)
