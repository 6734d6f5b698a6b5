"""The documents of ``fabric parse --json``."""

from __future__ import annotations

import json

from fabric.tools import nccl_tests, parse_json, perftest
from tests.places import GOLDEN


def test_the_nccl_document_has_exactly_these_keys() -> None:
    """Scripts rely on them; unknown values are null."""
    text = (GOLDEN / "nccl-tests" / "trace-replay-in-place-only.txt").read_text()
    document = parse_json.nccl_document(nccl_tests.parse(text))
    assert document["tool"] == "nccl-tests"
    (test,) = document["tests"]
    assert list(test) == ["op", "ranks", "rows", "avg_busbw_gbps", "complete", "problems"]
    nothing = dict.fromkeys(("time_us", "algbw_gbps", "busbw_gbps", "wrong"))
    in_place = {"time_us": 57.09, "algbw_gbps": 18.37 * 8, "busbw_gbps": 32.14 * 8, "wrong": 0}
    assert test["rows"][0] == {"size_bytes": 1048576, "out_of_place": nothing, "in_place": in_place}
    assert json.loads(json.dumps(document)) == document


def test_the_nccl_document_lists_failures() -> None:
    """With the host that printed each."""
    text = (GOLDEN / "nccl-tests" / "cuda-crash-and-retries.txt").read_text()
    document = parse_json.nccl_document(nccl_tests.parse(text))
    assert document["tests"] == []
    assert [(seen["host"], seen["kind"]) for seen in document["failures"]] == [
        ("gpu009", "cuda_error"),
        ("gpu008", "ib_completion_error"),
        (None, "launcher_error"),
    ]


def test_the_perftest_document_has_exactly_these_keys() -> None:
    """A peak that was not measured is null."""
    text = (GOLDEN / "perftest" / "duration-client.txt").read_text()
    assert parse_json.perftest_document(perftest.parse(text)) == {
        "tool": "perftest",
        "tests": [
            {
                "test": "RDMA_Write BW",
                "device": "mlx5_2",
                "rows": [{"size_bytes": 8388608, "iterations": 60321, "bw_peak_gbps": None, "bw_average_gbps": 391.27}],
                "problems": [],
            }
        ],
        "failures": [],
    }


def test_the_perftest_document_lists_failures() -> None:
    """Kind and text."""
    document = parse_json.perftest_document(perftest.parse("Couldn't connect to 10.0.0.9:18600\n"))
    assert document["failures"] == [{"kind": "cannot_connect", "text": "Couldn't connect to 10.0.0.9:18600"}]
