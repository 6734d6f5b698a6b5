"""Editing a subnet manager's configuration file on its own host: calls of ``sh/opensm_conf.sh``."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from fabric.changes.sh import one_line
from fabric.model.change import Argv
from fabric.tools import opensm_conf

ABSENT = "absent"
"""What ``absent`` says when none of the keys is there."""

WHOLE = "\n# fabric-conf: whole\n"
"""What ``show`` ends with: a key counts as not there only in a file that was seen to its end."""

_TEXT = one_line("opensm_conf.sh")


def edit(config: str, backup: str, values: Mapping[str, str]) -> Argv:
    """Give keys their values; ValueError when a key or value would not stay on its line."""
    return _call("set", config, backup, *opensm_conf.settings(values))


def undo(config: str, backup: str, before: Mapping[str, str | None]) -> Argv:
    """Give keys the lines that they had before the first ``edit``; None: there was none. ValueError as ``edit``."""
    return _call("undo", config, backup, *_words(before))


def absent(config: str, backup: str, before: Mapping[str, str | None]) -> Argv:
    """See that the keys which were not there before are not there."""
    gone = {key: None for key, value in before.items() if value is None}
    return _call("absent", config, backup, *_words(gone))


def _call(verb: str, *words: str) -> Argv:
    return ("sh", "-c", _TEXT, "fabric-conf", verb, *words)


def _words(before: Mapping[str, str | None]) -> tuple[str, ...]:
    """``key=value`` for what was there, ``key`` for what was not."""
    words = opensm_conf.settings({key: "none" if value is None else value for key, value in before.items()})
    return tuple(
        word.partition("=")[0] if value is None else word for word, value in zip(words, before.values(), strict=True)
    )


def show(config: str) -> Argv:
    """Print the file, and that this is all of it."""
    return _call("show", config, backup_of(config, "show"))


def drop(config: str, backup: str) -> Argv:
    """Forget what was there before."""
    return _call("drop", config, backup)


def backup_of(config: str, change_id: str) -> str:
    """Where the file as it was is kept: beside it, named by the change."""
    return f"{config}.fabric-{sha256(change_id.encode()).hexdigest()[:12]}"
