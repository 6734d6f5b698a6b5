"""The simulated network of an inventory: how its links are called, what is regular, and what-if on it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.config.inventory import load_inventory
from fabric.model.topology import Gpu, Host, Platform, Rnic, Switch, Topology, Uplinks
from fabric.sim.faults import LinkFault
from fabric.sim.net.links import link_state
from fabric.sim.net.named_clos import NamedClos, net_from_topology
from fabric.sim.what_if import PATTERNS, EngineResult, Question, flows_of, traffic, what_if
from tests.places import INVENTORY


@cache
def pod_64() -> NamedClos:
    """The shipped pod of 64 hosts."""
    return net_from_topology(load_inventory(INVENTORY / "pod-64.yaml").topology)


def ask(
    pattern: str = "pairs",
    *,
    order: str = "random",
    engines: tuple[str, ...] = ("ftree", "ecmp", "ar"),
    faults: tuple[LinkFault, ...] = (),
    link_layer: str = "infiniband",
    qps: int = 1,
) -> dict[str, EngineResult]:
    """The answer by engine, for every host of a network."""
    net = pod_64()
    question = Question(
        inventory="test",
        net=net,
        link_layer=link_layer,
        pattern=pattern,
        order=order,
        hosts=tuple(net.host_ids.values()),
        engines=engines,
        faults=faults,
        qps=qps,
    )
    return {result.engine: result for result in what_if(question).engines}


def slow_trunks(count: int = 16, factor: float = 0.25, *, seed: int = 0) -> LinkFault:
    """Some of the pod's cables between switches, drawn, slow in both directions."""
    drawn = np.random.default_rng(seed).choice(len(pod_64().trunks), size=count, replace=False)
    return LinkFault("some", "slow", factor, tuple(int(link) for link in pod_64().trunks[drawn].ravel()))


def lossy(loss: float = 1e-2) -> LinkFault:
    """One cable that drops packets at full speed."""
    return LinkFault("lossy", "loss", loss, pod_64().cables("su0-leaf3", "spine02")[0])


