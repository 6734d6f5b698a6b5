"""Names of parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.model.part import Part

NAMES = {
    "gpu001": Part("gpu001"),
    "gpu001:network": Part("gpu001", "", "network"),
    "gpu001/mlx5_0": Part("gpu001", "mlx5_0"),
    "gpu001/mlx5_0:port": Part("gpu001", "mlx5_0", "port"),
    "gpu001/mlx5_0->numa1-gpus": Part("gpu001", "mlx5_0->numa1-gpus"),
    "leaf3--spine2#1": Part("leaf3--spine2#1"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_read_and_written_back(name: str) -> None:
    """Host, item and aspect of every form; the name of the part is the name that was read."""
    assert (Part.of(name), str(Part.of(name))) == (NAMES[name], name)


WORD = st.text("ab1->+#.", min_size=1, max_size=8)


@given(WORD, st.just("") | WORD, st.just("") | WORD)
def test_every_part_is_read_as_it_was_written(host: str, item: str, aspect: str) -> None:
    """Whatever its host, item and aspect are, as long as they hold neither slash nor colon."""
    part = Part(host, item, aspect)
    assert Part.of(str(part)) == part


def test_a_part_has_a_name_within_its_host() -> None:
    """A host has none, whatever its aspect."""
    names = ("gpu001/mlx5_0:port", "gpu001/gpu3", "gpu001:network", "gpu001")
    assert [Part.of(name).inside for name in names] == ["mlx5_0:port", "gpu3", "", ""]


def test_a_path_has_a_device_and_an_end() -> None:
    """Both are items of the same host."""
    path = Part.of("gpu001/mlx5_0->numa1")
    assert (path.device, path.end, Part.of("gpu001/mlx5_0").end) == ("mlx5_0", "numa1", "")


def test_one_direction_is_a_part_of_both() -> None:
    """Other aspects stay."""
    assert str(Part.of("gpu001/mlx5_0:tx").both_ways) == "gpu001/mlx5_0"
    assert str(Part.of("gpu001/mlx5_0:port").both_ways) == "gpu001/mlx5_0:port"


def test_a_pair_has_two_members() -> None:
    """Also a pair of RNICs."""
    assert [one.host for one in Part.of("gpu001/mlx5_0+gpu002/mlx5_0").members] == ["gpu001", "gpu002"]


def test_a_link_has_two_ends_whichever_way() -> None:
    """Without the number of the cable; a path inside a host is no link."""
    assert Part.of("leaf3--spine2#1").link_ends == Part.of("leaf3->spine2").link_ends == ("leaf3", "spine2")
    assert Part.of("gpu001/mlx5_0->numa1").link_ends is None
