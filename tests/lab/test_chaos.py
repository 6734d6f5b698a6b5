"""Hosts freeze, die, vanish and lie in the middle of a self-check over real SSH: it ends, and blames them alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.lab.chaos import LONGEST_S, Chaos
from benchmarks.lab.chaos_rack import ChaosRack

pytestmark = [pytest.mark.lab, pytest.mark.timeout(2 * LONGEST_S)]

SEEDS = (9, 26)
"""Hosts that die, that lie for a while, and that run full; of many seeds see benchmarks/chaos.py."""


@pytest.fixture(scope="module")
def chaos(root: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chaos]:
    """Sixteen hosts, and the self-check that is run on them."""
    folder = tmp_path_factory.mktemp("chaos") / "rack"
    folder.mkdir()
    with ChaosRack(folder) as rack:
        made = Chaos(rack)
        made.quiet_s = 12.0
        yield made


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_ends_names_those_befallen_alone_and_leaves_nothing(chaos: Chaos, seed: int) -> None:
    """Whatever the seed lets come over them."""
    ran = chaos.seeded(seed)
    assert (ran.wrong, ran.left, ran.threads) == ((), (), ())
    assert ran.wall_s < LONGEST_S
