"""certificate.html: the certificate for people, made from the document alone; nothing is loaded from outside."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import UndefinedError

from fabric.model.outcome import Outcome
from fabric.model.verdict import LinkCoverage
from fabric.report.certificate.document import NOT_REAL, encoded
from fabric.report.hall import HEAD, hall_from, hall_notes, hall_rows
from fabric.report.templates import page

_MOST_ROWS = 200


def certificate_html(document: Mapping[str, Any]) -> str:
    """One page; says the SHA-256 of the certificate.json that it was made from. LookupError where one is missing."""
    try:
        return _page(document)
    except UndefinedError as exc:  # as for any other document that is none
        raise LookupError(str(exc)) from exc


def _page(document: Mapping[str, Any]) -> str:
    hall = None if document["hall"] is None else hall_from(document["hall"])
    return page(
        "certificate.html.j2",
        it=document,
        not_real=NOT_REAL,
        tested=[
            (one["phase"], one["kind"], one["probes"], ", ".join(f"{n} {what}" for what, n in one["outcomes"].items()))
            for one in document["tested"]
        ],
        covered=" ".join(_covered(document["coverage"])),
        hall=None if hall is None else (HEAD, list(hall_rows(hall)), hall_notes(hall)),
        limits=list(_limits(document)),
        components=[
            (one["component"], one["outcome"], one["reason"])
            for one in sorted(document["components"], key=lambda one: -Outcome(one["outcome"]).rank)
        ],
        parts=[
            (f"{host['host']}/{part['part']}", part["serial"] or "?", part["firmware"] or "?")
            for host in document["identity"]
            for part in host["parts"]
        ],
        most=_MOST_ROWS,
        own=hashlib.sha256(encoded(document)).hexdigest(),
    )


def _covered(coverage: Mapping[str, Any]) -> Iterator[str]:
    yield f"{coverage['probes_measured']:,} of {coverage['probes_planned']:,} planned probes were measured."
    if coverage["hosts_without_a_measurement"]:
        yield f"Nothing was measured of {coverage['hosts_without_a_measurement']}."
    if coverage.get("links") is not None:
        yield f"Links: {LinkCoverage(**coverage['links'])}."
    if not coverage["sampled"]:
        yield "Counters of ports were not watched: nothing is said of bit errors."


def _limits(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for baseline in document["limits"]:
        for limit in baseline["limits"]:
            what = " ".join(str(limit[key]) for key in ("kind", "link_class", "algorithm") if key in limit)
            each = " for each RNIC" if limit.get("per_rnic") else ""
            yield baseline["baseline"], what, f"{limit['at_least_gbps']:g} Gb/s{each}", limit["source"]
