"""What can be read in a figure."""

from matplotlib.figure import Figure
from matplotlib.text import Text

from fabric.report.figures import inline


def texts(drawn: Figure) -> set[str]:
    """Every text of it, as it is drawn."""
    inline(drawn)
    return {one.get_text() for one in drawn.findobj(Text) if one.get_text()}
