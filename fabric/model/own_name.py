"""A reason without whose it is, so that the same trouble of many hosts can be told once."""

from __future__ import annotations

import re

HOST, ADDRESS = "HOST", "ADDRESS"
"""What stands for the host's own name and address."""


def without_own(text: str, host: str, address: str = "") -> str:
    """*text* with a host's own name as HOST and its address as ADDRESS, and without its name before it all."""
    said = text.removeprefix(f"{host}: ")
    if address and address != host:
        said = _alone(address).sub(ADDRESS, said)
    return _alone(host).sub(HOST, said)


def _alone(name: str) -> re.Pattern[str]:
    """The name where it is no part of another one: gpu1 is not in gpu12, 10.0.0.1 not in 10.0.0.12."""
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
