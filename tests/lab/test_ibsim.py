"""Changes with the real InfiniBand tools on a simulated fabric, and with the real register tool as far as it goes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.lab.change_rack import LEASE_S, ended
from benchmarks.lab.lab import SLOWER
from benchmarks.lab.namespaces import until
from tests.lab.ibsim import IbSim, missing

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300 * SLOWER)]

_SCENARIO = """\
name: ibsim
hosts: gpu001
allow: [power_loss, busy_hosts]
phases:
  - name: closed
    changes:
      - link_down: {links: leaf1--spine1}
    probes:
      - loopback: {duration: 1s}
"""
CLOSED = ("Down", "Disabled")


@pytest.fixture(scope="module")
def ibsim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IbSim]:
    """The fabric, all links up."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    with IbSim(tmp_path_factory.mktemp("ibsim")) as made:
        yield made


def state(ibsim: IbSim, node: str, port: int) -> tuple[str, str]:
    """Both states of a port, as iblinkinfo prints them."""
    line = ibsim.port(node, port)
    return line.state.state, line.state.physical_state


def begun(ibsim: IbSim, results: Path) -> subprocess.Popen[str]:
    """A run that has closed the first cable between leaf1 and spine1."""
    scenario = results.with_suffix(".yaml")
    scenario.write_text(_SCENARIO)
    run = ibsim.start("run", str(scenario), f"--inventory={ibsim.inventory}", f"--results={results}", "--yes")
    closed = f"{results}: the port is closed"
    until(lambda: run.poll() is not None or state(ibsim, "leaf1", 3) == CLOSED, closed, timeout_s=60)
    assert run.poll() is None, ended(run)
    return run


def test_ibportstate_closes_a_cable_between_switches_and_opens_it_again(ibsim: IbSim, tmp_path: Path) -> None:
    """Its near end says Disabled, its far end Polling; the other cable stays; then opensm makes it Active again."""
    run = begun(ibsim, tmp_path / "results")
    assert state(ibsim, "spine1", 1) == ("Down", "Polling")
    assert state(ibsim, "leaf1", 4) == ("Active", "LinkUp")
    code, said = ended(run)
    assert (code, "is in force" in said, "is taken back" in said) == (3, True, True), said
    assert state(ibsim, "leaf1", 3) == ("Active", "LinkUp")


def test_what_a_power_loss_of_this_machine_would_leave_is_refused(ibsim: IbSim, tmp_path: Path) -> None:
    """There is no systemd here, and ``via`` is this machine: nothing is altered, and what would allow it is told."""
    scenario = tmp_path / "refused.yaml"
    scenario.write_text(_SCENARIO.replace("power_loss, ", ""))
    words = (f"--inventory={ibsim.inventory}", f"--results={tmp_path / 'results'}", "--yes", "--json")
    code, said = ended(ibsim.start("run", str(scenario), *words))
    assert (code, "allow: [power_loss]" in said) == (3, True), said
    assert state(ibsim, "leaf1", 3) == ("Active", "LinkUp")


def test_the_guard_alone_opens_it_with_the_same_tool(ibsim: IbSim, tmp_path: Path) -> None:
    """The run is killed; after the lease the port is open, and ``fabric restore`` finds nothing left."""
    run = begun(ibsim, tmp_path / "results")
    run.kill()
    ended(run)
    assert state(ibsim, "leaf1", 3) == CLOSED
    until(lambda: state(ibsim, "leaf1", 3) == ("Active", "LinkUp"), "the port is open", timeout_s=LEASE_S + 50)
    code, said = ended(ibsim.start("restore", f"--results={tmp_path / 'results'}"))
    assert (code, "taken back" in said) == (0, True), said


_ROUTED = """\
name: routed
hosts: gpu001
allow: [power_loss, busy_hosts]
phases:
  - name: other
    changes: [{adaptive_routing: on, scope: fabric}]
    probes: [{loopback: {duration: 1s}}]
"""


@pytest.mark.parametrize(
    ("engine", "reload", "code", "words"),
    [
        ("sssp", "restart-opensm", 3, "adaptive_routing on is in force"),
        ("ar_updn", "restart-opensm", 3, "says that minhop routes (it does not know ar_updn)"),
        ("sssp", "hang-up-opensm", 3, "routing_engine sssp was asked for, and gpu002:"),
        ("sssp", "pkill, -HUP, opensm", 2, "does not make OpenSM take routing_engine"),
    ],
)
def test_an_engine_is_in_force_when_opensm_routes_by_it(
    ibsim: IbSim, tmp_path: Path, engine: str, reload: str, code: int, words: str
) -> None:
    """A restart is, a signal is not, and what OpenSM does not know falls back; in the end its file is as before."""
    inventory = ibsim.inventory.with_name(f"{tmp_path.name}.yaml")
    text = ibsim.inventory.read_text().replace("[restart-opensm]", f"[{reload}]")
    inventory.write_text(text.replace("routing_engine: sssp", f"routing_engine: {engine}"))
    scenario = tmp_path / "routed.yaml"
    scenario.write_text(_ROUTED)
    options = (f"--inventory={inventory}", f"--results={tmp_path / 'results'}", "--yes")
    found, said = ended(ibsim.start("run", str(scenario), *options), within_s=280)
    assert (found, words in " ".join(said.split())) == (code, True), said
    assert ("is in force" in said) is (engine == "sssp" and reload == "restart-opensm")
    assert (ibsim.folder / "opensm.conf").read_text() == f"routing_engine updn\nlog_file {ibsim.log}\n"
