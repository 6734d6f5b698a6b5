"""
What the failures of a fleet mean for a training job: mean time to failure, time that counts, longer steps.

Formulas of Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters" (arXiv
2410.21680, HPCA 2025). They claim 5 % of a Monte Carlo simulation up to about 8,000 GPUs.

Nothing is made up: a rate is a count over a time in which somebody looked. Where no failure was seen, the rate is only
known to be below a bound, and so is everything that follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from fabric.model.training import TrainingImpact

DAY_S = 86_400.0
CONFIDENCE = 0.95
"""Of a bound where nothing was seen."""


@dataclass(frozen=True, slots=True)
class Observed:
    """How often something happened to a fleet's hosts: *count* times in *host_days* of looking."""

    count: int
    host_days: float

    @property
    def per_host_day(self) -> float:
        """
        Events per host and day; with none seen, the rate that is not exceeded with 95 % confidence.

        No event in T has probability exp(-rate T) (Poisson): at rate 3 / T that is 5 % ("rule of three", Hanley and
        Lippman-Hand, JAMA 1983; exactly -ln 0.05 = 2.996).
        """
        return self.count / self.host_days if self.count else -log(1 - CONFIDENCE) / self.host_days

    @property
    def is_bound(self) -> bool:
        """Whether the rate is only known to be no more than that."""
        return self.count == 0

    def __add__(self, other: Observed) -> Observed:
        """Two kinds of event that were looked for in the same time; ValueError when the times differ."""
        if self.host_days != other.host_days:
            raise ValueError(f"{self.host_days:g} and {other.host_days:g} host-days: not the same time of looking")
        return Observed(self.count + other.count, self.host_days)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training job and its checkpoints. *communication* is the part of a step spent waiting for the network."""

    gpus: int
    gpus_per_host: float = 8  # a fraction where hosts differ
    restart_s: float = 300.0  # the paper's 5 minutes
    checkpoint_every_s: float | None = None  # None: as often as is best, see best_interval_s
    checkpoint_write_s: float = 300.0  # the paper's 5 minutes; 0: it blocks nobody
    communication: float | None = None  # measured; None: not known

    @property
    def hosts(self) -> float:
        """Hosts; a fraction where they are not full, as in the paper."""
        return self.gpus / self.gpus_per_host


def mttf_s(hosts: float, per_host_day: float) -> float:
    """Mean time to failure of a job, seconds: 1 / (hosts x rate), for failures that are independent."""
    if hosts <= 0 or per_host_day <= 0:
        raise ValueError(f"{hosts:g} hosts with {per_host_day:g} failures per host-day: both must be above 0")
    return DAY_S / (hosts * per_host_day)


def best_interval_s(mttf: float, write_s: float) -> float:
    """The checkpoint interval that loses least: sqrt(2 x write x MTTF) (Young 1974, Daly 2006)."""
    return sqrt(2 * write_s * mttf)


def expected_ettr(mttf: float, *, restart_s: float, every_s: float, write_s: float = 0.0) -> float:
    """
    Expected effective training time ratio: (1 - (restart + interval / 2) / MTTF) / (1 + write / interval).

    Each failure costs the restart and half an interval of work. 0 where the formula, a first-order one, falls below.
    """
    return max(0.0, (1 - (restart_s + every_s / 2) / mttf) / (1 + write_s / every_s))


def step_stretch(retained: float, communication: float) -> float:
    """
    How many times as long a step takes when bandwidth falls to *retained* (0 to 1, above 0).

    The *communication* part of a step (0 to 1, what is not hidden behind computation) grows in inverse proportion, the
    rest stays: 1 - c + c / retained (Amdahl). What was hidden may come to light, so it can be worse.
    """
    if not 0 < retained <= 1 or not 0 <= communication <= 1:
        raise ValueError(f"retained {retained:g} must be above 0 to 1, communication {communication:g} from 0 to 1")
    return 1 - communication + communication / retained


def training_impact(
    job: TrainingJob, failures: Observed | None, *, flaps: Observed | None = None, retained: float | None = None
) -> TrainingImpact:
    """
    What follows for a job from measured failures, from *flaps* that end a job, and from the bandwidth *retained*.

    Flaps that a job survives do not belong here: they cost a stall, not a restart.
    """
    notes = []
    total = failures
    if failures is None or failures.host_days <= 0:
        notes.append("no failure rate was measured: mean time to failure and ETTR are not known")
        total = None
    elif flaps is not None:
        total = failures + flaps
    stretch = None
    if retained is not None and job.communication is not None:
        stretch = step_stretch(retained, job.communication)
    elif retained is not None:
        notes.append(_stretched(retained))
    if total is None:
        return TrainingImpact(job.gpus, None, None, step_stretch=stretch, notes=tuple(notes))
    looked = f"{total.host_days:,.1f} host-days"
    if total.is_bound:
        notes.append(f"no failure in {looked}: rate at most {total.per_host_day:.2g} per host-day (95 %)")
    else:
        many = f"{total.count} failure{'s' if total.count != 1 else ''}"
        notes.append(f"{many} in {looked}: {total.per_host_day:.2g} per host-day")
    mttf = mttf_s(job.hosts, total.per_host_day)
    return TrainingImpact(
        job.gpus,
        mttf,
        _ettr(job, mttf),
        total.is_bound,
        stretch,
        tuple(notes),
        failures=total.count,
        host_days=total.host_days,
    )


def _stretched(retained: float) -> str:
    """With nothing known of the steps: from 1 (they never wait for the network) to 1 / retained (they only do)."""
    text = f"the worst fault made here left {retained:.0%} of the bandwidth"
    if retained <= 0:
        return f"{text}: jobs that use it stand still"
    most = f"steps take up to {1 / retained:.1f} times as long"
    return f"{text}; how much of a step waits for the network is not known: {most}"


def _ettr(job: TrainingJob, mttf: float) -> float | None:
    every_s = job.checkpoint_every_s
    if every_s is None:
        if job.checkpoint_write_s <= 0:
            return None  # checkpoints that cost nothing have no best interval
        every_s = best_interval_s(mttf, job.checkpoint_write_s)
    return expected_ettr(mttf, restart_s=job.restart_s, every_s=every_s, write_s=job.checkpoint_write_s)
