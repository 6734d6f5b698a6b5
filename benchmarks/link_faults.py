"""
Bad cables, one at a time: is the very cable named, no port of a healthy host, and never PASS?

``python benchmarks/link_faults.py [FIRST [CASES [WORDS]]]`` draws a cable for each kind of fault, tier and routing of
two racks of 16 hosts (two and three levels) and runs two hours of pair tests with zero growth over it; a cable that is
slow and counts nothing is one for localise and burn-in. WORDS are the kinds and routings that alone are drawn;
``none``: no fault at all, six hours of burn-in, adaptive and static. ``clean`` instead of a number: symbol errors at
half the ratio that is allowed, 48 h, on a pod of 64 hosts through the whole judge of links and in a hall of 2,048 by
counts alone.
"""

import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from fabric.app.prepare import Given, prepare
from fabric.config.inventory import load_inventory
from fabric.judge.ports.health import BER, judge_ber
from fabric.judge.ports.links import LinkEvidence, cables_of, link_health
from fabric.model.inventory import Inventory
from fabric.model.outcome import Outcome
from fabric.model.sampling import (
    LINK_DOWNED,
    LINK_RECOVERIES,
    SYMBOL_ERRORS,
    CounterCourse,
    CounterReading,
    Samples,
    ZeroGrowth,
)
from fabric.model.topology import Link, Topology
from fabric.model.verdict import JudgedRun
from fabric.runs.samples import End, LinkSamples
from tests import builders

HERE = Path(__file__).parent
INVENTORY = HERE.parent / "inventory"
RACKS = ("two-rails-a-leaf", "three-level")
KINDS = ("lemon", "flapping", "dirty", "dark_lane", "half_width", "broken", "slow=0.5")
ROUTINGS = ("ftree", "ar")
OF_SWITCHES = ("lemon", "broken", "slow=0.5")
"""Kinds of a cable between switches alone: a host's are those of its RNIC, and of other benchmarks."""
SCENARIO = """\
name: links
inventory: rack.yaml
hosts: all
sample: {every: 5m, temperatures: false}
judge: {zero_growth: [symbol_errors, link_downed, link_recoveries]}
phases:
  - {name: soak, probes: [{pairwise: {rounds: 6, duration: 20m}}]}
"""
HOURS_S = 48 * 3600.0


def tier(link: Link, topology: Topology) -> str:
    """``host``, ``leaf`` or ``spine``: the lower end."""
    return "host" if "/" in link.a else topology.switches[link.a].tier


def cases(first: int, only: Collection[str] = ()) -> Iterator[tuple[str, str, str, Link, int]]:
    """
    Rack, routing, kind, cable and seed: each kind on each tier of both racks by both routings, shuffled, again.

    *only*: kinds and routings that are drawn; others are left out.
    """
    with TemporaryDirectory() as folder:
        racks = {rack: written(Path(folder), rack, "{}") for rack in RACKS}
    every = [
        (rack, routing, kind, at)
        for rack in RACKS
        for routing in ROUTINGS
        for kind in KINDS
        for at in sorted({tier(link, racks[rack].topology) for link in racks[rack].topology.links()})
        if not (at == "host" and kind in OF_SWITCHES)
        if kind in ([one for one in KINDS if one in only] or KINDS)
        if routing in ([one for one in ROUTINGS if one in only] or ROUTINGS)
    ]
    seed = first
    while True:
        Random(f"{first} {seed}").shuffle(every)
        for rack, routing, kind, at in every:
            topology = racks[rack].topology
            links = [one for one in topology.links() if tier(one, topology) == at]
            yield rack, routing, kind, Random(f"{rack} {routing} {kind} {seed}").choice(links), seed
            seed += 1


