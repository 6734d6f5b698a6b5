"""The style of all figures, and their output: inline SVG whose colours the page decides, or a file for slides."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from markupsafe import Markup, escape
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke

from fabric.model import gathered
from fabric.model.text import cut
from fabric.report.output import visible

COLOURS = {
    **{"paper": "#ffffff", "ink": "#1b1f24", "muted": "#5a6470", "line": "#d5dae0", "field": "#f4f6f8"},
    **{"fail": "#c04a00", "error": "#a8437c", "pass": "#007a59", "marginal": "#a86f00", "skipped": "#1f78a8"},
    **{"c0": "#0072b2", "c1": "#d55e00", "c2": "#009e73", "c3": "#cc79a7", "c4": "#e69f00", "c5": "#56b4e9"},
    **{"c6": "#7a6a00", "c7": "#6b6b6b"},
    **{"v0": "#440154", "v1": "#443a83", "v2": "#31688e", "v3": "#21918c", "v4": "#4fbf6b", "v5": "#a5db36"},
    **{"v6": "#f0e9a8", "none": "#e3e6ea"},
}
"""
Colours by the name of the variable in ``report.css``, which has another set for dark mode; no colour occurs twice.

c0 to c7: Okabe and Ito, distinguishable for colour-blind eyes; v0 to v6: viridis, in which bad is dark in print, too.
"""

SERIES = tuple(COLOURS[f"c{number}"] for number in range(8))

BOUNDS = (0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
"""Upper bounds of the shares of the classes v0 to v5; v6 is everything above (a choice: narrow where noise ends)."""

CLASSES = ("below 50 %", "to 65", "to 80", "to 90", "to 95", "to 98", "98 % and more")
"""Labels of v0 to v6, as shares of normal."""

SIZE_PT = 10.0
"""Font size of the smallest letters, in points."""

_RC: dict[Any, Any] = {
    **{"text.parse_math": False, "font.size": SIZE_PT, "font.family": "sans-serif"},
    **{"font.sans-serif": ["DejaVu Sans", "Liberation Sans"]},
    **{f"{part}size": SIZE_PT for part in ("axes.label", "axes.title", "xtick.label", "ytick.label", "legend.font")},
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color"), COLOURS["ink"]),
    **{"ytick.color": COLOURS["ink"], "axes.edgecolor": COLOURS["line"], "grid.color": COLOURS["line"]},
    **{"axes.grid": True, "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.titlelocation": "left"},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.facecolor": "none", "legend.frameon": False},
    **{"svg.fonttype": "none", "svg.hashsalt": "fabric", "xtick.major.size": 0, "ytick.major.size": 0},
}

P = ParamSpec("P")
F = TypeVar("F", Figure, Figure | None)


def styled(draw: Callable[P, F]) -> Callable[P, F]:
    """Wrap a function so that it draws in this style, without changing the settings for other figures."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> F:
        with rc_context(_RC):
            return draw(*args, **kwargs)

    return drawn


def axes(
    made: Figure, *, left: float = 0.75, right: float = 0.15, top: float = 0.4, bottom: float = 0.55, height: float = 0
) -> Axes:
    """Return axes with these margins in inches, so that no layout pass is needed; *height*: so high, below *top*."""
    width_in, height_in = made.get_size_inches()
    bottom = height_in - top - height if height else bottom
    box = (
        left / width_in,
        bottom / height_in,
        (width_in - left - right) / width_in,
        (height_in - top - bottom) / height_in,
    )
    return made.add_axes(box)


def shown_name(text: object, most: int = 40) -> str:
    """Return a name as a figure shows it: text from hosts or files is made visible, and cut."""
    return cut(visible(str(text)), most)


def colour_class(share: float) -> int | None:
    """Return the class of a share, 0 (half of normal, or less) to 6 (normal); None: no number."""
    return None if share != share else sum(share >= bound for bound in BOUNDS)


_BANG = Outline([(0, 1.2), (0, -0.2), (0, -1.0), (0, -1.2)], [Outline.MOVETO, Outline.LINETO] * 2)
_SIGNS: dict[str, str | Outline] = {"fail": "x", "error": _BANG, "skipped": "o", "inconclusive": "o", "marginal": "."}
SIGNS = "Signs: ✕ FAIL, ! ERROR, ○ SKIPPED or INCONCLUSIVE, • MARGINAL"


def halo() -> withStroke:
    """Return a rim that sets a sign or a word off from what is below it."""
    return withStroke(linewidth=4, foreground=COLOURS["paper"])


