"""Every figure follows the page's light or dark: configurations, and a run in time."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.figure import Figure

import fabric
from fabric.report.figures import (
    against_peers,
    bars,
    counters,
    course,
    hosts,
    inline,
    pairs,
    rings,
    save,
    scaling,
    timeline,
)
from fabric.report.figures.configurations import collectives, compared_kinds, side_by_side
from fabric.report.figures.style import COLOURS, SIZE_PT
from fabric.report.figures.timeline import retained, windows
from fabric.report.shown_run import ShownRun
from tests.report.figures.seen import texts
from tests.report.shown import HOSTILE, framed, pair, sample


def reduce_of(phase: str, gbps: float, **others: Any) -> dict[str, Any]:
    """One size of a collective over all hosts."""
    group = {"host": None, "hosts": "gpu[001-064]", "rnic": None, "endpoint": None, "op": "busbw_out_of_place"}
    row = {**group, "kind": "group_all_reduce", "phase": phase, "size_bytes": 8 << 30}
    return sample(**{"probe": f"{phase}/{gbps}", "gbps": gbps, **row, **others})


OFF_AND_ON = [
    reduce_of(f"{phase}.adaptive_routing-{word}{again}", gbps)
    for phase, word, gbps in (("healthy", "off", 900.0), ("healthy", "on", 2700.0), ("degraded", "off", 300.0))
    for again in ("", ".r2")
]


def test_rounds_are_one_configuration_and_routing_is_taken_apart() -> None:
    found = collectives(framed(samples=OFF_AND_ON))
    assert set(found["configuration"]) == {
        f"{p}.adaptive_routing-{w}" for p, w in (("healthy", "off"), ("healthy", "on"), ("degraded", "off"))
    }
    assert set(found["rest"]) == {"healthy", "degraded"}
    assert set(found["routing"]) == {"off", "on"}


@pytest.mark.parametrize("draw", [bars, rings, course, against_peers])
def test_of_what_was_not_measured_nothing_is_drawn(draw: Any) -> None:
    assert draw(framed(samples=[sample("one")]), "gpu999/mlx5_9") is None


def test_a_figure_is_saved_into_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    made = bars(framed(samples=OFF_AND_ON), "group_all_reduce")
    assert made is not None
    assert [one.is_file() for one in save(made, f"{tmp_path}/new/slides", "one")] == [True, True]


def test_a_bar_says_its_mean_and_what_it_is() -> None:
    run = framed(samples=OFF_AND_ON)
    assert compared_kinds(run) == ["group_all_reduce"]
    assert not side_by_side(run, "group_all_reduce")
    assert {"900", "2,700", "300", "AR off", "AR on", "healthy", "degraded"} <= texts(bars(run, "group_all_reduce"))


def test_of_both_directions_the_lower_number_counts() -> None:
    rows = [reduce_of("p", 100.0), {**reduce_of("p", 100.0), "op": "busbw_in_place", "gbps": 90.0}]
    assert list(collectives(framed(samples=rows))["gbps"]) == [90.0]


def test_rings_side_by_side_say_how_far_apart_they_are() -> None:
    rows = [
        reduce_of(f"rings.adaptive_routing-{word}", gbps, hosts=f"gpu{number}", probe=f"{word}{number}")
        for word, each in (("off", (1000.0, 3000.0)), ("on", (3000.0, 3000.0)))
        for number, gbps in enumerate(each)
    ]
    run = framed(samples=rows)
    assert side_by_side(run, "group_all_reduce")
    assert {"mean 2,000, CV 50.0%", "mean 3,000, CV 0.0%"} <= texts(rings(run, "group_all_reduce"))


def test_adaptive_routing_under_bit_errors_has_four_bars(changed_run: ShownRun) -> None:
    drawn = bars(changed_run.frames, "group_all_reduce")
    assert len(drawn.axes[0].patches) == pytest.approx(4)


def curve() -> Figure:
    """One that is drawn."""
    points = pd.DataFrame([("ring", 2, 390.0, 400.0), ("ring", 4, 380.0, 400.0)])
    drawn = scaling(points.set_axis(["kind", "hosts", "gbps", "bound_gbps"], axis=1))
    assert drawn is not None
    return drawn


def test_a_curve_over_hosts_needs_two_numbers() -> None:
    rows = [("ring", 2, 390.0, 400.0), ("ring", 4, 380.0, 400.0), ("ring", 8, None, 400.0), ("one", 2, 1.0, 2.0)]
    points = pd.DataFrame(rows, columns=["kind", "hosts", "gbps", "bound_gbps"]).astype({"gbps": float})
    drawn = scaling(points)
    assert drawn is not None
    assert [list(line.get_xdata()) for line in drawn.axes[0].lines] == [[2, 4], [2, 4]]
    assert scaling(points[:1]) is None


def test_every_colour_is_a_variable_of_the_page() -> None:
    """Of the light and of the dark one; in the light it is the same, so that a file on white looks alike."""
    style = files("fabric.report").joinpath("templates", "report.css").read_text("utf-8")
    light, dark = style.partition("@media")[::2]
    assert len(set(COLOURS.values())) == len(COLOURS)
    for name, colour in COLOURS.items():
        assert f"--{name}:{colour}" in light
        assert f"--{name}:" in dark
    assert not re.findall("#[0-9a-f]{6}", inline(curve()))


@pytest.mark.slow
@pytest.mark.parametrize("word", HOSTILE)
def test_what_a_host_is_called_stays_text(word: str) -> None:
    """Neither markup nor mathematics; what hides or reverses letters is written out."""
    rows = [sample(f"p/{word}", host=word, hosts=word, kind=word, rnic=word)]
    rows += [pair(f"q{end}", word, end, kind=word) for end in (f"${word}$", "gpu001")]
    for drawn in (hosts(framed(samples=rows)), pairs(framed(samples=rows), word)):
        assert drawn is not None
        text = inline(drawn)
        tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(text).iter()}
        assert tags <= {"svg", "g", "path", "use", "defs", "text", "tspan", "a"}
        assert not re.search("[\x00-\x08\x1b\u202e]", text)
        assert "url(" not in text


def test_letters_are_large_enough() -> None:
    sizes = re.findall(r"font-size: (\d+(?:\.\d+)?)px", inline(curve()))
    assert sizes
    assert min(map(float, sizes)) >= SIZE_PT


def test_nothing_of_the_style_stays_set() -> None:
    """A notebook's own figures look as its user wants."""
    before = dict(mpl.rcParams)
    curve()
    assert dict(mpl.rcParams) == before


