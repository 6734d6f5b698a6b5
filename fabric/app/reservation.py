"""Hosts that Slurm names: those of a job, of a reservation."""

from __future__ import annotations

from fabric.app.scheduler import Run, run_here
from fabric.errors import ConfigError, ToolError
from fabric.tools import slurm
from fabric.tools.driver import need_success


def hosts_of(*, job: str | None, reserved: str | None, run: Run = run_here) -> str:
    """The hosts of a job, or of a reservation, as ``--hosts`` takes them; ConfigError where Slurm names none."""
    option, given = ("--slurm-job", job) if job is not None else ("--reservation", reserved or "")
    try:
        said = run(slurm.job_nodes(given) if job is not None else slurm.reservation(given))
        need_success(said.command.argv[0], said.stdout, said.stderr, said.exit_status)
        listed = said.stdout.strip() if job is not None else slurm.reserved(said.stdout)
        if not listed:
            raise ToolError("it has no nodes (yet, or any more)")
        names = run(slurm.unfold(listed))
        need_success("scontrol", names.stdout, names.stderr, names.exit_status)
    except (ToolError, ValueError) as exc:
        raise ConfigError.at(option, f"{given}: {exc}") from exc
    return ",".join(dict.fromkeys(names.stdout.split()))
