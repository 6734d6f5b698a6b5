"""A resilience testbench for GPU network fabrics: measure, disturb, judge, name the bad part."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from fabric.app.frames import Run


def load(run_directory: Path | str) -> Run:
    """What a run measured as pandas frames, with ``latest`` or another run's directory; see ``fabric.app.frames``."""
    from fabric.app.frames import load as read

    return read(run_directory)
