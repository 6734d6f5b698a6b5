"""One measurement, fully decided, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fabric.model.command import Command, CommandResult
from fabric.model.outcome import Outcome

ParamValue = str | int | tuple[int, ...]

CURVE = "curve"
"""A parameter of a probe that is a point of a scaling curve: without a limit its number is told and judges nothing."""

SHARE = "share_percent"
"""A parameter of a probe to which others leave only so much of its line: a limit asks for that part of itself."""


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


class FailureKind(StrEnum):
    """Why a probe has no number, where a decision follows from it; the words are in its reason."""

    RETRIES_EXCEEDED = "retries_exceeded"  # packets vanished for longer than an RNIC waits for its acks
    PORT_DOWN = "port_down"
    REMOTE_ERROR = "remote_error"  # NCCL: a network error, or a peer's process ended
    NO_SUCH_GPU = "no_such_gpu"  # there is no GPU of that number
    TOO_FEW_GPUS = "too_few_gpus"  # some GPUs are there, and fewer than were asked for
    GPU_FAILED = "gpu_failed"  # words that mean a bad GPU where all others of its host work


@dataclass(frozen=True, slots=True)
class ProbeCommands:
    """
    What a probe runs: the servers first, each until ready, then the client whose output is the measurement.

    *beside*: other clients, started with it. *counters*: what is read before all that, and again after it.
    """

    servers: tuple[Command, ...]
    client: Command
    beside: tuple[Command, ...] = ()
    counters: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """
    What those commands answered: *servers* that ended by themselves, *client* None where it was never started.

    *beside*: its other clients that ended by themselves. *before* and *after*: what its counters were. *names*: what
    hosts that were asked call themselves, by inventory name.
    """

    servers: Sequence[CommandResult]
    client: CommandResult | None
    names: Mapping[str, str] = field(default_factory=dict)
    beside: Sequence[CommandResult] = ()
    before: Sequence[CommandResult] = ()
    after: Sequence[CommandResult] = ()


@dataclass(frozen=True, slots=True)
class Measurement:
    """Metric name, number, unit, probe id. No judgement. *size_bytes* is the message size, None when there is none."""

    probe_id: str
    metric: str
    value: float
    unit: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NamedPart:
    """
    A part that is known to be bad, not inferred: *component* ``gpu002/mlx5_3``; *condition* what is wrong with it.

    A tool itself said ``down``, ``absent`` or ``unreached``: an RNIC with no way to the other's address (RoCE).
    Of a probe on several hosts also ``gpu002``, ``silent``: a host that does not answer, or ``garbled``: its tools
    print what cannot be read.
    """

    component: str
    condition: str


@dataclass(frozen=True, slots=True)
class Reading:
    """
    What a probe's output says: measurements, or why there are none.

    *outcome* is None when there are measurements to judge, FAIL when the tool itself says that the fabric is bad
    (port down, retries exceeded, wrong results), ERROR when we could not measure. *ask_names*: the output names hosts
    otherwise than the inventory does; what they call themselves would tell whether they are the same.
    """

    measurements: tuple[Measurement, ...]
    outcome: Outcome | None = None
    reason: str = ""
    named: NamedPart | None = None
    ask_names: bool = False
    failure: FailureKind | None = None


@dataclass(frozen=True, slots=True)
class LeftOutHost:
    """A host that takes no part in a phase, because of which a probe is SKIPPED, and *why* in words."""

    host: str
    why: str

    def __str__(self) -> str:
        return f"{self.host}: {self.why}"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """
    How one probe ended; *outcome* None means measured and not judged yet. Times in the executor's seconds.

    *attempt* counts from 1; 0 means that nothing of it was started (skipped, or its host was out of the run).
    """

    probe_id: str
    attempt: int
    measurements: tuple[Measurement, ...]
    outcome: Outcome | None
    reason: str
    started_s: float
    ended_s: float
    error_host: str | None = None  # the host that an ERROR belongs to, where that is known
    named: NamedPart | None = None
    failure: FailureKind | None = None
    left_out: LeftOutHost | None = None  # because of whom it was skipped


Results = Mapping[str, ProbeResult]
"""What came of probes, by their ids."""


AGAIN = "again"
"""The name of a probe's parameter: it was run because this part (``gpu001/mlx5_3``) had dipped. Such probes are chosen
by what was measured, so they say nothing of how often healthy parts dip, and are judged apart."""


@dataclass(frozen=True, slots=True)
class FollowUpLimits:
    """The most that one follow-up may spend in one phase; only what already runs when it is spent ends after it."""

    rounds: int  # how often it may be given more
    probes: int  # in all its rounds together
    budget_s: float  # by the executor's clock, from when it was first asked; after it no round begins
