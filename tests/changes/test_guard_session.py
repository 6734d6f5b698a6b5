"""The interface that carries the session is never touched, however it is stacked; a false sysfs, the real sh."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fabric.errors import Refused
from fabric.model.change import Lease
from tests.changes.guard_target import PEER, RealTarget


@pytest.fixture
def target(tmp_path: Path) -> Iterator[RealTarget]:
    """eth0 and mlx5_0 (ib0) of their own, and a card with two ports: eth2 (mlx5_2) and eth3 (mlx5_3)."""
    target = RealTarget(tmp_path)
    target.card("eth2", "0000:3b:00.0", rdma="mlx5_2")
    target.card("eth3", "0000:3b:00.1", rdma="mlx5_3")
    yield target
    target.end()


def _armed(target: RealTarget, device: str, *, session: str = "eth0", peer: str = PEER) -> None:
    """Arm for one device with a session through an interface; whatever was armed is taken back."""
    (target.here / "session").write_text(session)
    what = replace(target.alteration, devices=tuple(device.split(",")) if device else ())
    argv = target.guard.arm("one", owner="run-1", lease=Lease(), peer=peer, what=what)
    target.guard.read_armed(target.run(argv))
    target.guard.read_reverted(target.run(target.guard.revert("one")))


@pytest.mark.parametrize("device", ["eth2", "3b:00.0", "mlx5_3", "mlx5_0,mlx5_2"])
def test_a_device_on_the_card_of_the_session_is_refused(target: RealTarget, device: str) -> None:
    """By RDMA name, interface or PCI address; the other port of the same card too."""
    with pytest.raises(Refused, match=f"{device.split(',')[-1]} carries the session through eth2"):
        _armed(target, device, session="eth2")


@pytest.mark.parametrize(
    "stack",
    [
        {"eth2.100": ("eth2",)},
        {"bond0": ("eth2", "eth0"), "bond0.7": ("bond0",), "br0": ("bond0.7",)},
    ],
)
def test_a_device_below_the_interface_of_the_session_is_refused(
    target: RealTarget, stack: dict[str, tuple[str, ...]]
) -> None:
    """Bond, VLAN, bridge, and all of them on top of each other."""
    for upper, lowers in stack.items():
        target.stacked(upper, *lowers)
    with pytest.raises(Refused, match="mlx5_2 carries the session"):
        _armed(target, "mlx5_2", session=tuple(stack)[-1])
    _armed(target, "mlx5_0", session=tuple(stack)[-1])


def test_members_of_old_bonds_and_bridges_count(target: RealTarget) -> None:
    """Where the kernel has no lower_ links: bonding/slaves and brif."""
    bond = target.sysfs / "class/net/bond1/bonding"
    bond.mkdir(parents=True)
    (bond / "slaves").write_text("eth0 eth2\n")
    (target.sysfs / "class/net/br1/brif/eth3").mkdir(parents=True)
    for session in ("bond1", "br1"):
        with pytest.raises(Refused, match="mlx5_2 carries the session"):
            _armed(target, "mlx5_2", session=session)


def test_a_virtual_function_of_the_device_is_refused(target: RealTarget) -> None:
    """A session through a virtual function ends with the port of its physical one."""
    target.card("eth9", "0000:3b:08.2")
    virtual = target.sysfs / "devices/pci0000:00/0000:3b:08.2"
    (virtual / "physfn").symlink_to(target.sysfs / "devices/pci0000:00/0000:3b:00.0")
    with pytest.raises(Refused, match="mlx5_2 carries the session through eth9"):
        _armed(target, "mlx5_2", session="eth9")


def test_a_software_device_counts_by_the_interface_it_is_on(target: RealTarget) -> None:
    """Soft RoCE has no PCI function, but a parent interface."""
    device = target.sysfs / "class/infiniband/rxe0"
    device.mkdir(parents=True)
    (device / "parent").write_text("eth0\n")
    with pytest.raises(Refused, match="rxe0 carries the session through eth0"):
        _armed(target, "rxe0")
    _armed(target, "rxe0", session="eth2")


@pytest.mark.parametrize("device", ["mlx5_9", "../net/eth0", "a b", "$(id)", "*"])
def test_a_device_that_nobody_knows_is_refused(target: RealTarget, device: str) -> None:
    """What cannot be resolved cannot be shown to be harmless."""
    with pytest.raises(Refused, match="unknown device"):
        _armed(target, device)


def test_without_an_address_of_the_session_the_default_route_counts(target: RealTarget) -> None:
    """And without that either, nothing is allowed."""
    with pytest.raises(Refused, match="cannot be told"):
        _armed(target, "mlx5_0", peer="")
    (target.here / "default").write_text("eth2")
    with pytest.raises(Refused, match="mlx5_2 carries the session through eth2"):
        _armed(target, "mlx5_2", peer="")
    _armed(target, "mlx5_0", peer="")


def test_the_session_of_the_call_counts_beside_the_default_route(target: RealTarget) -> None:
    """Where sshd says who called, and nobody else does."""
    (target.here / "default").write_text("eth0")
    target.env["SSH_CONNECTION"] = f"{PEER} 50000 192.0.2.2 22"
    with pytest.raises(Refused, match="mlx5_2 carries the session"):
        _armed(target, "mlx5_2", peer="", session="eth2")


def test_an_address_without_a_route_allows_nothing(target: RealTarget) -> None:
    """The interface cannot be told: refused."""
    with pytest.raises(Refused, match="cannot be told"):
        _armed(target, "mlx5_0", peer="198.51.100.1")


def test_without_devices_nothing_is_forbidden(target: RealTarget) -> None:
    """A change of a file takes no link away."""
    _armed(target, "", session="eth2")


def test_the_session_is_looked_at_again_before_an_apply(target: RealTarget) -> None:
    """A route that moved since the guard was armed."""
    target.guard.read_armed(target.arm())
    (target.here / "session").write_text("ib0")
    with pytest.raises(Refused, match="mlx5_0 carries the session through ib0"):
        target.applied()
    assert not target.is_closed()
