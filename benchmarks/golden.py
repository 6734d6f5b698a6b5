"""
What the product says of known runs, kept as text: does it still say the same?

    python benchmarks/golden.py --check [NAME...]     prints a diff a person can read; exit 1 when anything differs
    python benchmarks/golden.py --write [NAME...]     keeps what is said now
    python benchmarks/golden.py --list

A case is a few ``fabric`` commands in an empty folder of results. Kept are the exit code and standard output of each,
and the verdict.json of each run, in ``tests/golden/verdicts/<name>.txt``. Run ids, paths and byte counts are replaced
by words: nothing else depends on when or where it was run, or on the order of Python's sets, which differs from process
to process. NAME picks the cases whose name begins so.

The cases: the shipped scenarios; planted faults of every kind on four inventories (two levels, three levels, two rails
on a leaf, RoCE with ECMP), one on AMD's GPUs; a burn-in with nine kinds; post-repair, compare, diagnose. A difference
is none, or is explained in the commit that writes it anew.
"""

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "tests" / "golden" / "verdicts"
EXTRA = Path(__file__).resolve().parent / "golden"
FABRIC = (sys.executable, "-c", "import sys; from fabric.cli.main import run; sys.argv[0] = 'fabric'; sys.exit(run())")
TIMEOUT_S = 900
DIFF_LINES = 60
"""So many lines of a case's diff are printed."""

NOT_KEPT = ("path", "run_id", "history_bytes", "probes_s")
"""Keys of verdict.json that differ from run to run."""

TWO_LEVELS = (
    "gpu002/mlx5_3:slow=0.6",
    "gpu002/mlx5_3:port:slow=0.7",
    "gpu005/mlx5_1:broken",
    "gpu005/mlx5_1:hanging",
    "gpu004/mlx5_6:absent",
    "gpu003/gpu5:slow=0.7",
    "gpu003/gpu5:nvlink:slow=0.6",
    "gpu003/gpu2:absent",
    "gpu007/gpu1:hot",
    "gpu006/numa1:slow=0.5",
    "gpu006/pcie2:slow=0.5",
    "gpu001/mlx5_3->gpu4:slow=0.4",
    "gpu001/mlx5_2->numa1-gpus:slow=0.5",
    "gpu004:hanging",
    "gpu004:absent",
    "gpu008:garbage",
    "gpu008:slow=0.8",
    "gpu002/mlx5_4:hot",
    "gpu002/mlx5_4:dipping=0.5",
    "su0-leaf3:slow=0.5",
    "su0-leaf3:broken",
)
THREE_LEVELS = (
    "gpu002/mlx5_1:slow=0.7",
    "gpu007/mlx5_0:port:slow=0.8",
    "u1-leaf0:slow=0.6",
    "u1-leaf0--p0-spine0:slow=0.5",
    "u1-leaf0->p0-spine0:slow=0.5",
    "u2-leaf1--p1-spine1:broken",
    "p1-spine0:slow=0.5",
    "p1-spine0:broken",
    "p0-spine0--core00:slow=0.3",
    "core01:slow=0.4",
    "core01:broken",
    "gpu012:slow=0.8",
    "gpu005:lemon",
)
TWO_RAILS_A_LEAF = (
    "gpu003/mlx5_1:slow=0.7",
    "gpu003/mlx5_1:broken",
    "gpu010/mlx5_1:fading=0.7",
    "gpu010/mlx5_1:heat_sick=0.8",
    "leaf1:slow=0.7",
    "leaf2--spine0:slow=0.4",
    "leaf2--spine0:broken",
    "leaf0->spine0:slow=0.4",
    "spine0:slow=0.6",
    "spine3:broken",
    "gpu016:broken",
    "gpu014/numa0:slow=0.6",
    "gpu009/pcie1:slow=0.6",
)
ROCE = (
    "node03/mlx5_2:slow=0.7",
    "node03/mlx5_2:port:slow=0.7",
    "node05/mlx5_0:broken",
    "node08:slow=0.8",
    "node08/gpu1:slow=0.6",
    "node11/mlx5_3->numa0:slow=0.5",
    "tor1:slow=0.6",
    "tor2:broken",
    "tor0--spine2:slow=0.4",
    "tor0--spine2:broken",
    "tor3->spine1:slow=0.3",
    "spine1:slow=0.5",
    "node12:garbage",
)
MI300X = ("amd02/mlx5_3:slow=0.6",)
PLANTED = {
    "two-levels": ("inventory/demo-rack-healthy.yaml", TWO_LEVELS),
    "three-level": ("inventory/three-level.yaml", THREE_LEVELS),
    "two-rails-a-leaf": ("inventory/two-rails-a-leaf.yaml", TWO_RAILS_A_LEAF),
    "roce": ("inventory/roce.yaml", ROCE),
    "mi300x": ("inventory/mi300x.yaml", MI300X),
}
SHIPPED = (
    "ar-under-ber",
    "ber-sweep",
    "flap-tolerance",
    "localise",
    "ring-contention",
    "self-check",
    "shield-on-off",
)
PAIRS = ("cluster00-sendrecv-g8", "cluster00-alltoall-g1", "cluster01-alltoall-g4", "cluster01-sendrecv-g1")


@dataclass(frozen=True)
class Case:
    """*commands* of fabric, one after the other; each may name runs before it by their scenario's ``latest``."""

    name: str
    commands: tuple[tuple[str, ...], ...]


