"""Pair tests that failed, and which results are compared with each other."""

import pytest

from fabric.config.inventory import load_inventory
from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.judge.locate.pairs.samples import planes_of, unknown_names
from fabric.model.diagnosis import PairFailure, PairRow
from fabric.model.outcome import Outcome
from tests.judge.locate.pairs.made import all_pairs, hosts, row
from tests.places import INVENTORY

DOWN = "Port number 1 state is Down"
REFUSED = "Couldn't connect to 10.0.0.3:18515"


def without(host, count=6, **more):
    """Everybody with everybody, and what is missing: a test of *host* with each of the others."""
    rows = [each for each in all_pairs(hosts(count), **more) if host not in (each.a, each.b)]
    return rows, [other for other in hosts(count) if other != host]


def named(found):
    return [(suspect.component, suspect.outcome) for suspect in found.suspects]


def test_a_host_whose_port_is_down_by_the_tools_own_words_fails():
    rows, others = without("gpu003")
    failures = [PairFailure("gpu003", other, DOWN, 1, fabric=True, at="gpu003") for other in others]
    failures += [PairFailure(other, "gpu003", REFUSED, 1) for other in others]
    found = diagnose(rows, failures=failures)
    assert (found.outcome, named(found)) == (Outcome.FAIL, [("gpu003", Outcome.FAIL)])
    assert "gpu003" in found.hosts
    assert DOWN in found.reasons[0]
    assert any(DOWN in line for line in found.suspects[0].evidence)


def test_a_host_that_nobody_could_connect_to_is_named_but_inconclusive():
    rows, others = without("gpu003")
    found = diagnose(rows, failures=[PairFailure(other, "gpu003", REFUSED, 1) for other in others])
    assert (found.outcome, named(found)) == (Outcome.INCONCLUSIVE, [("gpu003", Outcome.INCONCLUSIVE)])
    assert [test.a for test in found.next_tests] == ["gpu003"]


def test_the_partners_of_a_dead_host_are_not_blamed():
    rows, others = without("gpu003")
    failures = [PairFailure(other, "gpu003", "status=12", 1, fabric=True) for other in others]
    assert named(diagnose(rows, failures=failures)) == [("gpu003", Outcome.FAIL)]


def test_a_dead_host_stands_in_the_matrix_as_not_measured():
    rows, others = without("gpu003")
    found = diagnose(rows, failures=[PairFailure(other, "gpu003", REFUSED, 1) for other in others])
    (matrix,) = found.matrices
    assert matrix.hosts == tuple(hosts(6))
    assert set(matrix.ratios[2]) == {None}
    assert matrix.ratios[0][1] is not None


def test_a_pair_whose_retries_ran_out_is_a_path_when_both_measured_others():
    rows = [each for each in all_pairs(hosts(6)) if {each.a, each.b} != {"gpu002", "gpu005"}]
    found = diagnose(rows, failures=[PairFailure("gpu002", "gpu005", "status=12", 1, fabric=True)])
    assert (found.outcome, named(found)) == (Outcome.FAIL, [("gpu002--gpu005", Outcome.FAIL)])


def test_one_failed_connection_names_nobody_and_never_passes():
    rows = [each for each in all_pairs(hosts(6)) if {each.a, each.b} != {"gpu002", "gpu005"}]
    found = diagnose(rows, failures=[PairFailure("gpu002", "gpu005", REFUSED, 1)])
    assert (found.outcome, found.suspects) == (Outcome.INCONCLUSIVE, ())
    assert [(test.a, test.b) for test in found.next_tests] == [("gpu002", "gpu005")]


def test_a_failed_connection_is_settled_by_the_same_test_measured_later():
    failure = PairFailure("gpu002", "gpu005", REFUSED, 1)
    assert diagnose(all_pairs(hosts(6)), failures=[failure]).outcome is Outcome.PASS


def test_the_way_back_measured_settles_no_failed_direction():
    rows = [each for each in all_pairs(hosts(6), both_ways=True) if (each.a, each.b) != ("gpu002", "gpu005")]
    failure = PairFailure("gpu002", "gpu005", REFUSED, 1)
    assert diagnose(rows, failures=[failure]).outcome is Outcome.INCONCLUSIVE


