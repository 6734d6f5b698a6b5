"""
How many good jobs does ``fabric gate`` stop, how many bad hosts does it let through, and how long does it take?

    python benchmarks/gate.py [SEEDS] [NOISE]        default: 10 runs of the self-check of 64 hosts, noise 0.02 (a CV)

Every run is of a simulated pod-64 with one bad host; its verdict is then taken for that of real hosts, and each host's
gate is asked. Then some gates are started as a prolog starts them, over one run and over as many as a gate reads.
"""

import json
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fabric.app.scheduler import standing  # noqa: E402
from fabric.runs.stored_verdict import VERDICT  # noqa: E402

FABRIC = (sys.executable, "-c", "from fabric.cli.main import run; run()")
FAULTS = ("{host}/mlx5_3:port:slow=0.5", "{host}/mlx5_5:slow=0.6", "{host}/mlx5_1:port:slow=0.8")
MOST_RUNS = 200


def main() -> None:
    """Print the three answers."""
    seeds, noise = int((*sys.argv[1:], 10)[0]), float((*sys.argv[2:], 0.02)[0]) if sys.argv[2:] else 0.02
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        good, bad, spent_s = Counter[str](), Counter[str](), []
        for seed in range(seeds):
            host = f"gpu{random.Random(seed).randint(1, 64):03d}"
            results = folder / str(seed)
            checked(folder, results, noise=noise, seed=seed, fault=FAULTS[seed % len(FAULTS)].format(host=host))
            for number in range(1, 65):
                begun_s = time.monotonic()
                one = standing(f"gpu{number:03d}", results, days=14)
                spent_s.append(time.monotonic() - begun_s)
                (bad if one.host == host else good)[one.outcome.name] += 1
        stopped, gates = good["FAIL"], good.total()
        print(
            f"good hosts: {dict(good)}; stopped {stopped} of {gates} gates ({stopped / gates:.2%}), noise {noise:.1%}"
        )
        print(f"bad hosts:  {dict(bad)}")
        print(f"a gate, one run: {asked(results, host)}")
        many(results)
        print(f"a gate, {MOST_RUNS} runs: {asked(results, host)}; a host of none: {asked(results, 'gpu999')}")


def checked(folder: Path, results: Path, *, noise: float, seed: int, fault: str) -> None:
    """A self-check of the pod, whose verdict says that it is of real hosts."""
    shutil.copytree(ROOT / "inventory" / "baselines", folder / "baselines", dirs_exist_ok=True)
    inventory = folder / "pod.yaml"
    text = (ROOT / "inventory" / "pod-64.yaml").read_text()
    inventory.write_text(text.replace("noise_cv: 0.003", f"noise_cv: {noise}"))
    scenario = str(ROOT / "scenarios" / "self-check.yaml")
    words = ("run", scenario, "--inventory", str(inventory), "--results", str(results), "--seed", str(seed))
    done = subprocess.run((*FABRIC, *words, "--fault", fault, "--no-html"), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{fault}: exit {done.returncode}: {done.stderr}")
    file = the_run(results) / VERDICT
    document = json.loads(file.read_text())
    file.write_text(json.dumps(document | {"backend": "ssh"}))


def the_run(results: Path) -> Path:
    """The only one."""
    (run,) = (file.parent for file in results.glob(f"*/*/{VERDICT}") if not file.parent.is_symlink())
    return run


def asked(results: Path, host: str) -> str:
    """How long eight gates took, one after the other, each a process as a prolog starts it."""
    took, used_s = [], _children_s()
    for _ in range(8):
        begun_s = time.monotonic()
        argv = (*FABRIC, "gate", host, "--results", str(results))
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        took.append(time.monotonic() - begun_s)
    cpu_s = (_children_s() - used_s) / len(took)
    return f"median {statistics.median(took):.2f} s, worst {max(took):.2f} s, {cpu_s:.2f} CPU s each"


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def many(results: Path) -> None:
    """Copies of the run, as if it had been made again and again."""
    run, now = the_run(results), datetime.now(UTC)
    for number in range(1, MOST_RUNS):
        at = now - timedelta(hours=number)
        shutil.copytree(run, run.with_name(f"{at:%Y%m%d-%H%M%S}-{number:06d}"), symlinks=True)


if __name__ == "__main__":
    main()
