"""Who is who on simulated hosts, and whatever a host says, a check finds something or nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.checks.found import identify
from fabric.checks.kind import Argv, HostCheck, Looked
from fabric.checks.pre_flight import CHECKS, TRUE, read_reach
from fabric.checks.programs import PROGRAMS, PYTHON, VERSIONS
from fabric.checks.roce import ROCE
from fabric.errors import StoreError
from fabric.hosts.mock import MockExecutor
from fabric.model.finding import Finding, Severity
from fabric.model.inventory import Fault, MockSettings
from fabric.model.repair import HostIdentity
from fabric.model.topology import Host, Topology
from fabric.report.output import visible
from fabric.runs.run_document import IDENTITY, read_identity, write_identity
from fabric.sim.world import World
from tests.checks.asked import EVERYTHING, HOST, answer

FRAGMENTS = (
    "4: ACTIVE\n", "5: LinkUp\n", "400 Gb/sec (4X NDR)\n", "/sys/class/infiniband/mlx5_0/ports/1/state:4: ACTIVE\n",
    "0, NVIDIA H100, Disabled\n", "GPU-1, 1, x\n", "Loopback Mode : ", "Version: ", "Max locked memory   ",
    "Uid:\t0\t0\t", "CapEff:\t", "KEEP_IB_LINK_UP_P1  True(1)\n", "\x1b[31m", "\u202e", "\ud800",
    "1700000000.000000000\n",
    "(Open MPI) ", "available: 2 nodes", "USAGE: ", "nvidia_peermem 1 0 ", "Python 3.", "sudo: a password is\n",
)  # fmt: skip
TEXT = st.one_of(st.text(st.characters(codec=None), max_size=80), st.sampled_from(FRAGMENTS))
TEXTS = st.lists(TEXT, max_size=6).map("".join)
SAID = st.tuples(TEXTS, TEXTS, st.sampled_from([0, 1, 2, 15, 126, 127, 255, -1]), st.sampled_from(["", "gone"]))


def host_of(check: HostCheck) -> Host:
    """One that this check looks at."""
    return replace(HOST, platform=replace(HOST.platform, link_layer="ethernet")) if check is ROCE else HOST


def sound(findings: list[Finding]) -> None:
    """Every one can be printed."""
    for one in findings:
        for text in (one.what, one.why, one.advice):
            assert text
            visible(text).encode()


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.name))
@given(said=st.lists(SAID, min_size=1, max_size=4))
def test_a_check_takes_any_text(check: HostCheck, said: list[tuple[str, str, int, str]]) -> None:
    """No text raises, of one host or of two; every finding can be printed."""
    answers = {}
    for number, argv in enumerate(asked(check)):
        stdout, stderr, status, lost = said[number % len(said)]
        answers[argv] = answer(argv, stdout, stderr, status, lost=lost)
    one = Looked(host_of(check), EVERYTHING, answers)
    sound(list(check.findings({"gpu001": one, "gpu002": one})))


@pytest.mark.parametrize("check", [one for one in CHECKS if one is not VERSIONS], ids=lambda check: str(check.name))
def test_a_host_that_says_nothing_is_not_fine(check: HostCheck) -> None:
    """Lost answers are never silence; what is optional is a warning, all else unknown."""
    answers = {argv: answer(argv, status=-1, lost="gone") for argv in asked(check)}
    findings = list(check.findings({"gpu001": Looked(host_of(check), EVERYTHING, answers)}))
    assert findings
    allowed = {Severity.WARNING} if check is PYTHON else {Severity.UNKNOWN}
    assert {one.severity for one in findings} == allowed
    assert {(one.check, one.hosts) for one in findings} == {(check.name, ("gpu001",))}


def asked(check: HostCheck) -> list[Argv]:
    """The commands of a check; versions are those that another check asks for."""
    return list((PROGRAMS if check is VERSIONS else check).ask(host_of(check), EVERYTHING))


@given(said=SAID)
def test_reach_takes_any_text(said: tuple[str, str, int, str]) -> None:
    """The same holds for what is asked of every host."""
    out, err, status, lost = said
    sound(list(read_reach(answer(TRUE, out, err, status, lost=lost))))


def seen(rack: Topology, *faults: Fault) -> dict[str, HostIdentity]:
    return identify(MockExecutor(World(rack, MockSettings(faults=faults), seed=1)), rack, list(rack.hosts))


def test_every_part_has_a_serial_number_of_its_own_and_the_same_each_time(rack: Topology) -> None:
    found = seen(rack)
    serials = [part.serial for host in found.values() for part in host.parts]
    assert len(serials) == 4 * (8 + 8 + 8)
    assert None not in serials
    assert len(set(serials)) == len(serials)
    assert found == seen(rack)
    assert not any(host.unread for host in found.values())


def test_a_part_that_was_replaced_is_the_only_one_with_another_serial_number(rack: Topology) -> None:
    before = seen(rack)["gpu002"].by_part
    for part in ("mlx5_3", "mlx5_3:port", "gpu5"):
        after = seen(rack, Fault(f"gpu002/{part}", "replaced"))
        changed = [name for name, one in after["gpu002"].by_part.items() if one.serial != before[name].serial]
        assert changed == [part]


def test_a_host_that_does_not_answer_has_no_parts_and_a_reason(rack: Topology) -> None:
    found = seen(rack, Fault("gpu003", "broken"))["gpu003"]
    assert found.parts == ()
    assert "No route to host" in found.unread[0]
    assert len(seen(rack, Fault("gpu003", "broken"))["gpu004"].parts) == 24


def test_an_rnic_that_is_missing_is_said_and_the_others_are_read(rack: Topology) -> None:
    found = seen(rack, Fault("gpu001/mlx5_2", "absent"))["gpu001"]
    assert "mlx5_2" not in found.by_part
    assert found.by_part["mlx5_1"].serial
    assert any("mlx5_2" in text for text in found.unread)


def test_with_a_gpu_missing_none_is_named_because_numbers_shift(rack: Topology) -> None:
    found = seen(rack, Fault("gpu001/gpu2", "absent"))["gpu001"]
    assert not any(part.kind == "gpu" for part in found.parts)
    assert "GPUs: the driver has 7, the inventory 8" in found.unread


def test_what_was_read_comes_back_from_the_run_directory(rack: Topology, tmp_path: Path) -> None:
    found = seen(rack)
    assert read_identity(tmp_path) is None
    write_identity(tmp_path, found.values())
    assert read_identity(tmp_path) == found
    for text in ("no JSON", "{}", '{"format":9,"hosts":[]}', '{"format":1,"hosts":[{"host":"a"}]}'):
        (tmp_path / IDENTITY).write_text(text)
        try:
            read_identity(tmp_path)
        except StoreError as exc:
            assert IDENTITY in str(exc)  # noqa: PT017
        else:
            raise AssertionError(text)
