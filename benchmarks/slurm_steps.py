"""
What reaching the hosts of a Slurm job by one srun costs the orchestrator, against SSH to as many hosts.

    sudo python benchmarks/slurm_steps.py [--hosts 64] [--commands 10] [--rounds 3]

A real slurmctld and a real slurmd for each host, all on this machine; for SSH one real sshd in a namespace stands for
all hosts, as in benchmarks/ssh.py. So the hosts' cost shares this machine's cores: CPU is that of the client's whole
process tree (wait4), srun and the interpreter's start included, and the figure to compare. connect_wall_s is until
every host has answered a first command. A job is granted beforehand.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.lab.slurm_site import slurm_site, until  # noqa: E402
from benchmarks.ssh import Figures, Site, client  # noqa: E402
from benchmarks.ssh_peers import PEERS, Fabric  # noqa: E402

_TOLD = ("connect_wall_s", "job_wall_s", "wall_s", "cpu_s", "rss_mib")


class InJob(Fabric):
    """Our own executor in the job that ``SLURM_JOB_ID`` names."""

    def __init__(self, _: Path, count: int) -> None:
        from fabric.hosts.slurm import SlurmExecutor

        self.hosts = tuple(f"gpu{number:03d}" for number in range(1, count + 1))
        self.executor = SlurmExecutor(os.environ["SLURM_JOB_ID"])


def in_job(env: dict[str, str], count: int, times: int) -> Figures:
    """One client in the job, from its start to its end."""
    argv = (sys.executable, __file__, "--client", str(count), str(times))
    begun_s = time.monotonic()
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, **env})
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"the client in the job ended with {child.returncode}")
    took = {"wall_s": time.monotonic() - begun_s, "cpu_s": usage.ru_utime + usage.ru_stime}
    return {**json.loads(said), **took, "rss_mib": usage.ru_maxrss / 1024}


def granted(env: dict[str, str], count: int) -> dict[str, str]:
    """The environment of a job that has every node."""
    asked = {**os.environ, **env}

    def ask(*argv: str) -> str:
        return subprocess.run(argv, env=asked, capture_output=True, text=True, timeout=60, check=False).stdout.strip()

    if not until(lambda: ask("sinfo", "-h", "-t", "idle", "-o", "%D") == str(count), timeout_s=120):
        raise SystemExit(f"not all nodes came up: {ask('sinfo')}")
    ask("salloc", "--no-shell", f"--nodes={count}")
    return {**env, "SLURM_JOB_ID": ask("squeue", "-h", "-o", "%i")}


def main() -> None:
    """Each client once a round, in turn; then the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--commands", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    runs: dict[str, list[Figures]] = {"slurm": [], "ssh": []}
    with tempfile.TemporaryDirectory(prefix="fabric-bench-") as name:
        folder = Path(name)
        site = Site(folder, asked.hosts)
        try:
            with slurm_site(folder / "slurm", asked.hosts, jobs=True) as env:
                job = granted(env, asked.hosts)
                for _ in range(asked.rounds):
                    runs["slurm"].append(in_job(job, asked.hosts, asked.commands))
                    runs["ssh"].append(site.run(sys.executable, "fabric", "commands", asked.hosts, asked.commands))
        finally:
            site.close()
    print(f"{asked.hosts} hosts x {asked.commands} commands, median of {asked.rounds}:")
    for kind, figures in runs.items():
        shown = ((one, statistics.median(run[one] for run in figures)) for one in _TOLD)
        print(f"{kind:6}" + "  ".join(f"{one} {value:.2f}" for one, value in shown), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        PEERS["slurm"] = InJob
        print(json.dumps(client("slurm", "commands", Path(), int(sys.argv[2]), int(sys.argv[3]), 1)))
    else:
        main()
