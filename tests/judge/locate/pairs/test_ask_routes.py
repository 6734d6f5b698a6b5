"""On which hosts the tables of switches are read, and who is asked when one cannot."""

from __future__ import annotations

import pytest

from fabric.judge.locate.pairs.further_rounds import ASKERS_MOST, ROUTE_ROUNDS
from fabric.model.outcome import Outcome
from fabric.probes import routes
from tests.judge.locate.pairs.test_in_run import POD, Ran, World, ran
from tests.probes.test_pairwise import pod

BAD = {"u1-leaf1--spine0": 0.4}


def askers(found: Ran) -> list[str]:
    return list(dict.fromkeys(probe.hosts[0] for probe in found.probes if probe.kind == routes.KIND))


def test_the_host_that_the_inventory_names_reads_all_tables() -> None:
    assert askers(ran(World(POD, BAD), asker="gpu022")) == ["gpu022"]


def test_a_slow_host_reads_tables_all_the_same() -> None:
    found = ran(World(POD, {**BAD, "gpu022/mlx5_0": 0.5}), asker="gpu022")
    assert askers(found) == ["gpu022"]
    assert found.named == ["gpu022/mlx5_0", "u1-leaf1--spine0"]


def test_the_named_host_is_asked_though_it_measures_no_pairs_and_where_it_cannot_another_one_is() -> None:
    """A slow host may read tables; the uplink is named in any case."""
    found = ran(World(POD, BAD, skipped=frozenset({"gpu022"})), asker="gpu022")
    assert askers(found) == ["gpu022", "gpu000"]
    assert found.named == ["u1-leaf1--spine0"]


@pytest.mark.parametrize("tools", [True, False])
def test_where_a_host_cannot_read_tables_the_next_is_asked(tools: bool) -> None:
    blind = frozenset({"gpu022"}) if tools else frozenset({"gpu022", "gpu000"})
    found = ran(World(POD, BAD, blind=blind), asker="gpu022")
    assert askers(found) == (["gpu022", "gpu000"] if tools else ["gpu022", "gpu000", "gpu006"])
    assert found.named == ["u1-leaf1--spine0"]
    assert not any("is not known" in reason for reason in found.verdict.reasons)


def test_tables_that_nobody_can_read_are_asked_for_on_a_few_hosts() -> None:
    found = ran(World(POD, tables=False))
    asked = [probe for probe in found.probes if probe.kind == routes.KIND]
    assert len(asked) == 2 * ASKERS_MOST  # on each of two rails
    assert len({probe.probe_id for probe in asked}) == len(asked)
    assert found.verdict.outcome is Outcome.INCONCLUSIVE
    assert ASKERS_MOST <= ROUTE_ROUNDS


def test_hosts_of_one_leaf_ask_nobody() -> None:
    assert askers(ran(World(pod(1, 8)))) == []
