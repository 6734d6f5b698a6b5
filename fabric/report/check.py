"""The pre-flight as a table, the worst first and hosts folded, and as a JSON document."""

import shutil
import sys
from collections import Counter
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fabric.model.finding import Checked, Finding, Severity
from fabric.model.text import counted, fold
from fabric.report.output import jsonable, say, visible

CHECK_FORMAT = 1

_STYLE = {Severity.PROBLEM: "bold red", Severity.UNKNOWN: "bold magenta", Severity.WARNING: "bold yellow"}
_ROWS_MOST = 50
_WIDTH = 120
_THIS_MACHINE = "this machine"


def print_check(checked: Checked) -> None:
    """Print it; colour only on a terminal."""
    buffer = StringIO()
    terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size((_WIDTH, 40)).columns if terminal else _WIDTH
    out = Console(file=buffer, force_terminal=terminal, highlight=False, width=max(width, 60))
    show_check(checked, out)
    say("\n".join(line.rstrip() for line in buffer.getvalue().splitlines()))


def show_check(checked: Checked, out: Console) -> None:
    """Write it to a console; text of hosts is escaped and never read as markup."""
    word, style, meaning = _verdict(checked)
    many = f"{counted(len(checked.hosts), 'host')} ({fold(checked.hosts)})"
    what = visible(checked.scenario or checked.inventory)
    out.print(Text.assemble((word, style), f"  {what} on {many}: {meaning}"))
    tally = ", ".join(
        f"{number:,} {name}{'s' if number > 1 and name != Severity.UNKNOWN.value else ''}"
        for name, number in _counts(checked).items()
    )
    clock = " of simulated time" if checked.backend == "mock" else ""
    out.print(Text(f"{' ' * len(word)}  {tally or 'nothing found'}, in {checked.elapsed_s:.1f} s{clock}"))
    if checked.findings:
        out.print()
        out.print(_table(checked.findings[:_ROWS_MOST]))
    if len(checked.findings) > _ROWS_MOST:
        out.print(Text(f"and {len(checked.findings) - _ROWS_MOST:,} more: see --json"))


def check_document(checked: Checked) -> dict[str, Any]:
    """JSON-able; names of hosts are folded, texts of hosts are escaped."""
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


def _verdict(checked: Checked) -> tuple[str, str, str]:
    if checked.exit_code == 1:
        return "PROBLEMS", "bold red", "it would fail, or its numbers would be wrong"
    if checked.exit_code == 3:
        return "UNKNOWN", "bold magenta", "not everything could be checked"
    return "READY", "bold green", "nothing is in the way"


def _counts(checked: Checked) -> dict[str, int]:
    """How many findings there are of each severity; those that did not occur are left out."""
    tally = Counter(one.severity for one in checked.findings)
    return {severity.value: tally[severity] for severity in Severity if tally[severity]}


def _table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 1, 0))
    table.add_column("", no_wrap=True)
    table.add_column("hosts", overflow="fold", max_width=24)
    table.add_column("what, why, and what to do", overflow="fold", ratio=1)
    for one in findings:
        hosts = fold(one.hosts) if one.hosts else _THIS_MACHINE
        if len(one.hosts) > 1:
            hosts += f" ({len(one.hosts):,})"
        said = Text.assemble(
            (f"{one.check}: {visible(one.what)}", "bold"),
            f"\n{visible(one.why)}\n-> {visible(one.advice)}",
        )
        table.add_row(Text(one.severity.value, _STYLE[one.severity]), Text(hosts), said)
    return table
