"""Where the files stand that tests read: what is shipped, known texts and answers, captures of real tools."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INVENTORY = ROOT / "inventory"
SCENARIOS = ROOT / "scenarios"
GOLDEN = ROOT / "tests" / "golden"
CAPTURES = GOLDEN / "captures"


def _files(folder: Path, names: str) -> tuple[Path, ...]:
    return tuple(folder / f"{name}.yaml" for name in names.split())


# By name: a person may keep inventories and scenarios of one's own beside them.
SHIPPED_INVENTORIES = _files(INVENTORY, "demo-rack demo-rack-healthy hall-2048 mi300x pod-64")
SHIPPED_BASELINES = _files(INVENTORY / "baselines", "a100-hdr b200-ndr h100-ndr h200-ndr mi300x-400")
SHIPPED_SCENARIOS = _files(
    SCENARIOS,
    "ar-under-ber ber-sweep burn-in failover-matrix flap-tolerance incast localise post-repair retransmit-matrix "
    "ring-contention roce-acceptance self-check shield-on-off",
)
