"""Uplinks of the inventory that no pair can speak of, and on which hosts the tables of switches are read."""

from __future__ import annotations

import pytest

from fabric.judge.locate.pairs.further_rounds import ASKERS_MOST, ROUTE_ROUNDS
from fabric.judge.locate.pairs.run_planes import measured_in, run_planes
from fabric.judge.locate.pairs.uplinks import down, unused
from fabric.model.outcome import Outcome
from fabric.model.scenario import LocaliseSettings
from fabric.model.topology import Uplinks
from fabric.probes import routes
from tests.judge.locate.pairs.test_in_run import POD, Ran, World, ran
from tests.probes.test_pairwise import pod

LEAVES = tuple(name for name, switch in POD.switches.items() if switch.tier == "leaf")


def dead_in(found: Ran) -> list[str]:
    return down(measured_in("p", found.probes, found.results), found.topology)[0]


def test_a_cable_that_is_not_up_keeps_a_run_from_passing() -> None:
    verdict = ran(World(POD, dead=frozenset({"u1-leaf0--spine1"}))).verdict
    assert verdict.outcome is Outcome.INCONCLUSIVE
    (reason,) = (reason for reason in verdict.lines if "not up" in reason)
    assert "1 of 16 uplinks of the inventory are not up, as iblinkinfo shows it: u1-leaf0--spine1;" in reason


def test_a_spine_without_any_cable_that_is_up_is_named_as_one() -> None:
    (text,) = dead_in(ran(World(POD, dead=frozenset(f"{leaf}--spine1" for leaf in LEAVES))))
    assert "8 of 16 uplinks of the inventory are not up, as iblinkinfo shows it: spine1 (all 8);" in text


def test_one_of_two_parallel_cables_is_missed() -> None:
    found = ran(World(POD))
    wide = POD.__class__(POD.hosts, POD.switches, (Uplinks(LEAVES, ("spine0", "spine1"), 2, 400.0),))
    (text,), suspects = down(measured_in("p", found.probes, found.results), wide)
    assert "16 of 16 uplinks" in text
    assert {(one.kind, one.evidence[0]) for one in suspects} == {
        ("link", "fewer than its 2 cables are up, as iblinkinfo shows it")
    }


def test_all_cables_up_are_no_trouble() -> None:
    assert dead_in(ran(World(POD))) == []


def test_where_nothing_was_read_nothing_is_said() -> None:
    assert dead_in(ran(World(POD, tables=False))) == []


def test_where_switches_are_called_otherwise_nothing_is_said() -> None:
    found = ran(World(POD))
    other = POD.__class__(POD.hosts, POD.switches, (Uplinks(LEAVES, ("core7", "core8"), 1, 400.0),))
    assert down(measured_in("p", found.probes, found.results), other) == ([], [])


def test_uplinks_that_no_route_uses_are_noted() -> None:
    found = ran(World(POD))
    more = POD.__class__(POD.hosts, POD.switches, (Uplinks(LEAVES, ("spine0", "spine1", "spine2"), 1, 400.0),))
    planes = run_planes("p", measured_in("p", found.probes, found.results), more)
    (text,) = unused(planes, more)
    assert text.startswith("8 of 24 uplinks are on no route between these hosts")
    assert text.endswith("spine2 (all 8)")
    assert unused(planes, POD) == []


def test_the_note_stands_in_the_verdict_and_does_nothing_to_its_outcome() -> None:
    """Only hosts with even numbers are reached over the first spine: of them alone the second is on no route."""
    even = frozenset(host for host in POD.hosts if int(host[3:]) % 2)
    verdict = ran(World(POD, skipped=even)).verdict
    assert any(reason.startswith("note: pairs: 8 of 16 uplinks are on no route") for reason in verdict.lines)
    assert Outcome.INCONCLUSIVE not in {
        outcome for outcome in Outcome if f"{outcome.name}: pairs" in str(verdict.lines)
    }


def suspected(found: Ran) -> list[tuple[str, str, str]]:
    return [(one.component, one.kind, one.outcome.name) for one in found.verdict.suspects]


