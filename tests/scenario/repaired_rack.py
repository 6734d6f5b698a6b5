"""A host that failed, was repaired well, badly or not at all, and the decision about it; all on the mock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fabric.app.prepare import Asked, prepare
from fabric.app.repair import Wanted, decide, prepare_repair
from fabric.app.report import keep_decision
from fabric.app.run import run
from fabric.model.inventory import TimedFault
from fabric.model.repair import Acceptance
from fabric.report.decision import acceptance_document
from fabric.report.progress import ConsoleProgress
from fabric.wiring import BACKENDS
from tests.report.shown import ROOT

INVENTORY = ROOT / "inventory" / "demo-rack-healthy.yaml"
POST_REPAIR = ROOT / "scenarios" / "post-repair.yaml"
BAD = "gpu003/mlx5_3:slow=0.6"
CHECK = """\
name: check
inventory: {inventory}
identity: true
hosts: gpu[001-004]
phases:
  - name: intra-host
    probes: [loopback, rnic_to_rnic]
"""


def measured(asked: Asked, results: Path, *, seed: int = 1) -> Path:
    """The directory of the run."""
    judged = run(
        asked,
        backend="mock",
        make_executor=BACKENDS["mock"],
        results=results,
        seed=seed,
        observer=ConsoleProgress(quiet=True),
        reports=False,
    )
    return Path(judged.path)


def checked(folder: Path, *faults: str, seed: int = 1, name: str = "check") -> Path:
    """A run of a small self-check with these faults."""
    path = folder / f"{name}.yaml"
    path.write_text(CHECK.format(inventory=INVENTORY).replace("name: check", f"name: {name}"), "utf-8")
    asked = prepare(path, inventory_path=None, hosts=None, faults=faults)
    return measured(asked, folder / "results", seed=seed)


def validated(
    because: Path, *faults: str, quick: bool = True, seed: int = 2, flap: TimedFault | None = None
) -> tuple[Path, Acceptance]:
    """The post-repair run with these faults, and the decision; *flap* comes and goes meanwhile."""
    asked = prepare_repair(Wanted(POST_REPAIR, because, INVENTORY, None, faults, quick))
    if flap is not None:
        mock = replace(asked.inventory.mock, timed_faults=(flap,))
        asked = replace(asked, inventory=replace(asked.inventory, mock=mock))
    path = measured(asked, because.parents[1], seed=seed)
    found = decide(path)
    keep_decision(path, acceptance_document(found))
    return path, found
