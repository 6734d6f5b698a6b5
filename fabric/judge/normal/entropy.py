"""Judging how switches hash many queue pairs to cables: each on its own, evenly, and anew in each tier.

Every queue pair is a ball, every uplink of a switch a bin. All repetitions (draws) together answer three questions, the
first two by a chi-square of each cable's share of the bytes that go up a switch:

- **the whole**, against even shares. Far above its mean: uneven, not by chance. Far below: packets are sprayed over all
  cables (adaptive routing), not hashed.
- **between draws**, against the mean of all draws. Source ports are new in each draw. If shares stay the same, ports do
  not enter the hash, and more queue pairs do not help.
- **idle cables**: a cable that should have got many balls and got next to none. Above the leaves this means that the
  tier hashes like the one below: only some hash values still reach a spine (polarisation).

The counters show bytes, not balls. Flows that share a cable are slow there, which evens out the shares, so the
chi-square of bytes is at most that of balls, and does not accuse by chance. Thresholds are on the scale of a standard
normal (Wilson and Hilferty, 1931): 4.5 is 3 in a million, for some dozens of switches. ``benchmarks/entropy.py`` counts
both kinds of mistakes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import cbrt, sqrt

from fabric.judge.normal.keys import grouped
from fabric.model import gathered
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe, ProbeResult
from fabric.model.text import fold
from fabric.model.topology import Topology
from fabric.probes.at_once import RAIL, SHARE_OF_SUM
from fabric.probes.entropy import RECEIVED, SENT, EntropySpec
from fabric.probes.shapes import int_param

Z_SURE = 4.5
LEAST_BALLS = 16
"""The fewest balls expected per cable to judge a hash: with 16, one or none on a cable is chance in 2 of a million."""
IDLE = 0.1
"""A cable with less than this share of its even share is idle (a choice: management packets are no hash)."""
APART = 0.05
"""The counts of a cable's two ends may differ by this share; with more, its switch is not judged (a choice: headers are
counted alike, other traffic is not)."""
SLOWED = 0.75
"""An elephant with a smaller share of its line met another one (a choice: two that share a cable have a half each)."""

Measured = tuple[Probe, ProbeResult]


def hash_verdict(draws: Sequence[Mapping[str, float]], balls: float, *, above_leaves: bool) -> tuple[Outcome, str]:
    """
    Judge the hash of one switch; return the outcome and why.

    *draws*: for each draw the bytes of each cable up; *balls*: how many queue pairs went up the switch per draw.
    """
    cables = sorted(set[str]().union(*draws))
    shares = [[draw.get(one, 0.0) / sum(draw.values()) for one in cables] for draw in draws]
    count, bins = len(shares), len(cables)
    mean = [sum(column) / count for column in zip(*shares, strict=True)]
    expected = balls * count / bins
    if expected < LEAST_BALLS:
        more = f"{expected:.0f} queue pairs a cable in all draws together, {LEAST_BALLS} are needed"
        return Outcome.INCONCLUSIVE, f"{more} (queue_pairs, repeat)"
    whole = _z(sum(_chi(row, [1 / bins] * bins, balls) for row in shares), count * (bins - 1))
    if whole < -Z_SURE:
        return Outcome.PASS, f"evener than any hash: packets are sprayed over all {bins} cables"
    idle = sum(share * bins < IDLE for share in mean)
    if idle and above_leaves:
        return Outcome.FAIL, f"polarised: it hashes as the tier below, {idle} of its {bins} cables up carry nothing"
    between = _z(sum(_chi(row, mean, balls) for row in shares), (count - 1) * (bins - 1))
    if between < -Z_SURE:
        why = "the same shares in every draw: source ports do not enter its hash, so queue pairs stay together"
        return Outcome.FAIL, why
    if idle:
        return Outcome.FAIL, f"{idle} of its {bins} cables up carry nothing"
    if whole > Z_SURE:
        most, least = max(mean) * bins, min(mean) * bins
        return Outcome.INCONCLUSIVE, f"uneven, not by chance: {least:.2f} to {most:.2f} of an even share"
    return Outcome.PASS, ""


def _chi(row: Sequence[float], even: Sequence[float], balls: float) -> float:
    return balls * sum((share - mean) ** 2 / mean for share, mean in zip(row, even, strict=True) if mean > 0.0)


def _z(chi: float, freedom: int) -> float:
    """Convert a chi-square to the scale of a standard normal (Wilson and Hilferty's cube root)."""
    spread = 2 / (9 * freedom)
    return (cbrt(chi / freedom) - (1 - spread)) / sqrt(spread) if freedom else 0.0


def hash_verdicts(found: Sequence[Measured], topology: Topology) -> dict[str, tuple[Outcome, str]]:
    """Return, by id of each entropy probe, the verdict on the hashes on its way, over all its repetitions."""
    verdicts: dict[str, tuple[Outcome, str]] = {}
    entropy = (one for one in found if one[0].kind == EntropySpec.kind)
    for draws in grouped(entropy, lambda one: (one[0].phase, one[0].params["series"])).values():
        judged = list(_of_switches(draws, topology))
        outcome = Outcome.worst(one for _, one, _ in judged)
        alike = grouped([one for one in judged if one[1] is outcome and one[2]], lambda one: one[2])
        why = "; ".join(f"{fold(name for name, _, _ in those)}: {text}" for text, those in alike.items())
        why = why if judged else "no switch told what its ports carried"
        verdicts |= {probe.probe_id: (outcome, why) for probe, _ in draws}
    return verdicts


def _of_switches(draws: Sequence[Measured], topology: Topology) -> Iterator[tuple[str, Outcome, str]]:
    """Yield switch, outcome and reason; if the hash of any leaf is bad, the switches above are not judged."""
    tiers: dict[bool, dict[str, list[dict[str, float]]]] = {False: {}, True: {}}
    probe = draws[0][0]
    leaves = Counter(topology.hosts[name].leaf(int_param(probe, RAIL)) for name in probe.hosts)
    for _, result in draws:
        by_end = {unit: _by_switch(result, unit) for unit in (SENT, RECEIVED)}
        for switch, sent in by_end[SENT].items():
            received = by_end[RECEIVED].get(switch, {})
            apart = [port for port, count in sent.items() if abs(received.get(port, count) - count) > APART * count]
            if apart:
                yield switch, Outcome.INCONCLUSIVE, f"the two ends of {fold(apart)} do not count alike"
            elif sum(sent.values()) > 0.0:
                tiers[switch not in leaves].setdefault(switch, []).append(sent)
    pairs = int_param(probe, "queue_pairs")
    upper = sum(sum(one.values()) for each in tiers[True].values() for one in each)
    crossing = pairs * sum(leaves.values()) * _cross_pods(probe, topology)
    bad = False
    for above, switches in tiers.items():
        for switch, carried in () if above and bad else switches.items():
            mine = sum(sum(one.values()) for one in carried)
            balls = crossing * mine / upper * len(draws) / len(carried) if above else pairs * leaves[switch]
            outcome, why = hash_verdict(carried, balls, above_leaves=above)
            bad = bad or (outcome is Outcome.FAIL and not above)
            yield switch, outcome, why


def _by_switch(result: ProbeResult, unit: str) -> dict[str, dict[str, float]]:
    counted = ((one.metric.split(" "), one.value) for one in result.measurements if one.unit == unit)
    found = gathered((switch, (port, value)) for (switch, port, _), value in counted)
    return {switch: dict(ports) for switch, ports in found.items()}


def _cross_pods(probe: Probe, topology: Topology) -> float:
    """Return the share of a probe's flows whose two leaves are in different pods."""
    rail = int_param(probe, RAIL)
    pods = {leaf: pod.name for leaf, pod in topology.pods.items()}
    leaves = {name: topology.hosts[name].leaf(rail) or "" for name in probe.hosts}
    flows = EntropySpec.flows(probe)
    return sum(pods.get(leaves[one]) != pods.get(leaves[other]) for one, other in flows) / len(flows)


def collision_lines(found: Sequence[Measured], topology: Topology) -> Iterator[str]:
    """Yield how many elephants (flows of one queue pair) met another one in all draws, and how many would by chance."""
    single = [one for one in found if one[0].kind == EntropySpec.kind and one[0].params["queue_pairs"] == 1]
    met = flows = 0
    chance = 0.0
    for probe, result in single:
        rail, total = int_param(probe, RAIL), result.measurements[0].value
        shares = {one.metric: one.value for one in result.measurements if one.unit == SHARE_OF_SUM}
        leaves = Counter(topology.hosts[name].leaf(rail) for name in shares)
        for name, share in shares.items():
            host = topology.hosts[name]
            met += share * total < SLOWED * host.rnic(rail).line_rate_gbps
            flows += 1
            leaf = host.leaf(rail) or ""
            cables = sum(topology.above.get(leaf, {}).values())
            chance += 1 - (1 - 1 / cables) ** (2 * (leaves[leaf] - 1)) if cables else 0.0
    if flows:
        from scipy.stats import binomtest  # imported here: it takes half a second

        low, high = binomtest(met, flows).proportion_ci(method="wilson")
        draws = f"in {len(single)} draws {met} of {flows} flows met another one ({low:.0%} to {high:.0%} with 95 %)"
        yield f"elephants: {draws}; by chance about {chance / flows:.0%} on the way up or down"
