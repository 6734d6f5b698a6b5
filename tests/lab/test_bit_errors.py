"""Bit errors by mlxreg over real SSH, in real time: a register of the simulated rack that the guard sets back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.lab.change_rack import LEASE_S, ChangeRack, ended
from benchmarks.lab.lab import SLOWER
from benchmarks.lab.namespaces import until
from fabric.tools import mlxreg

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180 * SLOWER)]

_BER = "ber: {{links: {host}/mlx5_0, effective: 1e-7, direction: up}}"
_CAT = '#!/bin/sh\ncase "$*" in */sys/class/infiniband/*) exec {simulated} "$@" ;; esac\nexec /bin/cat "$@"\n'
HOST = "gpu001"


class RegisterRack(ChangeRack):
    """Its RNICs are InfiniBand ones of the simulated world, in which time passes as here; so are their registers."""

    def __enter__(self) -> RegisterRack:
        super().__enter__()
        tools, simulated = self.folder / "tools", self.folder / "simulated"
        simulated.mkdir()
        for path in (tools / "mlxreg", tools / "mlxlink", simulated / "cat"):
            path.unlink(missing_ok=True)
            path.symlink_to(tools / ".stub")
        (tools / "cat").unlink()
        (tools / "cat").write_text(_CAT.format(simulated=simulated / "cat"))
        (tools / "cat").chmod(0o755)
        return self

    def inventory_text(self) -> str:
        """InfiniBand."""
        return super().inventory_text().replace("link_layer: ethernet", "link_layer: infiniband")

    def injects(self) -> bool:
        """What the register says, and that what is asked for and what is done agree."""
        _, *words = mlxreg.get("mlx5_0", "PTER", mlxreg.pter_indexes(1, ib_number=False))
        where = {"FABRIC_LAB_SOCKET": str(self.folder / "rack.socket"), "FABRIC_LAB_HOST": HOST}
        done = subprocess.run(
            [self.folder / "tools" / "mlxreg", *words],
            env={**os.environ, **where},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        fields = mlxreg.read(done.stdout, done.stderr, done.returncode)
        return bool(fields["error_type_oper"])


@pytest.fixture
def rack(root: None, tmp_path: Path) -> Iterator[RegisterRack]:
    """One host."""
    folder = tmp_path / "rack"
    folder.mkdir()
    with RegisterRack(folder, hosts=1, speed=1.0) as made:
        yield made


def test_bit_errors_of_a_killed_run_end_with_its_lease(rack: RegisterRack) -> None:
    """The device's own timer is set to 50 s; the guard ends them before it."""
    run = rack.start(*rack.run_words(rack.scenario(HOST, _BER, repeat=20), rack.folder / "results"))
    try:
        until(lambda: rack.injects() or run.poll() is not None, "errors are injected", timeout_s=60)
        assert run.poll() is None, ended(run)
    finally:
        run.kill()
        ended(run)
    assert rack.injects()
    until(lambda: not rack.injects(), "the guard has ended the errors", timeout_s=LEASE_S + 20)
    code, said = ended(rack.start("restore", f"--results={rack.folder / 'results'}"))
    assert (code, "taken back" in said) == (0, True), said