def run(folder: Path, rack: str, routing: str, kind: str, link: Link, seed: int) -> JudgedRun:
    """Two hours with this cable."""
    component = f"{link.a}:port" if "/" in link.a else f"{link.a}--{link.b}"
    fault = f"component: '{component}', kind: {kind.replace('=0.5', ', factor: 0.5')}"
    mock = f"{{routing: {routing}, lemon_per_hour: 4, faults: [{{{fault}}}]}}"
    if kind.startswith("slow") and routing == "ar":
        return burn_in(folder, rack, mock, seed)
    written(folder, rack, mock)
    if kind.startswith("slow"):  # by static routes the shipped localise
        given = Given(HERE.parent / "scenarios" / "localise.yaml", inventory=folder / "rack.yaml")
        return builders.on_mock(prepare(given), folder / "results", seed=seed)
    (folder / "s.yaml").write_text(SCENARIO, "utf-8")
    return builders.on_mock(builders.asked(folder / "s.yaml"), folder / "results", seed=seed)


def burn_in(folder: Path, rack: str, mock: str, seed: int) -> JudgedRun:
    """Six hours of the shipped burn-in, which fills uplinks."""
    written(folder, rack, mock)
    given = Given(HERE.parent / "scenarios" / "burn-in.yaml", inventory=folder / "rack.yaml", lasts_s=21600.0)
    return builders.on_mock(prepare(given), folder / "results", seed=seed)


def written(folder: Path, rack: str, mock: str) -> Inventory:
    """The inventory of a rack with this mock, written into a folder."""
    text = (HERE / "golden" / f"{rack}.yaml").read_text("utf-8").partition("\nmock:")[0]
    (folder / "rack.yaml").write_text(f"{text}\nmock: {mock}\n", "utf-8")
    if not (folder / "baselines").exists():
        (folder / "baselines").symlink_to(INVENTORY / "baselines")
    return load_inventory(folder / "rack.yaml")


def told(judged: JudgedRun, kind: str, link: Link, topology: Topology) -> tuple[bool, int, bool]:
    """
    Whether the cable FAILs, how many ports or RNICs of other cables do, whether the run passed.

    A cable that is slow counts nothing: with it the first suspect must be the cable, the uplinks that it is one of, or
    what cannot be told apart from it.
    """
    own = f"{link.a}:port" if "/" in link.a else f"{link.a}--{link.b}"
    passed = judged.verdict.outcome in (Outcome.PASS, Outcome.MARGINAL)
    failed = [one for one in judged.verdict.suspects if one.outcome is Outcome.FAIL]
    named = [one.component for one in failed]
    near = {own, link.a, f"{link.a}:tx", f"{link.a}:rx"} if "/" in link.a else {own}  # a direction is the same cable
    if kind.startswith("slow"):
        near |= {f"{link.a}:uplinks", f"{link.b}:uplinks", "spines", link.b}
        near |= {  # "the cable above leaf0 that the routes of mlx5_0 take"
            f"{host.name}/{rnic.device}:above"
            for host in topology.hosts.values()
            for rnic in host.platform.rnics
            if host.leaves[rnic.rail] == link.a
        }
    strangers = [name for name in named if name not in near and ("/" in name or name in topology.hosts)]
    if kind.startswith("slow"):
        return (
            any(not near.isdisjoint((one.component, *one.ambiguous_with)) for one in failed[:1]),
            len(strangers),
            passed,
        )
    return own in named, len(strangers), passed


