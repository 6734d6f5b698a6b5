"""What a port counts of congestion is read as the kernel and ethtool print it; what is not there is not 0."""

import subprocess

import pytest

from fabric.model.sampling import Growth, growth
from fabric.tools import roce

SAID = """\
np_cnp_sent: 4294967300
out_of_sequence: 4294967290
     rx_prio3_pause: 12
     rx_prio3_pause_duration: 1006
     rx_discards_phy: 0
whole
"""


def test_everything_that_is_told_is_read() -> None:
    """Names as the driver has them; counters that are missing are."""
    told = roce.read_congestion(SAID)
    assert told is not None
    assert told["np_cnp_sent"] == 4294967300
    assert told["rx_prio3_pause_duration"] == 1006
    assert "rp_cnp_handled" not in told


@pytest.mark.parametrize("text", ["", SAID.removesuffix("whole\n"), SAID[:40], "sh: syntax error\n"])
def test_an_answer_that_is_cut_says_nothing(text: str) -> None:
    """The last line must be there."""
    assert roce.read_congestion(text) is None


def test_the_text_is_one_that_sh_runs() -> None:
    """Where there is no such device it says nothing, and ends well."""
    done = subprocess.run(roce.ask_congestion("mlx5_0", 1), capture_output=True, text=True, timeout=10, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "whole\n", "")


@pytest.mark.parametrize(
    ("name", "before", "after", "grown"),
    [
        ("out_of_sequence", 4294967290, 4, Growth(10)),
        ("np_cnp_sent", 4294967290, 4294967300, Growth(10)),
        ("rx_prio3_pause_duration", 4294967290, 4, Growth(4, reset=True)),
    ],
)
def test_counters_of_queue_pairs_wrap_at_32_bits(name: str, before: int, after: int, grown: Growth) -> None:
    """linux: mlx5/counters.c; those of congestion and of ports have 64: a smaller number is a reset."""
    assert growth(name, before, after) == grown
