"""Which other host of the ring is the next one, in both directions and round its end."""

from __future__ import annotations

import pytest

from fabric.model.probe import Probe
from fabric.probes.tor_all_reduce import TorAllReduceSpec, other_pairs
from tests.conftest import rack_topology

TOPOLOGY = rack_topology(6)
PLANNED = list(TorAllReduceSpec().expand(phase="tor", topology=TOPOLOGY, hosts=tuple(TOPOLOGY.hosts), ports=iter(())))


def planned(a: int, b: int) -> Probe:
    """The probe of two neighbours."""
    return next(probe for probe in PLANNED if probe.hosts == (f"gpu{a:03d}", f"gpu{b:03d}"))


def pairs(probe: Probe, left: int) -> list[tuple[int, ...]]:
    """The numbers of the hosts of each other pair, nearest first."""
    found = other_pairs(probe, f"gpu{left:03d}", PLANNED, TOPOLOGY)
    return [tuple(int(host[-3:]) for host in other.hosts) for other in found]


@pytest.mark.parametrize(
    ("lost", "left", "expected"),
    [
        ((2, 3), 2, [(2, 4), (2, 5), (2, 6)]),
        ((2, 3), 3, [(1, 3), (6, 3), (5, 3)]),
        ((6, 1), 6, [(6, 2), (6, 3), (6, 4)]),
        ((6, 1), 1, [(5, 1), (4, 1), (3, 1)]),
    ],
)
def test_the_ring_is_gone_along_beyond_the_lost_neighbour(
    lost: tuple[int, int], left: int, expected: list[tuple[int, ...]]
) -> None:
    """Pairs that are planned anyway are none."""
    assert pairs(planned(*lost), left) == expected


def test_two_that_lost_the_host_between_them_come_to_the_same_pair() -> None:
    """One probe serves both: its id is the same."""
    one = next(other_pairs(planned(2, 3), "gpu002", PLANNED, TOPOLOGY))
    two = next(other_pairs(planned(3, 4), "gpu004", PLANNED, TOPOLOGY))
    assert one == two
    assert one.probe_id == "tor/gpu002+gpu004/tor_all_reduce"


def test_another_pair_holds_and_runs_on_its_own_hosts_only() -> None:
    """Claims are those that a planned probe of these hosts would have; all else is as it was planned."""
    lost = planned(2, 3)
    other = next(other_pairs(lost, "gpu002", PLANNED, TOPOLOGY))
    assert {claim.split("/")[0] for claim in other.claims} == {"gpu002", "gpu004"}
    assert len(other.claims) == len(lost.claims)
    assert other.params == {**lost.params, "series": "gpu002+gpu004/tor_all_reduce"}
    assert (other.kind, other.duration_s) == (lost.kind, lost.duration_s)
