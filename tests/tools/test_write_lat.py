"""ib_write_lat: what is asked of it, and what its table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric.tools.perftest import latency
from fabric.tools.perftest.command import write_lat

REAL = Path(__file__).parents[1] / "golden" / "captures" / "perftest" / "ib_write_lat-rxe.txt"
ASKED = write_lat(device="mlx5_0", port=18515, peer="10.0.0.2", size_bytes=2, iterations=200, numa_node=1)


def test_a_real_table_is_read() -> None:
    """From perftest over Soft-RoCE, a slow fabric."""
    found = latency.parse(REAL.read_text())
    assert found == latency.Latency(
        device="mlx5_0",
        link_type="Ethernet",
        size_bytes=2,
        iterations=200,
        least_us=3400.42,
        most_us=39769.87,
        typical_us=8005.14,
        p99_us=38984.24,
        p999_us=39769.87,
    )
    assert list(latency.otherwise(found, ASKED, "Ethernet")) == []


def test_an_answer_to_another_question_is_told() -> None:
    found = latency.parse(REAL.read_text())
    assert found is not None
    other = write_lat(device="mlx5_1", port=1, peer=None, size_bytes=8, iterations=100, numa_node=0)
    assert list(latency.otherwise(found, other, "IB")) == [
        "asked Device mlx5_1, saw mlx5_0",
        "asked Link type IB, saw Ethernet",
        "asked size 8, saw 2",
        "asked iterations 100, saw 200",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("8005.14", "80051.4"),  # a median above the largest
        ("8005.14", "80o5.14"),
        ("38984.24", ""),
        ("Latency Test", "BW Test"),
        ("Device         : mlx5_0", ""),
        ("t_typical[usec]", "t_typical[msec]"),
        ("39769.87\n----", "39769.87\n# cut "),
    ],
)
def test_what_is_cut_or_contradicts_itself_is_no_table(old: str, new: str) -> None:
    text = REAL.read_text()
    assert old in text
    assert latency.parse(text.replace(old, new)) is None
    assert latency.parse(text + text) is None


def test_no_value_becomes_another_argument() -> None:
    with pytest.raises(ValueError, match="peer"):
        write_lat(device="mlx5_0", port=1, peer="-D 9", size_bytes=2, iterations=200, numa_node=0)
