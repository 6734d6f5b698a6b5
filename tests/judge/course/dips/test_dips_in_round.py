"""Who is worth measuring again after a round, and what explains a dip."""

from __future__ import annotations

from dataclasses import replace

from fabric.judge.course.dips.in_round import MOST_DIPS, RoundDips, dips_in_round
from fabric.model.probe import Probe
from fabric.model.topology import Topology
from tests.conftest import rack_topology
from tests.judge.course.dipping_rack import RACK, Share, ends, measured, soak

BAD = "gpu003/mlx5_1"


def planned(topology: Topology = RACK) -> list[Probe]:
    """The pair tests of the second round."""
    return [slot.probe for slots in soak(2, topology).schedule.components for slot in slots]


def found(
    share: Share,
    *,
    before: dict[str, int] | None = None,
    bad: tuple[str, ...] = (),
    more: tuple[Probe, ...] = (),
    topology: Topology = RACK,
) -> RoundDips:
    """What a round says in which every probe reaches this share."""
    probes = [*planned(topology), *more]
    results = {one.probe_id: measured(one, share(one)) for one in probes}
    return dips_in_round(probes, results, topology, before=before or {}, known_bad=bad)


def of_part(part: str) -> list[Probe]:
    """Those that it takes part in."""
    return [probe for probe in planned() if part in ends(probe)]


def low_in(*probes: Probe) -> Share:
    """Half of the bandwidth in these."""
    ids = {probe.probe_id for probe in probes}
    return lambda probe: 0.5 if probe.probe_id in ids else 1.0


def test_both_ends_of_a_pair_that_dipped_are_accused_and_are_no_partners() -> None:
    one = of_part(BAD)[0]
    said = found(low_in(one))
    assert said.parts == dict.fromkeys(ends(one), 1)
    assert said.well.isdisjoint(ends(one))
    assert len(said.well) == 30


def test_noise_is_no_dip() -> None:
    one = of_part(BAD)[0]
    assert found(lambda probe: 0.98 if probe.probe_id == one.probe_id else 1.0).parts == {}


def test_who_is_low_most_of_the_time_is_no_dip_and_explains_its_partners() -> None:
    assert found(lambda probe: 0.8 if BAD in ends(probe) else 1.0).parts == {}


def test_who_is_sure_already_explains_its_partners() -> None:
    assert found(low_in(of_part(BAD)[0]), bad=(BAD,)).parts == {}


def test_who_failed_is_not_measured_again() -> None:
    first, second = of_part(BAD)[:2]
    shares = {first.probe_id: 0.5, second.probe_id: None}
    assert found(lambda probe: shares.get(probe.probe_id, 1.0)).parts == {}


def test_an_end_that_dips_again_and_again_explains_a_partner_that_does_not() -> None:
    one = of_part(BAD)[0]
    assert found(low_in(one), before={BAD: 3}).parts == {BAD: 1}
    assert len(found(low_in(one), before={BAD: 2}).parts) == 2


def test_a_collective_that_dipped_accuses_every_rnic_of_its_two_hosts() -> None:
    pairs = [("gpu003", "gpu004"), ("gpu004", "gpu005"), ("gpu005", "gpu006"), ("gpu006", "gpu007")]
    params = {"ranks": 4, "name": "ring"}
    rings = tuple(
        Probe(f"soak-r2/{a}+{b}/ring", "tor_all_reduce", "soak-r2", (a, b), (), 60.0, params) for a, b in pairs
    )
    said = found(low_in(rings[0]), more=rings)
    assert set(said.parts) == {f"{host}/mlx5_{n}" for host in ("gpu003", "gpu004") for n in (0, 1)}
    assert found(low_in(rings[0]), more=rings, bad=("gpu004/mlx5_0",)).parts == {}


def test_many_dips_at_once_are_no_single_part() -> None:
    large = rack_topology(64, parts=8)
    probes = [probe for probe in planned(large) if "t5" in probe.probe_id.split(".")[-1]]
    few, many = probes[:MOST_DIPS], probes[: MOST_DIPS + 1]
    assert not found(low_in(*few), topology=large).too_many
    said = found(low_in(*many), topology=large)
    assert (said.too_many, said.parts, said.probes) == (True, {}, MOST_DIPS + 1)


def test_several_rnics_that_dip_beyond_one_leaf_are_its_uplinks() -> None:
    """Two leaves of 32; tests of three hosts of the first with others of the second."""
    large = rack_topology(64, parts=2)
    hosts = {
        name: host if number < 32 else replace(host, leaves=("other0", "other1"))
        for number, (name, host) in enumerate(large.hosts.items())
    }
    two = replace(large, hosts=hosts)
    across = [
        one
        for one in planned(two)
        if one.params["rail"] == 0 and len({two.hosts[name].leaves for name in one.hosts}) == 2
    ]
    apart: list[Probe] = []
    for probe in across:
        if all(set(probe.hosts).isdisjoint(one.hosts) for one in apart):
            apart.append(probe)
    assert found(low_in(*apart[:3]), topology=two).parts == {}
    assert len(found(low_in(*apart[:2]), topology=two).parts) == 4
