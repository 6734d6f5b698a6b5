"""A link that the firmware keeps up is not closed: said before anything is altered."""

from __future__ import annotations

import pytest

from fabric.errors import Refused, ToolError
from tests.changes.played import VIA, Played, change, topology

ROW = "Device #1:\nConfigurations:    Next Boot\n        {setting}    {value}\n"


def told(setting: str, value: str) -> tuple[str, str, int]:
    """What mlxconfig says of one setting."""
    return ROW.format(setting=setting, value=value), "", 0


def asked(kind: str, by: str):
    """A link to be closed, or to flap, at the RNIC's own end."""
    flap = {"down": 1.0, "count": 2, "period": 5.0} if kind == "port_flap" else {}
    return change(kind, "gpu001/mlx5_0", by=by, **flap)


@pytest.mark.parametrize("kind", ["link_down", "port_flap"])
@pytest.mark.parametrize("by", ["mlxlink"])
def test_a_way_that_the_firmware_defeats_is_refused_with_what_to_do(kind: str, by: str) -> None:
    played = Played(VIA)
    played.answers["gpu001 mlxconfig"] = told("KEEP_IB_LINK_UP_P1", "True(1)")
    with pytest.raises(Refused, match=f"KEEP_IB_LINK_UP_P1.*{by} would close nothing.*set KEEP_IB_LINK_UP_P1=0"):
        played.prepare(asked(kind, by))


def test_the_kernels_own_switch_is_defeated_too() -> None:
    played = Played(VIA, world=topology(link_layer="ethernet"))
    played.answers["gpu001 mlxconfig"] = told("KEEP_ETH_LINK_UP_P1", "True(1)")
    with pytest.raises(Refused, match=r"KEEP_ETH_LINK_UP_P1.*ip would close nothing"):
        played.prepare(asked("link_down", "ip"))


def test_a_port_that_is_closed_at_the_switch_does_not_ask_the_rnic() -> None:
    played = Played(VIA)
    played.answers["gpu001 mlxconfig"] = told("KEEP_IB_LINK_UP_P1", "True(1)")
    (alteration,) = played.prepare(asked("link_down", "ibportstate"))
    assert alteration.host == "gpu004"


def test_a_port_that_is_not_kept_up_is_closed() -> None:
    played = Played(VIA)
    (alteration,) = played.prepare(asked("link_down", "mlxlink"))
    assert ("gpu001", ("mlxconfig", "-d", "mlx5_0", "query", "KEEP_IB_LINK_UP_P1")) in played.asked
    assert alteration.host == "gpu001"


def test_without_mlxconfig_what_is_read_back_decides() -> None:
    played = Played(VIA)
    played.answers["gpu001 mlxconfig"] = ("", "bash: line 1: mlxconfig: command not found\n", 127)
    assert played.prepare(asked("link_down", "mlxlink"))


def test_an_answer_that_cannot_be_read_alters_nothing() -> None:
    played = Played(VIA)
    played.answers["gpu001 mlxconfig"] = ("", "-E- Failed to open device: permission denied\n", 3)
    with pytest.raises(ToolError, match="permission denied"):
        played.prepare(asked("link_down", "mlxlink"))