def test_a_spine_that_is_dead_is_a_suspect() -> None:
    """Routes go around it, so no pair is slow: only its cables show it."""
    found = ran(World(POD, dead=frozenset(f"{leaf}--spine1" for leaf in LEAVES)))
    assert suspected(found) == [("spine1", "spine", "INCONCLUSIVE")]
    assert "none of its 8 uplinks is up" in found.verdict.suspects[0].evidence[0]


def test_a_cable_that_is_not_up_is_a_suspect() -> None:
    found = ran(World(POD, dead=frozenset({"u1-leaf0--spine1"})))
    assert suspected(found) == [("u1-leaf0--spine1", "link", "INCONCLUSIVE")]


def test_a_spine_that_may_have_been_renamed_is_no_suspect() -> None:
    """The leaves show a switch that the inventory does not know."""
    found = ran(World(POD))
    switches = {name: switch for name, switch in POD.switches.items() if name != "spine1"}
    other = POD.__class__(POD.hosts, switches, (Uplinks(LEAVES, ("spine0", "core9"), 1, 400.0),))
    measured = measured_in("p", found.probes, found.results)
    said, suspects = down(measured, other)
    assert said
    assert suspects == []


def test_where_the_paths_are_not_known_it_is_said_which_ports_to_read() -> None:
    verdict = ran(World(POD, tables=False), localise=LocaliseSettings()).verdict
    (note,) = (reason for reason in verdict.lines if "dead spine" in reason)
    assert "`iblinkinfo -l`" in note
    assert "u[0-3]-leaf" in note
    assert "with 2 ports up each, to spine[0-1]" in note


BAD = {"u1-leaf1--spine0": 0.4}


def askers(found: Ran) -> list[str]:
    return list(dict.fromkeys(probe.hosts[0] for probe in found.probes if probe.kind == routes.KIND))


def test_the_host_that_the_inventory_names_reads_all_tables() -> None:
    assert askers(ran(World(POD, BAD), asker="gpu022")) == ["gpu022"]


@pytest.mark.slow
def test_a_slow_host_reads_tables_all_the_same() -> None:
    found = ran(World(POD, {**BAD, "gpu022/mlx5_0": 0.5}), asker="gpu022")
    assert askers(found) == ["gpu022"]
    assert found.named == ["gpu022/mlx5_0", "u1-leaf1--spine0"]


@pytest.mark.slow
def test_the_named_host_is_asked_though_it_measures_no_pairs_and_where_it_cannot_another_one_is() -> None:
    """A slow host may read tables; the uplink is named in any case."""
    found = ran(World(POD, BAD, skipped=frozenset({"gpu022"})), asker="gpu022")
    assert askers(found) == ["gpu022", "gpu000"]
    assert found.named == ["u1-leaf1--spine0"]


@pytest.mark.slow
@pytest.mark.parametrize("tools", [True, False])
def test_where_a_host_cannot_read_tables_the_next_is_asked(tools: bool) -> None:
    blind = frozenset({"gpu022"}) if tools else frozenset({"gpu022", "gpu000"})
    found = ran(World(POD, BAD, blind=blind), asker="gpu022")
    assert askers(found) == (["gpu022", "gpu000"] if tools else ["gpu022", "gpu000", "gpu006"])
    assert found.named == ["u1-leaf1--spine0"]
    assert not any("is not known" in reason for reason in found.verdict.lines)


def test_tables_that_nobody_can_read_are_asked_for_on_a_few_hosts() -> None:
    found = ran(World(POD, tables=False))
    asked = [probe for probe in found.probes if probe.kind == routes.KIND]
    assert len(asked) == 2 * ASKERS_MOST  # on each of two rails
    assert len({probe.probe_id for probe in asked}) == len(asked)
    assert found.verdict.outcome is Outcome.INCONCLUSIVE
    assert ASKERS_MOST <= ROUTE_ROUNDS


def test_hosts_of_one_leaf_ask_nobody() -> None:
    assert askers(ran(World(pod(1, 8)))) == []
