"""``fabric``: click parses, the app does; exit 0 good, 1 the fabric failed, 2 your input, 3 not measured."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

_COMMANDS = {
    "run": ("fabric.cli.run", "Run a scenario and judge it."),
    "plan": ("fabric.cli.plan", "Show what a scenario would run, and for how long."),
    "analyze": ("fabric.cli.analyze", "Judge an old run again, with today's code or another baseline."),
    "report": ("fabric.cli.report", "Show the verdict of a run."),
    "parse": ("fabric.cli.parse", "Read the output of nccl-tests or perftest."),
    "inventory": ("fabric.cli.inventory", "Show an inventory, or the schema of its file."),
}


class _Lazy(click.Group):
    """Imports a command's module only when it is asked for: ``fabric --help`` must be instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(_COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Say the nearest word when a command is misspelt."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], _COMMANDS, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(_COMMANDS)}"
            raise click.UsageError(f"no command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fabric-testbench", prog_name="fabric")
def main() -> None:
    """Burn-in, post-repair validation and resilience drills for GPU cluster networks."""


def run() -> None:
    """Entry point: every failure ends in one clear message and its exit code, never in a traceback."""
    try:
        sys.exit(main(standalone_mode=False) or 0)
    except click.ClickException as exc:
        _say_json(exc.format_message(), 2)
        exc.show()
        sys.exit(2)
    except click.Abort:
        _say_json("interrupted", 3)
        click.echo("interrupted", err=True)
        sys.exit(3)
    except BrokenPipeError:
        # Whoever read our output has gone; what is left in the buffers must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(3)
    except Exception as exc:  # noqa: BLE001 - the last line of the command line
        sys.exit(_explain(exc))


def _explain(exc: Exception) -> int:
    from fabric.errors import ConfigError, FabricError
    from fabric.report.visible import visible

    if isinstance(exc, ConfigError):
        count = len(exc.problems)
        _say_json(f"{count} problem{'s' if count != 1 else ''}", 2, [str(problem) for problem in exc.problems])
        click.echo(str(exc), err=True)
        click.echo(f"{count} problem{'s' if count != 1 else ''}", err=True)
        return 2
    own = isinstance(exc, FabricError)
    text = str(exc) if own else f"internal error: {type(exc).__name__}: {exc} (a defect of fabric, please report it)"
    _say_json(text, 3)
    click.echo(f"{'error: ' if own else ''}{visible(text)}", err=True)
    return 3


def _say_json(error: str, exit_code: int, problems: Sequence[str] = ()) -> None:
    """Who asked for JSON gets one document on stdout also when things go wrong."""
    if "--json" not in sys.argv:
        return
    import orjson

    click.echo(orjson.dumps({"error": error, "problems": problems, "exit_code": exit_code}, option=orjson.OPT_INDENT_2))
