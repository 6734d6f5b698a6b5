"""
What ``fabric.load`` costs on a large run: ``python benchmarks/load.py [HOSTS]`` (1500: 300,000 samples).

The self-check of the hall is planned, and its history made up: every probe has measured what is normal for its kind,
with noise. Each line is a process of its own: its CPU seconds, with and without the imports, and its peak memory.

- *made*: the tables are made from events.jsonl, which takes a judge, too: *read*, *judged* and *tabled* are its steps;
- *loaded*: the five frames, from the Parquet files;
- *a host*: its samples alone (``fabric history``).
"""

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fabric.app.prepare import Asked, Given, prepare
from fabric.model.probe import Measurement, Probe, ProbeResult
from fabric.runs.run_directory import RunDirectory
from fabric.runs.run_document import run_document

ROOT = Path(__file__).resolve().parent.parent
NORMAL_GBPS = {"loopback": 395.0, "rnic_to_rnic": 396.0, "all_to_all": 2700.0, "tor_all_reduce": 3050.0}
TIMED = """
import time
from pathlib import Path
{imports}
def cpu(what, since):
    print(f"{{what:>12}} {{time.process_time() - since:6.2f}} CPU s", flush=True)
    return time.process_time()
started = cpu("imports", 0.0)
path = Path({path!r})
{body}
cpu("all", started)
peak_kib = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
print(f"{{'peak':>12}} {{peak_kib // 1024:6}} MiB")
"""
MADE = """
past = read_past_run(path)
since = cpu("read", started)
verdict = concluded(past)
since = cpu("judged", since)
shown = shown_run(past, verdict)
write_derived(shown, reports=False)
since = cpu("tabled", since)
"""
LOADED = """
run = fabric.load(path)
print(f"{len(run.samples):,} samples")
since = cpu("samples", started)
"""
A_HOST = "print(len(shares_of('gpu0003', path)), 'series')"
STEPS = {
    "made": (
        "from fabric.app.analyze import concluded, shown_run, write_derived\nimport numpy, pandas, pyarrow\n"
        "from fabric.runs.run_document import read_past_run",
        MADE,
    ),
    "loaded": ("import fabric, fabric.app.analyze, pandas, pyarrow.parquet", LOADED),
    "all frames": (
        "import fabric, fabric.app.analyze, pandas, pyarrow.parquet",
        "run = fabric.load(path)\nprint(f'{len(run.samples):,} samples, {len(run.parts):,} parts')",
    ),
    "a host": ("from fabric.app.history import shares_of\nimport pyarrow.parquet", A_HOST),
}


def main() -> None:
    """A made-up run, and each step in a process of its own."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    with tempfile.TemporaryDirectory() as folder:
        path = made_up(hosts, Path(folder))
        for what, (imports, body) in STEPS.items():
            print(what, flush=True)
            code = TIMED.format(imports=imports, path=str(path), body=body)
            subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def made_up(hosts: int, results: Path) -> Path:
    """The directory of a self-check in which every host is well."""
    asked = prepare(
        Given(
            ROOT / "scenarios" / "self-check.yaml",
            inventory=ROOT / "inventory" / "hall-2048.yaml",
            hosts=f"gpu[0001-{hosts:04}]",
        )
    )
    document = run_document(asked.scenario, asked.inventory, asked.baselines, backend="mock", seed=1)
    directory = RunDirectory.create(results, asked.scenario.name, document)
    directory.events.append("run_started", 0.0, {"run_id": directory.path.name, "probes": 0})
    for result in _results(asked):
        directory.finished(result, ())
    directory.events.append("run_ended", 600.0, {})
    directory.close()
    return directory.path


def _results(asked: Asked) -> Iterator[ProbeResult]:
    rng = random.Random(1)
    for number, probe in enumerate(asked.plan.planned):
        began_s = number / 1000
        yield ProbeResult(probe.probe_id, 1, tuple(_numbers(probe, rng)), None, "", began_s, began_s + 6.4)


def _numbers(probe: Probe, rng: random.Random) -> Iterator[Measurement]:
    sizes = probe.params.get("sizes_bytes") or (probe.params["size_bytes"],)
    ops = ("busbw_out_of_place", "busbw_in_place") if "sizes_bytes" in probe.params else ("bandwidth",)
    for size in sizes if isinstance(sizes, tuple) else ():
        for op in ops:
            value = NORMAL_GBPS[probe.kind] * rng.gauss(1.0, 0.004)
            yield Measurement(probe.probe_id, op, round(value, 2), "Gb/s", int(size))


if __name__ == "__main__":
    main()
