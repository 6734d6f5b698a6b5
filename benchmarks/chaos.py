"""
Self-checks over real SSH in the middle of which hosts freeze, die, vanish, lie or run full; says whom they blame.

    python benchmarks/chaos.py [SEEDS] [--first 1] [--hosts 16] [--speed 10]

Needs root and sshd. Each host is a network namespace with its own sshd; its tools are answered by a simulated rack.
Prints a line for each seed: what befell whom (when + how long), the outcome, who was named, and the seconds that it
took. Below it all that is wrong: a healthy host that is blamed, a part that is said to have failed, a run that took
longer than the bound, a tool that is left on a host, a thread that is left here. Exit status 1 when anything is.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.lab.chaos import LONGEST_S, Chaos, Ran  # noqa: E402
from benchmarks.lab.chaos_rack import ChaosRack  # noqa: E402


def problems(ran: Ran) -> list[str]:
    """What should not be, in words."""
    found = [
        *ran.wrong,
        *(f"left: {line[:120]}" for line in ran.left),
        *(f"thread left: {name}" for name in ran.threads),
    ]
    return [*found, f"took {ran.wall_s:.0f} s, at most {LONGEST_S:.0f} s"] if ran.wall_s > LONGEST_S else found


def say(ran: Ran) -> bool:
    """Print a run; True when all is as it must be."""
    befell = ", ".join(str(blow) for blow in ran.blows) or "nothing"
    found = problems(ran)
    print(
        f"{ran.seed:4d}  {ran.wall_s:6.1f} s  {ran.outcome.name:12}  named: {', '.join(ran.named) or '-':24}  {befell}"
        f"{'  WRONG' if found else ''}",
        flush=True,
    )
    for line in found[:12]:
        print(f"        {line[:300]}", flush=True)
    return not found


def main() -> int:
    """Exit status 1 when anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="?", type=int, default=10)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--speed", type=float, default=10.0)
    asked = parser.parse_args()
    began_s, good = time.monotonic(), 0
    with tempfile.TemporaryDirectory(prefix="fabric-chaos-") as folder:
        place = Path(folder) / "rack"
        place.mkdir()
        with ChaosRack(place, hosts=asked.hosts, speed=asked.speed) as rack:
            chaos = Chaos(rack)
            print("seed   wall      outcome       named                            what befell whom")
            quiet_good = say(chaos.quiet())
            for seed in range(asked.first, asked.first + asked.seeds):
                good += say(chaos.seeded(seed))
    print(
        f"{good} of {asked.seeds} as it must be, in {time.monotonic() - began_s:.0f} s; the bound is {LONGEST_S:.0f} s"
    )
    return 0 if quiet_good and good == asked.seeds else 1


if __name__ == "__main__":
    sys.exit(main())
