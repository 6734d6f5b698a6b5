"""What OpenSM's log and UFM tell of what routes, and which reloads a running manager does not heed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fabric.errors import ToolError
from fabric.tools import management
from fabric.tools.management import ManagerLog
from tests.places import CAPTURES

REAL = CAPTURES / "opensm" / "01-opensm-log-ibsim-linkdown.txt"
START = "Nov 23 04:24:02 801648 [7645740] 0x03 -> OpenSM 3.3.23\n"
MASTER = "Nov 23 04:24:02 841314 [463E6C0] 0x80 -> Entering MASTER state\n"
UNKNOWN = "0x01 -> setup_routing_engine: ERR : cannot find or setup routing engine 'ar_updn'\n"


def routed(engine: str) -> str:
    """As osm_ucast_mgr.c says it."""
    return f"0x02 -> osm_ucast_mgr_process: {engine} tables configured on all switches\n"


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("", ManagerLog()),
        (START + MASTER, ManagerLog(master=True)),
        (START + MASTER + routed("updn"), ManagerLog(True, "updn")),
        (START + MASTER + routed("updn") + START, ManagerLog()),
        (START + UNKNOWN + MASTER + routed("minhop"), ManagerLog(True, "minhop", ("ar_updn",))),
        (START + MASTER + routed("updn") + "0x80 -> Entering STANDBY state\n", ManagerLog(engine="updn")),
    ],
)
def test_the_present_life_of_a_manager_counts(log: str, told: ManagerLog) -> None:
    assert management.read_log(log) == told


def test_a_real_log_is_found_and_read(tmp_path: Path) -> None:
    """By the very text that runs on the host, of a file with a name that a shell would take apart."""
    path = tmp_path / "$(id) 'log'"
    path.write_bytes(REAL.read_bytes())
    done = subprocess.run(management.ask_log(str(path)), capture_output=True, text=True, timeout=20, check=False)
    assert management.read_log(done.stdout, done.stderr, done.returncode) == ManagerLog(True, "minhop")
    missing = subprocess.run(management.ask_log("/nowhere"), capture_output=True, text=True, timeout=20, check=False)
    with pytest.raises(ToolError, match="cannot be read"):
        management.read_log(missing.stdout, missing.stderr, missing.returncode)


def test_ufm_says_what_routes() -> None:
    """The answer of its REST guide 6.16 to 6.22, cut."""
    assert management.read_engine('{"m_key": "0x0", "sm_priority": 15, "routing_engine_active": "minhop"}') == "minhop"
    argv = management.ask_engine(management.UfmAccess("https://ufm.example.net/", insecure=True))
    assert argv[-1] == "https://ufm.example.net/ufmRest/app/smconf"


@pytest.mark.parametrize(
    ("reload", "signals"),
    [
        ("pkill -HUP opensm", True),
        ("pkill -1 -x opensm", True),
        ("pkill --signal SIGHUP opensm", True),
        ("killall -s HUP opensm", True),
        ("kill -SIGHUP 4711", True),
        ("systemctl reload opensm", True),
        ("systemctl restart opensm", False),
        ("/etc/init.d/opensmd restart", False),
    ],
)
def test_which_reloads_only_signal(reload: str, signals: bool) -> None:
    assert management.only_signals(tuple(reload.split())) is signals
