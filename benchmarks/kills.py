"""
Kills and pauses real runs at random instants and counts what is left of their changes: real sshd, links and guards.

    python benchmarks/kills.py [--kills 300] [--pauses 50] [--hosts 16] [--seed 1] [--kind pfc] [--aimed]

Needs root. Every host is a network namespace with its own sshd and an interface for an RNIC, which ``fabric run``
closes and opens, and the settings of RNICs are files. With --aimed each kill falls while a change is armed or in force.
Prints how many changes were left after lease + 3 s (0 of 300 means below 1 % at 95 % confidence), and how long after
the death of its run a change was gone.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.lab.change_rack import LEASE_S, ChangeRack  # noqa: E402
from benchmarks.lab.kills import AFTER_LEASE_S, CHANGES, Death, Thaw, Victims, on_all  # noqa: E402


def upper_bound(bad: int, of: int) -> float:
    """The largest probability that would still give so few bad ones of so many in 5 % of cases (Clopper-Pearson)."""
    from scipy.stats import beta

    return 1.0 if bad >= of else float(beta.ppf(0.95, bad + 1, of - bad))


def say_kills(deaths: list[Death]) -> None:
    """What became of the kills."""
    left = [death for death in deaths if death.left]
    late_s = sorted(death.revert_s for death in deaths if death.live)
    print(f"SIGKILL: {len(deaths)} runs killed, of which {len(late_s)} with a change armed or in force")
    print(
        f"  left after {LEASE_S:g} + {AFTER_LEASE_S:g} s: {len(left)}, below {upper_bound(len(left), len(deaths)):.2%}"
    )
    if late_s:
        print(f"  gone after the death: worst {late_s[-1]:.2f} s, median {statistics.median(late_s):.2f} s")
    for death in left:
        print(f"  LEFT: {death}")


def say_pauses(thaws: list[Thaw]) -> None:
    """What became of the pauses."""
    armed = [thaw for thaw in thaws if thaw.armed]
    late = [thaw for thaw in thaws if thaw.late or thaw.left]
    print(f"SIGSTOP: {len(thaws)} runs paused beyond the lease, of which {len(armed)} with a change armed or in force")
    print(f"  applied late or left: {len(late)}, below {upper_bound(len(late), max(1, len(armed))):.2%}")
    for thaw in late:
        print(f"  LATE: {thaw}")


def main() -> int:
    """Exit status 1 when anything was left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--pauses", type=int, default=50)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=CHANGES, action="append", default=[])
    parser.add_argument("--aimed", action="store_true")
    asked = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fabric-kills-") as folder:
        place = Path(folder) / "rack"
        place.mkdir()
        with ChangeRack(place, hosts=asked.hosts) as rack:
            victims = Victims(rack, seed=asked.seed, kinds=asked.kind, aimed=asked.aimed)
            on_all(rack.hosts, victims.live, asked.hosts)
            deaths = on_all(rack.hosts, victims.kill, asked.kills)
            if deaths:
                say_kills(deaths)
            thaws = on_all(rack.hosts, victims.pause, asked.pauses)
            if thaws:
                say_pauses(thaws)
    print(f"in {time.monotonic() - began_s:.0f} s")
    return int(any(death.left for death in deaths) or any(thaw.late or thaw.left for thaw in thaws))


if __name__ == "__main__":
    sys.exit(main())
