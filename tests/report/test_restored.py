"""What ``fabric restore`` prints: a line for each answer, however many hosts gave it."""

from __future__ import annotations

from fabric.changes.restore import MOST_WORDS, in_words
from fabric.report.changes import Restored, restored_json, restored_lines


def held(host: str, said: str, *, certain: bool = True, change: str = "") -> Restored:
    """One answer."""
    return Restored("", change, host, said, certain)


def test_hosts_with_the_same_answer_are_one_line_and_what_may_be_live_comes_first() -> None:
    found = [held(f"gpu{number:03d}", "no change is held here") for number in range(1, 17)]
    found.insert(3, held("gpu020", "connect: no route to host", certain=False))
    assert list(restored_lines(found)) == [
        "LIVE  gpu020: connect: no route to host",
        "ok    gpu[001-016]: no change is held here",
    ]


def test_the_same_words_of_two_changes_are_two_lines() -> None:
    found = [held("gpu001", "up: taken back", change=name) for name in ("p/a", "p/b")]
    assert list(restored_lines(found)) == ["ok    p/a: gpu001: up: taken back", "ok    p/b: gpu001: up: taken back"]


def test_json_has_an_entry_for_each_answer() -> None:
    (entry,) = restored_json([held("gpu001", "up: taken back", change="p/a")])
    assert (entry["host"], entry["text"], entry["certain"]) == ("gpu001", "p/a: gpu001: up: taken back", True)


def test_a_register_is_said_in_words_and_a_long_text_is_cut() -> None:
    fields = "ber_exp 0, ber_mantissa 0, error_injection_time 0, error_type_admin {}, error_type_cap 3"
    assert in_words(f"gpu001/mlx5_0 port 1 PTER: {fields.format(0)}") == "gpu001/mlx5_0 port 1: no bit errors"
    assert in_words(f"gpu001/mlx5_0 port 1 PTER: {fields.format(2)}") == "gpu001/mlx5_0 port 1: bit errors of before"
    assert len(in_words("x" * 500)) == MOST_WORDS
