"""The pre-flight for people and pipelines."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from fabric.model.finding import Checked, Finding, Severity
from fabric.report.check import check_document, show_check

HOSTILE = "\x1b[2J\x1b]0;pwned\x07 \u202egnp [red]x[/red] \n next"


def _shown(checked: Checked, width: int = 100) -> str:
    buffer = StringIO()
    show_check(checked, Console(file=buffer, width=width, highlight=False, color_system=None))
    return buffer.getvalue()


def _checked(*found: Finding, hosts: tuple[str, ...] = ("gpu001", "gpu002")) -> Checked:
    return Checked("s", "i.yaml", "ssh", hosts, found, 2.0)


def test_hostile_text_is_harmless() -> None:
    """No control or direction character, and no markup, reaches the terminal or the document."""
    checked = _checked(Finding("reach", Severity.PROBLEM, ("gpu001",), HOSTILE, HOSTILE, HOSTILE))
    for text in (_shown(checked), json.dumps(check_document(checked), ensure_ascii=False)):
        assert not any(letter in text for letter in "\x1b\x07\u202e")
    assert "[red]x[/red]" in _shown(checked)


def test_hosts_are_folded() -> None:
    """Two thousand of them fit in one cell."""
    hosts = tuple(f"gpu{number:04d}" for number in range(1, 2049))
    text = _shown(_checked(Finding("clock", Severity.WARNING, hosts, "what", "why", "advice"), hosts=hosts))
    assert "gpu[0001-2048] (2,048)" in " ".join(text.split())
    assert "READY" in text


def test_what_is_true_of_this_machine_says_so() -> None:
    """There is no host to name."""
    checked = _checked(Finding("orchestrator", Severity.PROBLEM, (), "what", "why", "advice"))
    assert "this machine" in _shown(checked)
    assert check_document(checked)["findings"][0]["hosts"] is None


def test_very_many_findings_are_cut_and_said_to_be() -> None:
    """The document has them all."""
    found = [Finding("c", Severity.WARNING, ("gpu001",), f"w{number}", "y", "a") for number in range(60)]
    assert "and 10 more" in _shown(_checked(*found))
    assert len(check_document(_checked(*found))["findings"]) == 60
