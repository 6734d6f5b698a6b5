"""
Post-repair validation on the mock: is a repaired host accepted, and any other one not?

    python benchmarks/post_repair.py [SEEDS [quick|full]]        default: 50 quick

For each seed an RNIC or a GPU of one host is made slow (to 50 to 90 % of its bandwidth), a self-check fails the host,
and it comes back: truly repaired, not repaired, and wrongly repaired (another part of the same kind has a new serial
number). A fourth host has good numbers with the wrong part replaced: that is to be INCONCLUSIVE.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fabric.app.analyze import reopened
from fabric.app.prepare import Asked, Given, prepare
from fabric.app.repair import decided, prepare_repair
from fabric.app.run import run
from fabric.model.repair import Acceptance
from fabric.report.progress import ConsoleProgress
from fabric.wiring import BACKENDS

ROOT = Path(__file__).resolve().parents[1]
INVENTORY = ROOT / "inventory" / "demo-rack-healthy.yaml"
CHECK = """\
name: check
inventory: {inventory}
identity: true
hosts: gpu[001-004]
phases:
  - name: intra-host
    probes: [loopback, rnic_to_rnic]
"""
WANTED = {
    "truly repaired": "ACCEPT",
    "not repaired": "REJECT",
    "wrongly repaired": "REJECT",
    "wrong part, good numbers": "INCONCLUSIVE",
}


def measured(asked: Asked, results: Path, seed: int) -> Path:
    """The directory of the run."""
    judged = run(
        asked,
        backend="mock",
        make_executor=BACKENDS["mock"],
        results=results,
        seed=seed,
        observer=ConsoleProgress(quiet=True),
        reports=False,
    )
    return Path(judged.path)


def situations(draw: random.Random) -> tuple[str, dict[str, tuple[str, ...]]]:
    """What is slow at first, and the faults of the rack when the host comes back."""
    host, number = draw.choice(("gpu002", "gpu003")), draw.randrange(8)
    kind = draw.choice(("mlx5_", "gpu"))
    part, other = f"{host}/{kind}{number}", f"{host}/{kind}{(number + draw.randrange(1, 8)) % 8}"
    slow = f"{part}:slow={draw.uniform(0.5, 0.9):.2f}"
    return slow, {
        "truly repaired": (f"{part}:replaced",),
        "not repaired": (slow,),
        "wrongly repaired": (slow, f"{other}:replaced"),
        "wrong part, good numbers": (f"{other}:replaced",),
    }


def one(seed: int, results: Path, *, quick: bool) -> dict[str, Acceptance]:
    """Every situation of one seed, decided."""
    slow, after = situations(random.Random(seed))
    path = results / "check.yaml"
    path.write_text(CHECK.format(inventory=INVENTORY), "utf-8")
    asked = prepare(Given(path, faults=(slow,)))
    failed = measured(asked, results, seed)
    host = slow.partition("/")[0]
    found = {}
    for name, faults in after.items():
        given = Given(ROOT / "scenarios" / "post-repair.yaml", INVENTORY, host, faults)
        found[name] = decided(reopened(measured(prepare_repair(given, failed, quick=quick), results, seed + 1000)))
    return found


def right(name: str, found: Acceptance) -> bool:
    """The decision that is wanted, and where there is one the reason."""
    if found.decision.value != WANTED[name]:
        return False
    reason = {"not repaired": "nothing was replaced", "wrongly repaired": "the wrong part was replaced"}.get(name, "")
    return found.reasons[0].startswith(reason)


def main() -> None:
    """Run it, print a table."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    quick = (sys.argv[2] if len(sys.argv) > 2 else "quick") == "quick"
    began_s = time.perf_counter()
    counts: dict[str, Counter[str]] = {name: Counter() for name in WANTED}
    good: Counter[str] = Counter()
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            for name, found in one(seed, Path(folder), quick=quick).items():
                counts[name][found.decision.value] += 1
                good[name] += right(name, found)
                if not right(name, found):
                    print(f"seed {seed}, {name}: {found.decision.value}: {found.reasons[:3]}", flush=True)
    print("| host | wanted | ACCEPT | REJECT | INCONCLUSIVE | with the right reason |\n|---|---|---|---|---|---|")
    for name, wanted in WANTED.items():
        cells = " | ".join(str(counts[name][word]) for word in ("ACCEPT", "REJECT", "INCONCLUSIVE"))
        print(f"| {name} | {wanted} | {cells} | {good[name]} of {seeds} |")
    took_s = time.perf_counter() - began_s
    print(f"{'quick' if quick else 'full'}, {seeds} seeds, {took_s:.0f} s")


if __name__ == "__main__":
    main()
