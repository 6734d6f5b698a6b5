"""Who is who on simulated hosts: read at the start of a run, written down, and left open where nothing was said."""

from __future__ import annotations

from pathlib import Path

from fabric.checks.found import identify
from fabric.errors import StoreError
from fabric.hosts.mock import MockExecutor
from fabric.model.inventory import Fault, MockSettings
from fabric.model.repair import HostIdentity
from fabric.model.topology import Topology
from fabric.runs.run_document import IDENTITY, read_identity, write_identity
from fabric.sim.world import World


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