def sound(first: int, count: int) -> None:
    """Print how racks without a fault end, and each cable of which something is said."""
    ended: Counter[str] = Counter()
    for seed in range(first, first + count):
        rack, routing = RACKS[seed % 2], ("ar", "ftree", "ar", "ecmp")[seed // 2 % 4]
        with TemporaryDirectory() as folder:
            judged = burn_in(Path(folder), rack, f"{{routing: {routing}}}", seed)
            links = load_inventory(Path(folder) / "rack.yaml").topology.links()
        cables = {f"{link.a}--{link.b}" for link in links}
        said = [one for one in judged.verdict.components if one.component in cables]
        ended[f"{routing} {judged.verdict.outcome.name}"] += 1
        ended["cables named"] += len(said)
        for one in said:
            print(f"{seed} {rack} {routing} {one.component} {one.outcome.name}: {one.reason}", flush=True)
    print(f"{count} racks without a fault: {', '.join(f'{number} {how}' for how, number in sorted(ended.items()))}")


def faults(first: int, count: int, only: Collection[str] = ()) -> None:
    """Print each miss and the sums."""
    sums: dict[str, Counter[str]] = {}
    for rack, routing, kind, link, seed in islice(cases(first, only), count):
        began_s = time.monotonic()
        with TemporaryDirectory() as folder:
            judged = run(Path(folder), rack, routing, kind, link, seed)
            topology = load_inventory(Path(folder) / "rack.yaml").topology
        named, strangers, passed = told(judged, kind, link, topology)
        sums.setdefault(kind, Counter()).update(cases=1, named=int(named), strangers=strangers, passed=int(passed))
        what = f"{seed} {rack} {routing} {link.a}--{link.b} {kind}"
        ok = named and not strangers and not passed
        print(f"{'ok  ' if ok else 'MISS'} {what} ({time.monotonic() - began_s:.0f} s)", flush=True)
        for one in judged.verdict.suspects if not ok else ():
            print(f"       {one.component} {one.outcome.name} {one.evidence[:1]}")
    for kind, found in sums.items():
        rest = f"healthy ports named {found['strangers']}, PASS {found['passed']}"
        print(f"{kind:10} {found['cases']:3} cases, named {found['named']}, {rest}")


def clean(seeds: range) -> None:
    """How often a fabric whose every end has half the ratio that is allowed FAILs."""
    rate_per_s = BER / 2 * 400e9
    pod = load_inventory(INVENTORY / "pod-64.yaml").topology
    failed = sum(_pod_fails(pod, np.random.default_rng(seed), rate_per_s) for seed in seeds)
    print(f"pod of 64, 48 h, {len(seeds)} seeds: {failed} FAIL")
    ends, known = 2 * 2 * 2048 * 8, dict[int, bool]()
    failed = 0
    for seed in seeds:
        counts = np.unique(np.random.default_rng(seed).poisson(rate_per_s * HOURS_S, ends))
        for count in (int(one) for one in counts if int(one) not in known):
            known[count] = judge_ber(count, HOURS_S, 400.0, ports=ends).outcome is Outcome.FAIL
        failed += any(known[int(count)] for count in counts)
    print(f"hall of 2,048, {ends:,} ends, 48 h, {len(seeds)} seeds: {failed} FAIL")


def _pod_fails(topology: Topology, random: np.random.Generator, rate_per_s: float) -> bool:
    wanted = ZeroGrowth((SYMBOL_ERRORS, LINK_DOWNED, LINK_RECOVERIES))
    courses = {CounterReading("", "", "looks"): CounterCourse([0.0], [1], HOURS_S)}
    pairs: list[tuple[End, End]] = []
    for number, link in enumerate(topology.links()):
        host, _, device = link.a.partition("/")
        pairs.append(((host, device or f"{number + 1}"), (link.b, f"{number + 1}")))
    for end in (one for pair in pairs for one in pair):
        for name in ("link_downed", "link_error_recovery", "up"):
            courses[CounterReading(*end, name)] = CounterCourse([0.0], [int(name == "up")], HOURS_S)
        at_s = np.sort(random.uniform(60.0, HOURS_S, random.poisson(rate_per_s * HOURS_S)))
        steps = CounterCourse([0.0, *at_s.tolist()], list(range(len(at_s) + 1)), HOURS_S)
        courses[CounterReading(*end, "symbol_error")] = steps
    links = LinkSamples(Samples(60.0, courses), tuple(pairs))
    evidence = LinkEvidence(links, topology, (), wanted, frozenset(), began_s=0.0, ended_s=HOURS_S)
    return any(one.outcome is Outcome.FAIL for one in link_health(evidence, cables_of(links, topology, topology.hosts)))


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["clean"]:
        clean(range(101, 101 + int((words[1:] or ["100"])[0])))
    elif words[2:] == ["none"]:
        sound(int(words[0]), int(words[1]))
    else:
        faults(int((words or ["1"])[0]), int((words[1:] or ["12"])[0]), words[2:])
