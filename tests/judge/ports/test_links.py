"""Both ends of cables: what their ports counted, how they stand, what light they see, and what nobody saw."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.measured_rack import rack_topology
from fabric.judge.ports.health import PortHealth, judge_ber, port_health
from fabric.judge.ports.links import (
    LinkEvidence,
    SeenCable,
    bad_batches,
    cables_of,
    coverage_of,
    hot_modules,
    link_health,
)
from fabric.model.change import Change, ChangeResult, Window
from fabric.model.outcome import Outcome
from fabric.model.sampling import LINK_DOWNED, SYMBOL_ERRORS, CounterCourse, CounterReading, Samples, ZeroGrowth
from fabric.model.topology import Topology, Uplinks
from fabric.runs.samples import End, LinkModule, LinkSamples
from tests.changes.asked import ber

HOURS_S = 6 * 3600.0
UPLINK: tuple[End, End] = (("leaf0", "9"), ("spine0", "1"))
ACCEPTS = ZeroGrowth((SYMBOL_ERRORS, LINK_DOWNED))


def fabric() -> Topology:
    """Two hosts under two leaves, each with one cable to a spine."""
    rack = rack_topology(2, parts=2)
    switches = {**rack.switches, "spine0": replace(rack.switches["leaf0"], name="spine0", tier="spine")}
    return replace(rack, switches=switches, uplinks=(Uplinks(("leaf0", "leaf1"), ("spine0",), 1, 400.0),))


def course(*values: float, until_s: float = HOURS_S) -> CounterCourse:
    """*values* one after the other, evenly over the time."""
    return CounterCourse([until_s * n / len(values) for n in range(len(values))], list(values), until_s)


QUIET = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards")


def judged(
    end: End | None = None,
    accepts: ZeroGrowth | None = ACCEPTS,
    changes: tuple[ChangeResult, ...] = (),
    without: tuple[End, ...] = (),
    modules: dict[End, LinkModule] | None = None,
    **odd: CounterCourse,
) -> dict[str, PortHealth]:
    """Every cable by its name, of a fabric in which *end* has these courses and all else is well."""
    topology = fabric()
    pairs = [UPLINK, (("leaf1", "9"), ("spine0", "2"))]
    pairs += [((link.a.partition("/")[0], link.a.partition("/")[2]), (link.b, f"{number + 20}"))
              for number, link in enumerate(topology.links()) if "/" in link.a]  # fmt: skip
    courses = {CounterReading("", "", "looks"): course(1, 2, 3)}
    for one in (one for pair in pairs for one in pair if one not in without):
        own = {name: course(0) for name in QUIET} | {"up": course(1), "width": course(4), "lane_gbps": course(106.25)}
        own |= odd if one == end else {}
        courses |= {CounterReading(*one, name): value for name, value in own.items()}
    links = LinkSamples(Samples(60.0, courses), tuple(pairs), modules or {})
    looked = LinkEvidence(links, topology, changes, accepts, frozenset(), began_s=0.0, ended_s=HOURS_S)
    cables = cables_of(links, topology, list(topology.hosts))
    assert coverage_of(looked, cables).cables == len(cables)
    return {one.component: one for one in link_health(looked, cables)}


def test_a_quiet_fabric_passes() -> None:
    """Cables of hosts are called as their ports, those between switches by both."""
    found = judged()
    assert {one.outcome for one in found.values()} == {Outcome.PASS}
    assert {"leaf0--spine0", "leaf1--spine0", "gpu001/mlx5_0:port"} <= found.keys()


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"link_downed": course(0, 0, 3)}, "spine0 port 1: 3 times down"),
        ({"link_downed": course(254, 254, 1)}, "spine0 port 1: 1 time down"),
        ({"symbol_error": course(0, 60)}, "only spine0 port 1 counts errors: what leaf0 port 9 sends, the cable, or"),
        ({"up": course(1, 0)}, "down since"),
        ({"width": course(2)}, "2 lanes of 106.25 Gb/s, the line has 400"),
        (
            {f"rx{lane}_dbm": course(-2.4 if lane == 2 else 2.0) for lane in range(4)},
            "lane 2 receives -2.4 dBm, 4.4 dB",
        ),
    ],
)
def test_what_one_end_shows_fails_its_cable_alone(odd: dict[str, CounterCourse], words: str) -> None:
    """Counters that grew or were cleared and grew, errors, a link that is down, lost lanes, a lane without light."""
    found = judged(UPLINK[1], **odd)
    assert [name for name, one in found.items() if one.outcome is not Outcome.PASS] == ["leaf0--spine0"]
    assert found["leaf0--spine0"].outcome is Outcome.FAIL
    assert any(words in text for text in found["leaf0--spine0"].words), found["leaf0--spine0"].words


def test_light_outside_the_limits_of_its_own_module_fails_though_all_lanes_are_alike() -> None:
    dark = {f"rx{lane}_dbm": course(-12.0) for lane in range(4)}
    module = LinkModule("NVIDIA", "MMA4Z00", "MT1", "46.1", -10.4, 6.0)
    one = judged(UPLINK[1], modules={UPLINK[1]: module}, **dark)["leaf0--spine0"]
    assert one.outcome is Outcome.FAIL
    assert "spine0 port 1: lane 0 receives -12.0 dBm, its module wants -10.4 to 6" in one.words
    assert "ends: spine0 port 1 (MMA4Z00 serial MT1, firmware 46.1)" in one.words
    warns = {f"rx{lane}_dbm": course(-9.0) for lane in range(4)}
    one = judged(UPLINK[1], modules={UPLINK[1]: replace(module, rx_warn_dbm=-8.4)}, **warns)["leaf0--spine0"]
    assert one.outcome is Outcome.MARGINAL
    assert "spine0 port 1: lane 0 receives -9.0 dBm, its module warns below -8.4" in one.words


@pytest.mark.parametrize(
    ("own", "above"), [(course(62), 22.0), (course(41, 62), None), (course(62, 41), None), (course(48), None)]
)
def test_a_module_that_is_hotter_than_its_like_is_marginal(own: CounterCourse, above: float | None) -> None:
    """Hotter when all work, or at its coolest and at its hottest; not who was busy while the others were not."""
    ends = [("gpu00" + str(n), "mlx5_0") for n in range(9)]
    worked = {end: {"module_c": course(40, 80 if end == ends[4] else 54)} for end in ends}
    assert list(hot_modules(worked, dict.fromkeys(ends, "alike"))) == [ends[4]]
    courses = {end: {"module_c": own if end == ends[4] else course(40)} for end in ends}
    found = hot_modules(courses, dict.fromkeys(ends, ("MMA4Z00", "mlx5_0")))
    assert [*found] == ([ends[4]] if above else [])
    assert not above or f"{above:g} C hotter than others of 9 like it" in found[ends[4]]
    assert not hot_modules(courses, {end: number for number, end in enumerate(ends)})


def test_blocks_that_the_error_correction_could_just_mend_are_marginal() -> None:
    """Those of this run: what was counted before it began, or was cleared, accuses nobody."""
    assert judged(UPLINK[1], full_blocks=course(7, 7))["leaf0--spine0"].outcome is Outcome.PASS
    one = judged(UPLINK[1], full_blocks=course(7, 7, 12))["leaf0--spine0"]
    assert one.outcome is Outcome.MARGINAL
    assert "spine0 port 1: 5 blocks with as many wrong symbols as the error correction can mend" in one.words


def test_a_change_of_ours_explains_its_own_cable_and_no_other() -> None:
    one = Change("p/ber.x", "p", "leaf0--spine0", "cable", ber("leaf0--spine0", raw="1e-6"))
    own = ChangeResult(one, "reverted", windows=(Window(7100.0, 7300.0),))
    downs = course(0, 1, 1)
    assert judged(UPLINK[0], changes=(own,), link_downed=downs)["leaf0--spine0"].outcome is Outcome.PASS
    other = judged(("leaf1", "9"), changes=(own,), link_downed=downs)
    assert other["leaf1--spine0"].outcome is Outcome.FAIL


@pytest.mark.parametrize("accepts", [ACCEPTS, None])
def test_an_end_that_nobody_read_is_inconclusive_where_links_are_accepted(accepts: ZeroGrowth | None) -> None:
    """And nothing but unknown elsewhere."""
    outcome = judged(accepts=accepts, without=(UPLINK[1],))["leaf0--spine0"].outcome
    assert outcome is (Outcome.PASS if accepts is None else Outcome.INCONCLUSIVE)


def test_a_look_that_ended_before_the_run_did_accepts_nothing() -> None:
    early = {name: course(0, until_s=HOURS_S / 2) for name in QUIET}
    found = judged(UPLINK[1], **early)
    assert found["leaf0--spine0"].unread == (SYMBOL_ERRORS, LINK_DOWNED)


def test_a_counter_that_stands_at_its_highest_value_shows_nothing() -> None:
    """It stays there, whatever happens."""
    assert judged(UPLINK[1], link_downed=course(255))["leaf0--spine0"].outcome is Outcome.INCONCLUSIVE


def test_a_batch_of_modules_that_errs_together_is_named_though_no_cable_of_it_is() -> None:
    """Twelve errors on an end are no proof; on all with one firmware they are, and on all with another not."""
    health = port_health(
        "spine0", "1", {"symbol_error": course(0, 12)}, (), every_s=60.0, line_rate_gbps=400.0, ethernet=False, ports=64
    )
    assert health is not None
    assert health.outcome is not Outcome.FAIL
    ends = [(f"leaf{number}--spine0", ("spine0", str(number)), health) for number in range(8)]
    quiet = replace(health, ber=judge_ber(0, HOURS_S, 400.0))
    ends += [(f"leaf{number}--spine1", ("spine1", str(number)), quiet) for number in range(8)]
    modules = {end: LinkModule("V", "P", None, "1.0" if end[0] == "spine0" else "2.0") for _, end, _ in ends}
    (found,) = bad_batches(ends, modules, line_rate_gbps=400.0)
    assert found.component == "modules with firmware 1.0"
    assert "96 symbol errors on all 8 modules" in found.words[0]
    assert not bad_batches([(name, end, health) for name, end, _ in ends], modules, line_rate_gbps=400.0)


def test_a_host_that_goes_down_is_no_cable_that_does() -> None:
    """All its leaf ports count it between the same two looks; another time one of them alone is its cable's."""
    topology = fabric()
    one, other = (("gpu001", f"mlx5_{number}") for number in range(2))
    cables = [SeenCable(link, (end, (link.b, "1"))) for link, end in zip(topology.links(), (one, other), strict=False)]
    courses = {end: {"link_downed": course(0, 1, 1)} for end in (cables[0].ends[1], cables[1].ends[1])}
    courses[cables[0].ends[1]] = {"link_downed": course(0, 1, 3)}
    links = LinkSamples(
        Samples(60.0, {CounterReading(*end, name): found for end, own in courses.items() for name, found in own.items()}
                | {CounterReading(*end, "up"): course(1) for end in courses}),
        tuple((cable.ends[0], cable.ends[1]) for cable in cables),
    )  # fmt: skip
    evidence = LinkEvidence(links, topology, (), None, frozenset(), began_s=0.0, ended_s=HOURS_S)
    found = {one.component: one for one in link_health(evidence, cables)}
    for end in courses:  # and off it stays: what its own end said last is of before
        links.samples.courses[CounterReading(*end, "up")].values[-1] = 0
    assert not link_health(evidence, cables)
    assert found["gpu001/mlx5_0:port"].words[0].startswith(f"{cables[0].link.b} port 1: 2 times down")
    assert found["gpu001/mlx5_1:port"].outcome is Outcome.PASS