@given(
    pattern=st.sampled_from(PATTERNS),
    order=st.sampled_from(["sorted", "random"]),
    hosts=st.sets(st.integers(0, 63), min_size=2, max_size=12),
    seed=st.integers(0, 99),
)
def test_traffic_is_what_it_promises(pattern: str, order: str, hosts: set[int], seed: int) -> None:
    """As many flows as counted beforehand, never to oneself, only among the hosts asked for, each RNIC alike."""
    ids = np.array(sorted(hosts))
    src, dst, job = traffic(pattern, pod_64(), hosts=ids, order=order, seed=seed)
    assert len(src) == len(dst) == len(job) == flows_of(pattern, hosts=len(ids), rails=8)
    assert (src != dst).all()
    assert set(src // 8) | set(dst // 8) <= hosts
    assert (np.sort(src) == np.sort(dst)).all()
    if pattern == "pairs":
        assert all(len(set(src[job == number] // 8)) == 2 for number in set(job))


def test_slow_trunks_cost_static_routes_much_and_adaptive_routing_little() -> None:
    """16 of 512 cables at a quarter: ar keeps 0.9 of what it had, with a fraction of the spread (sign of Meta 5.2)."""
    found = ask(faults=(slow_trunks(),))
    kept = {engine: one.shares.mean / one.healthy.mean for engine, one in found.items() if one.healthy}
    assert kept["ar"] >= 0.9
    assert kept["ftree"] <= 0.85
    assert found["ar"].shares.mean > 1.5 * max(found[engine].shares.mean for engine in ("ftree", "ecmp"))
    assert found["ecmp"].shares.cv > 5 * found["ar"].shares.cv


def test_a_lossy_but_fast_link_is_spread_over_everyone() -> None:
    """Adaptive routing does not see it: the mean falls below static routing's, the worst stays above."""
    found = ask(order="sorted", faults=(lossy(),), engines=("ftree", "ar"))
    assert found["ar"].shares.mean < found["ftree"].shares.mean
    assert found["ar"].shares.least > 2 * found["ftree"].shares.least
    assert found["ftree"].shares.least == pytest.approx(0.40, abs=0.01)  # go-back-N at 1e-2, 400 Gb/s, 12 us, 4 KiB


def test_bit_errors_slow_an_infiniband_link_and_make_an_ethernet_link_lossy() -> None:
    """With link-level retry capacity goes, without it packets go; below the FEC's cliff nothing does."""
    links = pod_64().cables("su0-leaf3", "spine02")[0]
    for ber, link_layer, slow, drops in (
        (1.5e-3, "infiniband", True, False),
        (1.5e-3, "ethernet", False, True),
        (1e-5, "infiniband", False, False),
        (1e-5, "ethernet", False, False),
    ):
        state = link_state(pod_64(), (LinkFault("f", "ber", ber, links),), link_layer=link_layer)
        assert bool(state.capacity_gbps[links[0]] < 399) is slow
        assert bool(state.loss[links[0]] > 1e-6) is drops
        assert state.loss.sum() == pytest.approx(2 * state.loss[links[0]])


def test_a_cable_between_switches_that_is_down_is_routed_around() -> None:
    """Nothing stalls, and adaptive routing has 15 of 16 uplinks left at that leaf."""
    down = LinkFault("down", "down", 0.0, pod_64().cables("su0-leaf3", "spine02")[0])
    found = ask(faults=(down,), order="sorted")
    assert all(one.shares.stalled == 0 for one in found.values())
    assert found["ar"].shares.least == pytest.approx(0.95 * 15 / 16)


def platform(rails: int) -> Platform:
    """As many RNICs as rails, one GPU each."""
    return Platform(
        name=f"p{rails}",
        gpus=tuple(Gpu(rail, 0, None) for rail in range(rails)),
        rnics=tuple(Rnic(f"mlx5_{rail}", 1, rail, 0, None, 400.0, (rail,)) for rail in range(rails)),
        numa_nodes=1,
        pcie_switches=(),
        link_layer="infiniband",
        baseline="none",
    )


def topology(
    *, units: int = 2, per_unit: int = 4, rails: int = 2, spines: int = 2, count: int = 2, one_leaf: bool = False
) -> Topology:
    """Units of hosts under rail leaves (or one leaf), all joined by the same spines."""
    made = platform(rails)
    names = [f"h{number}" for number in range(units * per_unit)]
    leaves = [tuple(f"u{unit}-leaf{0 if one_leaf else rail}" for rail in range(rails)) for unit in range(units)]
    flat = tuple(dict.fromkeys(leaf for unit in leaves for leaf in unit))
    upper = tuple(f"spine{number}" for number in range(spines))
    return Topology(
        hosts={name: Host(name, made, name, None, leaves[at // per_unit]) for at, name in enumerate(names)},
        switches={name: Switch(name, "leaf" if name in flat else "spine") for name in (*flat, *upper)},
        uplinks=(Uplinks(flat, upper, count, 400.0),),
    )


def three_levels() -> Topology:
    """Two pods of two units; spine 0 of each pod joins cores 0 and 1, spine 1 cores 2 and 3."""
    base = topology(units=4, per_unit=2, rails=2, spines=1, count=1)
    leaves = [name for name, switch in base.switches.items() if switch.tier == "leaf"]
    spines = [("p0-spine0", "p0-spine1"), ("p1-spine1", "p1-spine0")]  # the second pod lists them the other way round
    cores = {"0": ("core0", "core1"), "1": ("core2", "core3")}
    up = [Uplinks(tuple(leaves[pod * 4 : pod * 4 + 4]), spines[pod], 1, 400.0) for pod in range(2)]
    up += [Uplinks((spine,), cores[spine[-1]], 1, 400.0) for pod in spines for spine in pod]
    names = [*leaves, *(spine for pod in spines for spine in pod), "core0", "core1", "core2", "core3"]
    return Topology(base.hosts, {name: Switch(name, "any") for name in names}, tuple(up))


@pytest.mark.parametrize("made", [topology(), topology(one_leaf=True), three_levels()], ids=["rails", "tor", "pods"])
def test_every_link_has_one_name_that_leads_back(made: Topology) -> None:
    """Names are unique, join the right ends, and a cable looked up by its ends has those names."""
    net = net_from_topology(made)
    names = [net.link_names[link] for link in range(net.clos.links)]
    assert len(set(names)) == len(names) == 2 * sum(1 for _ in made.links())
    joined = {frozenset(end.partition("#")[0] for end in name.split("->")) for name in names}
    assert joined == {frozenset((link.a, link.b)) for link in made.links()}
    for link in made.links():
        if "/" in link.a:
            cables = (net.access(*link.a.split("/")),)
        else:
            cables = net.cables(link.a, link.b)
            assert tuple((back, forth) for forth, back in net.cables(link.b, link.a)) == cables
        for forth, back in cables:
            assert net.link_names[forth].replace("#", "->").split("->")[0] == link.a
            assert net.link_names[back].split("->")[-1] == link.a


def test_three_levels_carry_traffic_between_pods() -> None:
    """Spines at one position join the same cores whatever order a pod lists them in; 4 cables serve 8 RNICs."""
    net = net_from_topology(three_levels())
    assert (net.clos.spec.levels, net.clos.spec.leaves_per_pod, net.clos.spec.core_up) == (3, 4, 2)
    assert net.spines == (("p0-spine0", "p0-spine1"), ("p1-spine0", "p1-spine1"))
    question = Question("test", net, "infiniband", "pairs", "sorted", tuple(net.host_ids.values()), ("ar",))
    assert what_if(question).engines[0].shares.least == pytest.approx(0.95 * 4 / 8)


def bare(made: Topology) -> Topology:
    """The same without uplinks."""
    return replace(made, uplinks=())


def with_uplinks(made: Topology, *uplinks: Uplinks) -> Topology:
    """The same with other uplinks."""
    return replace(made, uplinks=uplinks)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (bare(topology()), "leaf u0-leaf0 has no uplinks"),
        (with_uplinks(topology(), Uplinks(("u0-leaf0", "u0-leaf1"), ("spine0",), 1, 400.0)), "u1-leaf0 has no uplinks"),
        (
            with_uplinks(
                topology(),
                Uplinks(("u0-leaf0", "u0-leaf1"), ("spine0",), 1, 400.0),
                Uplinks(("u1-leaf0", "u1-leaf1"), ("spine0",), 2, 400.0),
            ),
            "leaf switches differ in their uplinks",
        ),
        (
            with_uplinks(
                topology(),
                *topology().uplinks,
                Uplinks(("u0-leaf0",), ("spine0",), 1, 400.0),
            ),
            "u0-leaf0 has 2, 3 cables to different switches above it",
        ),
    ],
)
def test_what_is_not_regular_is_said(made: Topology, said: str) -> None:
    """Switches that are no regular Clos are refused with the place where they are not."""
    with pytest.raises(ValueError, match=said):
        net_from_topology(made)


def test_leaves_that_no_spine_joins_are_parts() -> None:
    """Each unit under a spine of its own: RNICs of the two never meet."""
    apart = with_uplinks(
        topology(),
        Uplinks(("u0-leaf0", "u0-leaf1"), ("spine0",), 1, 400.0),
        Uplinks(("u1-leaf0", "u1-leaf1"), ("spine1",), 1, 400.0),
    )
    net = net_from_topology(apart)
    assert [net.part[net.leaf_ids[leaf]] for leaf in ("u0-leaf0", "u0-leaf1")] == [net.part[0]] * 2
    assert net.part[net.leaf_ids["u1-leaf0"]] != net.part[0]
    src, dst, _ = traffic("permutation", net, hosts=np.arange(8), order="random", seed=0)
    assert (net.part[net.clos.leaf_at[src]] == net.part[net.clos.leaf_at[dst]]).all()


def test_rails_may_share_leaves_and_have_no_spines() -> None:
    """Two rails of three on one leaf, the third on another; nothing is above: no link but those of hosts."""
    made = topology(units=1, rails=3)
    hosts = {name: replace(host, leaves=("leafA", "leafA", "leafB")) for name, host in made.hosts.items()}
    net = net_from_topology(Topology(hosts, {name: Switch(name, "leaf") for name in ("leafA", "leafB")}))
    clos = net.clos
    assert (clos.spec.down, clos.spec.up, clos.links) == (8, 0, 2 * 12)
    assert [net.leaves[leaf] for leaf in clos.leaf_at[clos.nic_at[1, np.arange(3)]]] == ["leafA", "leafA", "leafB"]
    assert len(set(net.part.tolist())) == 2


def test_hosts_under_a_leaf_may_differ() -> None:
    """One host has two RNICs, at half the rate: they come after those of its neighbours, and no link is made up."""
    made = topology(units=1, rails=3, one_leaf=True)
    slower = tuple(replace(rnic, line_rate_gbps=200.0) for rnic in platform(2).rnics)
    other = replace(made.hosts["h3"], platform=replace(platform(2), rnics=slower), leaves=("u0-leaf0",) * 2)
    net = net_from_topology(replace(made, hosts={**made.hosts, "h3": other}))
    clos = net.clos
    assert clos.nic_at[3, np.arange(3)].tolist() == [9, 10, -1]
    assert clos.capacity_gbps[[8, 9]].tolist() == [400.0, 200.0]
    assert net.ends[10] == ("h3", "mlx5_1")
