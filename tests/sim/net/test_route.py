"""Routes are OpenSM's and never cross what is down; queues, ECN, PFC and DCQCN against published numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.congestion import stormed, victim
from fabric.sim.net.clos import ClosSpec, build
from fabric.sim.net.dcqcn import Queues, Settled, settle
from fabric.sim.net.route import ENGINES, routes
from fabric.sim.phy.quality import goodput_factor
from tests.places import GOLDEN
from tests.sim.net.link_names import bisection, cable

FOLDER = GOLDEN / "opensm"
TWO = ClosSpec(512, 1, 16, 16, 2, 0, 0, False, 400.0, 400.0)
THREE = ClosSpec(128, 1, 4, 4, 3, 4, 4, False, 400.0, 400.0)
WIDE = ClosSpec(48, 1, 8, 12, 2, 0, 0, False, 400.0, 400.0)
TAPERED = ClosSpec(72, 1, 6, 4, 3, 3, 3, False, 400.0, 400.0)
SMALL = ClosSpec(16, 1, 2, 3, 3, 2, 2, False, 400.0, 400.0)
STATIC = [engine for engine in ENGINES if engine != "ar"]


def opensm(name):
    """(leaf or spine, its number) -> what OpenSM chose for each NIC; a dot where the way leads down."""
    lines = [line.split() for line in (FOLDER / f"{name}.txt").read_text().splitlines() if line[0] != "#"]
    return {(kind, int(number)): choices for kind, number, choices in lines}


@pytest.mark.parametrize("engine", ["ftree", "updn", "minhop"])
@pytest.mark.parametrize(
    ("size", "spec"),
    [("2-levels-512", TWO), ("2-levels-48-wide", WIDE), ("3-levels-128", THREE), ("3-levels-72-tapered", TAPERED)],
)
def test_routes_are_those_of_opensm(engine, size, spec):
    """From every leaf to every NIC, the spine and the core a real OpenSM wrote into its forwarding tables."""
    clos, tables = build(spec), opensm(f"{engine}-{size}")
    dst, compared = np.arange(clos.nics), 0
    for leaf in range(clos.leaves):
        links = routes(clos, np.full(clos.nics, leaf * spec.down), dst, engine=engine).links.astype(np.int64)
        for nic in np.flatnonzero(links[:, 1] < clos.links):
            spine = int(tables["leaf", leaf][nic], 36)
            assert links[nic, 1] == clos.leaf_up(leaf, spine)
            compared += 1
            if links[nic, 2] < clos.links:
                pod = leaf // clos.leaves_per_pod
                core = int(tables["spine", pod * spec.up + spine][nic], 36)
                assert links[nic, 2] == clos.spine_up(pod, spine, core)
    assert compared == clos.leaves * (clos.nics - spec.down)


@pytest.mark.parametrize(("engine", "published"), [("ftree", 0.761), ("updn", 0.453), ("lft_random", 0.622)])
def test_effective_bisection_of_opensm_tables(job_shares, engine, published):
    """128 nodes on three levels: what traffic over OpenSM's own tables gets, to 0.01."""
    clos = build(THREE)
    shares = [job_shares(clos, bisection(clos, seed), engine, salt=seed).mean() for seed in range(200)]
    assert np.mean(shares) == pytest.approx(published, abs=0.01)


@given(st.sets(st.integers(0, build(SMALL).links - 1), max_size=40), st.sampled_from(STATIC), st.booleans())
@settings(max_examples=30, deadline=None)
def test_no_path_is_down_where_another_is_up(dead, engine, shield):
    """Where trying all ways finds one whose cables are all up, the path is such a way; else `cut` may find it."""
    clos = build(SMALL)
    paths = routes(clos, *PAIRS, engine=engine, down=dead, healing="shield" if shield else "sm")
    unusable = dead | {OTHER_WAY[link] for link in dead if link >= 2 * clos.nics}
    lost = cut(paths, dead)
    for row, (hops, ways) in enumerate(zip(paths.links.tolist(), WAYS, strict=True)):
        path = frozenset(hops) - {clos.links}
        assert path in ways
        assert not path & unusable or all(way & unusable for way in ways)
        assert lost[row] == bool(path & dead)


