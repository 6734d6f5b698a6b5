"""Every kind of change, by the name it has in a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fabric.changes.adaptive_routing import AdaptiveRouting
from fabric.changes.ber import Ber
from fabric.changes.kind import Kind
from fabric.changes.link_down import LinkDown
from fabric.changes.shield import Shield

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "ber": Ber(),
        "link_down": LinkDown(),
        "port_flap": LinkDown(),
        "adaptive_routing": AdaptiveRouting(),
        "shield": Shield(),
    }
)
