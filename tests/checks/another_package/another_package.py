"""Checks as another package adds them: one that is sound, and some that are not."""

from collections.abc import Iterator

from fabric.checks.kind import Argv, HostCheck, HostNeeds, Looked, excuse, problem, unknown
from fabric.model.finding import Finding
from fabric.model.topology import Host

RELEASE = ("uname", "-r")


def _ask(_host: Host, needs: HostNeeds) -> tuple[Argv, ...]:
    return (RELEASE,) if needs.measured else ()


def _read(looked: Looked) -> Iterator[Finding]:
    answer = looked.answers[RELEASE]
    if answer.lost or answer.exit_status != 0:
        yield unknown(f"its kernel was not said: {excuse(answer)}", "we run one kernel everywhere", "uname -r there")
    elif not answer.stdout.startswith("6.8."):
        yield problem(f"its kernel is {answer.stdout.strip()}", "we run 6.8 everywhere", "install it")


KERNEL = HostCheck("kernel", _ask, _read)


def _breaks(looked: Looked) -> Iterator[Finding]:
    raise KeyError(looked.host.name)


BREAKS = HostCheck("breaks", _ask, _breaks)
A_STRING_IS_NO_COMMAND = HostCheck("string", lambda _host, _needs: ("uname -r",), _read)  # what a mistake looks like
NO_CHECK = 7
TAKEN = HostCheck("rnics", _ask, _read)
