"""
Whether RoCE packets of probes and collectives are in one queue, the lossless one, and alike on all hosts and switches.

``ends.py`` joins what hosts and switches told, ``rules.py`` is what is wrong by rule, ``settings.py`` what is compared;
here: who differs from most, and what is told of all that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fabric.checks.kind import Answers, HostCheck, Looked, excuse, problem, quoted, unknown, warning
from fabric.checks.roce.ends import RoceEnd, ask_host, ask_switches, class_of, ends, told_by
from fabric.checks.roce.rules import LOSSY, RULES, RoceSetting, with_knobs
from fabric.model.finding import Finding, Severity
from fabric.model.text import fold
from fabric.model.topology import Host
from fabric.tools.roce import RocePort

__all__ = ["ROCE", "ask_switches", "roce_check"]

CABLES_MOST = 4
"""So many cables of one finding are named (choice: two lines)."""

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
    yield from _rows(_told(found))


def _rows(told: Iterable[tuple[RoceEnd, Finding]]) -> Iterator[Finding]:
    """The same of many ends as one: of a node's ports, then of nodes that have it of the same ports."""
    of_node: dict[tuple[Finding, str], list[RoceEnd]] = {}
    for end, one in told:
        of_node.setdefault((one, end.node), []).append(end)
    alike: dict[tuple[Finding, str, str, int], list[RoceEnd]] = {}
    for (one, _), those in of_node.items():
        ports, interfaces = fold(end.port for end in those), fold(end.interface for end in those if end.interface)
        alike.setdefault((one, ports, interfaces, those[0].priority), []).extend(those)
    for (one, ports, interfaces, priority), those in alike.items():
        advice = one.advice.format(port="IF" if interfaces == "none" else interfaces, priority=priority)
        nodes = tuple(dict.fromkeys(end.node for end in those))
        yield replace(one, hosts=nodes, what=f"{ports}{_cables(those, many=len(nodes) > 1)}: {one.what}", advice=advice)


def _unread(said: str, advice: str, node: str) -> Finding:
    return unknown(f"the settings of RoCE cannot be read: {said}", LOSSY, advice, node)


def _cables(those: Sequence[RoceEnd], *, many: bool) -> str:
    """The other ends; with both ends where they are of *many* nodes."""
    far = [f"{end.name} -- {end.far.name}" if many else end.far.name for end in those if end.far is not None]
    more = f" and {len(far) - CABLES_MOST} more" if len(far) > CABLES_MOST else ""
    said = f"{'cables' if len(far) > 1 else 'cable'}{'' if many else ' to'}"
    return f" ({said} {', '.join(far[:CABLES_MOST])}{more})" if far else ""


def _told(found: Sequence[RoceEnd]) -> Iterator[tuple[RoceEnd, Finding]]:
    """What is wrong by rule, each setting of an end once; then who differs in what no rule has told."""
    settings = with_knobs(found)
    kinds = Counter(end.alike for end in found)
    done: set[tuple[str, str]] = set()
    for rule in RULES:
        wrong = [(end, said) for end in found if (end.name, rule.about) not in done and (said := rule.wrong(end))]
        done.update((end.name, rule.about) for end, _ in wrong)
        many = Counter(end.alike for end, _ in wrong)
        for end, said in wrong:
            few = settings[rule.about].of is not None and 2 * many[end.alike] < kinds[end.alike]
            severity = Severity.PROBLEM if few else rule.severity
            yield end, Finding("", severity, (), said, rule.why, _fix(settings[rule.about], end))
    compared = {about: one.of for about, one in settings.items() if one.of is not None}
    values = {(end.name, about): _text(of(end)) for end in found for about, of in compared.items()}
    usual = _usual(found, values, done)
    for end in found:
        mine = {about: values[end.name, about] for about in compared if (end.name, about) not in done}
        unlike = {about: text for about, text in mine.items() if text != usual[end.alike, about]}
        if unlike:
            named = [f"{settings[at].name} {text} (elsewhere {usual[end.alike, at]})" for at, text in unlike.items()]
            fixes = "; ".join(dict.fromkeys(_fix(settings[about], end) for about in unlike))
            yield end, problem(", ".join(named), _UNLIKE, f"set all alike: {fixes}")


def _usual(
    found: Sequence[RoceEnd], values: Mapping[tuple[str, str], str], done: Container[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """By kind of port and setting what most have of those that are not wrong by rule."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    kind = {end.name: end.alike for end in found}
    for (name, about), text in values.items():
        if (name, about) not in done:
            counts.setdefault((kind[name], about), Counter())[text] += 1
    return {key: min(those, key=lambda text: (-those[text], text)) for key, those in counts.items()}


def _fix(setting: RoceSetting, end: RoceEnd) -> str:
    return setting.at_host if end.host else setting.at_switch


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
