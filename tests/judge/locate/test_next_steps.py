"""The advice fits the part: what could not be measured of a GPU asks for the GPU."""

from __future__ import annotations

import pytest

from fabric.judge.locate.steps import next_step
from fabric.model.outcome import Outcome


@pytest.mark.parametrize("kind", ["gpu", "gpu_pcie"])
def test_a_gpu_that_could_not_be_measured_may_be_missing(kind: str) -> None:
    """``No such device ID (5) exists`` is answered by nvidia-smi -L."""
    assert "nvidia-smi -L" in next_step(kind, Outcome.ERROR)


def test_nvlink_that_could_not_be_measured_asks_for_the_fabric_manager() -> None:
    """An unhandled CUDA error of a collective."""
    assert "fabric manager" in next_step("nvlink", Outcome.ERROR)


def test_an_error_never_asks_to_replace_anything() -> None:
    """We are to blame until it was measured."""
    for kind in ("gpu", "gpu_pcie", "nvlink", "host", "rnic", "path"):
        assert "replace" not in next_step(kind, Outcome.ERROR)
        assert next_step(kind, Outcome.ERROR).startswith("we could not measure it")
