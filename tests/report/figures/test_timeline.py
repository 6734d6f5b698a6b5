"""A run in time: what is normal, what was changed, what had no number."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.report.figures import counters, timeline
from fabric.report.figures.timeline import retained, windows
from fabric.report.shown_run import ShownRun
from tests.report.figures.seen import texts
from tests.report.framed import framed, pair, sample


def change(state: str, at_s: float, kind: str = "ber") -> dict[str, Any]:
    """One state of a change."""
    return {"change": f"p/{kind}.x", "phase": "p", "kind": kind, "part": "x", "state": state, "at_s": at_s}


def ring_of(probe: str, gbps: float, **others: Any) -> dict[str, Any]:
    """A collective over all hosts: nobody is its peer."""
    group = {"host": None, "hosts": "gpu[001-064]", "rnic": None, "endpoint": None, "kind": "group_all_reduce"}
    return sample(probe, gbps, **{**group, "op": "busbw", "normal_gbps": None, "share": None, **others})


def test_what_has_no_peers_is_measured_by_its_own_rounds_without_a_fault() -> None:
    rows = [ring_of("a", 1000.0), ring_of("b", 1000.0), ring_of("c", 300.0, change="p/ber.x")]
    found = retained(framed(samples=rows, changes=[change("in_force", 0.0)])).set_index("probe")["kept"]
    assert found["c"] == pytest.approx(0.3)
    assert found["a"] == 1.0


def test_what_was_measured_once_is_measured_by_what_is_required() -> None:
    """Over itself it would always be 1."""
    (kept,) = retained(framed(samples=[ring_of("a", 150.0, required_gbps=300.0)]))["kept"]
    assert kept == 0.5


def test_routing_off_is_not_measured_by_routing_on() -> None:
    rows = [
        ring_of(f"{word}{n}", gbps, phase=f"p.adaptive_routing-{word}")
        for word, gbps in (("on", 3000.0), ("off", 1000.0))
        for n in (1, 2)
    ]
    assert set(retained(framed(samples=rows))["kept"]) == {1.0}


def test_rings_of_two_hosts_are_not_measured_by_rings_of_four() -> None:
    """A hall is measured by groups that grow: the larger are no slower than they should be."""
    sizes = (("gpu[001-002]", "gpu[003-004]", "gpu[005-006]"), ("gpu[001-004]", "gpu[005-008]", "gpu[009-012]"))
    rows = [
        ring_of(hosts, gbps, hosts=hosts) for gbps, named in zip((900.0, 500.0), sizes, strict=True) for hosts in named
    ]
    assert set(retained(framed(samples=rows))["kept"]) == {1.0}


def test_a_slow_pair_is_low_though_it_always_was() -> None:
    none = {"normal_gbps": None, "share": None}
    rows = [
        pair(f"r{n}/{a}", a, "gpu009", 200.0 if a == "gpu001" else 400.0, **none)
        for n in range(3)
        for a in ("gpu001", "gpu002", "gpu003")
    ]
    assert retained(framed(samples=rows))["kept"].min() == 0.5


def test_a_change_is_in_force_from_its_reading_back_until_it_was_taken_back() -> None:
    states = [change("intent", 1.0), change("in_force", 2.0), change("reverted", 5.0), change("in_force", 7.0)]
    first, second = windows(framed(changes=states)).itertuples()
    assert (first.began_s, first.ended_s, first.is_fault) == (2.0, 5.0, True)
    assert second.began_s == 7.0
    assert second.ended_s != second.ended_s
    (toggle,) = windows(framed(changes=[change("in_force", 0.0, "adaptive_routing")])).itertuples()
    assert not toggle.is_fault


def test_a_probe_that_takes_long_leaves_no_hole() -> None:
    """Half an hour of a burn-in is one probe a pair: it ran all that time, not at its end."""
    rows = [sample(f"a{n}", began_s=0.0, ended_s=9000.0) for n in range(1600)]
    drawn = timeline(framed(samples=[*rows, sample("b", began_s=9990.0, ended_s=10000.0)]))
    assert drawn is not None
    line = max(drawn.axes[0].lines, key=lambda one: len(one.get_xdata()))
    assert len(line.get_xdata()) > 50


def test_what_gave_no_number_has_a_cross_and_hours_are_hours() -> None:
    rows = [sample("a", ended_s=9000.0), sample("b", None, outcome="error")]
    drawn = timeline(framed(samples=rows))
    assert drawn is not None
    assert {"no number", "hours since the run began"} <= texts(drawn)
    clean = timeline(framed(samples=rows[:1]))
    assert clean is not None
    assert not {"no number", "a fault in force"} & texts(clean)


def test_changes_are_bands_with_their_names(bad_run: ShownRun) -> None:
    states = [change("in_force", 10.0), change("reverted", 20.0)]
    drawn = timeline(framed(samples=[sample("a", ended_s=30.0)], changes=states))
    assert drawn is not None
    assert {"ber", "a fault in force"} <= texts(drawn)


def test_a_change_that_is_still_in_force_lasts_to_the_end() -> None:
    drawn = timeline(framed(samples=[sample("a", ended_s=30.0)], changes=[change("in_force", 10.0)]))
    assert drawn is not None
    assert max(drawn.axes[0].lines[0].get_xdata()) == 30.0


def test_without_a_probe_that_ran_there_is_no_time_line() -> None:
    assert timeline(framed(samples=[sample("a", None, began_s=None, ended_s=None, outcome="skipped")])) is None


def test_counters_that_grew_are_drawn_those_of_suspects_first() -> None:
    rows = [
        {
            "at_s": 60.0 * n,
            "part": part,
            "host": part[:6],
            "name": "symbol_error",
            "unit": "count",
            "value": 1.0,
            "delta": by,
        }
        for part, by in (("gpu001/mlx5_0", 5.0), ("gpu002/mlx5_1", 50.0))
        for n in range(3)
    ]
    drawn = counters(framed(counters=rows), ["gpu001"])
    assert drawn is not None
    first, second = (ax.get_title(loc="left") for ax in drawn.axes)
    assert first == "gpu001/mlx5_0 symbol_error: +15 in 3 steps, at most +5"
    assert second.startswith("gpu002/mlx5_1")
    assert counters(framed()) is None


def test_what_grows_alike_on_all_ports_is_not_drawn() -> None:
    """Eight leaves with the same corrected errors hid the one port that counted more."""
    rows = [
        {"at_s": 60.0, "part": f"leaf1/{n}", "name": "raw_errors", "unit": "count", "value": 1.0, "delta": by}
        for n, by in enumerate([100.0] * 9 + [900.0])
    ]
    drawn = counters(framed(counters=rows))
    assert drawn is not None
    assert [ax.get_title(loc="left")[:18] for ax in drawn.axes] == ["leaf1/9 raw_errors"]
    assert counters(framed(counters=rows[:9])) is None