def signs(ax: Axes, places: Iterable[tuple[float, float, str]], size: float = 7.0) -> None:
    """Draw the sign of each (x, y, outcome): the shape tells it without colour; PASS has none."""
    for outcome, points in gathered((outcome, (x, y)) for x, y, outcome in places).items():
        if outcome in _SIGNS:
            colour = COLOURS["skipped" if outcome == "inconclusive" else outcome]
            xs, ys = zip(*points, strict=True)
            drawn = ax.plot(xs, ys, linestyle="none", marker=_SIGNS[outcome], ms=size, mec=colour, mew=2, zorder=6)
            drawn[0].set(
                markerfacecolor=colour if outcome == "marginal" else "none", clip_on=False, path_effects=[halo()]
            )


def cells(ax: Axes, found: Iterable[tuple[float, float, int | None]], width: float = 1.0, height: float = 1.0) -> None:
    """
    Draw boxes at (x, y, colour class; None: no number), one outline per class, so that thousands take a few kilobytes.
    """
    for colour, boxes in gathered((colour, (x, y, x + width, y + height)) for x, y, colour in found).items():
        spans(ax, boxes, COLOURS["none" if colour is None else f"v{colour}"])


def spans(outlined: Axes, boxes: Iterable[tuple[float, float, float, float]], colour: str, alpha: float = 1.0) -> None:
    """Draw boxes from (x, y) to (x, y) as one outline."""
    points: list[tuple[float, float]] = []
    for x1, y1, x2, y2 in boxes:
        points += [(x1, y1), (x2, y1), (x2, y2), (x1, y2), (x1, y1)]
    codes = [Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY] * (len(points) // 5)
    if points:
        outlined.add_artist(PathPatch(Outline(points, codes), facecolor=colour, edgecolor="none", alpha=alpha))


def hours(ax: Axes, last_s: float) -> float:
    """Label the time axis; return the seconds of its unit: hours, minutes or seconds, by the length of the run."""
    unit_s, name = next(
        (one for one in ((3600.0, "hours"), (60.0, "minutes")) if last_s > 2 * one[0]), (1.0, "seconds")
    )
    ax.set_xlabel(f"{name} since the run began")
    ax.set_xlim(0, max(last_s, 1e-3) / unit_s)
    return unit_s


def legend(ax: Axes, *handles: Artist, columns: int = 5) -> None:
    """Draw a legend at the top left of the figure."""
    made = ax.figure
    made.legend(handles=list(handles), loc="upper left", bbox_to_anchor=(0.0, 1.0), ncols=columns, columnspacing=1.2)


def inline(made: Figure) -> Markup:
    """Return the figure as SVG within a page: its colours are the page's variables, so that dark mode applies."""
    text = _svg(made, transparent=True)
    text = text[text.index("<svg") :]
    text = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<clipPath.*?</clipPath>|<!--.*?-->", "", text, flags=re.S
    )
    text = re.sub(r' clip-path="[^"]*"|(?<=<g) id="[^"]*"| font-family: [^;"]*;', "", text)
    text = re.sub(r' d="[^"]*"| [xy]="[^"]*"| transform="[^"]*"', lambda found: _shorter(found[0]), text)
    text = re.sub(r"#[0-9a-f]{6}\b", lambda found: _VARIABLES.get(found[0], found[0]), text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    width = made.get_size_inches()[0] * 72
    head, rest = text.split(">", 1)
    head = re.sub(r'\s(?:width|height|version)="[^"]*"', "", head)
    label = escape(visible(str(made.get_label())))
    return Markup(f'{head} role="img" aria-label="{label}" style="--w:{width:.0f}pt">{rest}')


_VARIABLES = {colour: f"var(--{name})" for name, colour in COLOURS.items()}


def _shorter(text: str) -> str:
    """Shorten coordinates: a tenth of a point is enough."""
    return re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), text).replace(" \n", "\n")


def save(made: Figure, folder: str | Path, name: str) -> list[Path]:
    """Write the figure as PNG and SVG, on white, into a folder that is made where it is missing; return their paths."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    made.set_facecolor(COLOURS["paper"])
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:60]  # a kind of probe may have any name
    svg, png = Path(folder, f"{name}.svg"), Path(folder, f"{name}.png")
    svg.write_text(_svg(made, transparent=False), "utf-8")
    with rc_context(_RC):
        made.savefig(png, dpi=144)
    return [png, svg]


def _svg(made: Figure, *, transparent: bool) -> str:
    text = StringIO()
    with rc_context(_RC):
        made.savefig(text, format="svg", transparent=transparent, metadata={"Date": None})
    return _HARMFUL.sub("", text.getvalue())


_HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters removed from SVG; ``shown_name`` escapes them already, so this is a second guard."""


def ticks(axis: Axis, names: Sequence[str], at: Iterable[float], *, most: int = 24) -> None:
    """Set names at places of an axis."""
    axis.set_ticks(list(at), labels=[shown_name(name, most) for name in names])
