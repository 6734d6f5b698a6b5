"""
Post-repair validation on the mock: is what was repaired accepted, and nothing else?

    python benchmarks/post_repair.py [--seeds 101-110] [--full] [KIND...]        default: all kinds, quick

Each kind of trouble fails a run, comes back in several ways, and is validated:

- ``parts``: an RNIC or a GPU keeps 50 to 90 % of its bandwidth; repaired, not repaired, another part replaced.
- ``dips-N``: one transfer in N of an RNIC keeps 60 % (10, 30, 100); of seeds whose self-check shows it.
- ``fade``, ``heat``: a soak of 12 h in which an RNIC loses 30 % a day, or a fifth while its module is warm. What was
  repaired is also measured in a hall that is warm.
- ``links``: a cable between switches or a whole leaf, found by `localise`, on 64 hosts.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fabric.app.analyze import decided, reopened
from fabric.app.prepare import Asked, Given, prepare
from fabric.app.repair import prepare_repair
from fabric.app.run import run
from fabric.errors import ConfigError
from fabric.model.outcome import Outcome
from fabric.model.repair import Acceptance
from fabric.report.progress import ConsoleProgress
from fabric.sim import life
from fabric.wiring import BACKENDS

ROOT = Path(__file__).resolve().parents[1]
RACK = ROOT / "inventory" / "demo-rack-healthy.yaml"
POD = ROOT / "inventory" / "pod-64.yaml"
POST_REPAIR = ROOT / "scenarios" / "post-repair.yaml"
HEAD = f"name: check\ninventory: {RACK}\nidentity: true\nhosts: gpu[001-004]\n"
CHECK = f"{HEAD}phases:\n  - {{name: intra-host, probes: [loopback, rnic_to_rnic]}}\n"
SOAK = f"""{HEAD}for: 12h
sample: {{every: 5m}}
phases:
  - {{name: soak, share: 1, probes: [{{pairwise: {{rounds: 3, duration: 60s}}}}]}}
