"""Whether a probe ended because the transport gave up: packets vanished for longer than an RNIC waits for its acks."""

from __future__ import annotations

import re

from fabric.model.outcome import Outcome
from fabric.model.probe import ProbeResult

_FAIL = re.compile(
    r"\bstatus[= ](?:[A-Z_]{1,40}\()?12(?!\d)"  # work completion 12, transport retries exceeded: perftest, NCCL
    r"|\berror 12(?!\d)"  # NCCL before 2.12
    r"|RETRY_EXC|retry(?: counter)? exceeded"
    r"|port error|PORT_ERR"  # NCCL saw its port go down
    r"|Port number \d{1,5} state is ",  # perftest found it down
    re.IGNORECASE,
)
_REMOTE = re.compile(r"remote process exited or there was a network error|ncclRemoteError")


def gave_up(result: ProbeResult) -> bool:
    """
    True when a tool says so: retries exceeded, or the port down (FAIL), or NCCL's "network error".

    The last is an ERROR elsewhere, because NCCL says the same when a peer's process ended; while a link is bad on
    purpose it is what a collective says when its queue pairs failed.
    """
    if result.outcome is Outcome.FAIL and _FAIL.search(result.reason):
        return True
    return result.outcome in (Outcome.FAIL, Outcome.ERROR) and _REMOTE.search(result.reason) is not None
