"""All that may be measured beyond the plan of a run, in the order in which it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fabric.analysis.judge import Judge
from fabric.analysis.localising import localising
from fabric.analysis.more_samples import MoreSamples, sampling
from fabric.analysis.over_time.dipped_again import DippedAgain
from fabric.model.inventory import Inventory
from fabric.model.scenario import Scenario

if TYPE_CHECKING:
    from fabric.analysis.pairs.further_rounds import FurtherRounds


def follow_ups(
    scenario: Scenario, inventory: Inventory, judge: Judge
) -> tuple[MoreSamples | FurtherRounds | DippedAgain, ...]:
    """New ones, for one run: what they learn of its rounds is its own."""
    return (*sampling(judge), *localising(scenario, inventory), DippedAgain(inventory.topology))
