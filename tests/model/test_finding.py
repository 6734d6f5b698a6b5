"""Findings folded, and the exit code they add up to."""

from __future__ import annotations

import pytest

from fabric.model.finding import Checked, Finding, Severity, folded


def _one(host: str, what: str = "w", severity: Severity = Severity.WARNING) -> Finding:
    return Finding("c", severity, (host,), what, "y", "a")


def test_equal_findings_are_one() -> None:
    """With all their hosts, each once."""
    (one,) = folded([_one("a"), _one("b"), _one("a")])
    assert one.hosts == ("a", "b")


def test_the_worst_come_first() -> None:
    """Then what is true of most hosts."""
    found = folded(
        [_one("a", "x"), _one("a"), _one("b"), _one("c", "u", Severity.UNKNOWN), _one("d", "p", Severity.PROBLEM)]
    )
    assert [(one.what, len(one.hosts)) for one in found] == [("p", 1), ("u", 1), ("w", 2), ("x", 1)]


@pytest.mark.parametrize(
    ("severities", "code"),
    [
        ((), 0),
        ((Severity.WARNING,), 0),
        ((Severity.UNKNOWN, Severity.WARNING), 3),
        ((Severity.UNKNOWN, Severity.PROBLEM), 1),
    ],
)
def test_exit_codes(severities: tuple[Severity, ...], code: int) -> None:
    """A problem beats what is unknown; a warning is no failure."""
    found = tuple(_one("a", str(severity), severity) for severity in severities)
    assert Checked(None, "i", "mock", ("a",), found, 1.0).exit_code == code
