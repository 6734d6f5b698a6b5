"""On which inventory a repaired host is measured: that of the run that failed it, and no other hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.app.prepare import Asked, Given
from fabric.app.repair import prepare_repair
from fabric.errors import ConfigError
from fabric.model.repair import Because
from fabric.probes.again import because_of
from tests import builders
from tests.scenario.repaired_rack import BAD, HEALTHY, POST_REPAIR, checked, measured

LONG = """\
name: long
inventory: {inventory}
hosts: gpu[001-004]
phases:
  - name: soak
    probes:
      - all_to_all: {{sizes: [16G], iterations: 3600}}
"""
SLOW_NVLINK = "gpu003/gpu2:nvlink:slow=0.5"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checked(tmp_path_factory.mktemp("failed"), BAD)


def other_inventory(folder: Path, *changed: tuple[str, str]) -> Path:
    """The rack, its text changed; its baselines are found where they are."""
    path = folder / "other.yaml"
    text = HEALTHY.read_text()
    for old, new in changed:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    (folder / "baselines").symlink_to(HEALTHY.parent / "baselines")
    return path


def asked_of(failed: Path, inventory: Path | None, hosts: str | None = None, *, quick: bool = False) -> Asked:
    return prepare_repair(Given(POST_REPAIR, inventory=inventory, hosts=hosts), failed, quick=quick)


def said_by(failed: Path, inventory: Path, hosts: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        asked_of(failed, inventory, hosts)
    return "\n".join(str(problem) for problem in caught.value.problems)


def because(asked: Asked) -> Because:
    found = because_of(asked.scenario)
    assert found is not None
    return found


def test_without_an_inventory_it_is_that_of_the_failed_run(failed: Path) -> None:
    """Not that of the scenario's file, whose hosts have the same names."""
    asked = asked_of(failed, None)
    assert asked.inventory.name == "demo-rack-healthy"
    assert not because(asked).notes


def test_an_inventory_that_is_gone_is_asked_for(tmp_path: Path) -> None:
    inventory = other_inventory(tmp_path)
    path = tmp_path / "s.yaml"
    path.write_text(LONG.format(inventory=inventory).replace("3600", "20"))
    run = measured(builders.asked(path, faults=(SLOW_NVLINK,)), tmp_path / "results")
    inventory.unlink()
    with pytest.raises(ConfigError, match="not there any more: say --inventory"):
        prepare_repair(Given(POST_REPAIR, hosts="gpu003"), run, quick=True)


def test_hosts_of_the_same_names_with_other_parts_are_refused(failed: Path, tmp_path: Path) -> None:
    said = said_by(failed, other_inventory(tmp_path, ("line_rate_gbps: 400", "line_rate_gbps: 200")))
    assert "gpu003: not the hardware that check/" in said
    assert "(rnics)" in said


def test_a_repaired_host_that_is_missing_is_named(failed: Path, tmp_path: Path) -> None:
    said = said_by(failed, other_inventory(tmp_path, ("gpu[001-008]", "gpu[001-002]")))
    assert "it has no gpu003, which check/" in said


def test_a_quick_validation_repeats_a_soak_shortly_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(LONG.format(inventory=HEALTHY))
    run = measured(builders.asked(path, faults=(SLOW_NVLINK,)), tmp_path / "results")
    full, quick = (asked_of(run, None, "gpu003", quick=short) for short in (False, True))
    assert {one.probe.params["iterations"] for one in because(full).evidence} == {3600}
    assert {one.probe.params["iterations"] for one in because(quick).evidence} == {20}
    assert quick.plan.duration_s < 15 * 60
    (note,) = because(quick).notes
    assert "for 2 s or 20 iterations at most (all_to_all)" in note
    assert "is not covered" in note
