"""Cables between switches: their load by leaf, and the light at both ends."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.report.figures import light, load
from fabric.report.figures.cables import loads
from tests.report.figures.seen import texts
from tests.report.framed import framed


def end(part: str, node: str, port: str, peer: str, **others: Any) -> dict[str, Any]:
    """One end of a cable."""
    return {"part": part, "node": node, "port": port, "peer_node": peer, **others}


def cable(leaf: str, spine: str, up_gbps: float | None, down_gbps: float | None, number: int) -> list[dict[str, Any]]:
    """Both ends of a cable from a leaf to a spine."""
    part = f"{leaf}--{spine}"
    return [
        end(part, leaf, str(number), spine, sent_gbps=up_gbps),
        end(part, spine, "1", leaf, sent_gbps=down_gbps),
    ]


LINKS = [
    end("gpu001/mlx5_0:port", "gpu001", "mlx5_0", "leaf1", sent_gbps=30.0),
    end("gpu001/mlx5_0:port", "leaf1", "1", "gpu001", sent_gbps=20.0),
    *cable("leaf1", "spine1", 10.0, 40.0, 17),
    *cable("leaf1", "spine2", 25.0, 5.0, 18),
    *cable("spine1", "core1", 99.0, 99.0, 30),
]
CHANGE = {"change": "c", "phase": "p", "kind": "ber", "part": "leaf1--spine2", "state": "in_force", "at_s": 1.0}


def test_the_load_of_a_cable_is_that_of_its_busier_direction_and_only_leaves_have_a_row() -> None:
    found = loads(framed(links=LINKS, changes=[CHANGE])).set_index("part")
    assert list(found.index) == ["leaf1--spine1", "leaf1--spine2"]
    assert list(found["gbps"]) == [40.0, 25.0]
    assert list(found["changed"]) == [False, True]


def test_the_most_loaded_cable_of_each_leaf_has_its_name_and_changed_ones_are_said() -> None:
    drawn = load(framed(links=LINKS, changes=[CHANGE]))
    assert drawn is not None
    assert {"to spine1", "leaf1", "changed on purpose"} <= texts(drawn)
    plain = load(framed(links=LINKS))
    assert plain is not None
    assert "changed on purpose" not in texts(plain)


def test_without_numbers_there_is_no_picture() -> None:
    assert load(framed()) is None
    assert load(framed(links=cable("leaf1", "spine1", None, None, 1))) is None
    assert light(framed(links=LINKS), "leaf1--spine1") is None


@pytest.mark.parametrize("lane", range(4))
def test_each_lane_stands_with_its_number_between_the_limits(lane: int) -> None:
    dbm = {f"rx{number}_dbm": -9.5 if number == lane else 1.5 for number in range(4)}
    row = end("leaf1--spine1", "leaf1", "17", "spine1", rx_low_dbm=-10.4, rx_high_dbm=6.0, **dbm)
    drawn = light(framed(links=[row]), "leaf1--spine1")
    assert drawn is not None
    assert {"leaf1 17", "0", "1", "2", "3"} <= texts(drawn)
    low = [line for line in drawn.axes[0].lines if list(line.get_ydata()) == [-9.5]]
    assert len(low) == 1
