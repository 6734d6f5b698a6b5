"""What is sampled on a host, and what its answers are called."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured_rack import dgx_platform
from fabric.model.sampling import SampleSettings
from fabric.probes.sources import OPTICS, PFC, ROOT, Meaning, darkest_lanes, meaning, pfc_sums, sources_of

SYS = "/sys/class/infiniband/mlx5_3"
MODULE = """
Module Info
-----------
Temperature [C]                    : 54 [-5..75]
Rx Power Current [dBm]             : 2.062,-1.968,2.116,1.870 [-10.41..6]
Tx Power Current [dBm]             : 1.61,1.58,1.65,1.60 [-8.508..5]
Rx Power Type                      : Average power
"""


@pytest.mark.parametrize(
    ("sampled", "means"),
    [
        (f"{SYS}/ports/1/counters/link_downed", Meaning("mlx5_3", "link_downed")),
        (f"{SYS}/ports/1/hw_counters/out_of_sequence", Meaning("mlx5_3", "out_of_sequence")),
        (f"{SYS}/device/hwmon/hwmon7/temp2_input", Meaning("mlx5_3", "module_c", 1e-3)),
        (f"{SYS}/device/net/ens1/carrier_down_count", Meaning("mlx5_3", "link_downed")),
        ("5:temperature.gpu", Meaning("gpu5", "gpu_c")),
        ("5:clocks.current.sm [MHz]", Meaning("gpu5", "sm_mhz")),
        ("mlx5_3:rx_dbm", Meaning("mlx5_3", "rx_dbm")),
        ("mlx5_3:tx_pfc_us", Meaning("mlx5_3", "tx_pfc_us")),
        ("something else", None),
    ],
)
def test_each_name_has_a_meaning(sampled: str, means: Meaning | None) -> None:
    """Or none."""
    assert meaning(sampled) == means


def test_every_source_of_a_host_has_a_meaning() -> None:
    """Files are named by their paths."""
    for layer in ("infiniband", "ethernet"):
        often, slowly = sources_of(replace(dgx_platform(), link_layer=layer), SampleSettings())
        files = [source.path for source in (*often, *slowly) if source.path]
        assert all(meaning(path.replace("*", "x")) is not None for path in files)
        assert len(set(files)) == len(files)


def test_ethernet_asks_for_crc_errors_and_infiniband_for_symbol_errors() -> None:
    """Each link layer counts in its own files."""
    asked = {
        layer: " ".join(
            source.path for source in sources_of(replace(dgx_platform(), link_layer=layer), SampleSettings())[0]
        )
        for layer in ("infiniband", "ethernet")
    }
    assert "symbol_error" in asked["infiniband"]
    assert "rx_crc_errors" not in asked["infiniband"]
    assert "rx_crc_errors" in asked["ethernet"]
    assert "symbol_error" not in asked["ethernet"]


LIGHT = "Rx Power Current [dBm]             : {} \nTx Power Current [dBm]             : {} \n"


@pytest.mark.skipif(shutil.which("awk") is None, reason="no awk here")
@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (MODULE, {"rx": "-1.968", "tx": "1.58"}),
        (LIGHT.format("2.0,2.1 [-10.41..6]", "1.6 [-8.508..5]"), {"rx": "2", "tx": "1.6"}),  # two lanes, one
        (LIGHT.format("N/A", "N/A,-3.5 [-8.5..5]"), {"tx": "-3.5"}),
        (LIGHT.format("-inf,nan", "0x7,1e3"), {}),
    ],
)
def test_the_script_prints_the_darkest_lane(tmp_path: Path, module: str, expected: dict[str, str]) -> None:
    """A shell and awk do what the simulated hosts do: no threshold is a level, and N/A is no light of 0 dBm."""
    tool = tmp_path / "mlxlink"
    tool.write_text(f"#!/bin/sh\n[ \"$*\" = '-d mlx5_0 -m' ] && cat <<'END'\n{module}END\n")
    tool.chmod(0o755)
    _, slowly = sources_of(dgx_platform(), SampleSettings(optics=True), sudo=False)
    argv = next(source.argv for source in slowly if OPTICS in source.argv)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    said = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=20, check=True).stdout
    assert said == darkest_lanes("mlx5_0", module)
    assert said == "".join(f"mlx5_0:{way}_dbm: {level}\n" for way, level in expected.items())


STATISTICS = """NIC statistics:
     rx_prio0_pause: 2
     rx_prio0_pause_duration: 10
     rx_prio3_pause: 5000000000
     rx_prio3_pause_duration: 4999999990
     rx_prio3_pause_transition: 7
     tx_prio3_pause: 1
     tx_prio3_pause_duration: 3
     rx_pause_ctrl_phy: 99
"""


def test_pauses_are_asked_for_where_they_are_judged_and_ethernet_has_them() -> None:
    """By a tool, so not every time."""
    for layer, number in (("infiniband", 0), ("ethernet", len(dgx_platform().rnics))):
        _, slowly = sources_of(replace(dgx_platform(), link_layer=layer), SampleSettings(pfc=True))
        assert sum(PFC in source.argv for source in slowly) == number
    _, slowly = sources_of(replace(dgx_platform(), link_layer="ethernet"), SampleSettings())
    assert not any(PFC in source.argv for source in slowly)


def test_pauses_of_all_priorities_are_added_up() -> None:
    """Transitions and other counters are not among them."""
    assert sorted(pfc_sums("mlx5_3", STATISTICS).split("\n")[:-1]) == [
        "mlx5_3:rx_pfc_frames: 5000000002",
        "mlx5_3:rx_pfc_us: 5000000000",
        "mlx5_3:tx_pfc_frames: 1",
        "mlx5_3:tx_pfc_us: 3",
    ]
    assert pfc_sums("mlx5_3", "NIC statistics:\n     rx_packets: 5\n") == ""


@pytest.mark.skipif(shutil.which("awk") is None, reason="no awk here")
def test_the_script_of_pauses_adds_up_the_same(tmp_path: Path) -> None:
    """A shell and awk, with numbers that 32 bits do not hold."""
    tool, net = tmp_path / "ethtool", tmp_path / "mlx5_3" / "device" / "net" / "eth4"
    tool.write_text(f'#!/bin/sh\n[ "$*" = "-S eth4" ] && cat <<\'END\'\n{STATISTICS}END\n')
    tool.chmod(0o755)
    net.mkdir(parents=True)
    argv = ["sh", "-c", PFC.replace(ROOT, str(tmp_path)), "sh", "mlx5_3"]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    said = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=20).stdout
    assert sorted(said.splitlines()) == sorted(pfc_sums("mlx5_3", STATISTICS).splitlines())
