"""Certain ones first: who is alone in a slow test."""

import numpy as np

from fabric.judge.locate.pairs.components import components_of
from fabric.judge.locate.pairs.decode import scomp
from fabric.judge.locate.pairs.samples import PairEvidence, PairSamples


def test_the_directions_of_a_part_do_not_keep_it_from_being_alone():
    """B and C are slow to hosts that are good; then nothing is left that A would have to explain."""
    tests = [("A", "B", 0), ("A", "C", 0), ("B", "D", 0), ("C", "E", 0), ("D", "E", 1), ("E", "D", 1), ("D", "E", 1)]
    hosts = ("A", "B", "C", "D", "E")
    good = np.array([good for _, _, good in tests])
    unknown = np.full(5, -1)
    samples = PairSamples(
        hosts,
        np.array([hosts.index(a) for a, _, _ in tests]),
        np.array([hosts.index(b) for _, b, _ in tests]),
        np.where(good, 390.0, 200.0),
        (),
        unknown,
        (),
        np.full(len(tests), -1),
        directed=True,
        one_way=True,
    )
    components = components_of(samples)
    evidence = PairEvidence(samples.gbps / 390.0, 0.01, components.paths, len(components.names), 0.02)
    found = scomp(evidence, good == 0, components.penalties, components.part)
    assert [components.names[c] for c in found] == ["B", "C"]
