"""Classes of links in one line."""

from dataclasses import replace

from fabric.judge.locate.pairs.fitted import fit
from fabric.judge.locate.pairs.in_verdict import classes_said
from tests.judge.locate.pairs.test_findings import measured


def plane(kind, samples):
    return fit(replace(samples, kind=kind))


def level(kind, factor=1.0):
    samples = measured(lambda a, b, la, lb, s: 0.0)
    return plane(kind, replace(samples, gbps=factor * samples.gbps))


def test_one_class_is_not_worth_a_line():
    assert classes_said([level("pairwise"), level("pairwise")]) == ()


def test_two_line_rates_are_two_classes_over_all_rails():
    planes = [level("pairwise 400G"), level("pairwise 200G", 0.5)]
    (said,) = classes_said(planes + planes)
    assert said.startswith("2 classes, each compared with itself alone: pairwise 400G 390.")
    assert "(240 samples); pairwise 200G 195." in said or "(240 samples); pairwise 200G 194." in said


def test_same_leaf_and_across_leaves_are_two_classes():
    (said,) = classes_said([plane("pairwise", measured(lambda a, b, la, lb, s: 0.3 * (la != lb)))])
    assert "pairwise, same leaf 390" in said
    assert "pairwise, across leaves 27" in said
    assert "(24 samples)" in said


def test_many_classes_are_cut():
    (said,) = classes_said([level(f"test{number}") for number in range(11)])
    assert said.startswith("11 classes")
    assert said.endswith("; and 3 more")
