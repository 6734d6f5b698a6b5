"""
Whether RoCE packets of probes and collectives are in one queue, the lossless one, and alike on all hosts and switches.

``ends.py`` joins what hosts and switches told, ``rules.py`` is what is wrong by rule, ``settings.py`` what is compared;
here: who differs from most, and what is told of all that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fabric.checks.ask import Answers, excuse, quoted
from fabric.checks.kind import HostCheck, Looked, problem, unknown, warning
from fabric.checks.roce.ends import End, ask_host, ask_switches, class_of, ends, told_by
from fabric.checks.roce.rules import LOSSY, RULES
from fabric.checks.roce.settings import Setting, with_knobs
from fabric.model.finding import Finding, Severity
from fabric.model.text import fold
from fabric.model.topology import Host
from fabric.tools.roce import RocePort

__all__ = ["ROCE", "ask_switches", "roce_check"]

_UNLIKE = "ports that are not set alike are not measured alike, and one lossy hop is enough to drop"


def roce_check(switches: Mapping[str, Answers]) -> HostCheck:
    """The check, with what switches answered to ``ask_switches``."""
    return HostCheck("roce", ask_host, compare=lambda hosts: _findings(hosts, switches))


ROCE = roce_check({})
"""The same of hosts alone."""


def _findings(hosts: Mapping[str, Looked], switches: Mapping[str, Answers]) -> Iterator[Finding]:
    for name, looked in hosts.items():
        if asked := ask_host(looked.host, looked.needs):
            ports = told_by(looked)
            if ports is None:
                answer = looked.answers[asked[0]]
                said = excuse(answer) if answer.lost or answer.exit_status else "the answer is cut"
                yield _unread(said, "mlnx_qos -i INTERFACE there", name)
            else:
                yield from (replace(one, hosts=(name,)) for one in _classes(looked.host, ports))
    unread: list[tuple[str, str]] = []
    found = ends(hosts, switches, unread)
    for switch, reason in unread:
        yield _unread(reason, "nv show qos roce there", switch)
    rows: dict[tuple[str, Finding], list[End]] = {}
    for end, one in _told(found):
        rows.setdefault((end.node, one), []).append(end)
    for (_, one), those in rows.items():
        port = fold(end.interface for end in those if end.interface) if any(end.interface for end in those) else "IF"
        what = f"{fold(end.port for end in those)}{_cables(those)}: {one.what}"
        yield replace(one, what=what, advice=one.advice.format(port=port, priority=those[0].priority))


def _unread(said: str, advice: str, node: str) -> Finding:
    return unknown(f"the settings of RoCE cannot be read: {said}", LOSSY, advice, node)


def _cables(those: Sequence[End]) -> str:
    """The other ends; of many the first stands for all."""
    far = [end.far.name for end in those if end.far is not None]
    more = f" and {len(far) - 1} more" if len(far) > 1 else ""
    return f" (cable to {far[0]}{more})" if far else ""


def _told(found: Sequence[End]) -> Iterator[tuple[End, Finding]]:
    """What is wrong by rule, each setting of an end once; then who differs in what no rule has told."""
    settings = with_knobs(found)
    usual = _usual(found, settings)
    unlike = {
        end.name: [about for about, one in settings.items() if one.of and _text(one.of(end)) != usual[end.alike, about]]
        for end in found
    }
    done: set[tuple[str, str]] = set()
    for rule in RULES:
        for end in found:
            what = rule.wrong(end) if (end.name, rule.about) not in done else ""
            if what:
                done.add((end.name, rule.about))
                severity = Severity.PROBLEM if rule.about in unlike[end.name] else rule.severity
                yield end, Finding("", severity, (end.node,), what, rule.why, _fix(settings[rule.about], end))
    for end in found:
        left = [about for about in unlike[end.name] if (end.name, about) not in done]
        if left:
            what = ", ".join(_difference(settings[about], end, usual[end.alike, about]) for about in left)
            fixes = "; ".join(dict.fromkeys(_fix(settings[about], end) for about in left))
            yield end, problem(what, _UNLIKE, f"set all alike: {fixes}", end.node)


def _fix(setting: Setting, end: End) -> str:
    return setting.at_host if end.host else setting.at_switch


def _difference(setting: Setting, end: End, usual: str) -> str:
    return f"{setting.name} {_text(setting.of(end) if setting.of else None)} (elsewhere {usual})"


def _usual(found: Sequence[End], settings: Mapping[str, Setting]) -> dict[tuple[str, str], str]:
    """By kind of port and setting what most have."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for end in found:
        for about, one in settings.items():
            if one.of:
                counts.setdefault((end.alike, about), Counter())[_text(one.of(end))] += 1
    return {key: min(those, key=lambda text: (-those[text], text)) for key, those in counts.items()}


def _text(value: object) -> str:
    if isinstance(value, frozenset):
        return ",".join(map(str, sorted(value))) or "none"
    return "not told" if value is None else quoted(str(value))


def _classes(host: Host, ports: Mapping[str, RocePort]) -> Iterator[Finding]:
    """Probes and collectives in two classes measure two different queues."""
    platform, nccl = host.platform, dict(host.platform.env).get("NCCL_IB_TC")
    if nccl is not None and platform.traffic_class is not None and nccl != str(platform.traffic_class):
        what = f"NCCL_IB_TC is {quoted(nccl)}, traffic_class {platform.traffic_class}"
        yield problem(what, "collectives and bandwidth probes would measure two different queues", "write only one")
    if class_of(platform) is None and any(port.pfc for port in ports.values()):
        why = f"PFC is on, so that one class is lossless; all probes are in another, class 0: {LOSSY}"
        yield warning("no traffic_class in the inventory", why, "write traffic_class in the platform: DSCP x 4 + 2")
