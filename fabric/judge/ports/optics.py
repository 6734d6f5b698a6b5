"""
The light and the raw bit errors of both ends of a cable: what goes wrong before a packet is lost.

- A lane outside the alarm limits of its module, or 3 dB and more below its siblings, FAILs: one fibre of a ribbon is
  dirty, or one laser dies, long before the error correction has too much to mend. Alarm limits are broad: a lane of
  -9 dBm lies within -10.4 to 6. Sound lanes of one module were seen within 0.4 dB. Below the module's own warning
  limit, where it tells one (NVUE), it is MARGINAL.
- More wrong bits before the error correction than 1e-5 are MARGINAL (the limit of OCI's dr-hpc), and so are blocks
  with as many wrong symbols as it can mend: one more, and such a block is lost.
- So is a module that is 10 C hotter than its peers: those with its part number in switches of the tier, or in the same
  place of other hosts. At its coolest and its hottest beside the middle of them, or beside the third hottest at work,
  where that became 10 C warmer than they are at rest: what is busy while others wait is no outlier.

Copper has no light, and a module that does not say has none that could be judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from statistics import median

from fabric.judge.ports.health import Found, known_values
from fabric.model.outcome import Outcome
from fabric.model.sampling import CounterCourse
from fabric.runs.samples import End, LinkModule

OFF_DB = 3.0
"""So far below the other lanes of its module is dark: half of their light."""

RAW_BER = 1e-5

HOTTER_C = 10.0
"""A choice: NVIDIA's UFM plugin for packet drop rates isolates what changes by more from look to look (D_TMAX)."""

PEERS = 4
"""Of so few nobody is an outlier (a choice)."""

WORKED = 3
"""The third hottest stands for those that work: two that are too hot do not hide each other (a choice)."""

LANES = 8
"""The most that a module has (OSFP)."""

Courses = Mapping[str, CounterCourse]


def light(courses: Courses, way: str, *, least: bool = True) -> dict[int, float]:
    """Each lane's power in dBm, the least (else the last) that was read."""
    found = {}
    for lane in range(LANES):
        known = known_values(courses.get(f"{way}{lane}_dbm"))
        if known:
            found[lane] = min(known) if least else known[-1]
    return found


def dark_lanes(courses: Courses, way: str) -> dict[int, float]:
    """Lanes that lie so far below their siblings: by how much (dB)."""
    lanes = light(courses, way)
    off = {lane: median(lanes.values()) - dbm for lane, dbm in lanes.items()} if len(lanes) > 2 else {}
    return {lane: below_db for lane, below_db in off.items() if below_db >= OFF_DB}


def optics_of(courses: Courses, module: LinkModule | None, far: Courses, *, line_rate_gbps: float) -> Iterator[Found]:
    """What is wrong with one end's light and raw errors; *far* are the courses of the other end."""
    one = module or LinkModule()
    for way, does, low, high, warn in (
        ("rx", "receives", one.rx_low_dbm, one.rx_high_dbm, one.rx_warn_dbm),
        ("tx", "sends", one.tx_low_dbm, one.tx_high_dbm, one.tx_warn_dbm),
    ):
        dark = dark_lanes(courses, way)
        for lane, dbm in light(courses, way).items():
            wrong = f"{dark[lane]:.1f} dB below its siblings" if lane in dark else ""
            if low is not None and high is not None and not low <= dbm <= high:
                wrong = f"its module wants {low:g} to {high:g}"
            if wrong:
                yield f"{way}{lane}_dbm", Outcome.FAIL, f"lane {lane} {does} {dbm:.1f} dBm, {wrong}"
            elif warn is not None and dbm < warn:
                said = f"lane {lane} {does} {dbm:.1f} dBm, its module warns below {warn:g}"
                yield f"{way}{lane}_dbm", Outcome.MARGINAL, said
        if way == "rx" and dark:
            sent = "sends as little: its laser" if dark_lanes(far, "tx") else "sends well: fibre or connector"
            yield "rx", Outcome.FAIL, f"the other end {sent}"
    blocks = known_values(courses.get("full_blocks"))
    if blocks and blocks[-1] > blocks[0]:
        full = f"{blocks[-1] - blocks[0]:,.0f} blocks with as many wrong symbols as the error correction can mend"
        yield "full_blocks", Outcome.MARGINAL, full
    if (ber := raw_ber(courses, line_rate_gbps)) is not None and ber > RAW_BER:
        yield "raw_errors", Outcome.MARGINAL, f"raw bit error ratio {ber:.1e}, OCI wants at most {RAW_BER:g}"


def hot_modules(courses: Mapping[End, Courses], likes: Mapping[End, Hashable]) -> dict[End, str]:
    """What is said of ends whose module is hotter than its peers: those of which *likes* has the same."""
    groups: dict[Hashable, dict[End, tuple[float, float]]] = defaultdict(dict)
    for end, like in likes.items():
        if known := known_values(courses.get(end, {}).get("module_c")):
            groups[like][end] = min(known), max(known)
    found: dict[End, str] = {}
    for warm in (one for one in groups.values() if len(one) > PEERS):
        coolest, hottest = zip(*warm.values(), strict=True)
        rest_c, work_c = median(coolest), sorted(hottest)[-WORKED]
        for end, (low_c, high_c) in warm.items():
            above_c = min(low_c - rest_c, high_c - median(hottest))
            if work_c - rest_c >= HOTTER_C:
                above_c = max(above_c, high_c - work_c)
            if above_c >= HOTTER_C:
                found[end] = f"its module is {above_c:.0f} C hotter than others of {len(warm)} like it"
    return found


def raw_ber(courses: Courses, line_rate_gbps: float, name: str = "raw_errors") -> float | None:
    """
    Wrong bits before (or behind) the error correction over all bits, between the first and the last reading.

    Both are read at once: that those behind it did not grow is known as long as those before it were seen to.
    """
    counted, course = known_values(courses.get(name)), courses.get("raw_errors", CounterCourse())
    times_s = [at_s for at_s, value in zip(course.at_s, course.values, strict=True) if value is not None]
    lasted_s = times_s[-1] - times_s[0] if times_s else 0.0
    if lasted_s <= 0.0 or not counted or counted[-1] < counted[0]:  # read once, or cleared meanwhile
        return None
    return (counted[-1] - counted[0]) / (lasted_s * line_rate_gbps * 1e9)
