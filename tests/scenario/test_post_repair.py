"""Whole post-repair validations: who may go back into service, why not, and on which inventory."""

import shutil
from pathlib import Path

import pytest

from fabric.app.analyze import reopened
from fabric.app.prepare import Asked, Given
from fabric.app.repair import prepare_repair
from fabric.errors import ConfigError
from fabric.model.inventory import Fault, TimedFault
from fabric.model.repair import Acceptance, Because, Decision
from fabric.probes.again import because_of
from tests import builders
from tests.scenario.repaired_rack import BAD, HEALTHY, POST_REPAIR, checked, measured, validated


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Earlier the rack was good three times, then one RNIC was slow."""
    folder = tmp_path_factory.mktemp("failed")
    for number in range(3):
        checked(folder, seed=10 + number, name=f"past-{number}", hosts="gpu003")
    return checked(folder, BAD)


@pytest.fixture(scope="module")
def not_repaired(failed: Path) -> tuple[Path, Acceptance]:
    """A validation of the host as it was, and the decision."""
    return validated(failed, BAD)


@pytest.mark.slow
def test_a_host_that_was_not_repaired_is_rejected(not_repaired: tuple[Path, Acceptance]) -> None:
    _, found = not_repaired
    assert found.decision is Decision.REJECT
    assert found.reasons[0].startswith("nothing was replaced")
    assert found.reasons[1].startswith("still bad: ")


@pytest.mark.slow
def test_good_numbers_with_the_wrong_part_replaced_are_no_proof(failed: Path) -> None:
    _, found = validated(failed, "gpu003/mlx5_5:replaced")
    assert found.decision is Decision.INCONCLUSIVE
    assert "may fail again" in found.reasons[0]


@pytest.mark.slow
def test_a_quick_validation_says_that_bit_errors_are_not_covered(failed: Path) -> None:
    _, found = validated(failed, "gpu003/mlx5_3:replaced")
    assert found.decision is Decision.ACCEPT
    assert any("bit errors are not covered" in text for text in found.notes)


@pytest.mark.slow
def test_a_spare_part_that_is_slower_than_before_and_above_its_limit_is_rejected(failed: Path) -> None:
    _, found = validated(failed, "gpu003/mlx5_3:replaced", "gpu003/mlx5_3->gpu3:slow=0.962", quick=False)
    assert found.decision is Decision.REJECT
    slow = next(one for one in found.weighed if one.label.endswith("loopback.mlx5_3.gpu3"))
    assert slow.limit_gbps is not None
    assert slow.now_gbps is not None
    assert slow.now_gbps > slow.limit_gbps
    assert "slower than its" in slow.reason or "against the normal of its class" in slow.reason


@pytest.mark.slow  # tests/judge/repair/test_accept.py says it of a verdict
def test_a_bad_neighbour_is_not_held_against_the_host(failed: Path) -> None:
    _, found = validated(failed, "gpu003/mlx5_3:replaced", "gpu004/mlx5_6:slow=0.6")
    assert found.decision is not Decision.REJECT, found.reasons
    assert any("gpu004/mlx5_6 was found bad" in text for text in found.notes)


@pytest.mark.slow  # likewise
def test_a_link_that_goes_down_between_two_probes_rejects_the_host(failed: Path) -> None:
    flap = TimedFault(150.0, 1.0, Fault("gpu003/mlx5_6", "broken"))
    _, found = validated(failed, "gpu003/mlx5_3:replaced", flap=flap)
    assert found.decision is Decision.REJECT
    assert any(text.startswith("gpu003/mlx5_6:port: ") for text in found.reasons), found.reasons


@pytest.mark.slow
def test_a_run_with_nothing_against_the_host_is_refused(failed: Path) -> None:
    with pytest.raises(ConfigError, match="has nothing against gpu001"):
        prepare_repair(Given(POST_REPAIR, inventory=HEALTHY, hosts="gpu001"), failed, quick=True)


def test_a_scenario_without_evidence_is_refused(failed: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(f"name: s\ninventory: {HEALTHY}\nphases:\n  - {{name: a, probes: [loopback]}}\n")
    with pytest.raises(ConfigError, match="one probe 'again'"):
        prepare_repair(Given(path, inventory=HEALTHY), failed, quick=True)


def test_a_run_that_was_interrupted_is_told(failed: Path, tmp_path: Path) -> None:
    """What it did not reach may be as bad."""
    cut = shutil.copytree(failed, tmp_path / "self-check" / failed.name)
    events = (cut / "events.jsonl").read_text().splitlines(keepends=True)
    (cut / "events.jsonl").write_text("".join(line for line in events if '"run_ended"' not in line))
    notes = {run: _notes(asked_of(run, HEALTHY, quick=True)) for run in (failed, cut)}
    assert [any("was interrupted: " in text for text in notes[run]) for run in (failed, cut)] == [False, True]


@pytest.mark.slow
def test_the_run_reopened_from_its_directory_alone_decides_the_same(not_repaired: tuple[Path, Acceptance]) -> None:
    path, found = not_repaired
    again = reopened(path)
    because = because_of(again.judged.scenario)
    assert because is not None
    assert all(len(one.past_gbps) == 3 for one in because.evidence)
    assert all(one.past for one in found.weighed)
    assert len(because.evidence) == len(found.weighed)
    assert because.identity[0].host == "gpu003"


def test_without_because_the_evidence_is_said_to_be_missing() -> None:
    asked = builders.asked(POST_REPAIR, inventory=HEALTHY, hosts="gpu001")
    assert any("no again on gpu001: it needs a run that failed" in note.text for note in asked.plan.phases[0].notes)


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


def _notes(asked: Asked) -> tuple[str, ...]:
    because = because_of(asked.scenario)
    assert because is not None
    return because.notes


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


def test_without_an_inventory_it_is_that_of_the_failed(failed: Path) -> None:
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
