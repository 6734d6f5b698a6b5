"""The words of a verdict on a run that goes on: it is judged as if it had ended now, and must not say that it has."""

from __future__ import annotations

from dataclasses import replace

from fabric.model.verdict import Verdict

_SAID = (
    ("not reached: the run ended before (fabric resume RUN)", "not reached yet"),
    ("not reached: the run ended before it", "not reached yet"),
    ("the run ended before it was seen taken back", "not taken back yet"),
)
"""As ``expectations.py``, ``conclude.py`` and ``store`` say what is missing, and what is so here."""

REASON = "the run goes on: what it has not reached yet is not judged"
"""The first of all reasons."""


def going_on(verdict: Verdict) -> Verdict:
    """The same outcomes, in words that are true while the run goes on."""
    return replace(
        verdict,
        reasons=(REASON, *(_yet(reason) for reason in verdict.reasons)),
        suspects=tuple(replace(one, evidence=tuple(map(_yet, one.evidence))) for one in verdict.suspects),
        components=tuple(replace(one, reason=_yet(one.reason)) for one in verdict.components),
        probes=tuple([replace(one, reason=_yet(one.reason)) if one.reason else one for one in verdict.probes]),
        expectations=tuple(replace(one, reason=_yet(one.reason)) for one in verdict.expectations),
        changes=tuple(replace(one, reason=_yet(one.reason)) for one in verdict.changes),
    )


def _yet(text: str) -> str:
    for ended, yet in _SAID:
        text = text.replace(ended, yet)
    return text
