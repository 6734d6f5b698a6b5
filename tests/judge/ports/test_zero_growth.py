"""What a port counted though it may not: how much, when, and what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.judge.ports.health import HOUR_S, PortHealth, Step, port_health, worst_hour
from fabric.model.change import Change, ChangeResult, Window
from fabric.model.outcome import Outcome
from fabric.model.sampling import (
    CRITERIA,
    LINK_DOWNED,
    LINK_RECOVERIES,
    PFC,
    RETRANSMITS,
    SYMBOL_ERRORS,
    CounterCourse,
    ZeroGrowth,
    counters_of,
)
from tests.changes.asked import ber

EVERY_S = 60.0
ALL = ZeroGrowth(CRITERIA, pfc_paused=0.05, retransmits_per_hour=100.0)


def course(*steps: tuple[float, float | None], first: float = 0, until_s: float = 4 * HOUR_S) -> CounterCourse:
    """*first* from the beginning, and then what it became when."""
    return CounterCourse([0.0, *(at_s for at_s, _ in steps)], [first, *(value for _, value in steps)], until_s)


def quiet(*, ethernet: bool) -> dict[str, CounterCourse]:
    """All counters of a port that counted nothing for four hours."""
    return {name: course() for criterion in CRITERIA for name in counters_of(criterion, ethernet=ethernet)}


def health(
    courses: dict[str, CounterCourse], *changes: ChangeResult, wanted: ZeroGrowth | None = ALL, ethernet: bool = False
) -> PortHealth:
    """Of a quiet port that counted this besides."""
    found = port_health(
        "gpu001",
        "mlx5_0",
        quiet(ethernet=ethernet) | courses,
        changes,
        every_s=EVERY_S,
        line_rate_gbps=400.0,
        ethernet=ethernet,
        zero_growth=wanted,
    )
    assert found is not None
    return found


def change(component: str, began_s: float, ended_s: float) -> ChangeResult:
    """Bit errors, made by us."""
    one = Change("p/ber.x", "p", component, "port", ber(component, raw="1e-6"))
    return ChangeResult(one, "reverted", windows=(Window(began_s, ended_s),))


@pytest.mark.parametrize("ethernet", [False, True])
def test_a_port_that_counted_nothing_passes(*, ethernet: bool) -> None:
    found = health({}, ethernet=ethernet)
    assert (found.outcome, found.unread, found.words) == (Outcome.PASS, (), ())


@pytest.mark.parametrize(("name", "ethernet"), [("link_downed", True), ("link_error_recovery", False)])
def test_one_step_fails_where_it_is_only_marginal_otherwise(name: str, *, ethernet: bool) -> None:
    """And it says which counter, by how much and when."""
    grown = {name: course((5400.0, 2), (7200.0, 3))}
    assert health(grown, wanted=None, ethernet=ethernet).outcome is Outcome.MARGINAL
    found = health(grown, ethernet=ethernet)
    assert found.outcome is Outcome.FAIL
    (words,) = found.words
    assert words.startswith("3 ")
    assert words.endswith(", first after 1 h 30 min, last after 2 h 00 min")


@pytest.mark.parametrize("before", [200, 255])
def test_a_counter_that_somebody_cleared_did_not_go_down(before: int) -> None:
    """Those of eight bits stay at 255 and never wrap: "IB semantics is to cap counters" (perfquery.c)."""
    found = health({"link_downed": course((600.0, 0), first=before)})
    assert (found.outcome, found.words, found.resets) == (Outcome.PASS, (), 1)


def test_what_our_own_change_counted_on_its_cable_is_no_growth() -> None:
    grown = {"link_error_recovery": course((600.0, 2))}
    assert health(grown, change("gpu001/mlx5_0", 500.0, 650.0)).outcome is Outcome.PASS
    assert health(grown, change("gpu002/mlx5_0", 500.0, 650.0)).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("count", "outcome", "unread"),
    [(1, Outcome.PASS, ()), (6, Outcome.INCONCLUSIVE, (SYMBOL_ERRORS,)), (40, Outcome.FAIL, ())],
)
def test_symbol_errors_that_may_be_too_many_are_not_shown(
    count: int, outcome: Outcome, unread: tuple[str, ...]
) -> None:
    """In four hours 5.8 are allowed: one is few enough to tell, forty are too many, six may be either."""
    found = health({"symbol_error": course((600.0, count))})
    assert (found.outcome, found.unread) == (outcome, unread)


def test_retransmissions_fail_when_their_worst_hour_is_above_what_is_allowed() -> None:
    """Together; and the hour is named."""
    slow = course(*((HOUR_S * hour, 60 * hour) for hour in range(1, 4)))
    assert health({"out_of_sequence": slow}).outcome is Outcome.PASS
    found = health({"out_of_sequence": slow, "local_ack_timeout_err": course((2 * HOUR_S - 60.0, 41))})
    assert found.outcome is Outcome.FAIL
    assert found.words == (
        "zero growth: retransmits: out_of_sequence by 60, local_ack_timeout_err by 41 in the hour until 1 h 59 min, "
        "allowed 100 an hour together",
    )


def test_retransmissions_while_something_was_altered_anywhere_do_not_count() -> None:
    """Its path may have led over there."""
    grown = {"packet_seq_err": course((600.0, 5000))}
    assert health(grown).outcome is Outcome.FAIL
    assert health(grown, change("su0-leaf0--spine00", 500.0, 650.0)).outcome is Outcome.PASS


def test_a_port_that_is_paused_for_more_of_an_hour_than_allowed_fails() -> None:
    """In either direction; 5 % of an hour are 180 s."""
    assert health({"rx_pfc_us": course((7200.0, 180_000_000))}, ethernet=True).outcome is Outcome.PASS
    found = health({"tx_pfc_us": course((7200.0, 360_000_000))}, ethernet=True)
    assert found.outcome is Outcome.FAIL
    assert found.words == (
        "zero growth: tx_pfc_us: it told the other end to wait 10.0% of the hour until 2 h 00 min, allowed 5.0%",
    )


@pytest.mark.parametrize(
    ("criterion", "name"),
    [
        (SYMBOL_ERRORS, "rx_crc_errors"),
        (LINK_DOWNED, "link_downed"),
        (LINK_RECOVERIES, "link_error_recovery"),
        (PFC, "tx_pfc_us"),
        (RETRANSMITS, "roce_adp_retrans"),
    ],
)
@pytest.mark.parametrize("unread", [CounterCourse([0.0], [None], 4 * HOUR_S), CounterCourse([0.0], [7], 0.0)])
def test_what_was_not_read_or_only_once_is_inconclusive(criterion: str, name: str, unread: CounterCourse) -> None:
    found = health({name: unread}, ethernet=True)
    assert (found.outcome, found.unread) == (Outcome.INCONCLUSIVE, (criterion,))


def test_pauses_are_not_asked_of_infiniband() -> None:
    assert health({}, wanted=ZeroGrowth((PFC,), pfc_paused=0.0)).unread == ()


def test_growth_that_was_seen_fails_though_another_counter_was_not_read() -> None:
    found = health({"out_of_sequence": CounterCourse([0.0], [None], 9.0), "link_downed": course((600.0, 1))})
    assert (found.outcome, found.unread) == (Outcome.FAIL, (RETRANSMITS,))


@given(st.lists(st.tuples(st.integers(1, 20_000), st.integers(1, 1000)), min_size=1, max_size=30))
def test_no_hour_is_worse_than_the_worst(raw: list[tuple[int, int]]) -> None:
    """Against the plain sum over every hour that ends with a step."""
    steps = [Step("x", at - 1.0, float(at), by) for at, by in sorted(raw)]
    inside, span_s = worst_hour(steps, 20_000.0)
    hours = [sum(one.by for one in steps if end.at_s - HOUR_S < one.at_s <= end.at_s) for end in steps]
    assert (sum(one.by for one in inside), span_s) == (max(hours), HOUR_S)
