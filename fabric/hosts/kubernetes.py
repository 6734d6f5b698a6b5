"""The nodes of a Kubernetes cluster, by its official Python client: cordon, taint, give back; select by labels.

A cordon (``spec.unschedulable``) is one bit without an owner. So ours gets one: an annotation with our reason, written
in the same patch, and a taint whose key only we use. A patch names the node's version that it is based on, so the API
server refuses it (409 Conflict) when somebody else wrote meanwhile. Then the node is read again, and a cordon that
somebody else made first is left alone. ``spec.taints`` is replaced as a whole, hence always sent as a whole. The
condition ``FabricHealthy`` is for people and controllers to read; it schedules nothing.

The client is an extra (``fabric-testbench[kubernetes]``), imported only here.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from fabric.errors import ConfigError, ToolError
from fabric.ports import SchedulerNode

OWNER = "fabric-testbench/drained"
"""The annotation that marks a cordon as ours; its value is the reason."""

TAINT = "fabric-testbench/unhealthy"
"""The key of our taint; its effect is NoSchedule, so running pods go on to their end, as in a drain of Slurm."""

CONDITION = "FabricHealthy"
"""The type of our condition: True, or False with the reason in its message."""

_OTHERS = ("k8saas.nvidia.com/cordon-by",)
"""Labels by which others (NVSentinel) mark a cordon as theirs."""

_TIMEOUT_S = 30.0
_TRIES = 5
"""Tries to read and patch a node whose version keeps moving on: its kubelet writes every ten seconds."""

DEFAULT = Path("~/.kube/config").expanduser()
"""Where ``kubectl`` looks without KUBECONFIG."""

_MOST_NODES, _PAGE = 20_000, 500
_NOT_FOUND, _CONFLICT = 404, 409


@dataclass(frozen=True, slots=True)
class KubernetesNode(SchedulerNode):
    """The state of one node; *version* and *taints* are for the next patch."""

    version: str = ""
    taints: tuple[dict[str, Any], ...] = field(default=())


class KubernetesNodes:
    """Implements ``app.scheduler.Nodes``; connects as ``kubectl`` does (KUBECONFIG, or a pod's service account)."""

    name, lead = "Kubernetes", "kubernetes/"

    def __init__(self) -> None:
        self._api = _connected()

    def node(self, host: str) -> KubernetesNode | None:
        """Return the state of a node; None when there is no such node."""
        found = _asked(lambda: self._api.read_node(host, _request_timeout=_TIMEOUT_S), none=_NOT_FOUND)
        if found is None:
            return None
        meta, spec = found.metadata, found.spec
        reason = (meta.annotations or {}).get(OWNER, "")
        other = next((f"{key}={meta.labels[key]}" for key in _OTHERS if key in (meta.labels or {})), "somebody else")
        cordoned = bool(spec.unschedulable)
        taints = tuple(self._api.api_client.sanitize_for_serialization(spec.taints or []))
        shown_reason = reason or ("cordoned without a reason" if cordoned else "")
        return KubernetesNode(cordoned, shown_reason, "fabric" if reason else other, meta.resource_version, taints)

    def drain(self, host: str, reason: str) -> str:
        """
        Cordon, taint and annotate a node in one patch, unless somebody else cordoned it; then write the condition.
        """
        if not self._patched(host, lambda node: not node.is_drained, reason):
            return "somebody else cordoned it meanwhile"
        return self._write_condition(host, "False", "BadPart", reason)

    def undrain(self, host: str) -> str:
        """Remove our cordon, taint and annotation, if the cordon is still ours; then write the condition."""
        if not self._patched(host, lambda node: node.is_drained and node.by == "fabric", None):
            return "the cordon is no longer ours"
        return self._write_condition(host, "True", "Accepted", "accepted after a repair")

    def selected(self, labels: str) -> tuple[str, ...]:
        """Return the names of the nodes with these labels; ConfigError when there is none or the query fails."""
        names: list[str] = []
        page: str | None = None
        try:
            while page != "" and len(names) <= _MOST_NODES:
                asked = {"label_selector": labels, "limit": _PAGE, "_continue": page, "_request_timeout": _TIMEOUT_S}
                found = _asked(partial(self._api.list_node, **asked))
                names += [one.metadata.name for one in found.items]
                page = found.metadata._continue or ""
        except ToolError as exc:
            raise ConfigError.at("--selector", f"{labels}: {exc}") from exc
        if not names:
            raise ConfigError.at("--selector", f"no node has the labels {labels!r}")
        return tuple(names)

    def _patched(self, host: str, may: Callable[[KubernetesNode], bool], reason: str | None) -> bool:
        """
        Patch a node: cordon it for *reason*, or undo our cordon when *reason* is None.

        Return False when the node does not (any more) satisfy *may* at the time of the patch.
        """
        ours = [] if reason is None else [{"key": TAINT, "value": "true", "effect": "NoSchedule"}]
        unschedulable = None if reason is None else True
        for _ in range(_TRIES):
            node = self.node(host)
            if node is None or not may(node):
                return False
            others = [one for one in node.taints if one.get("key") != TAINT]
            meta = {"resourceVersion": node.version, "annotations": {OWNER: reason}}
            body = {"metadata": meta, "spec": {"unschedulable": unschedulable, "taints": [*others, *ours]}}
            patch = partial(self._api.patch_node, host, body, _request_timeout=_TIMEOUT_S)
            if _asked(patch, none=_CONFLICT) is not None:
                return True
        raise ToolError(f"kubernetes: {host} was altered by others {_TRIES} times in a row: not patched")

    def _write_condition(self, host: str, status: str, reason: str, message: str) -> str:
        """Write the condition; return the complaint if that fails, because the cordon stands without it."""
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        one = {"type": CONDITION, "status": status, "reason": reason, "message": message, **times}
        body = {"status": {"conditions": [one]}}
        try:
            _asked(lambda: self._api.patch_node_status(host, body, _request_timeout=_TIMEOUT_S))
        except ToolError as exc:
            return f"the condition {CONDITION} was not written: {exc}"
        return ""


def _connected() -> Any:
    """Connect to the API as ``kubectl`` would; ConfigError without the client or without a configured cluster."""
    try:
        from kubernetes import client, config
    except ImportError as exc:
        text = "needs the official client: python -m pip install 'fabric-testbench[kubernetes]'"
        raise ConfigError.at("Kubernetes", text) from exc
    try:
        if (named := os.environ.get("KUBECONFIG")) or DEFAULT.exists():
            config.load_kube_config(named or str(DEFAULT))  # type: ignore[no-untyped-call,unused-ignore]
        else:
            config.load_incluster_config()  # type: ignore[no-untyped-call,unused-ignore]
    except (config.ConfigException, OSError) as exc:
        raise ConfigError.at("Kubernetes", f"no cluster is configured here: {exc}") from exc
    return client.CoreV1Api()


def _asked(call: Callable[[], Any], *, none: int = 0) -> Any:
    """Return the answer of *call*, None for the HTTP status *none*; ToolError for any other failure."""
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return call()
    except ApiException as exc:
        if none and exc.status == none:
            return None
        answer = " ".join((exc.body or "").split())[:300]
        raise ToolError(f"kubernetes: {exc.status} {exc.reason}: {answer}") from exc
    except (HTTPError, OSError) as exc:
        raise ToolError(f"kubernetes: no answer: {exc}"[:300]) from exc
