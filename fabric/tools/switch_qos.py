"""The RoCE settings of an NVUE switch's ports: those of all (``nv show qos roce``), and of ports configured otherwise.

``nv show qos roce`` is read as text: NVIDIA's "Cumulus Linux 5.15 User Guide, RDMA over Converged Ethernet" prints it
whole, and nothing public shows its tables as JSON. Its columns are those of its head; where a release leaves
``operational`` blank, ``applied`` is taken. Single ports follow the profiles that ``nv config show -o commands`` gives
them ("Quality of Service, Port Groups"): what a profile does not set has the default given there (tx and rx on, 10 m),
or is unknown.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fabric.errors import UnreadableOutput
from fabric.tools.driver import need, need_success, plain
from fabric.tools.nvue import command_lines, unfolded
from fabric.tools.roce import Marking, RocePort

_UNITS = {"B": 1, "Bytes": 1, "KB": 1 << 10, "MB": 1 << 20}  # 146.48 KB is 150,000 bytes
_PROFILE_CABLE_M = 10
GLOBAL = "default-global"
"""The profile of every port that has none of its own."""
_PRIORITIES = 8
_INTERFACE = re.compile(r"nv set interface (\S+) qos (pfc|congestion-control|mapping)(?: profile)? (\S+)")
_PROFILE = re.compile(r"nv set qos (pfc|congestion-control|mapping) (\S+) (.+)")
_TRUSTS = {"l2": "pcp", "l3": "dscp", "both": "pcp,dscp", "port": "port"}


ROCE = ("nv", "show", "qos", "roce")
"""Ask for the RoCE settings of the whole switch."""


def read_roce(stdout: str, stderr: str = "", exit_status: int = 0) -> RocePort:
    """
    Return the settings of every port without profiles of its own; all unknown where RoCE is not enabled.

    Raises ToolError with the tool's own words, UnreadableOutput for another text.
    """
    need_success("nv show qos roce", stdout, stderr, exit_status)
    lines = plain(stdout).splitlines()
    tree = _tree(lines)
    if {tree.get("enable"), tree.get("state")} & {"off", "disabled"}:
        return RocePort()
    lossless = ("pfc-priority", "congestion-mode") if tree.get("mode", "").startswith("lossless") else ()
    missing = [name for name in ("mode", *lossless) if name not in tree]
    if missing:
        raise UnreadableOutput(f"nv show qos roce: no {' and no '.join(missing)} in {stdout[:160]!r}")
    maps, queues = list(_table(lines, "PCP/DSCP->SP")), list(_table(lines, "SP->TC"))
    of_one = [row[3] for row in maps] + [one for row in queues for one in row[1:3]]
    if len(queues) != _PRIORITIES or any(len(one) != 1 for one in of_one):
        raise UnreadableOutput(f"nv show qos roce: no whole tables in {stdout[-160:]!r}")
    marking = Marking(_bytes(tree.get("min-threshold")), _bytes(tree.get("max-threshold")))
    ecn = tree.get("congestion-mode", "").lower().startswith("ecn")
    return RocePort(
        trust=tree.get("trust-mode"),
        priority_of={dscp: priority[0] for _, _, dscps, priority in maps for dscp in dscps},
        queue_of={priority[0]: queue[0] for _, priority, queue, _ in queues},
        pfc=frozenset(_numbers(tree.get("pfc-priority", ""))),
        sends=_on(tree.get("tx-enabled")),
        obeys=_on(tree.get("rx-enabled")),
        cable_m=int(tree["cable-length"]) if tree.get("cable-length", "").isdecimal() else None,
        marks=dict.fromkeys(_numbers(tree.get("enabled-tc", "")), marking) if ecn else {},
    )


def read_ports(
    usual: RocePort, stdout: str, stderr: str = "", exit_status: int = 0
) -> tuple[RocePort, dict[str, RocePort]]:
    """
    Return the settings of all other ports, and of ports with own profiles, from ``nv config show -o commands``.

    *usual* is the result of ``read_roce``, which has the settings of ``default-global`` where RoCE is enabled.

    Raises ToolError with the tool's own words, UnreadableOutput for a value of a profile in use that is not understood.
    """
    need_success("nv config show", stdout, stderr, exit_status)
    profiles: dict[tuple[str, str], list[list[str]]] = {}
    used: dict[str, dict[str, str]] = {}
    for line in (one.strip() for one in plain(stdout).splitlines()):
        if found := _PROFILE.fullmatch(line):
            profiles.setdefault((found[1], found[2]), []).append(found[3].split())
        elif found := _INTERFACE.fullmatch(line):
            for port in unfolded(found[1]):
                used.setdefault(port, {})[found[2]] = found[3]

    def applied(port: RocePort, kind: str, name: str) -> RocePort:
        return _APPLY[kind](port, profiles.get((kind, name), []))

    if usual.pfc is None:
        usual = replace(usual, pfc=frozenset())
        for kind, name in profiles:
            usual = applied(usual, kind, name) if name == GLOBAL else usual
    made = {}
    for port, names in used.items():
        made[port] = usual
        for kind, name in names.items():
            made[port] = applied(made[port], kind, name)
    return usual, made


@dataclass(frozen=True, slots=True)
class Global:
    """
    Settings of one kind that ``default-global`` has by hand, *explicit*, and the ports that have a profile *apart* from
    it.

    *together*: the queues that are set along with the queue asked for, as one list; empty when there are none.
    """

    explicit: Mapping[str, str]
    apart: tuple[str, ...]
    together: str


def read_global(kind: str, queue: int | None, stdout: str, stderr: str = "", exit_status: int = 0) -> Global:
    """
    Return what ``nv config show -o commands`` has of ``qos KIND default-global``, for one *queue* where it is by queue.

    Raises ToolError with the tool's own words, UnreadableOutput for a text without a ``nv set``.
    """
    settings: dict[str, str] = {}
    apart: list[str] = []
    together = ""
    for line in command_lines(stdout, stderr, exit_status):
        if (found := _PROFILE.fullmatch(line)) and found[1] == kind and found[2] == GLOBAL:
            words = found[3].split()
            if queue is not None and words[0] == "traffic-class":
                if len(words) < 2 or queue not in _numbers(words[1]):
                    continue
                together = together if words[1] == str(queue) else words[1]
                words = words[2:]
            if len(words) == 2:
                settings[words[0]] = words[1]
        elif (one := _INTERFACE.fullmatch(line)) and one[2] == kind and one[3] != GLOBAL:
            apart += unfolded(one[1])
    return Global(settings, tuple(apart), together)


def shown(key: str, stdout: str, stderr: str = "", exit_status: int = 0) -> str:
    """
    Return a pattern (grep -E) for the line of ``nv show qos roce`` in which a key has its present value.

    Raises ToolError with the tool's own words, UnreadableOutput where the key is missing.
    """
    need_success("nv show qos roce", stdout, stderr, exit_status)
    value = need(_tree(plain(stdout).splitlines()).get(key), f"nv show qos roce: no {key} in {stdout[:160]!r}")
    if not re.fullmatch(r"[A-Za-z0-9,-]{1,60}", value, re.ASCII):
        raise UnreadableOutput(f"nv show qos roce: {key} is {value[:80]!r}")
    return f"^ *{key} +{value}( |$)"


def _with_pfc(port: RocePort, settings: list[list[str]]) -> RocePort:
    values = {words[0]: words[1] for words in settings if len(words) == 2}
    priorities = [one for words in settings if words[0] == "switch-priority" for one in _numbers(words[-1])]
    return replace(
        port,
        pfc=frozenset(priorities),
        sends=values.get("tx", "enable").startswith("enable"),
        obeys=values.get("rx", "enable").startswith("enable"),
        cable_m=_whole(values.get("cable-length", str(_PROFILE_CABLE_M))),
        xoff_bytes=_threshold(values, "xoff"),
    )


def _with_ecn(port: RocePort, settings: list[list[str]]) -> RocePort:
    by_queue: dict[int, dict[str, str]] = {}
    for _, queues, *rest in (words for words in settings if words[0] == "traffic-class" and len(words) == 4):
        for queue in _numbers(queues):
            by_queue.setdefault(queue, {})[rest[0].removesuffix("-bytes")] = rest[1]
    on = {queue: of for queue, of in by_queue.items() if not of.get("ecn", "enable").startswith("disable")}
    return replace(
        port, marks={queue: Marking(*(_threshold(of, which) for which in ("min", "max"))) for queue, of in on.items()}
    )


def _threshold(values: Mapping[str, str], which: str) -> int | None:
    return _whole(values[f"{which}-threshold"]) if f"{which}-threshold" in values else None


def _with_map(port: RocePort, settings: list[list[str]]) -> RocePort:
    trust, priority_of = port.trust, dict(port.priority_of)
    for words in settings:
        if words[0] == "trust":
            trust = _TRUSTS.get(words[-1], words[-1])
        elif words[0] == "dscp" and words[2:3] == ["switch-priority"]:
            priority_of |= dict.fromkeys(_numbers(words[1]), _whole(words[-1]))
    return replace(port, trust=trust, priority_of=priority_of)


_APPLY = {"pfc": _with_pfc, "congestion-control": _with_ecn, "mapping": _with_map}


def _tree(lines: list[str]) -> dict[str, str]:
    """Return the keys above the tables; keys that are there twice (``priority``) are not used here."""
    heads = (line for line in lines if line.split()[:2] == ["operational", "applied"])
    head = need(next(heads, None), f"nv show qos roce: no head in {' '.join(lines)[:160]!r}")
    first, second = head.index("operational"), head.index("applied")
    found: dict[str, str] = {}
    for line in lines[lines.index(head) + 1 :]:
        if line.startswith("RoCE "):
            break
        key, value = line[:first].strip(), line[first:second].strip() or line[second:].partition("  ")[0].strip()
        if key and value:
            found[key] = value
    return found


def _table(lines: list[str], title: str) -> Iterator[tuple[list[int], list[int], list[int], list[int]]]:
    """Yield the rows of a table of four columns as numbers; other words, and ``-``, are no number."""
    at = next((at for at, line in enumerate(lines) if title in line and line.startswith("RoCE ")), None)
    for line in [] if at is None else lines[at + 4 :]:
        words = line.split()
        if len(words) < 4 or line.startswith("RoCE "):
            return
        first, second, third, fourth = (_numbers(word, strict=False) for word in words[:4])
        yield first, second, third, fourth


def _numbers(text: str, *, strict: bool = True) -> list[int]:
    """Read ``0,3`` and ``1-3``; ``-`` is an empty list."""
    found: list[int] = []
    for part in text.split(","):
        one = re.fullmatch(r"([0-9]{1,2})(?:-([0-9]{1,2}))?", part.strip(), re.ASCII)
        if one is not None:
            found += range(int(one[1]), int(one[2] or one[1]) + 1)
        elif strict and part.strip() not in ("", "-"):
            raise UnreadableOutput(f"nv: expected numbers such as 0,3, got {text[:80]!r}")
    return found


def _whole(text: str) -> int:
    found = re.fullmatch("[0-9]{1,12}", text, re.ASCII)
    return int(need(found, f"nv config show: expected a whole number, got {text[:80]!r}")[0])


def _on(text: str | None) -> bool | None:
    return None if text is None else text in ("enabled", "yes", "on")


def _bytes(text: str | None) -> int | None:
    """Read ``146.48 KB`` as bytes."""
    number, _, unit = (text or "").partition(" ")
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", number, re.ASCII) or unit not in _UNITS:
        return None
    return round(float(number) * _UNITS[unit])
