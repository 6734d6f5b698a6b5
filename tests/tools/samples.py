"""Recorded outputs of the real tools."""

import re

from tests.places import CAPTURES

_END = re.compile(r"^\[?(?:exit code |rc=)(\d+)\]?$", re.MULTILINE)


def sample(name: str) -> str:
    """One file's text."""
    return (CAPTURES / name).read_text("utf-8", "replace")


def calls(name: str) -> list[tuple[str, str, str, int]]:
    """The calls recorded in a file (``$ command``, output, ``[stderr]``, ``rc=0``): command, stdout, stderr, status."""
    found = []
    for block in re.split(r"^(?=\$ )", sample(name), flags=re.MULTILINE)[1:]:
        command, _, rest = block.partition("\n")
        ended = list(_END.finditer(rest))
        status = int(ended[-1][1]) if ended else 0
        said = rest[: ended[-1].start()] if ended else rest
        # A SET whose question nobody answers leaves the cursor on the prompt's line.
        if "[rc=" in said:
            said, _, _ = said.rpartition("[rc=")
        stdout, _, stderr = said.partition("[stderr]\n")
        found.append((command.removeprefix("$ "), stdout, stderr, status))
    return found


def ufm_end(port_name: str, description: str, label: str, which: str) -> dict[str, str]:
    """One end of a link as UFM tells it, ``source`` or ``destination``."""
    told = {"port_name": port_name, "port": port_name.rpartition("_")[2], "port_dname": label}
    return {f"{which}_{key}": value for key, value in {**told, "port_node_description": description}.items()}
