"""What a check is, how it says what it found, and the checks that other packages add."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points

from fabric.checks.ask import Answers, Argv, quoted
from fabric.checks.needs import HostNeeds
from fabric.model.finding import Finding, Severity
from fabric.model.topology import Host

GROUP = "fabric.checks"
"""The entry point group in which a package names its own checks, each a ``HostCheck``."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One host, what it must have, and what it answered to every check."""

    host: Host
    needs: HostNeeds
    answers: Answers


@dataclass(frozen=True, slots=True)
class HostCheck:
    """
    One thing to look at on each host; it alters nothing there.

    *ask* says which commands to run on a host: none where the check does not matter. *read* says what is wrong with one
    host that was asked something, *compare* what is wrong between hosts. Neither raises, whatever a host printed.
    """

    name: str
    ask: Callable[[Host, HostNeeds], Sequence[Argv]] = lambda _host, _needs: ()
    read: Callable[[Looked], Iterable[Finding]] = lambda _looked: ()
    compare: Callable[[Mapping[str, Looked]], Iterable[Finding]] = lambda _hosts: ()

    def findings(self, hosts: Mapping[str, Looked]) -> Iterator[Finding]:
        """All that it finds on the hosts."""
        for name, looked in hosts.items():
            if self.ask(looked.host, looked.needs):
                yield from signed(self.name, self.read(looked), name)
        yield from signed(self.name, self.compare(hosts))


def problem(what: str, why: str, advice: str, *hosts: str) -> Finding:
    """The scenario would fail, or its numbers would be wrong; of the host that was read, unless *hosts* are named."""
    return Finding("", Severity.PROBLEM, hosts, what, why, advice)


def unknown(what: str, why: str, advice: str, *hosts: str) -> Finding:
    """It could not be checked."""
    return Finding("", Severity.UNKNOWN, hosts, what, why, advice)


def warning(what: str, why: str, advice: str, *hosts: str) -> Finding:
    """Worth knowing."""
    return Finding("", Severity.WARNING, hosts, what, why, advice)


def signed(check: str, findings: Iterable[Finding], *hosts: str) -> Iterator[Finding]:
    """The findings with the check's name, and with *hosts* where they name none."""
    return (replace(one, check=check, hosts=one.hosts or hosts) for one in findings)


def with_plugins(checks: Sequence[HostCheck]) -> tuple[list[HostCheck], list[Finding]]:
    """
    The checks, and those that installed packages add under ``fabric.checks``; and what is wrong with these.

    One that cannot be loaded is told, and the others are looked at all the same.
    """
    found, broken = list(checks), list[Finding]()
    for point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            found.append(_guarded(_loaded(point, {one.name for one in found})))
        except Exception as exc:  # noqa: BLE001 - somebody else's code may raise anything when it is imported
            broken.append(_broken(f"{point.name} ({point.value})", "cannot be loaded", exc))
    return found, broken


def _loaded(point: EntryPoint, taken: set[str]) -> HostCheck:
    check = point.load()
    if not isinstance(check, HostCheck):
        raise TypeError(f"expected a fabric.checks.kind.HostCheck, got {type(check).__name__}")
    if check.name in taken:
        raise ValueError(f"there is a check {check.name!r} already")
    return check


def _guarded(check: HostCheck) -> HostCheck:
    """A check of somebody else: where it breaks, that is told of it, and nothing else is lost."""

    def ask(host: Host, needs: HostNeeds) -> Sequence[Argv]:
        try:
            return _commands(check, host, needs)
        except Exception:  # noqa: BLE001 - told by ``compare``, once for all hosts
            return ()

    def compare(hosts: Mapping[str, Looked]) -> Iterable[Finding]:
        try:
            for looked in hosts.values():
                _commands(check, looked.host, looked.needs)
            return list(check.findings(hosts))
        except Exception as exc:  # noqa: BLE001 - somebody else's code
            return [_broken(check.name, "broke", exc)]

    return HostCheck(check.name, ask, compare=compare)


def _commands(check: HostCheck, host: Host, needs: HostNeeds) -> Sequence[Argv]:
    asked = tuple(check.ask(host, needs))
    for argv in asked:
        if not (isinstance(argv, tuple) and argv and all(isinstance(word, str) for word in argv)):
            raise TypeError(f"expected commands as tuples of words, got {argv!r}")
    return asked


def _broken(name: str, how: str, exc: Exception) -> Finding:
    what = f"the check {name} of another package {how}: {type(exc).__name__}: {quoted(str(exc))}"
    return Finding("plug-ins", Severity.UNKNOWN, (), what, "what it looks at is not known", "mend or uninstall it")
