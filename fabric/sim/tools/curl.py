"""``curl`` to UFM's list of unhealthy ports; nothing else listens in the simulated rack."""

from __future__ import annotations

from fabric.sim.subnet.ufm import PATH, Ufm
from fabric.sim.tools.call import Said, ToolCall
from fabric.sim.tools.options import BadOption, options, taken_apart

_OPTIONS = options("""
    method=  -X --request
    data=    -d --data --data-raw --data-binary
    fail     -f --fail --fail-with-body
    silent   -s --silent
    errors   -S --show-error
    write=   -w --write-out
    url=     --url
    flag     -n --netrc -k --insecure -L --location -g --globoff -4 -6 -i --include --netrc-optional
    plain=   -H --header -m --max-time --connect-timeout -u --user -o --output -A --user-agent --retry --retry-delay
    plain=   --cacert --cert --key --netrc-file --max-filesize --proto --noproxy
""")


def curl(asked: ToolCall) -> Said:
    """GET the list, or PUT ports back on it or off it."""
    try:
        fields, rest = taken_apart(asked.words, _OPTIONS)
    except BadOption as bad:
        return Said(stderr=f"curl: {bad}\ncurl: try 'curl --help' for more information\n", status=2)
    url = fields.get("url") or (rest[-1] if rest else "")
    if not url:
        return Said(stderr="curl: try 'curl --help' or 'curl --manual' for more information\n", status=2)
    quiet = "silent" in fields and "errors" not in fields
    host, _, path = url.partition("://")[2].partition("/")
    if not asked.rack.ufm.there or not f"/{path}".rstrip("/").endswith(PATH):
        name, _, port = host.partition(":")
        port = port or ("443" if url.startswith("https") else "80")
        reason = f"curl: (7) Failed to connect to {name} port {port} after 0 ms: Connection refused\n"
        return Said(stderr="" if quiet else reason, status=7)
    method = fields.get("method", "POST" if "data" in fields else "GET").upper()
    code, answer = _answered(asked.rack.ufm, method, fields.get("data", ""), asked.at_s)
    if code >= 400 and "fail" in fields:
        reason = f"curl: (22) The requested URL returned error: {code}\n"
        return Said(stderr="" if quiet else reason, status=22)
    mark = fields.get("write", "").replace("%{http_code}", str(code)).replace("\\n", "\n")
    return Said(answer + mark)


def _answered(ufm: Ufm, method: str, body: str, at_s: float) -> tuple[int, str]:
    if method == "GET":
        return 200, ufm.listing()
    if method != "PUT":
        return 405, "Method Not Allowed\n"
    reason = ufm.put(body, at_s)
    return (200, "") if reason is None else (400, f"{reason}\n")
