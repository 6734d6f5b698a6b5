"""Answers of one host to the commands of one check, as tests write them."""

from collections.abc import Mapping

from benchmarks.measured_rack import rack_topology
from fabric.checks.kind import Alters, Answers, Argv, HostAnswer, HostCheck, HostNeeds, Looked
from fabric.model.finding import Finding, Severity
from fabric.model.probe import Command
from fabric.model.topology import Host

HOST: Host = rack_topology(1).hosts["gpu001"]
EVERYTHING = HostNeeds(
    programs=("ib_write_bw", "numactl", "alltoall_perf", "all_reduce_perf", "mpirun", "srun"),
    alters=Alters(("mlxreg", "mlxlink", "ibportstate"), guarded=True),
    cuda=True,
    gpudirect=True,
    pinned_bytes=1 << 27,
    peer="gpu002",
    ssh=True,
    in_band=(("sminfo", "-C", "mlx5_0", "-P", "1"),),
    links=(("iblinkinfo", "-C", "mlx5_0", "-P", "1", "-D", "0", "-l"), ("ibqueryerrors", "-C", "mlx5_0", "-D", "0")),
)


def answer(argv: Argv, stdout: str = "", stderr: str = "", status: int = 0, *, lost: str = "") -> HostAnswer:
    """An answer that took 10 ms."""
    return HostAnswer(Command(HOST.name, argv, 15.0), status, stdout, stderr, 5.0, 5.01, lost=lost)


def found(
    check: HostCheck, said: Mapping[Argv, HostAnswer] | HostAnswer, needs: HostNeeds = EVERYTHING, host: Host = HOST
) -> list[Finding]:
    """What the check finds; commands that are not in *said* were lost."""
    given = {said.command.argv: said} if isinstance(said, HostAnswer) else said
    answers: Answers = {
        argv: given.get(argv, answer(argv, status=-1, lost="not asked")) for argv in check.ask(host, needs)
    }
    return list(check.findings({host.name: Looked(host, needs, answers)}))


def severities(findings: list[Finding]) -> list[Severity]:
    """Of each finding."""
    return [one.severity for one in findings]


def compared(check: HostCheck, answers: Mapping[str, Answers], needs: HostNeeds = EVERYTHING) -> list[Finding]:
    """What the check finds between hosts, by what each answered."""
    return list(check.compare({name: Looked(HOST, needs, said) for name, said in answers.items()}))
