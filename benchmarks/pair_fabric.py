"""A simulated fabric for pair tests: hosts, leaves, uplinks, spines, faults that hold pairs down, noise and dips."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.rounds import FIRST_ROUNDS, further_round
from fabric.judge.locate.pairs.samples import PairSamples, Routes, samples_under
from fabric.judge.locate.search import CERTAIN
from fabric.model.diagnosis import PairRow, PairTest
from fabric.model.outcome import Outcome
from fabric.probes.pairwise import across_leaves, under_leaves

LEAVES, HOSTS_A_LEAF, SPINES = 8, 16, 4
GOOD_GBPS = 392.0


MOST_ROUNDS = 9
"""Then what is not localised is reported as ambiguous (a choice; 300 simulated runs need 4 in the mean)."""


@dataclass(frozen=True)
class PairState:
    """
    Hosts by leaf, the spines that a test can be sent over (none: paths cannot be chosen), and what was measured.

    *results* holds one bandwidth a sample, Gb/s. *routes*: paths are static, and this is the spine that a leaf sends
    over to a host; then a test names the spine that it will cross.
    """

    leaves: Mapping[str, Sequence[str]]
    spines: tuple[str, ...] = ()
    rounds: int = 0
    results: tuple[tuple[PairTest, float], ...] = ()
    routes: Routes = field(default_factory=dict)
    directed: bool = False
    most_rounds: int = MOST_ROUNDS
    draws: int = 0

    def with_results(self, results: Iterable[tuple[PairTest, float]]) -> "PairState":
        """After one more round."""
        return replace(self, rounds=self.rounds + 1, results=(*self.results, *results))

    def samples(self) -> PairSamples:
        """What was measured, as arrays."""
        tests, gbps = [test for test, _ in self.results], [gbps for _, gbps in self.results]
        found = samples_under(self.leaves, self.spines, tests, gbps)
        return replace(found, directed=self.directed, one_way=self.directed, routes=self.routes)


def next_round(state: PairState) -> tuple[PairTest, ...]:
    """The tests of the next round; none when the verdict stands or *most_rounds* were run."""
    if state.rounds == 0:
        return tuple(under_leaves(state.leaves))
    if state.rounds < FIRST_ROUNDS:
        return tuple(across_leaves(state.leaves, () if state.routes else state.spines, state.rounds - 1))
    if not any(gbps > 0 for _, gbps in state.results):
        return ()
    return tuple(further_round(fit(state.samples()), left=state.most_rounds - state.rounds, draws=state.draws))


@dataclass(frozen=True)
class Scene:
    """How many faults of which loss, noise (CV), repeats a round, spread between healthy hosts."""

    loss: float
    cv: float
    repeats: int = 1
    spread: float = 0.0
    bad: int | None = None  # none: 1 to 4
    hosts_only: bool = False


class Fabric:
    """One draw: 128 hosts, 8 leaves, 32 uplinks, 4 spines = 172 components."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene, self.random = scene, np.random.default_rng(seed)
        self.leaves = {
            f"leaf{leaf}": tuple(f"gpu{leaf * HOSTS_A_LEAF + host:03d}" for host in range(HOSTS_A_LEAF))
            for leaf in range(LEAVES)
        }
        self.spines = tuple(f"spine{spine}" for spine in range(SPINES))
        self.leaf_of = {host: leaf for leaf, hosts in self.leaves.items() for host in hosts}
        self.hosts = tuple(self.leaf_of)
        wanted = int(self.random.integers(1, 5)) if scene.bad is None else scene.bad
        self.faults: dict[str, float] = {}
        while len(self.faults) < wanted:
            self.faults[self._component()] = scene.loss
        self.health = {host: 1 + scene.spread * self.random.normal() for host in self.hosts}

    def _component(self) -> str:
        """70 % hosts, 20 % uplinks, 5 % leaves, 5 % spines."""
        draw = 0.0 if self.scene.hosts_only else self.random.random()
        leaf, spine = self.random.integers(LEAVES), self.random.integers(SPINES)
        if draw < 0.7:
            return self.hosts[int(self.random.integers(len(self.hosts)))]
        return f"leaf{leaf}--spine{spine}" if draw < 0.9 else f"leaf{leaf}" if draw < 0.95 else f"spine{spine}"

    def visible(self) -> set[str]:
        """The faults that are not behind another that is as bad: nothing can show those."""
        return {name for name in self.faults if not any(over in self.faults for over in self._over(name))}

    def _over(self, name: str) -> list[str]:
        return [self.leaf_of[name]] if name in self.leaf_of else name.split("--") if "--" in name else []

    def measure(self, test: PairTest) -> float:
        """One sample: the least of what is on the way, noise, and one time in a hundred a dip of 5-30 %."""
        here, there = self.leaf_of[test.a], self.leaf_of[test.b]
        way = [test.a, test.b, here, there]
        if here != there:
            via = test.via or self.spines[int(self.random.integers(SPINES))]
            way += [via, f"{here}--{via}", f"{there}--{via}"]
        level = min(self.health[test.a], self.health[test.b]) * (1 - max(self.faults.get(part, 0.0) for part in way))
        dip = self.random.uniform(0.05, 0.3) if self.random.random() < 0.01 else 0.0
        return float(GOOD_GBPS * level * (1 + self.scene.cv * self.random.normal()) * (1 - dip))

    def samples(self, tests: Iterable[PairTest]) -> list[tuple[PairTest, float]]:
        """Every test as often as the scene repeats it."""
        return [(test, self.measure(test)) for test in tests for _ in range(self.scene.repeats)]


