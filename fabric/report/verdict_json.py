"""verdict.json: the verdict for pipelines."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from fabric.model.outcome import Outcome
from fabric.model.verdict import Verdict

VERDICT_FORMAT = 1

EXIT_CODES = {
    Outcome.PASS: 0,
    Outcome.MARGINAL: 0,
    Outcome.SKIPPED: 3,
    Outcome.INCONCLUSIVE: 3,
    Outcome.ERROR: 3,
    Outcome.FAIL: 1,
}
"""What a run's outcome means to the shell: 0 good, 1 the fabric failed, 3 not measured (SKIPPED is not measured)."""


def verdict_document(scenario_name: str, run_id: str, verdict: Verdict) -> dict[str, Any]:
    """JSON-able; only probes that did not pass are listed, the counts speak of all."""
    return {
        "format": VERDICT_FORMAT,
        "scenario": scenario_name,
        "run_id": run_id,
        "outcome": verdict.outcome.value,
        "exit_code": EXIT_CODES[verdict.outcome],
        "probes": len(verdict.probes),
        "counts": counts(verdict),
        "reasons": list(verdict.reasons),
        "suspects": [{**asdict(suspect), "outcome": suspect.outcome.value} for suspect in verdict.suspects],
        "components": [
            {"component": c.component, "outcome": c.outcome.value, "reason": c.reason} for c in verdict.components
        ],
        "not_passed": [
            {**asdict(probe), "outcome": probe.outcome.value}
            for probe in verdict.probes
            if probe.outcome is not Outcome.PASS
        ],
    }


def counts(verdict: Verdict) -> dict[str, int]:
    """How many probes ended in each outcome; outcomes that did not occur are left out."""
    tally = Counter(probe.outcome for probe in verdict.probes)
    return {outcome.value: tally[outcome] for outcome in Outcome if tally[outcome]}
