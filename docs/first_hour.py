"""
Writes what `fabric check` prints into docs/first-hour.md, from the inventories that stand there.

    python docs/first_hour.py            writes the page anew
    python docs/first_hour.py --check    exit 1 when it would change

Each inventory is played on the simulated hosts twice: without the lines that end in `# set: ...`, as one begins, and
with them. `site:` under `mock:` says in what such hosts are as unkind as real ones.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from fabric.cli.main import run

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "first-hour.md"
_PART = re.compile(
    r"(```yaml\n(?P<yaml>.*?)```\n.*?\n```text\n)(?P<before>.*?)(```\n.*?\n```text\n)(?P<after>.*?)```", re.DOTALL
)
_SET = re.compile(r".*# set: .*\n")


def checked(inventory: str, scenario: str) -> str:
    """What `fabric check` prints of an inventory."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "inventory" / "baselines", Path(folder) / "baselines")
        path = Path(folder) / "site.yaml"
        path.write_text(inventory)
        out, argv = io.StringIO(), sys.argv
        sys.argv = ["fabric", "check", str(ROOT / "scenarios" / f"{scenario}.yaml"), f"--inventory={path}"]
        sys.argv.append("--backend=mock")
        try:
            with redirect_stdout(out), redirect_stderr(out), suppress(SystemExit):
                run()
        finally:
            sys.argv = argv
    return out.getvalue().replace(folder, "inventory").rstrip() + "\n"


def made(page: str) -> str:
    """The page with what is printed now."""

    def filled(found: re.Match[str]) -> str:
        text = found["yaml"]
        scenario = "ber-sweep" if "via:" in text else "self-check"
        before, after = checked(_SET.sub("", text), scenario), checked(text, scenario)
        return f"{found[1]}{before}{found[4]}{after}```"

    return _PART.sub(filled, page)


def main() -> int:
    """Write the page, or say whether it is as it should be."""
    was = PAGE.read_text()
    now = made(was)
    if "--check" in sys.argv:
        return int(now != was)
    PAGE.write_text(now)
    return 0


if __name__ == "__main__":
    sys.exit(main())
