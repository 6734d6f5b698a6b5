"""A GPU that is itself broken is a bad part; a CUDA that is not set up is our trouble."""

from __future__ import annotations

import pytest

from fabric.tools import nccl, perftest
from fabric.tools.nccl import failures as nccl_failures
from fabric.tools.perftest import failures as perftest_failures


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("h1: Test CUDA failure common.cu:1030 'uncorrectable ECC error encountered'", True),
        ("h1: Test CUDA failure common.cu:1030 'uncorrectable NVLink error detected during the execution'", True),
        ("h1: Test CUDA failure common.cu:1030 'out of memory'", False),
        ("h1: Test CUDA failure common.cu:1030 'CUDA driver version is insufficient for CUDA runtime version'", False),
    ],
)
def test_nccl(line: str, bad: bool) -> None:
    """Only the texts of broken parts blame the fabric."""
    (failure,) = nccl.parse(line).failures
    assert (failure.kind, nccl_failures.blames_fabric(failure.kind, failure.text)) == ("cuda_error", bad)


@pytest.mark.parametrize(("line", "bad"), [("cuCtxCreate() error=214", True), ("cuCtxCreate() error=2", False)])
def test_perftest(line: str, bad: bool) -> None:
    """Only the numbers of broken parts blame the fabric."""
    (failure,) = perftest.parse(line).failures
    assert (failure.kind, perftest_failures.blames_fabric(failure.kind, failure.text)) == ("cuda_error", bad)
