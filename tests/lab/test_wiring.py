"""Cables exchanged on a simulated fabric, as the real iblinkinfo and ibnetdiscover list them."""

from __future__ import annotations

import random
import re
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks import wiring as wiring_benchmark
from benchmarks.lab.link_sweep import simulated, topology
from fabric.checks.found import cables_of
from fabric.checks.wiring import wiring
from fabric.model.found import FoundFabric, FoundHost
from fabric.model.topology import Topology
from fabric.tools import infiniband
from tests.lab.ibsim import missing
from tests.places import INVENTORY

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def found(folder: Path, fabric: Topology) -> FoundFabric:
    """What one walk of the real tool over the fabric shows; of its hosts one tells its own port, by the real ibstat."""
    hosts = {name: FoundHost(name) for name in fabric.hosts}
    with simulated(folder, fabric) as env:
        said = subprocess.run(infiniband.all_ports(), env=env, capture_output=True, text=True, timeout=120, check=False)
        own = subprocess.run(["ibstat"], env=env, capture_output=True, text=True, timeout=60, check=False)
    lines = infiniband.read_ports(said.stdout, said.stderr, said.returncode)
    (guid,) = re.findall(r"State: Active\n(?:.*\n)*?\s+Port GUID: (0x[0-9a-f]{16})\n", own.stdout)
    assert int(guid, 16) in {line.end.guid for line in lines}
    cables, switches, unknown_adapters = cables_of(lines, hosts)
    return FoundFabric(hosts, tuple(cables), frozenset(switches), frozenset(unknown_adapters))


def test_exchanged_cables_are_named_and_nothing_else(tmp_path: Path) -> None:
    """8 leaves, 4 spines, 32 hosts; a host of leaf01 is in leaf02, and one of leaf02 in leaf01."""
    if reason := missing():
        pytest.skip(reason)
    believed = topology(8, 4, 4)
    hosts = dict(believed.hosts)
    hosts["h01x00"] = replace(hosts["h01x00"], leaves=("leaf02",))
    hosts["h02x03"] = replace(hosts["h02x03"], leaves=("leaf01",))
    real = found(tmp_path, replace(believed, hosts=hosts))
    texts = [one.what for one in wiring(real, believed, tuple(believed.hosts))]
    # The simulator's links are SDR, and its hosts are simulated no further than their adapters.
    (exchanged,) = (text for text in texts if "runs at" not in text and "told nothing" not in text)
    assert "h01x00/HCA-1 (in leaf02 port" in exchanged
    assert "h02x03/HCA-1 (in leaf01 port" in exchanged


def test_pod_64_is_rebuilt_from_the_real_walk_and_planted_cables_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """All its cables stand in ibsim; what ibnetdiscover lists and mock hosts tell is the shipped file."""
    if reason := missing():
        pytest.skip(reason)
    path = INVENTORY / "pod-64.yaml"
    _, mock = wiring_benchmark.looked(path)
    inventory, real = wiring_benchmark.walked(path, mock)
    assert len(real.cables) == 1024
    wiring_benchmark.beside("pod-64", inventory, real)
    said = capsys.readouterr().out
    assert ("False" in said, said.count("True")) == (False, 4), said
    for kinds, plan in (
        (wiring_benchmark.BY_INVENTORY, ()),
        (wiring_benchmark.BY_BLUEPRINT, wiring_benchmark.as_planned(real)),
    ):
        named, wrong = wiring_benchmark.searched(
            *(inventory, real, plan),
            kinds=kinds,
            planted=4,
            draw=random.Random(7),
            seen=partial(wiring_benchmark.seen_by_ibsim, real),
        )
        assert (sum(named.values()), wrong) == (4, [])
