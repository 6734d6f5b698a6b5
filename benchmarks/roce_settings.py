"""
One end of one cable of 64 RoCE hosts is set wrong: is it named, with both ends, and nothing else?

``python benchmarks/roce_settings.py [SEED...]`` (0 to 4) draws for each kind of fault, and each end that can have it,
an RNIC or a cable between switches, and runs ``fabric check`` on ``inventory/roce-64.yaml``. Then clean, once a seed.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fabric.app.check import check
from fabric.model.finding import Finding
from fabric.model.inventory import MISSET_ENDS, MISSET_HOSTS, MISSET_SWITCHES
from fabric.wiring import make_executor

INVENTORY = Path(__file__).parents[1] / "inventory" / "roce-64.yaml"
SEEDS = range(5)


def planted(seed: int) -> list[str]:
    """Every kind at every end that can have it."""
    draw = Random(seed)
    made = []
    for kind in (*MISSET_ENDS, *MISSET_HOSTS[1:], *MISSET_SWITCHES):  # misset is many at once
        rnic = f"gpu{draw.randint(1, 64):03d}/mlx5_{draw.randrange(4)}"
        leaf, spine = f"su{draw.randrange(4)}-leaf{draw.randrange(4)}", f"spine{draw.randrange(8)}"
        if kind not in MISSET_SWITCHES:
            made.append(f"{rnic}:{kind}")
        if kind not in MISSET_HOSTS:
            made += [f"{rnic}:port:{kind}", f"{leaf}->{spine}:{kind}", f"{spine}->{leaf}:{kind}"]
    return made


def found(*faults: str) -> tuple[Finding, ...]:
    """What the pre-flight finds."""
    asked = dict(hosts=None, faults=faults, backend=None, make_executor=make_executor)
    return check(None, inventory_path=INVENTORY, **asked).findings


def named(fault: str, findings: tuple[Finding, ...]) -> bool:
    """One finding of one node, which names the end that is wrong and the other end."""
    component = fault.rpartition(":")[0]
    if len(findings) != 1:
        return False
    (one,) = findings
    ends = [component.removesuffix(":port")] if "/" in component else component.split("->")
    said = f"{one.hosts[0]}/{one.what}" if len(one.hosts) == 1 else ""
    near = one.hosts == (ends[0].partition("/")[0],) and said.startswith(ends[0])
    if component.endswith(":port"):
        near = one.hosts[0].endswith(f"leaf{component[-6]}") and f"cable to {ends[0]}" in said
    return near and "cable" in said and ends[-1].partition("/")[0] in said


def main(seeds: Iterable[int]) -> int:
    """Print a row a kind; 1 where something was missed or said of something else."""
    rows: dict[str, list[bool]] = {}
    others, began_s = 0, perf_counter()
    for seed in seeds:
        for fault in planted(seed):
            findings = found(fault)
            rows.setdefault(fault.rpartition(":")[2], []).append(named(fault, findings))
            if not rows[fault.rpartition(":")[2]][-1]:
                others += len(findings)
                print(f"{fault}: {[(one.hosts, one.what) for one in findings]}")
        others += len(found())
    for kind, well in rows.items():
        print(f"{kind:<16} named with both ends {sum(well):>3} of {len(well)}")
    print(f"clean or about anything else: {others} findings; {perf_counter() - began_s:.0f} s")
    return int(others > 0 or not all(map(all, rows.values())))


if __name__ == "__main__":
    sys.exit(main(map(int, sys.argv[1:]) if sys.argv[1:] else SEEDS))
