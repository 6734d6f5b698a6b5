"""
The part of a Kubernetes API server that deals with nodes, by its documented contract; no cluster is behind it.

What it holds to (Kubernetes API reference and "API concepts"): every write raises ``resourceVersion``; a patch that
names an older one is refused with 409; a strategic merge patch merges maps, removes what is null, replaces
``spec.taints`` as a whole and merges ``status.conditions`` by their type; ``/status`` writes nothing but the status,
and the other path no status; lists are told in pages, and an old page is 410; other content types are 415.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"
_NODES = "/api/v1/nodes"
_VERBS = ["get", "list", "patch", "update", "watch"]
_NODE = {"name": "nodes", "singularName": "", "namespaced": False, "kind": "Node", "verbs": _VERBS}
_STATUS = {**_NODE, "name": "nodes/status", "verbs": ["get", "patch", "update"]}
_DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [_NODE, _STATUS]},
}


class Refused(Exception):
    """An answer that is none: its status, and what the body calls it."""

    def __init__(self, code: int, reason: str) -> None:
        self.code, self.reason = code, reason
        super().__init__(reason)


def merged(old: Json, patch: Json) -> Json:
    """As a strategic merge patch has it, for what a node holds."""
    found = dict(old)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif key == "conditions":
            by_type = {one["type"]: one for one in found.get(key, [])}
            for one in value:
                by_type[one["type"]] = {**by_type.get(one["type"], {}), **one}
            found[key] = list(by_type.values())
        elif isinstance(value, dict):
            found[key] = merged(found.get(key, {}), value)
        else:
            found[key] = value
    return found


class Cluster:
    """Some nodes; *before* is called with each patch before it is looked at, as if others were quicker."""

    def __init__(self, *names: str, page: int = 500, **labels: str) -> None:
        self._lock, self._version, self.page, self.patched = Lock(), 100, page, list[tuple[str, Json]]()
        self.nodes: dict[str, Json] = {}
        self.before: Callable[[str], None] = lambda name: None
        self.forbids_status = False
        for name in names:
            self._write(name, {"metadata": {"name": name, "labels": dict(labels)}, "spec": {}, "status": {}})

    def _write(self, name: str, node: Json) -> Json:
        self._version += 1
        node = {"kind": "Node", "apiVersion": "v1", **node}
        self.nodes[name] = {**node, "metadata": {**node["metadata"], "resourceVersion": str(self._version)}}
        return self.nodes[name]

    def get(self, name: str) -> Json:
        """One node."""
        if name not in self.nodes:
            raise Refused(404, "NotFound")
        return self.nodes[name]

    def set(self, name: str, patch: Json) -> None:
        """Somebody else writes, and does not say which version that rests on."""
        with self._lock:
            self._write(name, merged(self.get(name), patch))

    def patch(self, name: str, patch: Json, *, status: bool) -> Json:
        """Somebody writes by the API."""
        self.before(name)
        with self._lock:
            old = self.get(name)
            if status and self.forbids_status:
                raise Refused(403, "Forbidden")
            version = patch.get("metadata", {}).get("resourceVersion")
            if version is not None and version != old["metadata"]["resourceVersion"]:
                raise Refused(409, "Conflict")
            if any("key" not in one or "effect" not in one for one in patch.get("spec", {}).get("taints") or []):
                raise Refused(422, "Invalid")
            self.patched.append((name, patch))
            kept = {"status": patch.get("status", {})} if status else {k: v for k, v in patch.items() if k != "status"}
            return self._write(name, merged(old, kept))

    def list(self, selector: str, limit: int, token: str) -> Json:
        """Those with the labels, a page of them."""
        wanted = dict(one.split("=") for one in selector.split(",")) if selector else {}
        found = [n for n in self.nodes.values() if wanted.items() <= n["metadata"]["labels"].items()]
        first, size = int(token or 0), min(limit or self.page, self.page)
        rest = str(first + size) if first + size < len(found) else ""
        meta = {"resourceVersion": str(self._version), "continue": rest}
        return {"kind": "NodeList", "apiVersion": "v1", "metadata": meta, "items": found[first : first + size]}


class _Handler(BaseHTTPRequestHandler):
    cluster: Cluster

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        """Discovery, a list, or a node."""
        self._answer(self._got)

    def do_PATCH(self) -> None:
        """A node, or its status."""
        self._answer(self._patched)

    def _got(self, path: str, asked: Json) -> Json:
        if path in _DISCOVERY:
            return _DISCOVERY[path]
        if path == _NODES:
            limit, token = int(asked.get("limit", 0)), asked.get("continue", "")
            return self.cluster.list(asked.get("labelSelector", ""), limit, token)
        return self.cluster.get(_name(path))

    def _patched(self, path: str, asked: Json) -> Json:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Type"] != STRATEGIC:
            raise Refused(415, "UnsupportedMediaType")
        name = _name(path.removesuffix("/status"))
        return self.cluster.patch(name, json.loads(body), status=path.endswith("/status"))

    def _answer(self, act: Callable[[str, Json], Json]) -> None:
        parts = urlsplit(self.path)
        try:
            code, body = 200, act(parts.path, {key: found[0] for key, found in parse_qs(parts.query).items()})
        except Refused as exc:
            code, body = exc.code, {"kind": "Status", "status": "Failure", "reason": exc.reason, "code": exc.code}
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _name(path: str) -> str:
    if not path.startswith(f"{_NODES}/"):
        raise Refused(404, "NotFound")
    return path.removeprefix(f"{_NODES}/")


@contextmanager
def serving(cluster: Cluster) -> Iterator[str]:
    """The address of an API server for this cluster."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cluster": cluster}))
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
