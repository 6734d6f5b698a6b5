"""The tools that manage a fabric: OpenSM's file, service and process, a switch's shell text, UFM by ``curl``."""

import json

from fabric.sim import page
from fabric.sim.net.controllers import PATH
from fabric.sim.net.managers import LOG, settings_of, with_lines_of, with_settings
from fabric.sim.tools import interfaces
from fabric.sim.tools.call import BadOption, ToolCall, ToolOutput, options, parse_options
from fabric.sim.tools.guard import LOOK_NAME, held
from fabric.sim.tools.mlxlink import PART_NUMBER, plugged
from fabric.sim.tools.nvue import SHELL_NAME, nvue_shell

CONF_NAME = "fabric-conf"
"""The name ($0) under which a shell text that edits a configuration file is started."""

SM_PATH = "/ufmRest/app/smconf"
TELEMETRY = "/csv/xcset/low_freq_debug"
LOG_NAME = "fabric-sm-log"
UNITS = ("opensm", "opensmd")
_HANG_UP = ("-HUP", "-1", "-SIGHUP")


def shell_tool(asked: ToolCall) -> ToolOutput:
    """Run ``sh -c TEXT NAME WORDS`` for our own texts; other texts cannot be run here."""
    texts = {SHELL_NAME: nvue_shell, LOG_NAME: _log, CONF_NAME: fabric_conf, LOOK_NAME: held, **interfaces.SHELL_TEXTS}
    run = texts.get(asked.words[2]) if len(asked.words) > 2 and asked.words[0] == "-c" else None
    if run is None:
        return ToolOutput(stderr="sh: simulated rack: this text cannot be run here\n", status=127)
    return run(asked, asked.words[3:])


