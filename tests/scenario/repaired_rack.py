"""A host that failed, was repaired well, badly or not at all, and the decision about it; all on the mock."""

from pathlib import Path

from fabric.app.analyze import decided, reopened
from fabric.app.prepare import Asked, Given
from fabric.app.repair import prepare_repair
from fabric.model.inventory import TimedFault
from fabric.model.repair import Acceptance
from tests import builders
from tests.places import INVENTORY, SCENARIOS

HEALTHY = INVENTORY / "demo-rack-healthy.yaml"
POST_REPAIR = SCENARIOS / "post-repair.yaml"
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
    judged = builders.on_mock(asked, results, seed=seed)
    return Path(judged.path)


def checked(folder: Path, *faults: str, seed: int = 1, name: str = "check", hosts: str | None = None) -> Path:
    """A run of a small self-check with these faults."""
    path = folder / f"{name}.yaml"
    path.write_text(CHECK.format(inventory=HEALTHY).replace("name: check", f"name: {name}"), "utf-8")
    asked = builders.asked(path, hosts=hosts, faults=faults)
    return measured(asked, folder / "results", seed=seed)


def validated(
    because: Path, *faults: str, quick: bool = True, seed: int = 2, flap: TimedFault | None = None
) -> tuple[Path, Acceptance]:
    """The post-repair run with these faults, and the decision; *flap* comes and goes meanwhile."""
    asked = prepare_repair(Given(POST_REPAIR, inventory=HEALTHY, faults=faults), because, quick=quick)
    if flap is not None:
        asked = builders.with_timed(asked, flap)
    path = measured(asked, because.parents[1], seed=seed)
    return path, decided(reopened(path))
