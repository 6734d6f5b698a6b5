"""The result of a pre-flight as a table, the worst first and hosts folded, and as a JSON document."""

from collections import Counter
from typing import Any

from fabric.model.finding import Checked, Finding, Severity
from fabric.model.text import counted, fold
from fabric.report import templates
from fabric.report.output import jsonable, visible

CHECK_FORMAT = 1

_ROWS_MOST = 50
_HOSTS_MOST = 24
"""
The widest hosts cell, in characters, for which the next column is aligned; a longer one shifts its own row (a choice).
"""

_VERDICTS = {
    0: ("READY", "green", "nothing is in the way"),
    1: ("PROBLEMS", "red", "it would fail, or its numbers would be wrong"),
    3: ("UNKNOWN", "magenta", "not everything could be checked"),
}
_COLOURS = {Severity.PROBLEM: "red", Severity.UNKNOWN: "magenta", Severity.WARNING: "yellow"}


def check_text(checked: Checked) -> str:
    """Return the whole result, the verdict first."""
    word, colour, meaning = _VERDICTS[checked.exit_code]
    rows = [(one, _COLOURS[one.severity], _hosts(one)) for one in checked.findings[:_ROWS_MOST]]
    tally = [f"{n:,} {name}" if name == "unknown" else counted(n, name) for name, n in _counts(checked).items()]
    return templates.text(
        "check.txt.j2",
        it=checked,
        word=word,
        colour=colour,
        meaning=meaning,
        tally=", ".join(tally),
        rows=rows,
        width=min(max((len(hosts) for _, _, hosts in rows), default=0), _HOSTS_MOST),
    )


def check_document(checked: Checked) -> dict[str, Any]:
    """Return JSON-able values; host names are folded, texts from hosts are escaped."""
    return {
        "format": CHECK_FORMAT,
        **jsonable(checked, ("scenario", "inventory", "backend", "elapsed_s", "exit_code")),
        "hosts": fold(checked.hosts),
        "host_count": len(checked.hosts),
        "counts": _counts(checked),
        "findings": [
            {
                **jsonable(one, ("check", "severity")),
                "hosts": fold(one.hosts) if one.hosts else None,
                "host_count": len(one.hosts),
                **{name: visible(getattr(one, name)) for name in ("what", "why", "advice")},
            }
            for one in checked.findings
        ],
    }


def _counts(checked: Checked) -> dict[str, int]:
    """Return how many findings each severity has; severities without any are left out."""
    tally = Counter(one.severity for one in checked.findings)
    return {severity.value: tally[severity] for severity in Severity if tally[severity]}


def _hosts(one: Finding) -> str:
    """Return ``gpu[001-064] (64)``."""
    if not one.hosts:
        return "this machine"
    return fold(one.hosts) + (f" ({len(one.hosts):,})" if len(one.hosts) > 1 else "")
