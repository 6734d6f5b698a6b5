"""Life of hosts as inventories and ``--fault`` ask for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.config import load_inventory
from fabric.errors import ConfigError
from fabric.model.inventory import Fault, TimedFault
from tests.places import INVENTORY

POD = INVENTORY / "pod-64.yaml"


def loaded(tmp_path, mock, *, faults=()):
    """The 64-host pod with other settings of the mock."""
    path = tmp_path / "pod.yaml"
    text = POD.read_text()
    path.write_text(text.replace("mock: {noise_cv: 0.003}", f"mock: {mock}"))
    baselines = tmp_path / "baselines"
    if not baselines.exists():
        baselines.symlink_to(POD.parent / "baselines")
    return load_inventory(path, extra_faults=faults)


def test_all_of_it_is_read(tmp_path):
    """Times with their units, rates as numbers."""
    timed = "{component: gpu001/mlx5_2, kind: slow, factor: 0.5, at: 10m, lasts: 30s}"
    mock = f"{{lemon_per_hour: 4, timed_faults: [{timed}]}}"
    found = loaded(tmp_path, mock, faults=("gpu003:lemon", "su0-leaf3--spine02:lemon", "gpu004/gpu1:hot")).mock
    assert found.timed_faults == (TimedFault(600.0, 30.0, Fault("gpu001/mlx5_2", "slow", 0.5)),)
    assert found.lemon_per_hour == 4.0
    assert [one.kind for one in found.faults] == ["lemon", "lemon", "hot"]
    quiet = loaded(tmp_path, "{noise_cv: 0.003}").mock
    assert quiet == replace(quiet, timed_faults=(), lemon_per_hour=1.0, faults=())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu003/gpu1:lemon", "only a host, an RNIC or a cable between switches can be a lemon"),
        ("gpu003:hot", "a host cannot be 'hot'"),
        ("gpu903:lemon", "no host"),
        ("gpu003:lemon=0.5", "'factor' goes with kind slow"),
        ("spine03:hot", "can be broken for a while, not hot"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, text, said):
    """Before anything runs."""
    with pytest.raises(ConfigError, match=said):
        loaded(tmp_path, "{noise_cv: 0.003}", faults=(text,))
