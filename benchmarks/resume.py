"""
Kills real runs (SIGKILL) at random instants, lets them go on, and counts what was lost.

    python benchmarks/resume.py [--kills 300] [--twice 0.2] [--seed 1] [--spawn]

Each is ``fabric run`` on the mock backend in a process of its own, killed at a random moment between its run.json and
its end, then ``fabric resume``; a share of them is killed once more while it resumes. Processes are forked from one in
which everything is imported, so that the kills fall into the run and not into its imports; --spawn begins a new Python
each time. Prints a table; exit status 1 when anything was lost, unreadable, repeated or judged otherwise.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.killed_runs import (  # noqa: E402
    Killed,
    forked,
    killed_and_resumed,
    spawned,
    whole_run,
    words,
    write_scenario,
)


def say(found: list[Killed], took_s: float) -> None:
    """The table."""
    kinds = Counter(text.split(":")[0] for one in found for text in one.wrong)
    print(f"{len(found)} runs killed in {took_s:.0f} s, in phase:")
    for phase, count in Counter(one.phase for one in found).most_common():
        of_phase = [one for one in found if one.phase == phase]
        kept = sorted(one.kept for one in of_phase)
        half = sorted(one.half_done for one in of_phase)
        print(f"  {phase:12s} {count:4d} runs, acknowledged {kept[0]}-{kept[-1]}, half done {half[0]}-{half[-1]}")
    print(f"{sum(one.kept for one in found):,} acknowledged results, {sum(one.half_done for one in found):,} half done")
    for kind in ("lost or altered", "unreadable", "repeated", "another verdict", "attempt", "no output", "exit"):
        named = sum(count for name, count in kinds.items() if name.startswith(kind))
        print(f"  {kind:16s} {named}")
    for one in found:
        if one.wrong:
            print(f"  WRONG after {one.after_s:.3f} s in {one.phase}: {'; '.join(one.wrong[:3])}")


def warm(folder: Path) -> None:
    """One run in this very process: whatever is imported on the way is there for those that are forked."""
    import fabric.app.resume
    import fabric.cli.report
    import fabric.cli.run  # noqa: F401 - imported for those that are forked
    from fabric.cli.main import run

    sys.argv = ["fabric", *words(folder, folder / "warm")]
    with suppress(SystemExit), redirect_stdout(StringIO()):
        run()


def main() -> int:
    """Exit status 1 when anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--twice", type=float, default=0.2, help="share of runs that are killed while they resume too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spawn", action="store_true")
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    begin = spawned if asked.spawn else forked
    with tempfile.TemporaryDirectory(prefix="fabric-resume-") as name:
        folder = Path(name)
        write_scenario(folder)
        if not asked.spawn:
            warm(folder)
        as_whole, took_s = whole_run(begin, folder)
        print(f"undisturbed: {as_whole.outcome}, {as_whole.probes} probes, {took_s:.2f} s after its run.json")
        began_s = time.monotonic()
        found: list[Killed] = []
        with suppress(KeyboardInterrupt):  # what was done until then is told
            for number in range(asked.kills):
                times = [chance.uniform(0.0, took_s)]
                if chance.random() < asked.twice:
                    times.append(chance.uniform(0.0, took_s))
                found.append(killed_and_resumed(begin, folder, number, after_s=times, as_whole=as_whole))
                if found[-1].wrong:
                    print(f"{number}: {found[-1]}", flush=True)
        say(found, time.monotonic() - began_s)
    return int(any(one.wrong for one in found))


if __name__ == "__main__":
    sys.exit(main())
