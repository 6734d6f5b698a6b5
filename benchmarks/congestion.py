"""
Incasts, a victim and lost packets in the simulated queues, beside what was published of them.

``python benchmarks/congestion.py`` prints each figure that could be read, with where it stands, and what the fluid
model (``fabric/sim/net/dcqcn.py``) and ``goodput_factor`` say of the same; then the same victim with PFC or ECN alone
and with neither, of which nothing that is printed as numbers was found. Exit status 1 where a figure that the model is
said to give is further off than its row allows.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fabric.sim.net.clos import Floats
from fabric.sim.net.dcqcn import LEAST_GBPS, Fluid, Queues, settle
from fabric.sim.phy.quality import FABRIC_RTT_US, MTU_BYTES, go_back_n, goodput_factor

PAPER = Queues(k_min=5e3, k_max=200e3, p_max=0.01, xoff=1e9, packet=1000)
"""Zhu et al., SIGCOMM 2015: thresholds at 40 Gb/s, 1 KB packets; buffers without end, as their fluid model has them."""

BURSTS, BEGIN_S, END_S, LAST_S, STEP_S, EVERY_S = 15, 3e-3, 4e-3, 25e-3, 2e-6, 0.2e-3
"""The victim's experiment: H3 to H17 send for 1 ms after 3 ms; how long it is followed, and how often looked at."""

SHARED_GBPS, F1_GBPS, F2_GBPS = 32.0, 17.0, 15.0
"""Read in its figures: the two flows' sum where their cable is full, and each of them when the burst begins."""

XOFF_BYTES = 50e3
"""Not told there; a choice: 50 kB come out near the figure, 200 kB let the victim be cut to 4 Gb/s, not 9."""

TIMEOUT_S = 4.096e-6 * 2**14
"""What perftest asks for (-u 14), 67 ms."""

VICTIM = "DCQCN authors' ns-3 code, sc20anonymous/DCQCN-validation"


@dataclass(frozen=True)
class Row:
    """One figure: *what* it is, *source*, as *published* and as it comes out *here*; *off*: how far that may be."""

    what: str
    source: str
    published: float | None
    here: float
    unit: str = ""
    off: float | None = None

    @property
    def wrong(self) -> bool:
        """Whether it is further off than it may be."""
        return self.published is not None and self.off is not None and abs(self.here - self.published) > self.off


@dataclass(frozen=True)
class Victim:
    """What became of the victim F1, which shares one cable with F2, whose receiver gets a burst; Gb/s and ms."""

    least: float
    allowed: float
    paused_ms: float
    regained: float
    after: float
    again_ms: float


def victim(*, ecn: bool = True, pfc: bool = True, xoff: float = XOFF_BYTES) -> Victim:
    """
    H1 and H2 send to R1 and R2 over one cable between two switches; 15 more send to R2 at line rate for 1 ms.

    Links: of H1 and H2, between the switches, to R1, to R2, then those of the 15, which are on the receivers' switch.
    """
    pad = 5 + BURSTS
    links = np.array([[0, 2, 3], [1, 2, 4], *([5 + at, 4, pad] for at in range(BURSTS))])
    queues = Queues(k_min=5e3, k_max=100e3, p_max=0.01, xoff=xoff, packet=1000, ecn=ecn, pfc=pfc)
    line = np.full(2 + BURSTS, SHARED_GBPS)
    per_gbps = 1e9 / 8 / queues.packet
    fluid = Fluid(links.T.astype(np.intp), np.full(pad, SHARED_GBPS), line, queues, STEP_S)
    fluid.begin(np.array([F1_GBPS, F2_GBPS, *[0.0] * BURSTS]))
    at_s, got, allowed = [], [], []
    before: Floats = np.zeros(2)
    for step in range(round(LAST_S / STEP_S)):
        sends = round(BEGIN_S / STEP_S) <= step < round(END_S / STEP_S)
        fluid.rate[2:] = (SHARED_GBPS if sends else LEAST_GBPS) * per_gbps  # messages shorter than a CNP's way
        fluid.step()
        if (step + 1) % round(EVERY_S / STEP_S) == 0:
            arrived = fluid.arrived[:2] / per_gbps
            at_s.append((step + 1) * STEP_S)
            got.append((arrived - before) / EVERY_S)
            allowed.append(fluid.rate[0] / per_gbps)
            before = arrived
    time_s, rate, let = np.array(at_s), np.array(got), np.array(allowed)
    begun = time_s > BEGIN_S + EVERY_S / 2
    held = begun & (rate[:, 0] < 0.9 * let)
    full = time_s[(time_s > END_S + EVERY_S) & (rate.sum(axis=1) > 0.97 * SHARED_GBPS)]
    rising = (time_s > END_S + 1e-3) & (time_s < END_S + 9e-3)
    return Victim(
        least=float(rate[begun, 0].min()),
        allowed=float(let[begun].min()),
        paused_ms=float(held.sum() * EVERY_S * 1e3),
        regained=float(np.polyfit(time_s[rising] * 1e3, rate[rising, 0], 1)[0]),
        after=float(rate[-1, 0]),
        again_ms=float(full[0] - BEGIN_S) * 1e3 if len(full) else float("inf"),
    )


