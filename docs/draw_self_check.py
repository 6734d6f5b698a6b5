"""
Makes docs/self-check.svg and the output block of docs/self-check.md from one real run of the demo rack.

``python docs/draw_self_check.py box`` makes docs/lab.svg, of a port that is slow in a box of this machine. Root.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fabric.app.prepare import Given, prepare
from fabric.app.run import run
from fabric.report.progress import ConsoleProgress
from fabric.report.verdict_text import verdict_text
from fabric.wiring import BACKENDS

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 132
SLOW = "h5/mlx5_0:tx:slow=0.3"


def main() -> None:
    """Run the demo rack and export what is printed."""
    console = terminal()
    os.chdir(ROOT)  # the page shows paths as a user in this folder sees them
    asked = prepare(Given(Path("scenarios/self-check.yaml")))
    with tempfile.TemporaryDirectory() as folder:
        judged = run(
            asked,
            backend="mock",
            executor=BACKENDS["mock"](asked.inventory, 1),
            results=Path(folder),
            seed=1,
            observer=ConsoleProgress(quiet=True),
        ).judged
    shown = f"results/{judged.scenario.name}/{judged.run_id}"
    console.print(Text.from_ansi(verdict_text(replace(judged, path=shown, again=f"fabric report {shown}"))), end="")
    page = ROOT / "docs" / "self-check.md"
    before, _, rest = page.read_text().partition("## What it prints\n")
    lead, _, rest = rest.partition("```text\n")
    block = f"{lead}```text\n{console.export_text(clear=False).rstrip()}\n```\n{rest.partition('```' + chr(10))[2]}"
    page.write_text(f"{before}## What it prints\n{block}")
    console.save_svg(str(ROOT / "docs" / "self-check.svg"), title="fabric run scenarios/self-check.yaml")


def terminal() -> Console:
    """One that remembers what it showed."""
    return Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)


def box() -> None:
    """Make a box, slow a port down, have it found, take the box away."""
    fabric = (str(Path(sys.executable).with_name("fabric")), "lab")
    shown, printed = os.openpty()
    for words in (("up",), ("break", SLOW)):
        subprocess.run((*fabric, *words), cwd=ROOT, check=True, capture_output=True)
    text = b""
    try:
        argv = (*fabric, "run", "scenarios/box.yaml")
        quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(argv, cwd=ROOT, env=os.environ | {"COLUMNS": str(WIDTH)}, stdout=printed, **quiet):
            os.close(printed)
            with contextlib.suppress(OSError):  # a terminal that nobody writes to any more cannot be read
                while chunk := os.read(shown, 1 << 12):
                    text += chunk
    finally:
        subprocess.run((*fabric, "down"), cwd=ROOT, check=True, capture_output=True)
    draw_box(text.decode())


def draw_box(text: str) -> None:
    """What a run printed on a terminal, as docs/lab.svg."""
    console = terminal()
    console.print(Text.from_ansi(text.replace("\r", "").replace(f"{ROOT}/", "")), end="")
    title = f"fabric lab up && fabric lab break {SLOW} && fabric lab run scenarios/box.yaml"
    console.save_svg(str(ROOT / "docs" / "lab.svg"), title=title)


if __name__ == "__main__":
    box() if sys.argv[1:] == ["box"] else main()