def ways(clos, src, dst):
    """Every path between two NICs of the small network, as sets of links."""
    a, b = (int(clos.leaf_at[np.array([nic])][0]) for nic in (src, dst))
    ends = {int(clos.nic_up(src)), int(clos.nic_dn(dst))}
    if a == b:
        return {frozenset(ends)}
    p, q = a // 2, b // 2
    trunks = [ends | {int(clos.leaf_up(a, s)), int(clos.leaf_dn(b, s))} for s in range(3)]
    if p == q:
        return set(map(frozenset, trunks))
    cores = [(s, c) for s in range(3) for c in range(2)]
    return {frozenset(trunks[s] | {int(clos.spine_up(p, s, c)), int(clos.spine_dn(q, s, c))}) for s, c in cores}


def other_ways(clos):
    """Each link between switches to the other direction of its cable."""
    leaf, spine = np.divmod(np.arange(clos.leaves * clos.spec.up), clos.spec.up)
    above, core = np.divmod(np.arange(clos.pods * clos.spec.up * clos.spec.core_up), clos.spec.core_up)
    at = np.divmod(above, clos.spec.up)
    up = np.concatenate([clos.leaf_up(leaf, spine), clos.spine_up(*at, core)]).tolist()
    down = np.concatenate([clos.leaf_dn(leaf, spine), clos.spine_dn(*at, core)]).tolist()
    return dict(zip(up + down, down + up, strict=True))


def cut(paths, down):
    """Which sub-flows still use a dead link, because there is no other way."""
    return np.isin(paths.links, list(down)).any(axis=1)


PAIRS = np.divmod(np.arange(256), 16)
WAYS = [ways(build(SMALL), src, dst) for src, dst in zip(*PAIRS, strict=True)]
OTHER_WAY = other_ways(build(SMALL))