@dataclass(frozen=True)
class Found:
    """What a method named, in how many rounds and tests."""

    named: frozenset[str]
    rounds: int
    tests: int


ROUNDS = 19
"""As a scenario with ``rounds: 19`` has it: losses near the noise take more than the nine rounds of the shipped one."""


def localised(fabric: Fabric) -> Found:
    """Our own method: rounds until it is over; what is certain is named."""
    state, tests = PairState(fabric.leaves, fabric.spines, most_rounds=ROUNDS), 0
    while pairs := next_round(state):
        tests += len(pairs)
        state = state.with_results(fabric.samples(pairs))
    fitted = fit(state.samples())
    certain = [one.component for one in fitted.blamed if one.certain and one.margin >= CERTAIN]
    return Found(frozenset(fitted.components.names[c] for c in certain), state.rounds, tests)


def rows_of(fabric: Fabric, rounds: int) -> list[PairRow]:
    """A few fixed rounds, as a file would bring them."""
    tests = [
        test
        for number in range(rounds)
        for test in (across_leaves(fabric.leaves, fabric.spines, number - 1) if number else under_leaves(fabric.leaves))
    ]
    return [PairRow(test.a, test.b, gbps, 1) for test, gbps in fabric.samples(tests)]


def screened(rounds: int) -> Callable[[Fabric], Found]:
    """``diagnose`` on fixed rounds, without a topology: what a file of results gives."""

    def method(fabric: Fabric) -> Found:
        rows = rows_of(fabric, rounds)
        found = diagnose(rows)
        named = [s.component for s in found.suspects if s.outcome is Outcome.FAIL and not s.ambiguous_with]
        return Found(frozenset(named), rounds, len(rows))

    return method


@dataclass
class Score:
    """Precision and recall over runs, mean rounds, tests and slots (a slot is one round of one repeat)."""

    hits: int = 0
    wrong: int = 0
    missed: int = 0
    runs: int = 0
    wrong_runs: int = 0
    rounds: int = 0
    tests: int = 0

    def add(self, fabric: Fabric, found: Found, *, lenient: bool = False) -> None:
        """One run; *lenient*: naming a host under a bad leaf is no hit, and not wrong either."""
        wrong = found.named - set(fabric.faults)
        if lenient:
            wrong = {name for name in wrong if fabric.leaf_of.get(name) not in fabric.faults}
        self.hits += len(found.named & set(fabric.faults))
        self.wrong += len(wrong)
        self.wrong_runs += bool(wrong)
        self.missed += len(fabric.visible() - found.named)
        self.runs, self.rounds, self.tests = self.runs + 1, self.rounds + found.rounds, self.tests + found.tests

    @property
    def precision(self) -> float:
        """Of what was named, the share that is bad; 1 when nothing was named."""
        return self.hits / (self.hits + self.wrong) if self.hits + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """Of what is bad and visible, the share that was named; 1 when nothing is bad."""
        return self.hits / (self.hits + self.missed) if self.hits + self.missed else 1.0
