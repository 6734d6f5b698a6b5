"""A probe (one measurement, fully decided), its commands and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fabric.model.outcome import Outcome

MIB = 1 << 20
GIB = 1 << 30

ParamValue = str | int | tuple[int, ...]

CURVE = "curve"
"""The probe parameter that marks a point of a scaling curve: without a limit, its number is shown but not judged."""

SHARE = "share_percent"
"""The probe parameter with the percentage of its line that others leave to it; its limit is reduced to that share."""


@dataclass(frozen=True, slots=True)
class Probe:
    """
    One measurement, fully decided: nothing is left to chance at run time.

    Its id is the same in every run of the same scenario, so a resumed run knows what is done and a baseline
    knows what it compares with. Example: ``intra-host/gpu001/loopback.mlx5_0.numa1``.
    """

    probe_id: str
    kind: str
    phase: str
    hosts: tuple[str, ...]
    claims: tuple[str, ...]  # "gpu001/mlx5_0", "gpu001/gpu3": held alone while it runs
    duration_s: float  # expected, for the plan
    params: Mapping[str, ParamValue]


@dataclass(frozen=True, slots=True)
class Command:
    """
    An argv that runs on a host, with a deadline.

    With *ready_port* it is a server: it is ready once it listens on that TCP port of its host. Output beyond
    *output_cap_bytes* (of each stream) is cut and marked.
    """

    host: str
    argv: tuple[str, ...]
    timeout_s: float
    env: tuple[tuple[str, str], ...] = ()
    ready_port: int | None = None
    output_cap_bytes: int = MIB


@dataclass(frozen=True, slots=True)
class CommandResult:
    """
    Everything a command answered; a non-zero exit is an answer, not an exception.

    *exit_status* of a program ended by signal N is 128 + N, as in a shell; of a missing tool it is 127. Times are
    seconds of the executor's clock. *truncated*: some output was cut.
    """

    command: Command
    exit_status: int
    stdout: str
    stderr: str
    started_s: float
    ended_s: float
    truncated: bool = False


class FailureKind(StrEnum):
    """Why a probe has no number, if a decision follows from it; the probe's reason has the words."""

    RETRIES_EXCEEDED = "retries_exceeded"  # packets vanished for longer than an RNIC waits for acks
    PORT_DOWN = "port_down"
    REMOTE_ERROR = "remote_error"  # NCCL: a network error, or a peer's process ended
    NO_SUCH_GPU = "no_such_gpu"  # there is no GPU of that number
    TOO_FEW_GPUS = "too_few_gpus"  # some GPUs are there, but fewer than were asked for
    GPU_FAILED = "gpu_failed"  # an error that means a bad GPU if all others of its host work


@dataclass(frozen=True, slots=True)
class ProbeCommands:
    """
    What a probe runs: first the servers, each until ready, then the client whose output is the measurement.

    *beside*: other clients, started with it. *counters*: what is read before all that, and again after it.
    """

    servers: tuple[Command, ...]
    client: Command
    beside: tuple[Command, ...] = ()
    counters: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """
    The answers of a probe's commands: *servers* that ended by themselves, *client* (None if it was never started).

    *beside*: its other clients that ended by themselves. *before* and *after*: what its counters were. *names*: what
    the hosts call themselves, if asked, by inventory name.
    """

    servers: Sequence[CommandResult]
    client: CommandResult | None
    names: Mapping[str, str] = field(default_factory=dict)
    beside: Sequence[CommandResult] = ()
    before: Sequence[CommandResult] = ()
    after: Sequence[CommandResult] = ()


@dataclass(frozen=True, slots=True)
class Measurement:
    """Metric name, number, unit, probe id; no judgement. *size_bytes* is the message size, None if there is none."""

    probe_id: str
    metric: str
    value: float
    unit: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NamedPart:
    """
    A part that is known to be bad, not inferred: *component* ``gpu002/mlx5_3``; *condition* what is wrong with it.

    A tool itself reported ``down``, ``absent`` or ``unreached``: an RNIC with no path to the other's address (RoCE).
    Of a host (``gpu002``): ``silent``: it does not answer, ``refusing``: it takes no session from us, ``behind`` a jump
    host that cannot be passed; ``bare``: it has no RDMA device at all; a program was ``killed`` there; ``lacking`` a
    program or a library, its perftest ``unbuilt`` for GPU memory, or ``outdated``: it does not know an option;
    ``other_mpi``: its mpirun is not Open MPI's. For a probe on several hosts also ``garbled``: its tools print what
    cannot be read.
    """

    component: str
    condition: str


@dataclass(frozen=True, slots=True)
class Reading:
    """
    What a probe's output says: measurements, or why there are none.

    *outcome* is None if there are measurements to judge, FAIL if the tool itself says that the fabric is bad (port
    down, retries exceeded, wrong results), ERROR if we could not measure. *ask_names*: the output names hosts
    differently from the inventory; asking the hosts for their own names would tell whether they are the same.
    """

    measurements: tuple[Measurement, ...]
    outcome: Outcome | None = None
    reason: str = ""
    named: NamedPart | None = None
    ask_names: bool = False
    failure: FailureKind | None = None


@dataclass(frozen=True, slots=True)
class LeftOutHost:
    """A host that takes no part in a phase, so that a probe is SKIPPED, and *why* in words."""

    host: str
    why: str

    def __str__(self) -> str:
        return f"{self.host}: {self.why}"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """
    How one probe ended; *outcome* None: measured and not judged yet. Times in the executor's seconds.

    *attempt* counts from 1; 0 means that nothing of it was started (skipped, or its host was out of the run).
    """

    probe_id: str
    attempt: int
    measurements: tuple[Measurement, ...]
    outcome: Outcome | None
    reason: str
    started_s: float
    ended_s: float
    error_host: str | None = None  # the host that an ERROR belongs to, if known
    named: NamedPart | None = None
    failure: FailureKind | None = None
    left_out: LeftOutHost | None = None  # the host because of which it was skipped


Results = Mapping[str, ProbeResult]
"""Results of probes, by their ids."""


AGAIN = "again"
"""
The probe parameter with the part (``gpu001/mlx5_3``) whose dip caused this probe.

Such probes are chosen by what was measured, so they say nothing of how often healthy parts dip, and are judged apart.
"""


@dataclass(frozen=True, slots=True)
class FollowUpLimits:
    """The most that one follow-up may spend in one phase; probes that already run when it is spent still finish."""

    rounds: int  # how many rounds it may be given
    probes: int  # in all its rounds together
    budget_s: float  # by the executor's clock, from when it was first asked; after it no round begins
