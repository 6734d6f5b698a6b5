"""A change in words: what it does, where, for how long."""

from __future__ import annotations

from fabric.model.change import When

SCOPES = {
    "fabric": "whole fabric: every user is affected",
    "host": "this host: every job on it is affected",
    "port": "one cable",
    "job": "these probes alone",
}


def when(asked: When) -> str:
    """``from 20 s on, for 60 s``, ``for the whole phase``."""
    begins = "" if asked.at_s is None else f"from {asked.at_s:g} s on"
    lasts = "" if asked.for_s is None else f"for {asked.for_s:g} s"
    if not begins and not lasts:
        return "for the whole phase"
    return ", ".join(filter(None, (begins, lasts or "until its end")))