"""
LOCALISE = (ROOT / "scenarios" / "localise.yaml").read_text("utf-8").replace("../inventory/pod-64.yaml", str(POD))
TRIES = 30
"""So many self-checks are made until one shows what dips."""

WORDS = ("ACCEPT", "REJECT", "INCONCLUSIVE")


@dataclass(frozen=True)
class Trial:
    """What is wrong at first, which a run of *scenario* shows; by situation the faults afterwards and what is right."""

    scenario: str
    fault: str
    after: Mapping[str, tuple[str, ...]]
    wanted: Mapping[str, tuple[str, ...]]
    links: str | None = None
    one_in: int = life.ONE_IN
    reasons: Mapping[str, str] = field(default_factory=dict)


def trial(kind: str, seed: int, *, quick: bool) -> Trial:
    """The trial of one kind and seed."""
    draw = random.Random(seed)
    host, number = draw.choice(("gpu002", "gpu003")), draw.randrange(8)
    if kind == "links":
        name = f"su{draw.randrange(4)}-leaf{number}" + draw.choice(("", f"--spine{draw.randrange(16):02}"))
        slow = f"{name}:slow={draw.uniform(0.5, 0.8):.2f}"
        wanted = {"repaired": ("ACCEPT",), "not repaired": ("REJECT",)}
        return Trial(LOCALISE, slow, {"repaired": (), "not repaired": (slow,)}, wanted, name)
    if kind == "parts":
        sort = draw.choice(("mlx5_", "gpu"))
        part, other = f"{host}/{sort}{number}", f"{host}/{sort}{(number + draw.randrange(1, 8)) % 8}"
        slow = f"{part}:slow={draw.uniform(0.5, 0.9):.2f}"
        after = {
            "repaired": (f"{part}:replaced",),
            "not repaired": (slow,),
            "wrongly repaired": (slow, f"{other}:replaced"),
            "wrong part, good numbers": (f"{other}:replaced",),
        }
        wanted = dict(zip(after, [("ACCEPT",), ("REJECT",), ("REJECT",), ("INCONCLUSIVE",)], strict=True))
        said = {"not repaired": "nothing was replaced", "wrongly repaired": "the wrong part was replaced"}
        return Trial(CHECK, slow, after, wanted, reasons=said)
    part = f"{host}/mlx5_{number}"
    new, time_is_short = f"{part}:replaced", ("ACCEPT", "INCONCLUSIVE") if quick else ("ACCEPT",)
    if kind.startswith("dips-"):
        sick, one_in = f"{part}:dipping=0.6", int(kind.removeprefix("dips-"))
        wanted = {"repaired": time_is_short, "still so": ("REJECT", "INCONCLUSIVE")}
        return Trial(CHECK, sick, {"repaired": (new,), "still so": (new, sick)}, wanted, one_in=one_in)
    sick = f"{part}:fading=0.7" if kind == "fade" else f"{part}:heat_sick=0.8"
    after = {"repaired": (new,), "still so": (new, sick)}
    wanted = {"repaired": time_is_short, "still so": ("REJECT", "INCONCLUSIVE")}
    if kind == "heat":  # a module that never becomes warm shows nothing
        after["repaired, in a warm hall"] = (new, f"{part}:heat_sick=0.999")
        wanted |= {"repaired": ("INCONCLUSIVE",), "repaired, in a warm hall": time_is_short}
    return Trial(SOAK, sick, after, wanted)


def measured(asked: Asked, results: Path, seed: int) -> Path:
    """The directory of the run."""
    found = run(
        asked,
        backend="mock",
        executor=BACKENDS["mock"](asked.inventory, seed),
        results=results,
        seed=seed,
        observer=ConsoleProgress(quiet=True),
        reports=False,
    )
    return Path(found.judged.path)


def failed_run(one: Trial, results: Path, seed: int) -> Path | None:
    """A run that FAILs; None where none of many does."""
    path = results / "check.yaml"
    path.write_text(one.scenario, "utf-8")
    for number in range(TRIES):
        failed = measured(prepare(Given(path, faults=(one.fault,))), results, seed + 10_000 * number)
        if reopened(failed).judged.verdict.outcome is Outcome.FAIL:
            return failed
    return None


def validated(one: Trial, seed: int, results: Path, *, quick: bool) -> Iterator[tuple[str, Acceptance, float]]:
    """Every situation of one trial, decided, with the simulated seconds that it took."""
    life.ONE_IN = one.one_in
    failed = failed_run(one, results, seed)
    if failed is None:
        return
    inventory = RACK if one.links is None else POD
    host = one.fault.partition("/")[0] if one.links is None else None
    links = {} if one.links is None else {"links": one.links}
    for name, faults in one.after.items():
        asked = prepare_repair(Given(POST_REPAIR, inventory, host, faults), failed, quick=quick, **links)
        found = reopened(measured(asked, results, seed + 1000))
        yield name, decided(found), found.judged.elapsed_s


@contextmanager
def noting_refusals(wrong: list[str], case: str) -> Iterator[None]:
    """A failed run that accuses others, so that nothing can be measured again, is wrong, too."""
    try:
        yield
    except ConfigError as exc:
        wrong.append(f"{case}: {exc}")


def main() -> None:
    """Run it, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--seeds", default="101-110")
    parser.add_argument("--full", action="store_true", help="not with --quick")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    kinds = given.kinds or ["parts", "dips-10", "dips-30", "dips-100", "fade", "heat", "links"]
    began_s, quick = time.perf_counter(), not given.full
    print("| trouble | afterwards | ACCEPT | REJECT | INCONCLUSIVE | as wanted | minutes (simulated), longest |")
    print("|---|---|---|---|---|---|---|")
    wrong: list[str] = []
    for kind in kinds:
        counts: dict[str, Counter[str]] = {}
        lasted_s: dict[str, list[float]] = {}
        for seed in range(int(first), int(last or first) + 1):
            one = trial(kind, seed, quick=quick)
            with tempfile.TemporaryDirectory() as folder, noting_refusals(wrong, f"{kind}, seed {seed}"):
                for name, found, elapsed_s in validated(one, seed, Path(folder), quick=quick):
                    word = found.decision.value
                    good = word in one.wanted[name] and found.reasons[0].startswith(one.reasons.get(name, ""))
                    counts.setdefault(name, Counter()).update([word, "good"] if good else [word])
                    lasted_s.setdefault(name, []).append(elapsed_s)
                    wrong += [] if good else [f"{kind}, seed {seed}, {name}: {word}: {found.reasons[:2]}"]
        for name, counted in counts.items():
            cells = " | ".join(str(counted[word]) for word in WORDS)
            times = f"{median(lasted_s[name]) / 60:.0f}, {max(lasted_s[name]) / 60:.0f}"
            print(f"| {kind} | {name} | {cells} | {counted['good']} of {len(lasted_s[name])} | {times} |", flush=True)
    print(*wrong, f"{'quick' if quick else 'full'}, {time.perf_counter() - began_s:.0f} s", sep="\n")


if __name__ == "__main__":
    main()
