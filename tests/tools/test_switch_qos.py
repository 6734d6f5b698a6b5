"""What NVUE tells of RoCE is read as NVIDIA's guide prints it; what a port does otherwise is read from its profiles."""

from __future__ import annotations

import pytest

from fabric.errors import ToolError, UnreadableOutput
from fabric.tools import switch_qos
from fabric.tools.switch_qos import Marking, PortQos
from tests.places import GOLDEN

LOSSLESS, MULTI, COMMANDS = (
    (GOLDEN / "nvue" / name).read_text()
    for name in ("qos-roce-5.15.txt", "qos-roce-multi-tc-5.15.txt", "commands-qos-5.15.txt")
)
KIB = Marking(149_996, 1_499_464)  # 146.48 KB, 1.43 MB


def test_the_lossless_profile() -> None:
    one = switch_qos.read_roce(LOSSLESS)
    assert (one.pfc, one.sends, one.obeys, one.cable_m) == (frozenset({3}), True, True, 100)
    assert (one.trust, one.marks) == ("pcp,dscp", {0: KIB, 3: KIB})
    assert one.priority_of == {dscp: dscp // 8 for dscp in range(64)}
    assert one.queue_of == dict.fromkeys(range(8), 0) | {3: 3, 6: 6}


def test_the_lossy_profile_has_no_pfc() -> None:
    one = switch_qos.read_roce(MULTI)
    assert (one.pfc, one.sends, one.cable_m) == (frozenset(), None, None)
    assert (one.priority_of[26], one.priority_of[5], one.queue_of[4]) == (4, 3, 4)
    assert one.marks == dict.fromkeys((1, 2, 3), Marking(166_912, 239_616))


def test_profiles_are_what_single_ports_do_otherwise() -> None:
    """Defaults of a PFC profile are those of the guide; what was told of the switch holds for the rest."""
    usual = switch_qos.read_roce(LOSSLESS)
    rest, own = switch_qos.read_ports(usual, COMMANDS)
    assert rest == usual
    assert (own["swp1"].pfc, own["swp1"].sends, own["swp1"].obeys) == (frozenset({0}), True, False)
    assert (own["swp1"].cable_m, own["swp1"].xoff_bytes) == (50, 1500)
    assert own["swp2"].marks == {1: Marking(40_000, 200_000)}
    assert (own["swp2"].pfc, own["swp5"].trust, own["swp6"].trust) == (usual.pfc, "pcp", "dscp")
    assert (own["swp6"].priority_of[0], own["swp7"].priority_of[0]) == (7, 0)


@pytest.mark.parametrize(
    "text", ["enable              off             off", "state               disabled        disabled"]
)
def test_without_roce_the_default_profile_is_what_counts(text: str) -> None:
    usual = switch_qos.read_roce(MULTI.replace("enable              on              on", text))
    assert usual == PortQos()
    rest, _ = switch_qos.read_ports(usual, COMMANDS)
    assert (rest.pfc, rest.cable_m) == (frozenset({3}), 10)
    assert switch_qos.read_ports(usual, "nv set system hostname leaf01\n")[0].pfc == frozenset()


@pytest.mark.parametrize(
    ("stdout", "status", "error"),
    [
        ("", 0, UnreadableOutput),
        ("Error: no\n", 1, ToolError),
        (LOSSLESS.replace("0,3", "all"), 0, UnreadableOutput),
        *[(LOSSLESS[: len(LOSSLESS) * share // 10], 0, UnreadableOutput) for share in range(1, 7)],
        (LOSSLESS.replace("pfc-priority", "pfc-nothing"), 0, UnreadableOutput),
    ],
)
def test_what_is_not_understood_is_not_guessed(stdout: str, status: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        switch_qos.read_roce(stdout, "", status)


def test_a_profile_that_is_not_understood_is_not_guessed() -> None:
    with pytest.raises(UnreadableOutput, match="whole number"):
        switch_qos.read_ports(PortQos(), COMMANDS.replace("xoff-threshold 1500", "xoff-threshold many"))
