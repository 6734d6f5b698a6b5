"""What many runs say of a component, and which hosts are in trouble again and again ("lemons")."""

from __future__ import annotations

from collections.abc import Sequence

from fabric.model.history import LEAST_RUNS, LEAST_SIGNALS, QUANTILE, SIGNALS, HostSignals, PartHistory
from fabric.model.part import Part
from fabric.report import templates
from fabric.report.output import columns, some

_BARS = "▁▂▃▄▅▆▇█"
_MOST_RUNS = 40
_MOST_HOSTS = 20
_MOST_NAMES = 4


def spark(shares: Sequence[float | None]) -> str:
    """Shares from half to normal as a line of bars; a dot where nothing was measured."""
    return "".join("·" if s is None else _BARS[min(max(int((s - 0.5) * 2 * 8), 0), 7)] for s in shares)


def history_text(found: PartHistory) -> str:
    """For a terminal; the newest run last."""
    shown = found.runs[-_MOST_RUNS:]
    host = Part.of(found.component or "").host
    about = [one for one in found.signals if not host or one.host == host]
    lemons = [one for one in about if one.lemon]
    rows = lemons or [one for one in about if one.troubled]
    table = [("host", "runs", *_HEADS), *(_signal_row(one) for one in rows[:_MOST_HOSTS])]
    return templates.text(
        "history.txt.j2",
        it=found,
        shown=[(run, some(run.suspected, _MOST_NAMES)) for run in shown],
        bars=spark([run.share for run in shown]) if found.component and any(run.share for run in shown) else "",
        width=max((len(run.scenario) for run in shown), default=0),
        of_host=bool(about) or not host,  # else a part of the network: the signals are those of hosts
        host=host,
        hosts=len(about),
        lemons=len(lemons),
        more=len(rows) - _MOST_HOSTS,
        table=columns(table, range(1, len(_HEADS) + 2)) if rows else [],
        not_judged=some(found.not_judged, _MOST_NAMES),
        most=_MOST_NAMES,
        rule=f"{LEAST_SIGNALS} of these and trouble in {LEAST_RUNS} runs make an offender",
        quantile=f"{QUANTILE:.0%}",
    )


def _signal_row(one: HostSignals) -> tuple[str, ...]:
    cells = [f"{value:g}" if value >= 1 or value == 0 else f"{value:.2f}" for value in one.values]
    marked = [f"{cell}{'*' if name in one.high else ' '}" for cell, name in zip(cells, SIGNALS, strict=True)]
    return one.host, str(one.runs), *marked


_HEADS = ("tickets", "troubles", "out", "excluded", "multi fails", "single fails", "single rate")
