"""
Is what is there found, and every wrong cable named?
``python benchmarks/wiring.py [PLANTED] [SEED] [--ibsim]`` (100, 1).

On the simulated pod-64 and hall-2048: ``fabric inventory discover``, set beside the shipped file; then so many
miswirings, one at a time, drawn at random of six kinds, by the inventory alone and by a blueprint. A finding is right
when there is one, it names every end that it is about, and nothing else is found. A minute.

``--ibsim``: every cable of pod-64 stands in a file of the real ``ibsim``, under the GUIDs that the simulated hosts have
in sysfs, and what is read is what the real ``ibnetdiscover -p`` prints of it; a fabric of its own for each miswiring.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fabric.checks.found import cables_of, discover  # noqa: E402
from fabric.checks.wiring import wiring  # noqa: E402
from fabric.config.inventory import load_inventory  # noqa: E402
from fabric.model.found import FoundCable, FoundEnd, FoundFabric  # noqa: E402
from fabric.model.inventory import Inventory  # noqa: E402
from fabric.report.written import inventory_text  # noqa: E402
from fabric.tools import infiniband  # noqa: E402
from fabric.tools.infiniband import PortLine  # noqa: E402
from fabric.wiring import make_executor  # noqa: E402

Cables = list[FoundCable]
BY_INVENTORY = ("exchanged RNICs", "exchanged uplinks")
BY_BLUEPRINT = (*BY_INVENTORY, "exchanged in one leaf", "moved to another port", "missing uplink", "one too many")
LIBRARY = f"/usr/lib/{os.uname().machine}-linux-gnu/umad2sim/libumad2sim.so"


def main() -> None:
    """Both halves."""
    words = [word for word in sys.argv[1:] if word != "--ibsim"]
    planted, draw = int(words[0]) if words else 100, random.Random(int(words[1]) if words[1:] else 1)
    real = "--ibsim" in sys.argv
    for name in ("pod-64",) if real else ("hall-2048", "pod-64"):
        inventory, found = looked(ROOT / "inventory" / f"{name}.yaml")
        if real:
            inventory, found = walked(ROOT / "inventory" / f"{name}.yaml", found)
        beside(name, inventory, found)
    seen = (lambda cables: seen_by_ibsim(found, cables)) if real else (lambda cables: replace(found, cables=cables))
    for how, kinds in (("inventory", BY_INVENTORY), ("blueprint", BY_BLUEPRINT)):
        plan = as_planned(found) if how == "blueprint" else ()
        clean = len(findings(inventory, seen(found.cables), plan))
        begun_s = time.monotonic()
        right, wrong = searched(inventory, found, plan, kinds=kinds, planted=planted, draw=draw, seen=seen)
        each = ", ".join(f"{number} {kind}" for kind, number in sorted(right.items()))
        print(f"{how}: {sum(right.values())} of {planted} planted named with every end ({each})")
        took = f"{time.monotonic() - begun_s:.0f} s"
        print(f"  findings on the clean pod: {clean}; findings about anything else: {len(wrong)}; {took}")
        for text in wrong:
            print(f"  NOT: {text}")


def searched(
    inventory: Inventory,
    found: FoundFabric,
    plan: tuple[FoundCable, ...],
    *,
    kinds: Sequence[str],
    planted: int,
    draw: random.Random,
    seen: Callable[[tuple[FoundCable, ...]], FoundFabric],
) -> tuple[Counter[str], list[str]]:
    """How many of each kind were named alone and with every end; and what was said of the others."""
    right, wrong = Counter[str](), list[str]()
    for _ in range(planted):
        kind = draw.choice(kinds)
        made, ends = plant(kind, list(found.cables), draw)
        said = findings(inventory, seen(tuple(made)), plan)
        if len(said) == 1 and all(end in said[0] for end in ends):
            right[kind] += 1
        else:
            wrong.append(f"{kind} {ends}: {said}")
    return right, wrong


def looked(path: Path, listed: Sequence[PortLine] = ()) -> tuple[Inventory, FoundFabric]:
    """What the simulated hosts and switches of an inventory say; *listed*: of the hosts only, cables from there."""
    inventory = load_inventory(path)
    with closing(make_executor("mock", inventory)) as executor:
        return inventory, discover(executor, inventory.topology.hosts, inventory.changes, listed)


def walked(path: Path, mock: FoundFabric) -> tuple[Inventory, FoundFabric]:
    """The same of the real walk; each cable, port by port, is as the mock has it, and in its order."""
    inventory, found = looked(path, by_ibsim(mock, mock.cables))
    mine, theirs = ({frozenset((one.a, one.b)) for one in each.cables} for each in (mock, found))
    if mine != theirs:
        raise SystemExit(f"ibnetdiscover: other cables than were laid: {len(mine ^ theirs)}")
    return inventory, replace(found, cables=mock.cables)


def net(found: FoundFabric, cables: Sequence[FoundCable]) -> str:
    """These cables for ibsim, whose adapters' ports have the GUID of the adapter and one."""
    rows, most = defaultdict[str, list[str]](list), defaultdict[str, int](lambda: 64)
    for cable in cables:
        for near, far in ((cable.a, cable.b), (cable.b, cable.a)):
            rows[near.node].append(f'[{near.port}] "{far.node}"[{far.port}]')
    guids = {f"{host.name}/{one.device}": one.guid for host in found.hosts.values() for one in host.rnics}
    heads = {
        name: f'Switch {most[name]} "{name}"'
        if name in found.switches
        else f'caguid={guids[name] - 1:#x}\nHca 1 "{name}"'
        for name in rows
    }
    return "\n".join("\n".join([heads[name], *ports, ""]) for name, ports in rows.items()).replace("/", " ")


