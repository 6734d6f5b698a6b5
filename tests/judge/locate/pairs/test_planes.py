"""Rows to planes: which results are compared with each other, and over which leaves they went."""

import pytest

from fabric.config.inventory import load_inventory
from fabric.judge.locate.pairs.samples import planes_of, unknown_names
from fabric.model.diagnosis import PairRow
from tests.places import INVENTORY

TOPOLOGY = load_inventory(INVENTORY / "pod-64.yaml").topology


def row(a, b, rail=None, **more):
    return PairRow(a, b, 390.0, 7, rail=rail, **more)


@pytest.mark.parametrize("rail", ["2", "rail2", "mlx5_2"])
def test_a_rail_is_known_by_number_and_by_device(rail):
    (samples,) = planes_of([row("gpu001", "gpu017", rail), row("gpu001", "gpu002", rail)], TOPOLOGY)
    assert samples.rail == "mlx5_2"
    assert samples.leaves == ("su0-leaf2", "su1-leaf2")
    assert samples.crosses.tolist() == [True, False]


def test_whole_hosts_are_under_all_their_leaves_at_once():
    (samples,) = planes_of([row("gpu001", "gpu017"), row("gpu001", "gpu002")], TOPOLOGY)
    assert samples.leaves == ("su0-leaf[0-7]", "su1-leaf[0-7]")


def test_kinds_and_rails_are_not_compared_with_each_other():
    rows = [row("a", "b", kind="x"), row("a", "b", kind="y"), row("a", "b", "1", kind="y")]
    assert [(samples.kind, samples.rail) for samples in planes_of(rows, None)] == [
        ("x", None),
        ("y", None),
        ("y", "rail1"),
    ]


def test_hosts_are_in_the_order_that_people_count():
    (samples,) = planes_of([row("gpu10", "gpu9"), row("gpu9", "gpu100")], None)
    assert samples.hosts == ("gpu9", "gpu10", "gpu100")


def test_what_the_inventory_does_not_have_is_said_once_with_its_line():
    rows = [row("gpu001", "gpu900"), row("gpu900", "gpu002", "9"), row("gpu001", "gpu002", "9", via="spine77")]
    said = unknown_names(rows, TOPOLOGY)
    assert [line for line, _ in said] == [7, 7, 7]
    assert "host 'gpu900' is not in the inventory" in said[0][1]
    assert "switch 'spine77' is not in the inventory; did you mean" in said[1][1]
    assert "expected a rail of gpu001 (0 to 7, or mlx5_0" in said[2][1]
