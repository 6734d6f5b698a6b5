"""What ``burn_in.py`` plants, and whether the verdict names it as what it is."""

import re
from dataclasses import dataclass
from random import Random

from fabric import load
from fabric.model.inventory import Fault, Inventory, TimedFault
from fabric.model.verdict import JudgedRun

HOUR_S = 3600.0
EARLIEST = 5  # the rack becomes slow after this part of the run: a fifth
UNIT = 32  # hosts of a unit of the hall
LONG_S = 1e9  # what has come stays
STEP = "at once"  # what the verdict says of a loss that came and stayed
DIPS = ("dips to",)  # what the verdict says of such a part
AGAIN = re.compile(r"again in|more: too few|too few to tell")  # what its notes say of a part that was measured again
LEAST_DIPS = 3  # in the probes of one part that a fleet without other dips is sure of it by
DIPPED = 0.75  # of the median of all pair tests: a dip is to half, noise is a percent


@dataclass(frozen=True)
class Planted:
    """What is wrong, which names of a verdict would be right, which words say the kind, whether it may be named."""

    what: str
    components: tuple[str, ...]
    words: tuple[str, ...]
    faults: tuple[TimedFault, ...] = ()
    standing: tuple[Fault, ...] = ()
    must: bool = True


def planted(inventory: Inventory, hours: float, random: Random) -> list[Planted]:
    """One fault of each kind on hosts of their own, each from an hour of its own."""
    names = list(inventory.topology.hosts)
    rack = names[-8:]
    free = [name for name in names if name not in rack]
    hosts = random.sample(free, 8)
    ends_s = hours * HOUR_S

    def from_(component: str, kind: str, factor: float = 1.0) -> TimedFault:
        return TimedFault(random.uniform(0.05, 0.4) * ends_s, LONG_S, Fault(component, kind, factor))

    parts = [f"{host}/mlx5_{random.randrange(8)}" for host in hosts]
    flaps = tuple(TimedFault(random.uniform(0.1, 0.9) * ends_s, 20.0, Fault(parts[3], "broken")) for _ in range(6))
    rack_s = random.uniform(1 / EARLIEST, 0.5) * ends_s
    leaf = inventory.topology.hosts[hosts[6]].leaves[0]
    # With OpenSM's routes uplinks beyond the hosts of a unit carry nothing: nobody could name them.
    ups = [link for link in inventory.topology.links() if link.a == leaf][: min(UNIT, len(names) // 2)]
    up = random.choice(ups)
    half = (Fault(f"{up.a}--{up.b}", "slow", 0.5),)
    racks = dict.fromkeys(f"rack {inventory.topology.hosts[name].rack}" for name in rack)
    down = ("down", "failed in")
    errors = ("symbol errors in",)
    worn, clean = from_(parts[4], "symbol_errors", 1e-13), from_(parts[5], "symbol_errors", 1e-17)
    return [
        Planted("fades 30 % a day", (parts[0],), ("gradually",), (from_(parts[0], "fading", 0.7),)),
        Planted("dips to half, 1 in 50", (parts[1],), DIPS, (from_(f"{parts[1]}:port", "dipping", 0.5),)),
        Planted("loses 20 % when warm", (parts[2],), ("warms",), (from_(parts[2], "heat_sick", 0.8),)),
        Planted("flapping cable", (parts[3],), down, flaps),
        Planted("symbol errors at 1e-13", (parts[4],), errors, (worn,)),
        Planted("symbol errors at 1e-17", (parts[5],), errors, (clean,), must=False),
        Planted("half-dead uplink", (half[0].component, f"{leaf}:uplinks"), ("uplink",), standing=half),
        Planted("lemon that recovers", (hosts[7],), down, standing=(Fault(hosts[7], "lemon"),)),
        Planted(
            "uniformly slow rack",
            (*rack, *racks),
            (STEP, "slower than"),
            tuple(TimedFault(rack_s, LONG_S, Fault(host, "slow", 0.85)) for host in rack),
        ),
    ]


def is_of(component: str, names: tuple[str, ...]) -> bool:
    """Whether it is one of these, or a part or the cable of one."""
    return any(component == name or component.startswith((f"{name}:", f"{name}/")) for name in names)


def said_of(judged: JudgedRun, one: Planted) -> list[str]:
    """What the verdict says of what was planted, or of its parts and cables."""
    lines = []
    for suspect in judged.verdict.suspects:
        if any(is_of(name, one.components) for name in (suspect.component, *suspect.ambiguous_with)):
            telling = [text for text in suspect.evidence if any(word in text for word in one.words)]
            lines.append(f"{suspect.component} {suspect.outcome.name}: {(*suspect.evidence, *telling)[-1]}")
    return lines


def missed(judged: JudgedRun, one: Planted, faults: list[Planted], inventory: Inventory) -> str:
    """
    MISSED, or what its further tests said, or that it dipped too seldom for the rule to name it and for a follow-up.

    What others planted may have caused is not counted: pair tests with their hosts, and with those under their leaves.
    """
    if one.words != DIPS:
        return "MISSED"
    followed = [line for line in judged.verdict.lines if line.startswith(f"note: {one.components[0]}: ")]
    if any(AGAIN.search(line) for line in followed):
        return f"measured again, and not named: {followed[0].partition(': ')[2]}"
    samples = load(judged.path).samples
    pairs = samples[samples.kind == "pairwise"]
    host, _, device = one.components[0].partition("/")
    mine = pairs[((pairs.host == host) | (pairs.peer_host == host)) & (pairs.rnic == device)]
    least = DIPPED * pairs.gbps.median()
    rail = inventory.topology.hosts[host].platform.rnic_by_device[device].rail
    others = {name for other in faults if other is not one for name in other.components}
    doubtful = {
        name
        for name, known in inventory.topology.hosts.items()
        if name != host and (any(is_of(part, (name,)) for part in others) or is_leaf(others, known.leaves[rail]))
    }
    own = mine[~mine.host.isin(doubtful) & ~mine.peer_host.isin(doubtful)]
    dips = sum(own.gbps < least)
    return "MISSED" if dips >= LEAST_DIPS else f"too few dips: {dips} in {len(own)} probes, {LEAST_DIPS} needed"


def is_leaf(components: set[str], leaf: str) -> bool:
    """Whether one of the components is this leaf's uplinks, or a cable of it."""
    return any(part.startswith((f"{leaf}:", f"{leaf}--")) for part in components)


def score(judged: JudgedRun, faults: list[Planted], inventory: Inventory) -> dict[str, tuple[str, list[str]]]:
    """By what was planted: how it was named, and what was said; ``others``: who was named without a reason."""
    found = {}
    for one in faults:
        lines = said_of(judged, one)
        as_it_is = any(word in line for line in lines for word in one.words)
        named = "named" if as_it_is else missed(judged, one, faults, inventory)
        if lines and not as_it_is:
            named = "named as something else"
        if not one.must:
            named = "WRONGLY NAMED" if lines else "not named, rightly"
        found[one.what] = named, lines
    right = tuple(name for one in faults for name in one.components)
    wrong = [
        suspect.component
        for suspect in judged.verdict.suspects
        if not any(is_of(name, right) for name in (suspect.component, *suspect.ambiguous_with))
    ]
    found["others"] = f"{len(wrong)} named without a planted fault of their own", wrong
    return found
