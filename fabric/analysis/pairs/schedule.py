"""
Which pairs to measure next, round by round, until the bad part is named or no more can be learnt.

``next_round(state)`` is a pure function: whoever measures (an engine, a person, the benchmark) runs the tests it
returns, adds the results with ``State.with_results`` and asks again. No tests: it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fabric.analysis.pairs.fitted import EFFECT_FLOOR, Fitted, fit
from fabric.analysis.pairs.samples import UNKNOWN, PairSamples
from fabric.analysis.pairs.settle import Routes
from fabric.analysis.pairs.targeted import accused, covering
from fabric.model.diagnosis import PairTest
from fabric.probes.pair_rounds import across_leaves, under_leaves

FIRST_ROUNDS = 3
"""One under the leaves, two across them; the rest goes after suspects."""

MOST_ROUNDS = 9
"""Then what is not localised is reported as ambiguous (a choice; 300 simulated runs need 4 in the mean)."""

FURTHER_ROUNDS = 10
"""
As many more for parts that are blamed and not certain, and for nothing else (a choice).

The trade, of 100 simulated fleets with hosts that lost 3 % at a noise of 2 %: one in ten such hosts is blamed and stays
just below certainty after nine rounds. Going on with those alone finds them with a few tests a round, so the mean
number of samples a host hardly grows, but a run with such a host lasts up to twice as many rounds.
"""


@dataclass(frozen=True)
class State:
    """
    Hosts by leaf, the spines that a test can be sent over (none: paths cannot be chosen), and what was measured.

    *results* holds one bandwidth a sample, Gb/s; a test that was repeated is there as often. A test that gave no number
    is left out: it is evidence for nothing. *routes*: paths are static, and this is the spine that a leaf sends over to
    a host; then a test names the spine that it will cross.
    """

    leaves: Mapping[str, Sequence[str]]
    spines: tuple[str, ...] = ()
    rounds: int = 0
    results: tuple[tuple[PairTest, float], ...] = ()
    floor: float = EFFECT_FLOOR
    routes: Routes = field(default_factory=dict)
    rail: str | None = None
    directed: bool = False
    most_rounds: int = MOST_ROUNDS
    further_rounds: int = FURTHER_ROUNDS

    def with_results(self, results: Iterable[tuple[PairTest, float]]) -> State:
        """After one more round."""
        return replace(self, rounds=self.rounds + 1, results=(*self.results, *results))

    def samples(self) -> PairSamples:
        """What was measured, as arrays."""
        hosts = tuple(host for group in self.leaves.values() for host in group)
        at = {host: number for number, host in enumerate(hosts)}
        spine = {name: number for number, name in enumerate(self.spines)}
        names = tuple(self.leaves)
        return PairSamples(
            hosts=hosts,
            a=np.array([at[test.a] for test, _ in self.results], dtype=np.int64),
            b=np.array([at[test.b] for test, _ in self.results], dtype=np.int64),
            gbps=np.array([gbps for _, gbps in self.results]),
            leaves=names if len(names) > 1 else (),
            leaf=np.array([n for n, group in enumerate(self.leaves.values()) for _ in group], dtype=np.int64),
            spines=self.spines,
            via=np.array([spine[test.via] if test.via else UNKNOWN for test, _ in self.results], dtype=np.int64),
            directed=self.directed,
            one_way=self.directed,
            rail=self.rail,
        )

    def fitted(self) -> Fitted:
        """What the results say so far; at least one must be above 0."""
        return fit(self.samples(), floor=self.floor)


def next_round(state: State) -> tuple[PairTest, ...]:
    """
    The host-disjoint tests of the next round; none when the verdict stands or *most_rounds* were run.

    After those *further_rounds* are for what is blamed and not certain yet. No round is without limit.
    Until everything was measured no verdict stands: a direction that no test went through is not cleared.
    """
    if state.rounds == 0:
        return tuple(under_leaves(state.leaves))
    if state.rounds < FIRST_ROUNDS:
        return tuple(across_leaves(state.leaves, () if state.routes else state.spines, state.rounds - 1))
    over = state.rounds >= state.most_rounds
    if state.rounds >= state.most_rounds + state.further_rounds or not any(gbps > 0 for _, gbps in state.results):
        return ()
    if over:
        return tuple(accused(state.fitted(), state.routes))
    return tuple(covering(state.fitted(), state.routes))
