"""Changes that undo themselves: what to do for each kind, the guard on the target, and the order of steps.

The scripts that run on a target are in ``sh/``: texts for POSIX sh, in which values only ever arrive as positional
parameters.
"""

from importlib.resources import files


def text_of(*names: str) -> str:
    """Return these files of ``sh/``, joined, without comment lines."""
    texts = (files(__package__).joinpath("sh", name).read_text("utf-8") for name in names)
    return "".join(line for text in texts for line in text.splitlines(True) if not line.startswith("#"))


def one_line(name: str) -> str:
    """Return one such file as a single line."""
    return " ".join(line.strip() for line in text_of(name).split("\n")).strip()
