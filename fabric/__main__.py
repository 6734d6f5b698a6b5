"""``python -m fabric``, where no script of that name is on the path."""

from fabric.cli.main import run

run()
