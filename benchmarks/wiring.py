"""
Is what is there found, and every wrong cable named? ``python benchmarks/wiring.py [PLANTED] [SEED]`` (100, 1).

On the simulated pod-64 and hall-2048: ``fabric inventory discover``, set beside the shipped file; then so many
miswirings, one at a time, drawn at random of six kinds, by the inventory alone and by a blueprint. A finding is right
when there is one, it names every end that it is about, and nothing else is found. A minute.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fabric.checks.beside_file import beside_file  # noqa: E402
from fabric.checks.found import discover  # noqa: E402
from fabric.checks.wiring import wiring  # noqa: E402
from fabric.config import load_inventory  # noqa: E402
from fabric.config.written import inventory_text  # noqa: E402
from fabric.model.found import FoundCable, FoundEnd, FoundFabric  # noqa: E402
from fabric.model.inventory import Inventory  # noqa: E402
from fabric.wiring import make_executor  # noqa: E402

Cables = list[FoundCable]
BY_INVENTORY = ("exchanged RNICs", "exchanged uplinks")
BY_BLUEPRINT = (*BY_INVENTORY, "exchanged in one leaf", "moved to another port", "missing uplink", "one too many")


def main() -> None:
    """Both halves."""
    planted = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for name in ("hall-2048", "pod-64"):
        inventory, found = looked(ROOT / "inventory" / f"{name}.yaml")
        beside(name, inventory, found)
    for how, kinds in (("inventory", BY_INVENTORY), ("blueprint", BY_BLUEPRINT)):
        right, wrong = Counter[str](), list[str]()
        plan = as_planned(found) if how == "blueprint" else ()
        clean = len(findings(inventory, found, plan))
        for _ in range(planted):
            kind = draw.choice(kinds)
            made, ends = plant(kind, list(found.cables), draw)
            said = findings(inventory, replace(found, cables=tuple(made)), plan)
            if len(said) == 1 and all(end in said[0] for end in ends):
                right[kind] += 1
            else:
                wrong.append(f"{kind} {ends}: {said}")
        each = ", ".join(f"{number} {kind}" for kind, number in sorted(right.items()))
        print(f"{how}: {sum(right.values())} of {planted} planted named with every end ({each})")
        print(f"  findings on the clean pod: {clean}; findings about anything else: {len(wrong)}")
        for text in wrong:
            print(f"  NOT: {text}")


def looked(path: Path) -> tuple[Inventory, FoundFabric]:
    """What the simulated hosts and switches of an inventory say."""
    inventory = load_inventory(path)
    with closing(make_executor("mock", inventory)) as executor:
        return inventory, discover(executor, inventory.topology.hosts)


def beside(name: str, inventory: Inventory, found: FoundFabric) -> None:
    """The file that discover writes, read again, and set beside the shipped one."""
    begun_s = time.process_time()
    text = inventory_text(found, name=name, backend="mock", address="{name}.mgmt")
    made = ROOT / "inventory" / f".{name}.found.yaml"  # beside the baselines that it names
    try:
        made.write_text(text)
        topology, there = load_inventory(made).topology, inventory.topology
    finally:
        made.unlink(missing_ok=True)
    same = {
        "hosts, leaves and addresses": [(one.name, one.leaves, one.address) for one in topology.hosts.values()]
        == [(one.name, one.leaves, one.address) for one in there.hosts.values()],
        "RNICs, GPUs and PCIe switches": all(
            (a.platform.rnics, a.platform.gpus) == (b.platform.rnics, b.platform.gpus)
            for a, b in zip(topology.hosts.values(), there.hosts.values(), strict=True)
        ),
        "switches": {one.name: one.tier for one in topology.switches.values()}
        == {one.name: one.tier for one in there.switches.values()},
        "cables": set(map(str, topology.links())) == set(map(str, there.links())),
    }
    lines, differences = len(text.splitlines()), len(beside_file(found, there, tuple(there.hosts)))
    print(
        f"{name}: {len(topology.hosts):,} hosts, {sum(1 for _ in topology.links()):,} cables in {lines} lines; equal:"
    )
    print(f"  {same}; --diff: {differences} lines; {time.process_time() - begun_s:.1f} CPU s after the questions")


def as_planned(found: FoundFabric) -> tuple[FoundCable, ...]:
    """A plan of exactly these cables; a host's port is its device."""

    def end(one: FoundEnd) -> FoundEnd:
        return FoundEnd(*one.node.split("/")) if "/" in one.node else one

    return tuple(FoundCable(end(one.a), end(one.b), None) for one in found.cables)


def findings(inventory: Inventory, found: FoundFabric, plan: tuple[FoundCable, ...]) -> list[str]:
    """What is said of each."""
    hosts = tuple(inventory.topology.hosts)
    return [f"{one.what} {one.advice}" for one in wiring(found, inventory.topology, hosts, plan)]


def plant(kind: str, cables: Cables, draw: random.Random) -> tuple[Cables, list[str]]:
    """One miswiring, and what a finding has to name."""
    of_hosts = [at for at, one in enumerate(cables) if "/" in one.a.node]
    above = [at for at, one in enumerate(cables) if "/" not in one.a.node]
    one = draw.choice(above if "uplink" in kind or kind == "one too many" else of_hosts)
    first = cables[one]
    if kind.startswith("exchanged"):
        same_leaf = kind == "exchanged in one leaf"
        among = [
            at
            for at in (of_hosts if one in of_hosts else above)
            if at != one
            and (cables[at].b.node == first.b.node) is same_leaf
            and (one in of_hosts or cables[at].a.node != first.a.node)
        ]
        two = draw.choice(among)
        second = cables[two]
        cables[one], cables[two] = replace(first, b=second.b), replace(second, b=first.b)
        return cables, [first.a.node, first.b.node, second.a.node, second.b.node]
    free = FoundEnd(first.b.node, "64")
    if kind == "moved to another port":
        cables[one] = replace(first, b=free)
        return cables, [first.a.node, str(first.b), str(free)]
    if kind == "missing uplink":
        del cables[one]
        return cables, [str(first.a), str(first.b)]
    cables.append(FoundCable(FoundEnd(first.a.node, "63"), free, None))
    return cables, [f"{first.a.node} port 63", str(free)]


if __name__ == "__main__":
    main()
