"""identity.json: which parts were in the hosts when a run began; a source of the run, never made again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from fabric.errors import StoreError
from fabric.model.repair import HostIdentity, PartIdentity
from fabric.runs.plain_file import MIB, read_plain, storing
from fabric.runs.run_directory import write_durably

FILE = "identity.json"
FORMAT = 1
MOST_BYTES = 128 * MIB
"""Of identity.json (a choice: 2,048 hosts of some 30 parts take 12 MB)."""


def write_identity(run: Path, hosts: Iterable[HostIdentity]) -> None:
    """Raises StoreError when the disk says no."""
    body = {"format": FORMAT, "hosts": [asdict(host) for host in hosts]}
    with storing(run / FILE):
        write_durably(run / FILE, orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n")


def read_identity(run: Path) -> dict[str, HostIdentity] | None:
    """By host; None where the run did not ask. Raises StoreError for a file that is not as it is written here."""
    file = run / FILE
    try:
        document = orjson.loads(read_plain(file, MOST_BYTES))
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise StoreError(f"{file}: cannot read: {exc.strerror}") from exc
    except orjson.JSONDecodeError as exc:
        raise StoreError(f"{file}: cannot read: {exc}") from exc
    return hosts_from(document, file)


def hosts_from(document: Any, file: Path) -> dict[str, HostIdentity]:
    """The hosts of such a document; StoreError, naming *file*, when it is another."""
    try:
        if document["format"] != FORMAT:
            raise StoreError(f"{file}: format {document['format']!r} where {FORMAT} is known")
        return {
            host["host"]: HostIdentity(
                host["host"], tuple(PartIdentity(**part) for part in host["parts"]), tuple(host["unread"])
            )
            for host in document["hosts"]
        }
    except (KeyError, TypeError, AttributeError) as exc:
        raise StoreError(f"{file}: not as this version writes it: {exc}") from exc