def incasts() -> Iterator[Row]:
    """Many to one: how it is shared, what waits, and how much of the line is used."""
    two = settle(
        np.array([[0, 2], [1, 2]]), np.full(3, 40.0), np.full(2, 40.0), PAPER,
        time_s=0.05, step_s=4e-6, begin_gbps=np.array([30.0, 10.0]),
    )  # fmt: skip
    zhu, theirs = "Zhu 2015 (DCQCN), Figure 10", "its fluid model, jitupadhye-zz/rdma"
    yield Row("2 flows into a 40G port, each", zhu, 20.0, float(two.rate_gbps.min()), "Gb/s", 1.0)
    for senders, queue_kb, peak_mb in ((2, 20.2, 0.48), (5, 53.9, 2.29), (10, 122.6, 5.7)):
        links = np.array([[one, senders] for one in range(senders)])
        given = links, np.full(senders + 1, 40.0), np.full(senders, 40.0), PAPER
        late = np.full(senders, 40.0 / senders) if senders <= 5 else None
        steady = settle(*given, time_s=0.1 if senders > 5 else 0.05, step_s=2e-6, begin_gbps=late)
        start = settle(*given, time_s=0.004, step_s=2e-6)
        waits = float(steady.queue[senders]) / 1e3
        yield Row(f"{senders} senders at 40G, what waits", theirs, queue_kb, waits, "kB", 0.02 * queue_kb)
        yield Row(f"{senders} senders, at the start", theirs, peak_mb, float(start.peak[senders]) / 1e6, "MB", 0.12)


def stormed(*, pfc: bool) -> float:
    """What a flow keeps, Gb/s, that shares a cable with one whose receiver pauses its leaf for ever."""
    links = np.array([[0, 2, 3], [1, 2, 4]])
    capacity = np.array([400.0, 400.0, 800.0, 4e-10, 400.0])
    found = settle(links, capacity, np.full(2, 400.0), Queues(pfc=pfc), time_s=0.01, step_s=4e-6)
    return float(found.rate_gbps[1])


def victims() -> Iterator[Row]:
    """The victim with ECN and PFC beside the figures, then without; and that of an RNIC that pauses for ever."""
    yield Row(
        "an RNIC pauses for ever: the flow beside", "Guo 2016: stops the network", 0.0, stormed(pfc=True), "Gb/s", 1
    )
    both = victim()
    yield Row("victim paused to", VICTIM, 2.2, both.least, "Gb/s", 1.0)
    yield Row("victim cut by DCQCN to", f"{VICTIM} (README: about 9)", 9.0, both.allowed, "Gb/s", 1.0)
    yield Row("pauses, not DCQCN, hold it for", f"{VICTIM} (README: about 1.2)", 1.2, both.paused_ms, "ms", 0.4)
    yield Row("it rises again by", VICTIM, 0.72, both.regained, "Gb/s a ms", 0.1)
    yield Row("the cable is full again after", f"{VICTIM} (README: 16)", 16.0, both.again_ms, "ms", 5.0)
    for name, one in {
        "PFC alone": victim(ecn=False),
        "ECN alone": victim(pfc=False),
        "neither": victim(ecn=False, pfc=False),
    }.items():
        yield Row(f"{name}: victim falls to", "no figure found", None, one.least, "Gb/s")
        yield Row(f"{name}: 21 ms after the burst", "no figure found", None, one.after, "Gb/s")


def with_timeouts(loss: float, gbps: float) -> float:
    """Go-back-N of an RNIC that waits for a timer where a packet that is sent again is lost, too (p*p)."""
    packets_a_s = gbps * 1e9 / (MTU_BYTES * 8)
    return go_back_n(loss, (FABRIC_RTT_US * 1e-6 + loss * TIMEOUT_S) * packets_a_s)


def losses() -> Iterator[Row]:
    """What is left where packets are lost and sent again."""
    share = {loss: goodput_factor(loss, rate_gbps=400.0) for loss in (1e-3, 1e-2, 5e-2)}
    yield Row("go-back-N, 0.1 % lost", "MRC, arXiv 2605.04333: collapses", None, share[1e-3], "of the rate")
    yield Row("go-back-N, above 1 % lost, no timeouts", "ICCCN 2019: near 0", 0.0, share[1e-2], "of the rate")
    waits = {gbps: with_timeouts(1e-2, gbps) for gbps in (400.0, 100.0)}
    yield Row("the same with timeouts of 67 ms", "ICCCN 2019: near 0", 0.0, waits[400.0], "of the rate", 0.02)
    each = 0.99 / goodput_factor(1e-2, rate_gbps=100.0)
    yield Row("selective repeat over go-back-N, 1 % lost", "RoSR (LCA 2025): up to, writes", 13.5, each, "times")
    late = 0.99 / waits[100.0]
    yield Row("the same with timeouts of 67 ms", "RoSR (LCA 2025): up to, writes", 13.5, late, "times")


def main() -> int:
    """Print one line a figure."""
    wrong = False
    print(f"{'':<42}{'published':>10}{'here':>10}  unit, source")
    for rows in (incasts, victims, losses):
        for row in rows():
            published = "-" if row.published is None else f"{row.published:g}"
            mark = "  <- off" if row.wrong else "" if row.off is not None else "  (told, not checked)"
            print(f"{row.what:<42}{published:>10}{row.here:>10.3g}  {row.unit}, {row.source}{mark}")
            wrong = wrong or row.wrong
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
