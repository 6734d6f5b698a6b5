"""A resilience testbench for GPU network fabrics: measure, disturb, judge, name the bad part."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from fabric.runs.frames import Run


def load(run_directory: Path | str) -> Run:
    """What a run measured as pandas frames: the newest of a scenario's folder, or the run in this directory."""
    from fabric.app.analyze import load as read

    return read(run_directory)


def __getattr__(name: str) -> ModuleType:
    """``fabric.figures``, imported when it is first asked for: it takes matplotlib."""
    if name == "figures":
        from fabric.report import figures

        return figures
    raise AttributeError(f"module 'fabric' has no attribute {name!r}")