def test_a_figure_is_a_png_and_an_svg(tmp_path: Path) -> None:
    paths = save(curve(), tmp_path, "../a b")
    assert [path.name for path in paths] == ["-a-b.png", "-a-b.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(paths[1]).getroot().tag.endswith("svg")


def test_the_same_figure_is_the_same_text() -> None:
    """A page that is made again differs in nothing."""
    assert inline(curve()) == inline(curve())


def test_a_notebook_reaches_them_as_fabric_figures() -> None:
    assert fabric.figures.scaling is scaling
    with pytest.raises(AttributeError, match="figure'"):
        _ = fabric.figure  # type: ignore[attr-defined]


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
    for kind in ("adaptive_routing", "switch_pfc"):
        (toggle,) = windows(framed(changes=[change("in_force", 0.0, kind)])).itertuples()
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


@pytest.mark.slow
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
        for n in range(3 if part.startswith("gpu001") else 1)
    ]
    drawn = counters(framed(counters=rows), ["gpu001"])
    assert drawn is not None
    first, second = (ax.get_title(loc="left") for ax in drawn.axes)
    assert first == "gpu001/mlx5_0 symbol_error: +15 in 3 steps, at most +5"
    assert second == "gpu002/mlx5_1 symbol_error: +50 in 1 step, at most +50"
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