def test_what_the_tool_blames_on_the_fabric_is_settled_by_no_number():
    failure = PairFailure("gpu002", "gpu005", DOWN, 1, fabric=True, at="gpu002")
    found = diagnose(all_pairs(hosts(6)), failures=[failure])
    assert (found.outcome, named(found)) == (Outcome.FAIL, [("gpu002", Outcome.FAIL)])


def test_a_rail_that_failed_with_everybody_is_the_rnic():
    rows, others = without("gpu003", rail="2")
    rows += all_pairs(hosts(6), rail="1")
    failures = [PairFailure("gpu003", other, "status=12", 1, fabric=True, rail="2") for other in others]
    found = diagnose(rows, failures=failures)
    assert [(one.component, one.kind) for one in found.suspects] == [("gpu003/rail2", "rnic")]


def test_a_host_that_was_only_tried_with_a_dead_one_is_not_cleared():
    rows, others = without("gpu003")
    tried = [*others, "gpu009"]
    found = diagnose(rows, failures=[PairFailure("gpu003", x, DOWN, 1, fabric=True, at="gpu003") for x in tried])
    assert named(found) == [("gpu003", Outcome.FAIL)]
    assert any("not cleared" in reason and "gpu009" in reason for reason in found.reasons)


@pytest.mark.parametrize("fabric", [False, True])
def test_nothing_but_failures_never_passes(fabric):
    failures = [PairFailure("a", "b", "x", 1, fabric=fabric), PairFailure("c", "d", "x", 1, fabric=fabric)]
    found = diagnose([], failures=failures)
    assert found.outcome is (Outcome.FAIL if fabric else Outcome.INCONCLUSIVE)
    assert found.hosts == ("a", "b", "c", "d")


def test_two_hosts_judged_by_a_limit_alone_do_not_hide_a_failed_test():
    found = diagnose([row("a", "b", 390.0)], limit_gbps=384.0, failures=[PairFailure("a", "c", REFUSED, 1)])
    assert found.outcome is Outcome.INCONCLUSIVE


TOPOLOGY = load_inventory(INVENTORY / "pod-64.yaml").topology


def planes_row(a, b, rail=None, **more):
    return PairRow(a, b, 390.0, 7, rail=rail, **more)


@pytest.mark.parametrize("rail", ["2", "rail2", "mlx5_2"])
def test_a_rail_is_known_by_number_and_by_device(rail):
    (samples,) = planes_of([planes_row("gpu001", "gpu017", rail), planes_row("gpu001", "gpu002", rail)], TOPOLOGY)
    assert samples.rail == "mlx5_2"
    assert samples.leaves == ("su0-leaf2", "su1-leaf2")
    assert samples.crosses.tolist() == [True, False]


def test_whole_hosts_are_under_all_their_leaves_at_once():
    (samples,) = planes_of([planes_row("gpu001", "gpu017"), planes_row("gpu001", "gpu002")], TOPOLOGY)
    assert samples.leaves == ("su0-leaf[0-7]", "su1-leaf[0-7]")


def test_kinds_and_rails_are_not_compared_with_each_other():
    rows = [planes_row("a", "b", kind="x"), planes_row("a", "b", kind="y"), planes_row("a", "b", "1", kind="y")]
    assert [(samples.kind, samples.rail) for samples in planes_of(rows, None)] == [
        ("x", None),
        ("y", None),
        ("y", "rail1"),
    ]


def test_hosts_are_in_the_order_that_people_count():
    (samples,) = planes_of([planes_row("gpu10", "gpu9"), planes_row("gpu9", "gpu100")], None)
    assert samples.hosts == ("gpu9", "gpu10", "gpu100")


def test_what_the_inventory_does_not_have_is_said_once_with_its_line():
    rows = [
        planes_row("gpu001", "gpu900"),
        planes_row("gpu900", "gpu002", "9"),
        planes_row("gpu001", "gpu002", "9", via="spine77"),
    ]
    said = unknown_names(rows, TOPOLOGY)
    assert [line for line, _ in said] == [7, 7, 7]
    assert "host 'gpu900' is not in the inventory" in said[0][1]
    assert "switch 'spine77' is not in the inventory; did you mean" in said[1][1]
    assert "expected a rail of gpu001 (0 to 7, or mlx5_0" in said[2][1]
