"""
Are hashes that are polarised found, and hashes that are well left alone?

``python benchmarks/entropy.py [--seeds 100] [--first 0] [--hashing ports]`` runs an entropy probe on a simulated RoCE
fabric of three tiers, 32 hosts, once a seed, with each way to hash: ``ports`` as it should be, ``addresses`` where
source ports do not enter the hash, ``polarised`` where spines hash as leaves do. Prints how many of each were accused
(FAIL, by the hash of a switch), and how many were told as uneven; exit status 1 where polarised ones were missed or
more than 1 of 100 balanced ones accused.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.scoring import played
from fabric.model.outcome import Outcome

BASELINES = Path(__file__).parents[1] / "inventory" / "baselines"

INVENTORY = """\
name: three-tiers
backend: mock
platforms:
  one-rail:
    baseline: h100-ndr
    link_layer: ethernet
    numa_nodes: 1
    gid_index: 3
    traffic_class: 106
    rnics: [{{device: mlx5_0, rail: 0, numa: 0, line_rate_gbps: 400}}]
hosts:
  - {{names: "gpu[01-32]", platform: one-rail, leaves: "u{{unit}}-leaf{{rail}}", hosts_per_unit: 8}}
switches:
  - {{names: "u[0-1]-leaf0", tier: leaf, address: "{{name}}.mgmt", management: nvue, user: cumulus,
     uplinks: {{to: "p0-spine[0-7]", line_rate_gbps: 400}}}}
  - {{names: "u[2-3]-leaf0", tier: leaf, address: "{{name}}.mgmt", management: nvue, user: cumulus,
     uplinks: {{to: "p1-spine[0-7]", line_rate_gbps: 400}}}}
{spines}
  - {{names: "core[00-31]", tier: core, address: "{{name}}.mgmt", management: nvue, user: cumulus}}
mock: {{noise_cv: 0.003, lossless_class: 106, routing: ecmp, hashing: {hashing}}}
"""
SPINE = """\
  - {{names: "p[0-1]-spine{at}", tier: spine, address: "{{name}}.mgmt", management: nvue, user: cumulus,
     uplinks: {{to: "core[{first:02}-{last:02}]", line_rate_gbps: 400}}}}
"""
SCENARIO = """\
name: entropy
description: Do queue pairs spread over all cables?
inventory: three-tiers.yaml
hosts: all
phases: [{name: hash, probes: [{entropy: {duration: 1s}}]}]
"""
WAYS = ("ports", "addresses", "polarised")


def told(hashing: str, seed: int) -> tuple[Outcome, str]:
    """What a run says of the hashes of such a fabric."""
    with tempfile.TemporaryDirectory(prefix="fabric-entropy-") as name:
        folder = Path(name)
        (folder / "baselines").symlink_to(BASELINES)
        spines = "".join(SPINE.format(at=at, first=4 * at, last=4 * at + 3) for at in range(8)).rstrip("\n")
        (folder / "three-tiers.yaml").write_text(INVENTORY.format(spines=spines, hashing=hashing))
        (folder / "entropy.yaml").write_text(SCENARIO)
        judged, _ = played(folder / "entropy.yaml", folder / "three-tiers.yaml", (), seed=seed, results=folder)
        return judged.verdict.outcome, judged.verdict.probes[0].reason


def main() -> int:
    """Print one line a way to hash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--hashing", choices=WAYS, action="append")
    asked = parser.parse_args()
    wrong, began_s = False, perf_counter()
    for hashing in asked.hashing or WAYS:
        found: Counter[Outcome] = Counter()
        said = ""
        for seed in range(asked.first, asked.first + asked.seeds):
            outcome, reason = told(hashing, seed)
            found[outcome] += 1
            said = said or reason
        accused, uneven = found[Outcome.FAIL], found[Outcome.INCONCLUSIVE]
        wrong = wrong or (accused > asked.seeds / 100 if hashing == "ports" else accused < asked.seeds)
        print(f"{hashing:<10} accused {accused} of {asked.seeds}, uneven {uneven}; {said[:150] or 'nothing said'}")
    print(f"{perf_counter() - began_s:.0f} s")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