@pytest.mark.parametrize("engine", ["ftree", "minhop"])
def test_detours_are_those_of_opensm(engine):
    """A lost cable: every route it touches is OpenSM's; of the rest OpenSM moves one at each other leaf, we none."""
    clos, tables = build(ClosSpec(64, 1, 8, 8, 2, 0, 0, False, 400.0, 400.0)), opensm(f"{engine}-2-levels-64-lost")
    src, dst = np.divmod(np.arange(8 * 64), 64)
    links = routes(clos, src * 8, dst, engine=engine, down=cable(clos, "leaf2-spine3")).links
    away = src != dst // 8
    theirs = np.array([-1 if choice == "." else int(choice) for leaf in range(8) for choice in tables["leaf", leaf]])
    differs = away & ((links[:, 1] - int(clos.leaf_up(0, 0))) % 8 != theirs)
    assert not differs[(src == 2) | (dst // 8 == 2)].any()
    assert np.bincount(src[differs], minlength=8).tolist() == [1, 1, 0, 1, 1, 1, 1, 1]


def test_shield_moves_only_what_it_must():
    """One of eight uplinks dead: SHIELD moves its routes alone, the subnet manager deals that leaf's out anew."""
    clos = build(ClosSpec(64, 1, 8, 8, 2, 0, 0, False, 400.0, 400.0))
    src, dst = np.divmod(np.arange(64 * 64), 64)
    dead = frozenset(cable(clos, "leaf2-spine3"))
    before = routes(clos, src, dst, engine="ftree").links
    moved = {}
    for healing in ("sm", "shield"):
        after = routes(clos, src, dst, engine="ftree", down=dead, healing=healing)
        assert not cut(after, dead).any()
        moved[healing] = (after.links != before).any(axis=1)
        from_leaf = after.links[(src == 16) & (dst // 8 != 2)]
        per_spine = np.bincount(from_leaf[:, 1] - int(clos.leaf_up(2, 0)), minlength=8).tolist()
        assert per_spine == ([8, 8, 8, 0, 8, 8, 8, 8] if healing == "sm" else [7, 7, 7, 0, 14, 7, 7, 7])
    assert moved["shield"].tolist() == np.isin(before, list(dead)).any(axis=1).tolist()
    assert moved["sm"][(src == 16) & (dst // 8 != 2)].sum() == 49  # as with OpenSM: 49 of 56, where 7 had to


TWO_TIERS = ClosSpec(8, 2, 4, 3, 2, 0, 0, True, 400.0, 200.0)
THREE_TIERS = ClosSpec(12, 1, 2, 2, 3, 2, 3, False, 400.0, 800.0)
SPECS = [TWO_TIERS, THREE_TIERS]


@pytest.mark.parametrize("spec", SPECS)
def test_ids_cover_every_link_once(spec):
    """All helpers together give each id exactly once."""
    clos = build(spec)
    found = []
    leaf, spine = np.divmod(np.arange(clos.leaves * spec.up), spec.up)
    found += [clos.nic_up(np.arange(clos.nics)), clos.nic_dn(np.arange(clos.nics))]
    found += [clos.leaf_up(leaf, spine), clos.leaf_dn(leaf, spine)]
    if clos.spec.core_up:
        above, core = np.divmod(np.arange(clos.pods * spec.up * clos.spec.core_up), clos.spec.core_up)
        pod, spine = np.divmod(above, spec.up)
        found += [clos.spine_up(pod, spine, core), clos.spine_dn(pod, spine, core)]
    assert np.sort(np.concatenate(found)).tolist() == list(range(clos.links))
    assert len(clos.capacity_gbps) == clos.links


PAPER = Queues(k_min=5e3, k_max=200e3, p_max=0.01, xoff=1e9, packet=1000)
"""Zhu et al., SIGCOMM 2015: thresholds at 40 Gb/s, 1 KB packets; buffers without end."""


def jain(rates) -> float:
    """Jain's index of fairness: 1 when all are equal, 1/n when one has all; 1 for none."""
    squares = len(rates) * float((rates**2).sum())
    return float(rates.sum()) ** 2 / squares if squares else 1.0


def many_to_one(
    senders: int, queues: Queues, line_gbps: float, *, time_s: float, step_s: float = 2e-6, late: bool = False
) -> Settled:
    """Senders on links of their own and one link to a receiver; *late*: from their fair share on."""
    links = np.array([[sender, senders] for sender in range(senders)])
    line = np.full(senders, line_gbps)
    begin = line / senders if late else None
    capacity = np.full(senders + 1, line_gbps)
    return settle(links, capacity, line, queues, time_s=time_s, step_s=step_s, begin_gbps=begin)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("senders", "queue_kb", "peak_mb"),
    [(2, 20.2, 0.48), (5, 53.9, 2.29), (10, 122.6, 5.7)],
)
def test_queues_of_the_authors_fluid_model(senders: int, queue_kb: float, peak_mb: float) -> None:
    """40G, thresholds 5/200 KB/1 %: the steady queue and the overshoot that the authors' own code gives; all equal."""
    found = many_to_one(senders, PAPER, 40.0, time_s=0.1 if senders > 5 else 0.05, late=senders <= 5)
    assert found.queue[senders] / 1e3 == pytest.approx(queue_kb, rel=0.02)
    start = many_to_one(senders, PAPER, 40.0, time_s=0.004)
    assert start.peak[senders] / 1e6 == pytest.approx(peak_mb, rel=0.02)
    assert jain(found.rate_gbps) == pytest.approx(1.0)
    assert found.rate_gbps.sum() == pytest.approx(40.0, rel=1e-3)


@pytest.mark.slow
def test_two_flows_converge_to_twenty_each() -> None:
    """DCQCN (Zhu 2015), Figure 10: two flows into one 40G port get 20 Gb/s each, from wherever they start."""
    links, line = np.array([[0, 2], [1, 2]]), np.full(2, 40.0)
    found = settle(links, np.full(3, 40.0), line, PAPER, time_s=0.05, step_s=4e-6, begin_gbps=np.array([30.0, 10.0]))
    assert found.rate_gbps == pytest.approx([20.0, 20.0], rel=0.05)


@pytest.mark.parametrize(
    ("senders", "share"),
    [(8, 0.993), *(pytest.param(*row, marks=pytest.mark.slow) for row in ((16, 0.991), (32, 0.988)))],
)
def test_share_of_the_line_at_400g(senders: int, share: float) -> None:
    """Thresholds of Cumulus Linux, 4 KiB packets: the authors' equations, integrated for 0.4 s, give these shares."""
    found = many_to_one(senders, Queues(), 400.0, time_s=0.01, step_s=4e-6, late=True)
    assert found.rate_gbps.sum() / 400.0 == pytest.approx(share, abs=0.003)


@pytest.mark.slow
def test_a_paused_port_holds_the_victim_and_marks_release_it() -> None:
    """
    Four hosts send to one through an uplink that a fifth flow shares: PFC alone leaves it a fifth, ECN what is left.

    Links: senders 0 to 3, the victim's 4, the uplink 5, to the receiver 6, to the victim's receiver 7.
    """
    links = np.array([*([sender, 5, 6] for sender in range(4)), [4, 5, 7]])
    capacity = np.array([400.0] * 5 + [1600.0, 400.0, 400.0])
    line = np.full(5, 400.0)
    only = settle(links, capacity, line, Queues(ecn=False), time_s=0.02, step_s=4e-6)
    assert only.rate_gbps[:4].sum() == pytest.approx(400.0, rel=0.02)
    assert only.rate_gbps[4] < 150.0
    assert only.steady.paused[5] > 0.5
    assert only.steady.marked.sum() == 0.0
    begin = np.array([100.0] * 4 + [400.0])
    both = settle(links, capacity, line, Queues(), time_s=0.02, step_s=4e-6, begin_gbps=begin)
    assert both.rate_gbps[4] == pytest.approx(400.0, rel=0.02)
    assert both.steady.marked[:4].min() > 0.0
    assert both.steady.lost.sum() == 0.0


@pytest.mark.slow
def test_a_burst_next_door_costs_the_victim_what_the_authors_simulator_shows() -> None:
    """
    ECN and PFC, in ns-3 by DCQCN's authors (sc20anonymous/DCQCN-validation): paused to 2.2 Gb/s for 1.2 ms, and cut to
    9, from which it comes back by 0.72 Gb/s a ms. Without pauses, or without marks, it is one of the two alone.
    """
    both, pauses, marks = victim(), victim(ecn=False), victim(pfc=False)
    assert both.least == pytest.approx(2.2, abs=1.0)
    assert both.allowed == pytest.approx(9.0, abs=1.0)
    assert both.paused_ms == pytest.approx(1.2, abs=0.4)
    assert both.regained == pytest.approx(0.72, abs=0.1)
    assert 11.0 < both.again_ms < 21.0  # 16: F2 falls to 0.5 there, to 6 here
    assert (pauses.least < 3.0, pauses.allowed > 16.0) == (True, True)
    assert marks.least > 16.0


@pytest.mark.slow
def test_a_port_that_pauses_for_ever_stops_who_shares_a_cable_with_what_goes_there() -> None:
    """One RNIC that sends pauses without end stops a network (Guo et al., SIGCOMM 2016), where PFC is on."""
    assert stormed(pfc=True) < 0.1
    assert stormed(pfc=False) > 390.0


def test_without_pfc_what_overflows_is_lost() -> None:
    """Nobody marks and nobody pauses: of two senders at line rate half of all packets are dropped."""
    found = many_to_one(2, Queues(ecn=False, pfc=False), 400.0, time_s=0.01, step_s=4e-6)
    packets = found.rate_gbps * 1e9 / 8 / 4096
    lost = found.steady.lost
    assert lost / (lost + packets) == pytest.approx([0.5, 0.5], rel=0.01)


def test_what_retransmission_leaves() -> None:
    """Go-back-N falls steeply from 0.1 % on, without the timeouts that make it near zero above 1 % (ICCCN 2019)."""
    assert [goodput_factor(loss, rate_gbps=400.0) for loss in (1e-3, 1e-2, 5e-2)] == pytest.approx(
        [0.872, 0.403, 0.115], abs=0.002
    )


def test_jain() -> None:
    """1 when all are equal, 1/n when one has all (Jain 1984)."""
    assert jain(np.full(4, 3.0)) == pytest.approx(1.0)
    assert jain(np.array([5.0, 0.0])) == pytest.approx(0.5)
    assert jain(np.zeros(0)) == 1.0