def cases() -> Iterator[Case]:
    """Every case, by name."""
    for name in SHIPPED:
        yield Case(f"shipped/{name}", (_run(f"scenarios/{name}.yaml"),))
    yield Case("shipped/burn-in", (_run("scenarios/burn-in.yaml", "--for", "6h"),))
    for layout, (inventory, faults) in PLANTED.items():
        yield Case(f"{layout}/clean", (_everything(inventory),))
        for fault in faults:
            yield Case(f"{layout}/{_name(fault)}", (_everything(inventory, "--fault", fault),))
    nine = _run("scenarios/burn-in.yaml", "--for", "24h", "--inventory", "inventory/nine-kinds.yaml")
    yield Case("burn-in/nine-kinds", (nine,))
    yield from _repairs()
    healthy = ("--inventory", "inventory/demo-rack-healthy.yaml")
    before = _run("scenarios/self-check.yaml", *healthy, "--seed", "2")
    after = _run("scenarios/everything.yaml", *healthy, "--fault", "gpu002/mlx5_3:slow=0.9")
    yield Case(
        "compare/one-slower", (before, after, ("compare", "results/self-check/latest", "results/everything/latest"))
    )
    for name in PAIRS:
        yield Case(f"diagnose/{name}", (("diagnose", f"pairs/{name}.csv", "--format", "csv"),))


def _repairs() -> Iterator[Case]:
    rack = ("--inventory", "inventory/demo-rack-healthy.yaml", "--hosts", "gpu[001-004]")
    slow, other = "gpu002/mlx5_3:slow=0.7", "gpu002/mlx5_4:replaced"
    after = {
        "accepted": ("gpu002/mlx5_3:replaced",),
        "not-repaired": (slow,),
        "wrong-part": (other,),
        "still-slow-and-wrong-part": (slow, other),
    }
    for name, faults in after.items():
        given = tuple(word for fault in faults for word in ("--fault", fault))
        again = _run(
            "scenarios/post-repair.yaml", *rack[:2], "--hosts", "gpu002", "--because", "results/self-check/latest",
            "--quick", *given,
        )  # fmt: skip
        yield Case(f"post-repair/{name}", (_run("scenarios/self-check.yaml", *rack, "--fault", slow), again))


def _run(scenario: str, *words: str) -> tuple[str, ...]:
    return ("run", scenario, "--no-html", *words)


def _everything(inventory: str, *words: str) -> tuple[str, ...]:
    return _run("scenarios/everything.yaml", "--inventory", inventory, *words)


def _name(fault: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.=-]+", "_", fault.replace("->", "-to-"))


def said(case: Case) -> str:
    """What the product says of a case, with words instead of what differs from run to run."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("inventory", "scenarios"):
            shutil.copytree(ROOT / name, place / name)
        shutil.copytree(KEPT / "pairs", place / "pairs")
        for file in EXTRA.glob("*.yaml"):
            shutil.copy(file, place / ("scenarios" if file.stem == "everything" else "inventory") / file.name)
        texts, told = [], set[Path]()
        for command in case.commands:
            texts.append(_said_by(command, place))
            for verdict in sorted(set(place.glob("results/*/2*/verdict.json")) - told):
                told.add(verdict)
                texts.append(_verdict(verdict))
        return _without_names("\n".join(texts), place)


def _said_by(command: tuple[str, ...], place: Path) -> str:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "COLUMNS": "120", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    done = subprocess.run(
        [*FABRIC, *command], cwd=place, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    error = f"{done.stderr}\n" if "Traceback" in done.stderr or not done.stdout else ""
    return f"$ fabric {' '.join(command)}\nexit code {done.returncode}\n{error}{done.stdout}"


def _verdict(path: Path) -> str:
    document = json.loads(path.read_text("utf-8"))
    lines = [f"verdict.json of {document['scenario']}"]
    for key, value in document.items():
        if key in NOT_KEPT:
            continue
        if isinstance(value, list) and value:  # an item a line: a diff then shows the item
            lines += [f"{key}:", *(f"  {json.dumps(item, ensure_ascii=False)}" for item in value)]
        else:
            lines.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join([*lines, ""])


def _without_names(text: str, place: Path) -> str:
    text = re.sub(r"\b2\d{7}-\d{6}(-\d+)?\b", "RUN", text.replace(f"{place}/", ""))
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def differs(case: Case, text: str) -> str:
    """The diff against what is kept; empty when it is the same."""
    file = KEPT / f"{case.name}.txt"
    old = file.read_text("utf-8").splitlines() if file.exists() else []
    lines = list(difflib.unified_diff(old, text.splitlines(), f"{case.name} (kept)", f"{case.name} (now)", lineterm=""))
    more = [f"... {len(lines) - DIFF_LINES} more lines"] if len(lines) > DIFF_LINES else []
    return "\n".join([*lines[:DIFF_LINES], *more])


def main() -> int:
    """Check or write; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    for option in ("--check", "--write", "--list"):
        what.add_argument(option, action="store_true")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    chosen = [case for case in cases() if not given.names or case.name.startswith(tuple(given.names))]
    if given.list:
        print("\n".join(case.name for case in chosen))
        return 0
    bad = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, text in zip(chosen, pool.map(said, chosen), strict=True):
            if given.write:
                file = KEPT / f"{case.name}.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
            elif difference := differs(case, text):
                bad += 1
                print(difference)
    print(f"{len(chosen)} cases, {'written' if given.write else f'{bad} differ'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