def _log(asked: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    path = "".join(words)
    log = asked.rack.managers.log(asked.site.host.name, path, asked.at_s)
    return ToolOutput(log) if log is not None else ToolOutput(stderr=f"{path}: cannot be read\n", status=1)


def fabric_conf(asked: ToolCall, words: tuple[str, ...]) -> ToolOutput:
    """
    Edit a configuration file as our shell text does; all verbs may be run twice.

    ``set`` keeps a copy of the file at BACKUP, once, and sets keys; ``undo`` restores the lines of these keys;
    ``absent`` says whether keys are missing; ``show`` prints the file and an end mark; ``drop`` removes BACKUP. Prints
    one line on stdout and exits 0, or a reason on stderr and exits 1.
    """
    if len(words) < 3 or words[0] not in ("set", "undo", "absent", "show", "drop"):
        got = " ".join(words) or "nothing"
        return _refused(f"expected set, undo, absent, show or drop, a file and its copy, got {got}")
    verb, config, backup = words[:3]
    host, files = asked.site.host.name, asked.rack.managers.files
    text, kept = files.get((host, config)), files.get((host, backup))
    if verb == "drop":
        files.pop((host, backup), None)
        return ToolOutput(f"dropped {backup}\n")
    if text is None:
        return _refused(f"{config}: no such file")
    if verb == "show":
        return ToolOutput(f"{text}\n# {CONF_NAME}: whole\n")
    if verb == "absent":
        there = sorted(settings_of(text).keys() & set(words[3:]))
        return _refused(f"{config}: has a key that was not there before") if there else ToolOutput(f"absent {config}\n")
    if verb == "undo":
        was = with_lines_of(text, kept, words[3:])
        files[host, config] = was
        return ToolOutput(f"{'nothing to undo:' if was == text else 'undone'} {config}\n")
    wrong = next((one for one in words[3:] if "=" not in one or one.startswith("=")), None)
    if wrong is not None:
        return _refused(f"expected key=value, got {wrong}")
    if kept is None:
        files[host, backup] = text
    files[host, config] = with_settings(text, words[3:])
    return ToolOutput(f"set {config}\n")


def _refused(reason: str) -> ToolOutput:
    return ToolOutput(stderr=f"{CONF_NAME}: {reason}\n", status=1)


def systemctl(asked: ToolCall) -> ToolOutput:
    """Run ``systemctl restart|reload opensm``; every other unit is not found."""
    verb, unit = (*asked.words, "", "")[:2]
    host, managers = asked.site.host.name, asked.rack.managers
    runs = managers.runs_on(host)
    if unit.removesuffix(".service") not in UNITS or runs is None:
        return ToolOutput(stderr=f"Failed to {verb} {unit}.service: Unit {unit}.service not found.\n", status=5)
    acts = {"restart": managers.restart, "reload": managers.hang_up}
    if verb not in acts:
        return ToolOutput(stderr=f"Unknown command verb {verb}.\n", status=1)
    if verb == "reload" and not runs:
        return ToolOutput(stderr=f"{unit}.service is not active, cannot reload.\n", status=1)
    acts[verb](host, asked.at_s)
    return ToolOutput()


def pkill(asked: ToolCall) -> ToolOutput:
    """Run ``pkill -HUP [-x] opensm``: exit status 0 when it runs here, else 1."""
    host, managers = asked.site.host.name, asked.rack.managers
    if not set(_HANG_UP) & set(asked.words):
        return ToolOutput(stderr="pkill: simulated rack: only -HUP is simulated\n", status=2)
    if asked.words[-1] != "opensm" or not managers.runs_on(host):
        return ToolOutput(status=1)
    managers.hang_up(host, asked.at_s)
    return ToolOutput()


_CURL = options("""
    method=  -X --request
    data=    -d --data
    fail     -f --fail
    flag     -n --netrc -s --silent -S --show-error
    plain=   -H --header -m --max-time
    trust    -k --insecure
    trust=   --cacert
""")


def curl(asked: ToolCall) -> ToolOutput:
    """Run ``curl`` to UFM: GET its list of unhealthy ports, PUT ports on or off it, or ask what its manager runs."""
    try:
        fields, rest = parse_options(asked.words, _CURL)
    except BadOption as bad:
        return ToolOutput(stderr=f"curl: {bad}\ncurl: try 'curl --help' for more information\n", status=2)
    if not rest:
        return ToolOutput(stderr="curl: try 'curl --help' or 'curl --manual' for more information\n", status=2)
    host, _, path = rest[-1].partition("://")[2].partition("/")
    if not asked.rack.ufm.there or not f"/{path}".rstrip("/").endswith((PATH, SM_PATH, TELEMETRY)):
        name, _, port = host.partition(":")
        port = port or ("443" if rest[-1].startswith("https") else "80")
        reason = f"curl: (7) Failed to connect to {name} port {port} after 0 ms: Connection refused\n"
        return ToolOutput(stderr=reason, status=7)
    if rest[-1].startswith("https") and "trust" not in fields:  # UFM ships a self-signed certificate
        return ToolOutput(stderr="curl: (60) SSL certificate problem: self-signed certificate\n", status=60)
    if f"/{path}".endswith(TELEMETRY):
        return ToolOutput(_telemetry(asked))
    if f"/{path}".endswith(SM_PATH):
        running = {"sm_priority": 15, "routing_engine_active": asked.rack.managers.engine(asked.at_s) or "minhop"}
        return ToolOutput(json.dumps({"m_key": "0x0", **running, "log_file": LOG}))
    if fields.get("method") != "PUT":
        return ToolOutput(asked.rack.ufm.listing())
    wrong = asked.rack.ufm.put(fields.get("data", ""), asked.at_s)
    if wrong is not None and "fail" in fields:
        return ToolOutput(stderr="curl: (22) The requested URL returned error: 400\n", status=22)
    return ToolOutput(f"{wrong}\n" if wrong is not None else "")


def _telemetry(asked: ToolCall) -> str:
    """Return the secondary telemetry: header and first columns as the simulator of NVIDIA's PDR plugin has them."""
    ports, rows = asked.ports, []
    for end in sorted(ports.cabling.peers):
        port = ports.at(end)
        counts = port.tally.errors(asked.at_s)
        counted = (int(counts.symbol), counts.effective_errors, *counts.lane_errors) if port.up else ("N/A",) * 6
        rows.append((end[1], f"0x{port.node.guid:016x}", counted, plugged(asked, port)))
    return page("ufm-telemetry", time_us=int(asked.at_s * 1e6), part_number=PART_NUMBER, rows=rows)
