"""certificate.html: the certificate for people, made from the document alone; nothing is loaded from outside."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import escape

from fabric.model.text import duration_text, fold
from fabric.report.certificate.document import FAILED, NOT_REAL, PASSED, encoded
from fabric.report.output import visible

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}"
    "h1{font-size:2rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;padding:.2rem .6rem .2rem 0;border-bottom:1px solid #d0d7de;vertical-align:top}"
    "code{overflow-wrap:anywhere}.good{color:#116329}.bad{color:#a40e26}.open{color:#7d4e00}"
)
_COLOUR = {PASSED: "good", FAILED: "bad"}
_MOST_ROWS = 200


def certificate_html(document: Mapping[str, Any]) -> str:
    """One page; says the SHA-256 of the certificate.json that it was made from."""
    sections = [
        _head(document),
        _section("Why", _list(document["reasons"] or ["everything that was asked for was measured, and is good"])),
        _decision(document["decision"]),
        _section("What was tested", _tested(document)),
        _section("Against which limits", _limits(document["limits"])),
        _section("Components", _components(document["components"])),
        _section("Parts", _parts(document["identity"])),
        _section("Versions", _table((), sorted(document["versions"].items()))),
        _section("What it stands on", _sources(document)),
    ]
    body = "\n".join(part for part in sections if part)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{_text(document['result'])}: {_text(document['run'])}</title><style>{_STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _head(document: Mapping[str, Any]) -> str:
    hosts = fold(document["hosts"])
    lines = [
        f'<h1 class="{_COLOUR.get(document["result"], "open")}">{_text(document["result"])}</h1>',
        f"<p><b>{_text(hosts)}</b>, run {_text(document['run'])}, began {_text(document['began'])}, "
        f"{_text(duration_text(document['duration_s']))}</p>",
    ]
    if document["simulated"]:
        lines.append(f"<p><b>{NOT_REAL}</b></p>")
    if not document["complete"]:
        lines.append("<p><b>The run was interrupted: what it did not reach was not tested.</b></p>")
    return "\n".join(lines)


def _decision(decision: Mapping[str, Any] | None) -> str:
    if decision is None:
        return ""
    lines = [*decision["reasons"], *decision["parts"], *decision["notes"]]
    return _section(f"After a repair, because of {decision['because']}: {decision['decision']}", _list(lines))


def _tested(document: Mapping[str, Any]) -> str:
    rows = [
        (one["phase"], one["kind"], one["probes"], ", ".join(f"{n} {what}" for what, n in one["outcomes"].items()))
        for one in document["tested"]
    ]
    coverage = document["coverage"]
    text = f"{coverage['probes_measured']:,} of {coverage['probes_planned']:,} planned probes were measured."
    if coverage["hosts_without_a_measurement"]:
        text += f" Nothing was measured of {coverage['hosts_without_a_measurement']}."
    if not coverage["sampled"]:
        text += " Counters of ports were not watched: nothing is said of bit errors."
    return _table(("phase", "kind", "probes", "outcomes"), rows) + f"<p>{_text(text)}</p>"


def _limits(baselines: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for baseline in baselines:
        for limit in baseline["limits"]:
            what = " ".join(str(limit[key]) for key in ("kind", "link_class", "algorithm") if key in limit)
            each = " for each RNIC" if limit.get("per_rnic") else ""
            rows.append((baseline["baseline"], what, f"{limit['at_least_gbps']:g} Gb/s{each}", limit["source"]))
    return _table(("baseline", "of", "at least", "source"), rows)


def _components(components: Sequence[Mapping[str, Any]]) -> str:
    """The bad ones first, then how many others there are of each outcome."""
    order = {"fail": 0, "error": 1, "inconclusive": 2, "skipped": 3, "marginal": 4, "pass": 5}
    ranked = sorted(components, key=lambda one: order.get(one["outcome"], 0))
    rows = [(one["component"], one["outcome"], one["reason"]) for one in ranked[:_MOST_ROWS]]
    more = len(components) - len(rows)
    return _table(("component", "outcome", ""), rows) + (f"<p>and {more} more, in the JSON</p>" if more > 0 else "")


def _parts(hosts: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (f"{host['host']}/{part['part']}", part["serial"] or "?", part["firmware"] or "?")
        for host in hosts
        for part in host["parts"]
    ]
    if not rows:
        return "<p>Serial numbers were not read.</p>"
    more = len(rows) - _MOST_ROWS
    shown = _table(("part", "serial number", "firmware"), rows[:_MOST_ROWS])
    return shown + (f"<p>and {more} more, in the JSON</p>" if more > 0 else "")


def _sources(document: Mapping[str, Any]) -> str:
    own = hashlib.sha256(encoded(document)).hexdigest()
    return (
        f"<p>{len(document['manifest'])} files of the run, digest (SHA-256) "
        f"<code>{_text(document['digest']['value'])}</code>. The certificate itself is certificate.json, SHA-256 "
        f"<code>{own}</code>; <code>fabric verify</code> computes all of it again.</p>"
    )


def _section(title: str, content: str) -> str:
    return f"<h2>{_text(title)}</h2>\n{content}"


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(line)}</li>" for line in lines) + "</ul>"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    first = "<tr>" + "".join(f"<th>{_text(text)}</th>" for text in head) + "</tr>" if head else ""
    others = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{first}{others}</table>"


def _text(value: object) -> str:
    """Hostile text is made harmless twice: as a picture of its control characters, and as HTML."""
    return str(escape(visible(str(value))))
