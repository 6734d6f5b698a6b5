"""What is normal among like numbers."""

from __future__ import annotations

import pytest

from fabric.judge.normal.peers import LEAST_PEERS, Peers, peers_of


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([400.0] * 6 + [200.0, 401.0], Peers(400.0, 1.2, 8)),  # one slow number moves nothing
        ([400.0] * 20, Peers(400.0, 1.2, 20)),  # tools print few digits: equal numbers have a spread
        ([400.0] * (LEAST_PEERS - 1), None),
        ([0.0] * 20, None),  # nothing was carried: that is no norm
    ],
)
def test_what_is_normal_is_the_middle_and_its_spread(values: list[float], expected: Peers | None) -> None:
    found = peers_of(values)
    if expected is None or found is None:
        assert found is expected
        return
    assert (found.median_gbps, found.spread_gbps, found.n) == pytest.approx(
        (expected.median_gbps, expected.spread_gbps, expected.n)
    )
    assert found.z(398.8) == pytest.approx(-1.0)
