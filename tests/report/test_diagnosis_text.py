"""A diagnosis as people read it."""

from fabric.judge.locate.pairs.diagnose import diagnose
from fabric.report.diagnosis import diagnosis_text
from tests.judge.locate.pairs.made import GOOD_GBPS, all_pairs, hosts, row


def test_two_that_cannot_be_told_apart_are_said_together_with_the_tests_that_would():
    rows = [each for each in all_pairs(hosts(8)) if {each.a, each.b}.isdisjoint({"gpu007", "gpu008"})]
    text = diagnosis_text(diagnose([*rows, *[row("gpu007", "gpu008", 0.5 * GOOD_GBPS)] * 3]))
    assert "cannot be told apart from" in text
    assert "test next" in text
    assert "gpu007" in text[text.index("test next") :]


def test_a_matrix_shows_percent_where_it_is_slow_and_dots_where_nothing_was_measured():
    rows = [
        each for each in all_pairs(hosts(6), {"gpu002": 0.25}, cv=0.001) if (each.a, each.b) != ("gpu001", "gpu003")
    ]
    lines = diagnosis_text(diagnose(rows)).splitlines()
    drawn = {
        line.split()[0]: line.split()[1:] for line in lines if line.startswith("  gpu00") and len(line.split()) == 7
    }
    assert drawn["gpu002"] == ["75", ".", "75", "75", "75", "75"]
    assert drawn["gpu001"] == [".", "75", ".", "-", "-", "-"]


def test_a_class_by_results_shows_its_groups():
    names = hosts(8)
    rows = all_pairs(names, level=lambda a, b: 1.0 if (a <= "gpu004") == (b <= "gpu004") else 0.7)
    assert "gpu[001-004]; gpu[005-008]" in diagnosis_text(diagnose(rows))
