"""A change in words: what it does, where, for how long."""

from __future__ import annotations

from fabric.model.change import Change, When

SCOPES = {
    "fabric": "whole fabric: every user is affected",
    "host": "this host: every job on it is affected",
    "port": "one cable",
    "job": "these probes alone",
}


def what(change: Change) -> str:
    """``ber raw 1e-5 both``, ``port_flap 3 x 0.5 s``, ``adaptive_routing on``."""
    params = dict(change.params)
    if change.kind == "ber" and {"errors", "mantissa", "exponent"} <= set(params):
        ber = f"{params.pop('errors')} {params.pop('mantissa')}e-{params.pop('exponent')}"
        direction = str(params.pop("direction", "both"))
        return f"ber {ber}" + ("" if direction == "both" else f" {direction}")
    if change.kind == "port_flap" and {"count", "down_s"} <= set(params):
        return f"port_flap {params['count']} x {float(params['down_s']):g} s"
    if "on" in params:
        return f"{change.kind} {'on' if params['on'] in (1, 'on', 'true', 'True') else 'off'}"
    return " ".join([change.kind, *(f"{name} {value}" for name, value in params.items())])


def when(asked: When) -> str:
    """``from 20 s on, for 60 s``, ``for the whole phase``."""
    begins = "" if asked.at_s is None else f"from {asked.at_s:g} s on"
    lasts = "" if asked.for_s is None else f"for {asked.for_s:g} s"
    if not begins and not lasts:
        return "for the whole phase"
    return ", ".join(filter(None, (begins, lasts or "until its end")))
