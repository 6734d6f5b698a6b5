"""The fluid model of queues, ECN, PFC and DCQCN against published numbers, and its head-of-line blocking."""

from __future__ import annotations

import numpy as np
import pytest

from fabric.sim.net.dcqcn import Queues, Settled, settle
from fabric.sim.phy.quality import goodput_factor

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


@pytest.mark.parametrize(
    ("senders", "queue_kb", "peak_mb"),
    [(2, 20.2, 0.48), *(pytest.param(*row, marks=pytest.mark.slow) for row in ((5, 53.9, 2.29), (10, 122.6, 5.7)))],
)
def test_queues_of_the_authors_fluid_model(senders: int, queue_kb: float, peak_mb: float) -> None:
    """40G, thresholds 5/200 KB/1 %: the steady queue and the overshoot that the authors' own code gives; all equal."""
    found = many_to_one(senders, PAPER, 40.0, time_s=0.1 if senders > 5 else 0.05, late=senders <= 5)
    assert found.queue[senders] / 1e3 == pytest.approx(queue_kb, rel=0.02)
    start = many_to_one(senders, PAPER, 40.0, time_s=0.004)
    assert start.peak[senders] / 1e6 == pytest.approx(peak_mb, rel=0.02)
    assert jain(found.rate_gbps) == pytest.approx(1.0)
    assert found.rate_gbps.sum() == pytest.approx(40.0, rel=1e-3)


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
    assert only.paused[5] > 0.5
    assert only.marked.sum() == 0.0
    begin = np.array([100.0] * 4 + [400.0])
    both = settle(links, capacity, line, Queues(), time_s=0.02, step_s=4e-6, begin_gbps=begin)
    assert both.rate_gbps[4] == pytest.approx(400.0, rel=0.02)
    assert both.marked[:4].min() > 0.0
    assert both.lost.sum() == 0.0


def test_without_pfc_what_overflows_is_lost() -> None:
    """Nobody marks and nobody pauses: of two senders at line rate half of all packets are dropped."""
    found = many_to_one(2, Queues(ecn=False, pfc=False), 400.0, time_s=0.01, step_s=4e-6)
    packets = found.rate_gbps * 1e9 / 8 / 4096
    assert found.lost / (found.lost + packets) == pytest.approx([0.5, 0.5], rel=0.01)


def test_what_retransmission_leaves() -> None:
    """
    Go-back-0 delivers nothing of 4 MB messages of 1 KB packets at one loss in 256 (Guo et al., SIGCOMM 2016).

    Each mode is better than the one before. Go-back-N falls steeply from 0.1 % on, without the timeouts that make it
    near zero above 1 % (ICCCN 2019); selective repeat loses only what is lost.
    """
    modes = ("go_back_0", "go_back_n", "selective_repeat")
    left = [goodput_factor(1 / 256, rate_gbps=40.0, retransmission=mode, packet_bytes=1024) for mode in modes]
    assert left[0] < 1e-5
    assert left == sorted(left)
    assert [goodput_factor(loss, rate_gbps=400.0) for loss in (1e-3, 1e-2, 5e-2)] == pytest.approx(
        [0.872, 0.403, 0.115], abs=0.002
    )
    assert goodput_factor(0.05, rate_gbps=400.0, retransmission="selective_repeat") == 0.95


def test_jain() -> None:
    """1 when all are equal, 1/n when one has all (Jain 1984)."""
    assert jain(np.full(4, 3.0)) == pytest.approx(1.0)
    assert jain(np.array([5.0, 0.0])) == pytest.approx(0.5)
    assert jain(np.zeros(0)) == 1.0


@pytest.mark.parametrize(("steps", "links"), [(1, [[0]]), (10, [[3]]), (10_000_000, [[0]])])
def test_what_cannot_be_worked_out_is_refused(steps: int, links: list[list[int]]) -> None:
    """Too few or too many steps, or a link that is not there."""
    with pytest.raises(ValueError, match=r"steps|path"):
        settle(np.array(links), np.ones(2), np.ones(1), Queues(), time_s=steps * 1e-6)
