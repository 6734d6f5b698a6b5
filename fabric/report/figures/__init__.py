"""Figures of a run: each is a function of frames (``fabric.load``) that returns a ``matplotlib.figure.Figure``.

``fabric.figures.course(run, "gpu002/mlx5_1").savefig("course.png")``; docs/report.md lists them.
"""

from fabric.report.figures.cables import light, load
from fabric.report.figures.configurations import bars, rings, scaling
from fabric.report.figures.course import against_peers, course, evidence
from fabric.report.figures.maps import hall, hosts, loopback, pairs
from fabric.report.figures.style import inline, save
from fabric.report.figures.timeline import counters, timeline

__all__ = [
    "against_peers",
    "bars",
    "counters",
    "course",
    "evidence",
    "hall",
    "hosts",
    "inline",
    "light",
    "load",
    "loopback",
    "pairs",
    "rings",
    "save",
    "scaling",
    "timeline",
]
