"""
Changes that undo themselves: what to do for each kind, the guard on the target, and the order of steps.

What is run on a target as sh is beside this room: texts for POSIX sh, in which values only ever arrive as positional
parameters.
"""

from importlib.resources import files


def text_of(*names: str) -> str:
    """These files of the folder, one after the other, without lines that are comments."""
    texts = (files(__package__).joinpath("sh", name).read_text("utf-8") for name in names)
    return "".join(line for text in texts for line in text.splitlines(True) if not line.startswith("#"))


def one_line(name: str) -> str:
    """One such file in one line."""
    return " ".join(line.strip() for line in text_of(name).split("\n")).strip()
