"""
The goals of a judge (safety goals B1 to B4) at 128 hosts with one number each, for several rules on the same draws.

A clean run and two with 1 to 4 slow hosts, hosts that differ by 0.4 %, one sample in a hundred that dips. Rules that
take a fixed number of samples get five. Mean n is over all series of all runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from math import log
from statistics import median

from benchmarks.measured_rack import judge_of, noisy, one_number_a_host, sampled
from fabric.judge.normal.peers import peers_of
from fabric.judge.normal.sequential import ALPHA, BETA
from fabric.model.outcome import Outcome
from fabric.model.topology import Topology
from fabric.model.verdict import Limit

FIXED = 5
Named = tuple[set[str], float]
"""The hosts that a rule calls slow, and the mean number of samples."""
Rule = Callable[[Topology, dict[str, float], float, int], Named]


def goals(topology: Topology, runs: int) -> None:
    """B1 and B2 of every rule, then B3, B4 and what 3 % costs at each noise."""
    print(f"B1, B2: {len(topology.hosts)} hosts, one number each, {runs} runs a cell (FP: slow hosts of a clean run)")
    print(f"{'CV':>4}  {'rule':<28}{'FP/run':>8}{'mean n':>8}{'found -3 %':>12}{'found -10 %':>13}{'wrong':>7}")
    for cv in (0.01, 0.02, 0.03):
        for words, rule in RULES.items():
            _row(words, rule, topology, cv, runs)
    _uniformly_slow(topology)
    _never_passed(topology, runs)
    print("mean samples of one test of a probe that lost 3 % (Wald's approximation):", end="")
    print("".join(f"  CV {cv:.0%}: {samples_needed(0.03, cv):.1f}" for cv in (0.01, 0.02, 0.03)))


def _row(words: str, rule: Rule, topology: Topology, cv: float, runs: int) -> None:
    found, slow, wrong, samples, clean = {0.03: 0, 0.10: 0}, {0.03: 0, 0.10: 0}, 0, 0.0, 0
    for seed in range(runs):
        named, n = rule(topology, {}, cv, seed)
        clean, samples = clean + len(named), samples + n
        for loss in found:
            draw = random.Random(seed)
            factors = dict.fromkeys(draw.sample(list(topology.hosts), draw.randint(1, 4)), 1 - loss)
            named, n = rule(topology, factors, cv, seed)
            found[loss] += len(named & set(factors))
            slow[loss] += len(factors)
            wrong, samples = wrong + len(named - set(factors)), samples + n
    recall = [found[loss] / slow[loss] for loss in found]
    print(
        f"{cv:>4.0%}  {words:<28}{clean / runs:>8.2f}{samples / (3 * runs):>8.2f}{recall[0]:>12.3f}{recall[1]:>13.3f}"
        f"{wrong / (2 * runs):>7.2f}",
        flush=True,
    )


def samples_needed(loss: float, noise: float, *, alpha: float = ALPHA, beta: float = BETA) -> float:
    """
    Wald's approximation of the mean number of samples of one test of a probe that lost exactly *loss*.

    ((1 - beta) A + beta B) / (d^2 / 2 s^2), without the least of three and without the bound on a sample's weight.
    """
    upper, lower = log((1 - beta) / alpha), log(beta / (1 - alpha))
    return ((1 - beta) * upper + beta * lower) * 2 * (noise / log(1 - loss)) ** 2


def _medians(topology: Topology, factors: dict[str, float], cv: float, seed: int) -> Mapping[str, float]:
    draw = noisy(cv=cv, seed=seed, factors=factors)
    values: dict[str, list[float]] = {}
    for probe in one_number_a_host(topology, repeat=FIXED):
        values.setdefault(probe.hosts[0], []).append(draw(probe))
    return {host: median(each) for host, each in values.items()}


def _fixed(topology: Topology, factors: dict[str, float], cv: float, seed: int) -> Named:
    values = _medians(topology, factors, cv, seed)
    normal = median(values.values())
    return {host for host, value in values.items() if value < 0.95 * normal}, FIXED


def _robust_z(topology: Topology, factors: dict[str, float], cv: float, seed: int) -> Named:
    values = _medians(topology, factors, cv, seed)
    peers = peers_of(list(values.values()))
    return {host for host, value in values.items() if peers is not None and peers.z(value) < -3.5}, FIXED


def _sequential(topology: Topology, factors: dict[str, float], cv: float, seed: int) -> Named:
    found = sampled(one_number_a_host(topology), noisy(cv=cv, seed=seed, factors=factors), judge_of(topology))
    return {
        probe_id.split("/")[1] for probe_id, verdict in found.verdicts.items() if verdict.outcome is Outcome.FAIL
    }, found.mean


RULES: Mapping[str, Rule] = {
    "median below -5 %": _fixed,
    "robust z below -3.5": _robust_z,
    "samples: auto": _sequential,
}


def _uniformly_slow(topology: Topology) -> None:
    """Nobody is an outlier: the limit must tell."""
    judge = judge_of(topology, limits=(Limit("rnic_to_rnic", 384.0, "a datasheet"),))
    factors = dict.fromkeys(topology.hosts, 0.9)
    found = sampled(one_number_a_host(topology), noisy(cv=0.01, seed=1, factors=factors), judge).verdicts.values()
    failed = sum(verdict.outcome is Outcome.FAIL for verdict in found)
    print(f"B3: all hosts at -10 % with a limit of 384: {failed} of {len(found)} FAIL")


def _never_passed(topology: Topology, runs: int) -> None:
    """Nothing but peers, or noise beyond the budget, and one or two samples against a limit that was met."""
    passed = judged = 0
    for seed in range(runs):
        hosts = dict.fromkeys(random.Random(seed).sample(list(topology.hosts), 4), 0.97)
        for cv, rounds in ((0.10, 1000), (0.20, 1000), (0.03, 0)):
            draw = noisy(cv=cv, seed=seed, factors=hosts)
            probes = [probe for probe in one_number_a_host(topology, repeat=3 if rounds else 2)]
            found = sampled(probes, draw, judge_of(topology), most_rounds=rounds)
            told = [verdict for name, verdict in found.verdicts.items() if rounds == 0 or _of(name, hosts)]
            judged += len(told)
            passed += sum(verdict.outcome is Outcome.PASS for verdict in told)
    print(f"B4: too few samples, or 3 % lost at a CV of 10 or 20 %: {passed} of {judged} PASS")


def _of(probe_id: str, hosts: Mapping[str, float]) -> bool:
    return probe_id.split("/")[1] in hosts
