"""
How long ``fabric history`` takes over many runs: ``python benchmarks/history.py [RUNS] [HOSTS]`` (1000 and 8).

One self-check of the simulated rack is made and copied under other ids. Measured are all hosts, one, and a part of it.
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from report import run

from fabric.app.history import history


def main() -> None:
    """One line for all hosts, one for a host, one for a part."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    hosts = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        source = run(hosts, results)
        multiply(source, runs - 1)
        size = sum(file.stat().st_size for file in results.rglob("*") if file.is_file())
        print(f"{runs} runs of {hosts} hosts, {size >> 20} MiB read from")
        for what, component in (
            ("all hosts", None),
            ("a host", "gpu0003"),
            ("a part", "gpu0003/mlx5_3"),
        ):
            start, cpu = time.perf_counter(), time.process_time()
            found = history(results, component=component)
            took_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
            seen = f"{len(found.runs)} runs, {len(found.signals)} hosts"
            print(f"{what:>16} {took_s:6.2f} s, {cpu_s:6.2f} s of CPU, {seen}", flush=True)


def multiply(source: Path, copies: int) -> None:
    """The same run again, with ids of their own; only the files that history reads."""
    documents = {name: json.loads((source / name).read_text()) for name in ("run.json", "verdict.json")}
    for number in range(copies):
        target = source.parent / f"20200101-{number:06}"
        target.mkdir()
        for name, document in documents.items():
            (target / name).write_text(json.dumps({**document, "run_id": target.name}))
        shutil.copy(source / "measurements.parquet", target)


if __name__ == "__main__":
    main()
