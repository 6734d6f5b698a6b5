"""RoCE: probes and collectives in one lossless class, on all hosts alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.checks.ask import Answers
from fabric.checks.kind import Looked
from fabric.checks.roce import ROCE
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host
from tests.checks.asked import EVERYTHING, HOST, answer
from tests.tools.test_roce import SAID

WELL = SAID.replace("enable/0:0", "enable/0:0\n/sys/class/net/eth2/ecn/roce_rp/enable/3:1")
ONE = replace(HOST.platform, rnics=HOST.platform.rnics[:1], link_layer="ethernet", gid_index=3, traffic_class=106)


def looked(text: str, host: Host) -> Looked:
    """A host that answered so, of its one RNIC."""
    (argv,) = ROCE.ask(host, EVERYTHING)
    answers: Answers = {argv: answer(argv, text.partition("port mlx5_1")[0] + "whole\n")}
    return Looked(host, EVERYTHING, answers)


def found(text: str, **platform: object) -> list[Finding]:
    """What is said of one host."""
    host = replace(HOST, platform=replace(ONE, **platform))  # type: ignore[arg-type]
    return list(ROCE.findings({"gpu001": looked(text, host)}))


def test_a_host_that_is_set_well_has_no_finding() -> None:
    assert found(WELL) == []


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
        ("roce_rp/enable/3:1", "roce_rp/enable/3:0", {}, Severity.WARNING, "ECN is off (roce_rp)"),
        ("mtu:9000", "mtu:1500", {}, Severity.WARNING, "MTU 1500"),
        ("tclass=106", "tclass=41", {}, Severity.PROBLEM, "into class 41, not 106"),
        ("types/3:RoCE v2", "types/3:IB/RoCE v1", {}, Severity.PROBLEM, "GID 3 is IB/RoCE v1"),
        ("types/3:RoCE v2", "types/4:RoCE v2", {}, Severity.PROBLEM, "GID 3 is empty"),
        ("x", "x", {"gid_index": None}, Severity.WARNING, "is RoCE v1"),
        ("x", "x", {"traffic_class": None}, Severity.WARNING, "no traffic_class in the inventory"),
        ("x", "x", {"env": (("NCCL_IB_TC", "41"),)}, Severity.PROBLEM, "NCCL_IB_TC is 41, traffic_class 106"),
    ],
)
def test_what_is_set_wrong_is_told(
    old: str, new: str, platform: dict[str, object], severity: Severity, words: str
) -> None:
    """One thing at a time, one finding each."""
    (one,) = found(WELL.replace(old, new), **platform)
    assert (one.severity, words in one.what) == (severity, True), one.what


def test_who_differs_is_named_once() -> None:
    """Two hosts are alike, the third is as it was delivered."""
    other = WELL.replace("mtu:9000", "mtu:4200").replace("state: dscp", "state: pcp")
    host = replace(HOST, platform=ONE)
    hosts = {name: looked(text, host) for name, text in {"a": WELL, "b": WELL, "c": other}.items()}
    (one,) = ROCE.compare(hosts)
    assert one.hosts == ("c",)
    assert one.what == "mlx5_0: MTU 4200 (elsewhere 9000), trust pcp (elsewhere dscp)"
