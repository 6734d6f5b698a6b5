"""
Does ``fabric hang`` name the rank? ``python benchmarks/hang.py FOLDER [--python PYTHON_WITH_TORCH] [--cases N]``.

Real jobs of 2 to 8 ranks (PyTorch, gloo, this machine alone) in which one rank misbehaves in one of seven ways, and
jobs in which none does; their flight-recorder dumps are written below FOLDER, where they are not there yet, and judged.
PyTorch is no part of fabric's environment: ``--python`` names an interpreter that has it.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("absent", "op", "size", "dtype", "dead", "stopped", "slow-in")
HEALTHY = "healthy"
AFTER_S = 4.0
"""A rank writes its dump when it went no further for so long."""
LONGEST_S = 120.0
AT_ONCE = 4
"""Jobs that run at the same time: they mostly wait."""


def main() -> None:
    """Make what is missing, judge all, print a line a kind."""
    words = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    words.add_argument("folder", type=Path)
    words.add_argument("--python", default=sys.executable)
    words.add_argument("--cases", type=int, default=60)
    words.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    asked = words.parse_args()
    if asked.make:
        make(asked.folder, asked.cases)
        return
    if subprocess.run([asked.python, "-c", "import torch.distributed"], capture_output=True).returncode:
        sys.exit(f"{asked.python} has no torch: pip install torch somewhere, and name that Python with --python")
    own = ["--make", "--cases", str(asked.cases), str(asked.folder)]
    subprocess.run([asked.python, __file__, *own], check=True)
    score(asked.folder)


class Job(NamedTuple):
    """What is wrong with it, how many ranks it has, which is bad (-1: none), and what the rest is drawn with."""

    kind: str
    ranks: int
    bad: int
    seed: int


def planned(cases: int) -> dict[str, Job]:
    """By name what each job is, drawn with its number: kinds in turn, then a sixth as many without a fault."""
    found: dict[str, Job] = {}
    for number in range(cases + cases // 6):
        draw = random.Random(number)
        kind = KINDS[number % len(KINDS)] if number < cases else HEALTHY
        ranks = draw.randint(2, 8)
        bad = draw.randrange(ranks) if number < cases else -1
        found[f"{number:03d}-{kind}"] = Job(kind, ranks, bad, number)
    return found


def make(folder: Path, cases: int) -> None:
    """Run each job that has no dumps yet; every rank is a fork of this process, which has loaded torch once."""
    os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", MASTER_ADDR="127.0.0.1")
    import torch
    import torch._inductor  # which a dump loads: once, before ranks are forked

    torch.set_num_threads(1)
    todo = [(name, job) for name, job in planned(cases).items() if not (folder / name / "job.json").exists()]
    for first in range(0, len(todo), AT_ONCE):
        some = todo[first : first + AT_ONCE]
        pids = [pid for name, job in some for pid in started(folder / name, job)]
        end(pids)
        for name, job in some:
            if not list((folder / name).glob("*trace_rank_*")):
                sys.exit(f"{folder / name}: no dump; is this machine too busy?")
            (folder / name / "store").unlink(missing_ok=True)
            (folder / name / "job.json").write_text(json.dumps(job._asdict()))


def end(pids: list[int]) -> None:
    """Wait until all have ended or are stopped; then end what is left."""
    late = time.monotonic() + LONGEST_S
    running, left = set(pids), set(pids)
    while running and time.monotonic() < late:
        for pid in sorted(left):
            seen, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if seen:
                running.discard(pid)
            if seen and not os.WIFSTOPPED(status):
                left.remove(pid)
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def started(folder: Path, job: Job) -> list[int]:
    """One process a rank."""
    folder.mkdir(parents=True, exist_ok=True)
    pids = []
    for rank in range(job.ranks):
        pid = os.fork()
        if pid == 0:
            try:
                work(folder, rank, job)
            finally:
                os._exit(3)
        pids.append(pid)
    return pids


def work(folder: Path, rank: int, job: Job) -> None:
    """What one rank does: its collectives; then, or when it gets no further or they fail, its dump."""
    import threading
    from datetime import timedelta

    import torch.distributed as dist

    log = os.open(folder / f"stderr_rank_{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1), os.dup2(log, 2)
    went = [0]
    try:
        store = dist.FileStore(str(folder / "store"), job.ranks)
        limit = timedelta(seconds=60)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=job.ranks, timeout=limit)
        dist.barrier()
        threading.Thread(target=dump_when_stuck, args=(folder, rank, job, went), daemon=True).start()
        train(rank, job, went)
        dist.barrier()
        time.sleep(0.5)  # until the last of it is over on every rank
    except BaseException:  # noqa: BLE001 - as a training script that dumps when a collective fails
        sys.excepthook(*sys.exc_info())  # PyTorch's, which puts the rank before each line
        sys.stderr.flush()
    dump(folder, rank, job)
    os._exit(0)


def train(rank: int, job: Job, went: list[int]) -> None:
    """Iterations of a few collectives, one of which goes wrong on one rank."""
    import torch
    import torch.distributed as dist

    draw = random.Random(job.seed)
    rows, steps = draw.randint(1, 9), [draw.choice(("all_reduce", "all_gather", "broadcast")) for _ in range(4)]
    bad = draw.randint(1, 5), job.seed % len(steps)
    if job.kind in ("size", "dtype") and steps[bad[1]] == "broadcast":
        steps[bad[1]] = "all_reduce"  # a broadcast into a larger buffer goes well
    half = dist.new_group(list(range(job.ranks // 2)), group_desc="half") if job.seed % 2 else None
    for iteration in range(7):
        for position, op in enumerate(steps):
            went[0] += 1
            if rank == job.bad and (iteration, position) == bad:
                misbehave(op, rows, job)
            else:
                call(op, torch.ones(rows, 8), job.ranks)
        if half is not None and rank < job.ranks // 2:
            dist.all_reduce(torch.ones(2, 2), group=half)


def call(op: str, tensor: Any, ranks: int, *, async_op: bool = False) -> None:
    """One collective of all ranks."""
    import torch.distributed as dist

    if op == "all_reduce":
        dist.all_reduce(tensor, async_op=async_op)
    elif op == "broadcast":
        dist.broadcast(tensor, 0, async_op=async_op)
    else:
        gathered = tensor.new_empty(ranks * tensor.shape[0], tensor.shape[1])
        dist.all_gather_into_tensor(gathered, tensor, async_op=async_op)


def misbehave(op: str, rows: int, job: Job) -> None:
    """What the bad rank does in place of one collective."""
    import torch

    if job.kind == "op":
        call("broadcast" if op != "broadcast" else "all_reduce", torch.ones(rows, 8), job.ranks)
    elif job.kind == "size":
        call(op, torch.ones(rows + 1, 8), job.ranks)
    elif job.kind == "dtype":
        call(op, torch.ones(rows, 8, dtype=torch.float64), job.ranks)
    elif job.kind in ("dead", "stopped"):
        os.kill(os.getpid(), signal.SIGKILL if job.kind == "dead" else signal.SIGSTOP)
    else:
        if job.kind == "slow-in":  # it begins, and never comes back to it
            call(op, torch.ones(rows, 8), job.ranks, async_op=True)
        time.sleep(600)


def dump(folder: Path, rank: int, job: Job) -> None:
    """What the flight recorder holds; of every fifth job as JSON."""
    from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

    as_json = job.seed % 5 == 0
    said = _dump_fr_trace_json() if as_json else _dump_fr_trace()
    name = f"trace_rank_{rank}.json" if as_json else f"nccl_trace_rank_{rank}"
    (folder / name).write_bytes(said if isinstance(said, bytes) else said.encode())


def dump_when_stuck(folder: Path, rank: int, job: Job, went: list[int]) -> None:
    """As a watchdog does: it dumps, and ends the process."""
    seen, since = -1, time.monotonic()
    while time.monotonic() < since + AFTER_S:
        if went[0] != seen:
            seen, since = went[0], time.monotonic()
        time.sleep(0.1)
    dump(folder, rank, job)
    os._exit(0)


def score(folder: Path) -> None:
    """A line a kind: the rank named for certain, as the one that may be, beside another, another, none; then all."""
    from fabric.app.diagnose import hang_files
    from fabric.model.outcome import Outcome

    counts: dict[str, Counter[str]] = {}
    took = time.process_time()
    for path in sorted(folder.glob("*/job.json")):
        job = Job(**json.loads(path.read_text()))
        found = hang_files([path.parent])
        for_certain = {one.rank for one in found.suspects if one.outcome is Outcome.FAIL}
        named = for_certain or {one.rank for one in found.suspects}
        right = {job.bad} if job.bad >= 0 else set()
        if named == right:
            what = "certain" if for_certain or not right else "may be"
        else:
            what = "beside others" if right & named else "wrong" if for_certain else "none" if not named else "other"
            print(f"  {path.parent.name}: {job.ranks} ranks, rank {job.bad}; named {named or 'none'}: {what}")
        counts.setdefault(job.kind, Counter())[what] += 1
    took = time.process_time() - took
    heads = ("certain", "may be", "beside others", "other", "none", "wrong")
    print(f"{'kind':10}" + "".join(f"{head:>15}" for head in heads))
    for kind, found_of in counts.items():
        print(f"{kind:10}" + "".join(f"{found_of[head]:15}" for head in heads))
    faults = [found_of for kind, found_of in counts.items() if kind != HEALTHY]
    jobs = sum(sum(one.values()) for one in faults)
    right_jobs = sum(one["certain"] + one["may be"] for one in faults)
    print(f"right rank: {right_jobs} of {jobs} ({right_jobs / max(jobs, 1):.1%}); {took:.1f} s of CPU to judge all")


if __name__ == "__main__":
    main()