def by_ibsim(found: FoundFabric, cables: Sequence[FoundCable]) -> tuple[PortLine, ...]:
    """
    What the real ibnetdiscover prints of these cables.

    Without speeds: ibsim has none above QDR.
    """
    first = cables[0].a.node.replace("/", " ")
    with tempfile.TemporaryDirectory() as name:
        folder, own = Path(name), {**os.environ, "IBSIM_SOCKNAME": f"wiring{os.getpid()}"}
        (folder / "net").write_text(net(found, cables))
        argv = ("ibsim", "-s", "-N", "4000", "-S", "500", "-P", "40000", str(folder / "net"))
        with (folder / "log").open("wb") as log:
            ibsim = subprocess.Popen(argv, cwd=folder, env=own, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            until_s = time.monotonic() + 60.0
            while "sim>" not in (folder / "log").read_text() and time.monotonic() < until_s:
                time.sleep(0.02)
            env = {**own, "LD_PRELOAD": LIBRARY, "SIM_HOST": first}
            walk = ("ibnetdiscover", "-p")
            said = subprocess.run(walk, env=env, capture_output=True, text=True, timeout=120, check=False)
        finally:
            ibsim.send_signal(signal.SIGKILL)
            ibsim.communicate(timeout=20)
    lines = infiniband.read_links(said.stdout, said.stderr, said.returncode)
    return tuple(replace(line, speed="") for line in lines)


def seen_by_ibsim(found: FoundFabric, cables: Sequence[FoundCable]) -> FoundFabric:
    """The hosts as they were found, with cables as the real tool lists these."""
    seen, switches, unknown_adapters = cables_of(by_ibsim(found, cables), found.hosts)
    return replace(
        found, cables=tuple(seen), switches=frozenset(switches), unknown_adapters=frozenset(unknown_adapters)
    )


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
    lines = len(text.splitlines())
    print(
        f"{name}: {len(topology.hosts):,} hosts, {sum(1 for _ in topology.links()):,} cables in {lines} lines; equal:"
    )
    print(f"  {same}; {time.process_time() - begun_s:.1f} CPU s after the questions")


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
