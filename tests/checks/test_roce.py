"""RoCE: what is wrong at one end of a cable, between its two, and who differs; on hosts and on switches."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.checks.kind import Answers, HostNeeds, Looked
from fabric.checks.pre_flight import pre_flight
from fabric.checks.roce import ROCE, RoceEnd, ask_switches, roce_check
from fabric.checks.roce.rules import RULES, SETTINGS
from fabric.hosts.mock import MockExecutor
from fabric.model.finding import Finding, Severity
from fabric.model.inventory import MISSET_ENDS, MISSET_HOSTS, MISSET_SWITCHES, Fault, MockSettings
from fabric.model.topology import Host
from fabric.sim.world import World
from fabric.tools.roce import RocePort
from tests.changes.roce import roce
from tests.checks.asked import EVERYTHING, HOST, answer
from tests.checks.test_any_text import SAID as ANYTHING
from tests.checks.test_any_text import sound
from tests.places import ROOT
from tests.tools.test_roce import SAID

WELL = SAID.replace("enable/0:0", "enable/0:0\n/sys/class/net/eth2/ecn/roce_rp/enable/3:1")
ONE = replace(
    HOST.platform,
    rnics=HOST.platform.rnics[:1],
    link_layer="ethernet",
    gid_index=3,
    traffic_class=106,
    perftest_options=("-R",),
)


def looked(text: str, host: Host) -> Looked:
    """A host that answered so, of its one RNIC."""
    (argv,) = ROCE.ask(host, EVERYTHING)
    answers: Answers = {argv: answer(argv, text.partition("port mlx5_1")[0] + "whole\n")}
    return Looked(host, EVERYTHING, answers)


def of_roce(text: str, **platform: object) -> list[Finding]:
    """What is said of one host."""
    host = replace(HOST, platform=replace(ONE, **platform))  # type: ignore[arg-type]
    return list(ROCE.findings({"gpu001": looked(text, host)}))


def test_a_host_that_is_set_well_has_no_finding() -> None:
    assert of_roce(WELL) == []


def test_infiniband_is_not_asked() -> None:
    assert not ROCE.ask(HOST, EVERYTHING)


@pytest.mark.parametrize(
    ("old", "new", "platform", "severity", "words"),
    [
        ("state: dscp", "state: pcp", {}, Severity.PROBLEM, "trusts pcp"),
        ("Priority trust state: dscp\n", "", {}, Severity.WARNING, "not told (mlnx_qos)"),
        (
            "enabled     0   0   0   1",
            "enabled     0   0   0   0",
            {},
            Severity.WARNING,
            "priority 3, which has no PFC",
        ),
        ("roce_rp/enable/3:1", "roce_rp/enable/3:0", {}, Severity.WARNING, "ECN is off for priority 3 (RP"),
        ("mtu:9000", "mtu:1500", {}, Severity.WARNING, "MTU 1500"),
        ("tclass=106", "tclass=41", {}, Severity.PROBLEM, "into class 41, not 106"),
        ("types/3:RoCE v2", "types/3:IB/RoCE v1", {}, Severity.PROBLEM, "GID 3 is IB/RoCE v1"),
        ("types/3:RoCE v2", "types/4:RoCE v2", {}, Severity.PROBLEM, "GID 3 is empty"),
        (
            "default_roce_tos:106",
            "default_roce_tos:0",
            {},
            Severity.PROBLEM,
            "rdma_cm (perftest -R) puts packets into class 0",
        ),
        (
            "buffer      0   0   0   1",
            "buffer      0   0   0   0",
            {},
            Severity.PROBLEM,
            "20,016 bytes of buffer; 159,928 are",
        ),
        (
            "size (bytes): 20016,256096",
            "size (bytes): 256096,20016",
            {},
            Severity.PROBLEM,
            "priority 3 has PFC and 20,016",
        ),
        ("cnp_dscp:48", "cnp_dscp:24", {}, Severity.WARNING, "CNP (DSCP 24) wait in the queue of data"),
        ("mode: OS", "mode: Firmware", {}, Severity.WARNING, "the firmware decides"),
        ("enabled     0   0   0", "enabled     1   1   1", {}, Severity.WARNING, "PFC is on for 4 priorities"),
        (
            "28,27,26,25,24,",
            "28,27,25,24,\n\tprio:0 dscp:26,",
            {},
            Severity.PROBLEM,
            "class 106 (DSCP 26) is priority 0; PFC is on for 3 only",
        ),
        ("x", "x", {"gid_index": None}, Severity.WARNING, "is RoCE v1"),
        ("x", "x", {"traffic_class": None}, Severity.WARNING, "no traffic_class in the inventory"),
        ("x", "x", {"env": (("NCCL_IB_TC", "41"),)}, Severity.PROBLEM, "NCCL_IB_TC is 41, traffic_class 106"),
    ],
)
def test_what_is_set_wrong_is_told(
    old: str, new: str, platform: dict[str, object], severity: Severity, words: str
) -> None:
    """One thing at a time, one finding each."""
    (one,) = of_roce(WELL.replace(old, new), **platform)
    assert (one.severity, words in one.what) == (severity, True), one.what


@pytest.mark.parametrize("side", ["np", "rp"])
def test_what_is_off_by_design_is_no_fault(side: str) -> None:
    """Spectrum-X has a congestion control of its own, with DCQCN off."""
    text = WELL.replace(f"roce_{side}/enable/3:1", f"roce_{side}/enable/3:0")
    assert of_roce(text, congestion_control="other") == []
    assert of_roce(text)


def test_who_differs_is_named_once() -> None:
    """Two hosts are alike, the third is as it was delivered."""
    other = WELL.replace("mtu:9000", "mtu:4200").replace("Cable len: 7", "Cable len: 5").replace("rp_gd:11", "rp_gd:8")
    host = replace(HOST, platform=ONE)
    hosts = {name: looked(text, host) for name, text in {"a": WELL, "b": WELL, "c": other}.items()}
    (one,) = ROCE.compare(hosts)
    assert one.hosts == ("c",)
    assert one.what == "mlx5_0: MTU 4200 (elsewhere 9000), cable length in m 5 (elsewhere 7), rp_gd 8 (elsewhere 11)"
    assert one.advice.startswith("set all alike: ip link set eth2 mtu 9000; mlnx_qos -i eth2 --cable_len METRES; ")


RACK = roce()
RACK = replace(
    RACK,
    hosts={
        name: replace(host, platform=replace(host.platform, traffic_class=106, gid_index=3))
        for name, host in RACK.hosts.items()
    },
)


def of_rack(*faults: str) -> list[Finding]:
    """What is found on four hosts, two leaves and a spine, of which ends are set wrong."""
    given = tuple(Fault(*fault.rsplit(":", 1)) for fault in faults)
    world = World(RACK, MockSettings(faults=given, noise_cv=0.0, lossless_class=106), seed=1)
    found = pre_flight(MockExecutor(world), RACK, dict.fromkeys(RACK.hosts, HostNeeds()))
    return [one for one in found if one.check == "roce"]


def test_a_fabric_that_is_set_well_has_no_finding() -> None:
    assert of_rack() == []


HOST_END = ("gpu003/mlx5_2", "gpu003", "mlx5_2 (cable to leaf1/swp3)")
LEAF_END = ("gpu003/mlx5_2:port", "leaf1", "swp3 (cable to gpu003/mlx5_2)")
UPLINKS = ("leaf1->spine0", "leaf1", "swp[17-20] (cables to spine0/swp5, spine0/swp6, spine0/swp7, spine0/swp8)")
SPINE_END = ("spine0->leaf1", "spine0", "swp[5-8] (cables to leaf1/swp17, leaf1/swp18, leaf1/swp19, leaf1/swp20)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("component", "node", "ends", "kind"),
    [(*HOST_END, kind) for kind in (*MISSET_ENDS, *MISSET_HOSTS[1:])]
    + [(*end, kind) for end in (LEAF_END, UPLINKS, SPINE_END) for kind in (*MISSET_ENDS, *MISSET_SWITCHES)],
)
def test_one_end_that_is_set_wrong_is_named_with_the_other_and_nothing_else(
    component: str, node: str, ends: str, kind: str
) -> None:
    (one,) = of_rack(f"{component}:{kind}")
    assert one.hosts == (node,)
    assert one.what.startswith(f"{ends}: ")
    assert one.severity is (Severity.WARNING if kind == "firmware_dcbx" else Severity.PROBLEM)
    assert "{" not in one.advice
    assert ("eth3" if node == "gpu003" else "swp") in one.advice or kind in ("other_class", "gid_v1")


def test_what_many_have_is_one_row_with_examples() -> None:
    """Two hosts with the same RNIC; then all ports of a switch, of which four are named with their other ends."""
    (one,) = of_rack("gpu003/mlx5_2:pfc_off", "gpu001/mlx5_2:pfc_off")
    assert one.hosts == ("gpu001", "gpu003")
    assert one.what.startswith("mlx5_2 (cables gpu001/mlx5_2 -- leaf0/swp3, gpu003/mlx5_2 -- leaf1/swp3): PFC for")
    (one,) = of_rack("spine0:ecn_off")
    assert one.what.startswith(
        "swp[1-8] (cables to leaf0/swp17, leaf0/swp18, leaf0/swp19, leaf0/swp20 and 4 more): ECN"
    )


def test_a_cable_that_nobody_hears_is_told() -> None:
    """Its ends were not compared, and that is said once."""
    (one,) = of_rack("gpu003/mlx5_2:broken")
    assert "does not hear it (LLDP)" in one.what
    assert (one.hosts, one.severity, one.what.partition(":")[0]) == (("gpu003",), Severity.WARNING, "mlx5_2")


def test_a_switch_that_does_not_answer_is_unknown() -> None:
    """Its RoCE cannot be read; the hosts are looked at all the same."""
    world = World(RACK, MockSettings(faults=(Fault("leaf1", "broken"),), lossless_class=106), seed=1)
    found = pre_flight(MockExecutor(world), RACK, dict.fromkeys(RACK.hosts, HostNeeds()))
    silent = [one for one in found if one.check == "roce" and one.severity is Severity.UNKNOWN]
    assert {one.hosts for one in silent} == {("leaf1",)}


@given(said=st.lists(ANYTHING, min_size=1, max_size=4))
def test_a_switch_may_say_anything(said: list[tuple[str, str, int, str]]) -> None:
    (argvs,) = {*ask_switches(RACK, RACK.hosts).values()}
    answers = {}
    for number, argv in enumerate(argvs):
        stdout, stderr, status, lost = said[number % len(said)]
        answers[argv] = answer(argv, stdout, stderr, status, lost=lost)
    sound(list(roce_check({"leaf1": answers}).findings({"gpu001": looked(WELL, replace(HOST, platform=ONE))})))


@pytest.mark.parametrize(
    ("sends", "obeys", "words"), [(True, False, "rx is disabled"), (False, True, "tx is disabled")]
)
def test_a_switch_that_pauses_one_way_only_is_told_before_anything_else(
    *, sends: bool, obeys: bool, words: str
) -> None:
    told = RocePort(trust="dscp", pfc=frozenset({3}), sends=sends, obeys=obeys)
    far = RoceEnd("gpu001", "mlx5_0", "", RocePort("eth1", trust="dscp", pfc=frozenset({3})), 106)
    end = RoceEnd("leaf0", "swp1", "", told, 106, far=far)
    said = [wrong for rule in RULES if rule.about == "pfc" and (wrong := rule.wrong(end))]
    assert words in said[0]


def test_infiniband_switches_are_not_asked() -> None:
    plain = {name: replace(host, platform=HOST.platform) for name, host in RACK.hosts.items()}
    assert ask_switches(replace(RACK, hosts=plain), plain) == {}


def test_every_rule_is_documented_with_its_source() -> None:
    """A row of docs/roce.md each, in the order of the rules; and each is about a setting that can be set right."""
    table = (ROOT / "docs" / "roce.md").read_text().partition("| wrong |")[2].partition("\n\n")[0]
    sources = [row.rsplit("|", 2)[1].strip() for row in table.splitlines()[2:]]
    assert sources == [rule.source for rule in RULES]
    assert {rule.about for rule in RULES} <= SETTINGS.keys()
