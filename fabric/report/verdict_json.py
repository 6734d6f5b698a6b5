"""verdict.json: the verdict for pipelines."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from fabric.model.judged_run import JudgedRun
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


def verdict_document(judged: JudgedRun) -> dict[str, Any]:
    """JSON-able; only probes that did not pass are listed, the counts speak of all."""
    verdict = judged.verdict
    return {
        "format": VERDICT_FORMAT,
        "scenario": judged.scenario.name,
        "run_id": judged.run_id,
        "path": judged.path,
        "backend": judged.backend,
        "judged_by": list(judged.judged_by),
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
            {
                "probe_id": probe.probe_id,
                "outcome": probe.outcome.value,
                "reason": probe.reason,
                "value_gbps": probe.value_gbps,
                "limit_gbps": probe.limit_gbps,
            }
            for probe in verdict.probes
            if probe.outcome is not Outcome.PASS
        ],
    }


def counts(verdict: Verdict) -> dict[str, int]:
    """How many probes ended in each outcome; outcomes that did not occur are left out."""
    tally = Counter(probe.outcome for probe in verdict.probes)
    return {outcome.value: tally[outcome] for outcome in Outcome if tally[outcome]}
