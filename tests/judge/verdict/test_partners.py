"""Who failed together with a bad host and came back need not be bad itself."""

from __future__ import annotations

import pytest

from fabric.judge.verdict.conclude import without_partners
from fabric.model.outcome import Outcome
from fabric.model.probe import Probe
from fabric.model.verdict import Suspect

PROBES = [
    Probe("p1", "pairwise", "soak", ("gpu009", "gpu004"), (), 1.0, {}),
    Probe("p2", "pairwise", "soak", ("gpu004", "gpu005"), (), 1.0, {}),
]
BAD = Suspect("gpu009/mlx5_2", "rnic", Outcome.FAIL, 0.9, ("slow",), hosts=("gpu009",), probes=("p1",))


@pytest.mark.parametrize(("failed", "is_named"), [(("p1",), False), (("p1", "p2"), True)])
def test_who_failed_only_with_a_suspected_host_did_not_come_back(failed: tuple[str, ...], is_named: bool) -> None:
    back = Suspect("gpu004", "host", Outcome.FAIL, 0.6, ("failed and came back",), hosts=("gpu004",), probes=failed)
    assert (back in without_partners([BAD, back], {"gpu004"}, PROBES)) is is_named
