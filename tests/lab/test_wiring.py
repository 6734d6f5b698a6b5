"""Cables exchanged on a simulated fabric, as the real iblinkinfo lists them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.lab.link_sweep import simulated, topology
from fabric.checks.found import cables_of
from fabric.checks.wiring import wiring
from fabric.model.found import FoundFabric, FoundHost
from fabric.model.topology import Topology
from fabric.tools import ibstat, infiniband
from tests.lab.ibsim import missing

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def found(folder: Path, fabric: Topology) -> FoundFabric:
    """What one walk of the real tool over the fabric shows; of its hosts one tells its own port, by the real ibstat."""
    hosts = {name: FoundHost(name) for name in fabric.hosts}
    with simulated(folder, fabric) as env:
        said = subprocess.run(infiniband.all_ports(), env=env, capture_output=True, text=True, timeout=120, check=False)
        own = subprocess.run(ibstat.ask(), env=env, capture_output=True, text=True, timeout=60, check=False)
    lines = infiniband.read_ports(said.stdout, said.stderr, said.returncode)
    ((_, port),) = ibstat.read(own.stdout, own.stderr, own.returncode)[1].items()
    assert (port.active, port.guid in {line.end.guid for line in lines}) == (True, True)
    cables, switches, strangers = cables_of(lines, hosts)
    return FoundFabric(hosts, tuple(cables), frozenset(switches), frozenset(strangers))


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
