"""SVG from small pure functions; every text and attribute is escaped and made visible."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from fabric.report.output import visible


def number(value: float) -> str:
    """A coordinate, as short as it can be: a tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")


def tag(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """One element; ``class_`` is written ``class``, ``stroke_width`` ``stroke-width``; None leaves an attribute out."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(number(value) if isinstance(value, int | float) else value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(escape(part) for part in content)
    return Markup(f"<{name}{said}>{inside}</{name}>" if inside else f"<{name}{said}/>")


def text(x: float, y: float, words: str, *, cls: str = "", anchor: str = "", most: int = 80) -> Markup:
    """A line of text; what a host printed is cut and made harmless."""
    shown = visible(words)
    shown = shown if len(shown) <= most else f"{shown[: most - 1]}…"
    return tag("text", shown, x=x, y=y, class_=cls or None, text_anchor=anchor or None)


def rect(x: float, y: float, width: float, height: float, cls: str, title: str = "") -> Markup:
    """A box; *title* is what a pointer resting on it sees."""
    inside = (tag("title", visible(title)),) if title else ()
    return tag("rect", *inside, x=x, y=y, width=max(width, 0.1), height=max(height, 0.1), class_=cls)


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=cls)


def mark(x: float, y: float, size: float, outcome: str, title: str = "") -> Markup:
    """
    The sign of an outcome around a point: cross FAIL, bar ERROR, ring SKIPPED and INCONCLUSIVE, dot MARGINAL.

    The shape says it without colour; PASS has none.
    """
    half = size / 2
    if outcome == "pass":
        return Markup("")
    if outcome in ("skipped", "inconclusive"):
        inner = [tag("circle", cx=x, cy=y, r=half * 0.8)]
    elif outcome == "marginal":
        inner = [tag("circle", cx=x, cy=y, r=half * 0.5)]
    elif outcome == "error":
        inner = [tag("path", d=f"M{number(x)} {number(y - half)}v{number(size * 0.6)}m0 {number(size * 0.2)}v0.8")]
    else:
        start = f"M{number(x - half)} {number(y - half)}"
        inner = [
            tag("path", d=f"{start}l{number(size)} {number(size)}m{number(-size)} 0l{number(size)} {number(-size)}")
        ]
    if title:
        inner.append(tag("title", visible(title)))
    return tag("g", *inner, class_=f"mark m-{outcome}")


def picture(width: float, height: float, parts: Iterable[Markup], label: str, *, cls: str = "", **data: str) -> Markup:
    """A whole picture, as wide as its place and no wider than it was drawn; *label* says it to who cannot see it."""
    return tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(width)} {number(height)}",
        style=f"max-width:{number(width)}px",
        role="img",
        aria_label=visible(label),
        class_=f"drawn {cls}".strip(),
        **data,
    )
