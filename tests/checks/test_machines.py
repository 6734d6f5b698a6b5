"""Two names that are one machine are told; a container is not taken for that."""

from __future__ import annotations

from pathlib import Path

from fabric.checks.ask import Answers
from fabric.checks.machines import IDS, MACHINE, NETWORK
from fabric.model.finding import Finding, Severity
from tests.checks.asked import answer, compared
from tests.cli.command_line import called
from tests.places import INVENTORY

BOOT, OTHER = "3c1f8e2a-9a55-4a43-8f6e-2b1d0c9e7f11", "7d2e9f3b-0b66-4b54-9a7f-3c2e1d0f8a22"


def says(boot: str, network: str = "net:[4026531840]") -> Answers:
    """What a host answers."""
    ids = f"/proc/sys/kernel/random/boot_id:{boot}\n"
    return {IDS: answer(IDS, ids), NETWORK: answer(NETWORK, f"{network}\n")}


def found(*hosts: Answers) -> list[Finding]:
    """What is told of gpu1, gpu2 and so on."""
    return compared(MACHINE, {f"gpu{number}": said for number, said in enumerate(hosts, 1)})


def test_one_boot_id_is_one_machine() -> None:
    (one,) = found(says(BOOT), says(OTHER), says(BOOT))
    assert (one.severity, one.hosts) == (Severity.PROBLEM, ("gpu1", "gpu3"))
    assert one.what == "these names are one machine (boot id 3c1f8e2a)"


def test_containers_of_one_machine_are_not_one() -> None:
    assert found(says(BOOT, network="net:[1]"), says(BOOT, network="net:[2]")) == []


def test_a_host_that_does_not_say_it_is_unknown() -> None:
    silent = {**says(BOOT), IDS: answer(IDS, lost="no answer within 15 s")}
    (one,) = found(silent, says(OTHER))
    assert (one.severity, one.hosts) == (Severity.UNKNOWN, ("gpu1",))


def test_check_names_both_names_of_a_simulated_machine(tmp_path: Path) -> None:
    """gpu002's address leads to gpu001, as a wrong line in DNS would; a healthy rack is told nothing."""
    healthy = INVENTORY / "demo-rack-healthy.yaml"
    assert called(["check", "--inventory", str(healthy)]).returncode == 0
    text = healthy.read_text()
    (tmp_path / "baselines").symlink_to(INVENTORY / "baselines")
    begin, end = text.index('  - names: "gpu'), text.index("\nswitches:") + 1
    entry = text[begin:end].rstrip()
    names = 'names: "gpu[001-008]"'
    assert names in entry
    assert 'address: "{name}' in entry
    first = entry.replace(names, 'names: "gpu[001,003-008]"')
    second = entry.replace(names, "names: gpu002").replace('address: "{name}', 'address: "gpu001.ib')
    (tmp_path / "twice.yaml").write_text(f"{text[:begin]}{first}\n{second}\n\n{text[end:]}")
    said = called(["check", "--inventory", str(tmp_path / "twice.yaml")])
    assert said.returncode == 1
    assert "gpu[001-002]" in said.stdout
    assert "these names are one machine" in said.stdout
