"""The commands that a simulated guard is given: run one after the other, and checked as ``grep -E`` would."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from fabric.sim.job import Job, Setting
from fabric.sim.port_tool import Ask, Said
from fabric.sim.programs import Say
from fabric.sim.rack import Rack
from fabric.sim.site import Site

Meaning = Callable[[Sequence[str], Setting], Job]
"""What a command line does (``commands.job_of``)."""

NOT_FOUND = 127

_CLASSES = {"[:space:]": r"\s", "[:blank:]": r" \t", "[:digit:]": "0-9", "[:alpha:]": "A-Za-z"} | {
    "[:alnum:]": "A-Za-z0-9",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
}


@dataclass(frozen=True, slots=True)
class Steps:
    """Runs command lines on one host at one instant; *pid* is in the messages of some tools."""

    rack: Rack
    site: Site
    meaning: Meaning
    pid: int

    def known(self, line: str) -> str | None:
        """The command of a step or a check that this host lacks, None when it is there."""
        words = _argv(line)
        job = self.meaning(words[:1], Setting())
        missing = isinstance(job, Say) and job.said_on(self.site).status == NOT_FOUND
        return words[0] if missing else None

    def run(self, line: str, at_s: float) -> Said:
        """One step; a program that takes time is not a step here, and counts as not found."""
        return self._run(_words(line), at_s)

    def _run(self, words: Sequence[str], at_s: float) -> Said:
        job = self.meaning(words, Setting())
        if isinstance(job, Ask):
            return job.said_on(self.rack, self.site, at_s, self.pid)
        if isinstance(job, Say):
            return job.said_on(self.site)
        return Said(stderr=f"{words[0]}: simulated rack: not as a step of a change\n", status=NOT_FOUND)

    def undone(self, undo: str, checks: str, at_s: float) -> str:
        """Run every step of an undo, then every check; what was wrong, empty when nothing was."""
        wrong = ""
        for line in undo.splitlines():
            said = self.run(line, at_s)
            if said.status != 0:
                wrong += f"undo ended with {said.status}: {shown(line)}\n{said.stdout}{said.stderr}"
        for line in checks.splitlines():
            wrong += self._check(line, at_s)
        return wrong

    def _check(self, line: str, at_s: float) -> str:
        words = _words(line)
        end = words.index("--")
        said = self._run(words[end + 1 :], at_s)
        if said.status != 0:
            return f"check ended with {said.status}: {line}\n{said.stdout}{said.stderr}"
        for pattern in words[:end]:
            if not any(re.search(_as_python(pattern), text) for text in said.stdout.splitlines()):
                return f"check does not find {pattern}: {line}\n{said.stdout}"
        return ""


@lru_cache(maxsize=256)
def _words(line: str) -> tuple[str, ...]:
    """As a shell splits it. Steps are long, few, and asked for again and again."""
    return tuple(shlex.split(line))


def _argv(line: str) -> Sequence[str]:
    words = _words(line)
    return words[words.index("--") + 1 :] if "--" in words else words


def shown(line: str) -> str:
    """A step as it is told: of ``sh -c TEXT NAME ...`` what comes after the text."""
    words = _words(line)
    return " ".join(words[3:]) if words[:2] == ("sh", "-c") and len(words) > 3 else line


def _as_python(pattern: str) -> str:
    for name, meant in _CLASSES.items():
        pattern = pattern.replace(name, meant)
    return pattern
