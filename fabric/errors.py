"""Every error this package raises on purpose.

* FabricError                     (exit 3: the run could not be trusted)
  x ConfigError                   (exit 2: the operator's file or command line is wrong)
  x ExecutorError                 the transport failed, not the tool
    - HostUnreachable             no session, or it was lost; says at which step
      . HostRefused               the host is there and takes no session from us
      . JumpHostUnreachable       a jump host before it cannot be passed
      . SessionLost               it was lost while a command ran; the host may be there all the same
    - CommandTimeout              the deadline passed; carries what was printed until then
  x ToolError                     the tool ran and we cannot use what it said
    - UnreadableOutput            text we do not understand, quoted
  x ChangeError                   a change of the fabric was not made, or not as asked
    - Refused                     a guard rail says no; nothing was altered; names what would allow it
    - NotInForce                  it was applied and cannot be seen in force
    - MayBeLive                   (exit 4: a change may still be live) says how to undo it by hand
  x StoreError                    the run directory cannot be written or read
  x Interrupted                   somebody stopped the run; what was measured is kept
  x OutOfMemory                   this process may have no more memory, or no more threads

A slow link is not an error: it is a Measurement that earns a FAIL.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

_LAST_WORDS = 200  # characters of a command's last output in a message; a choice


class FabricError(Exception):
    """The root of every error that we raise on purpose."""


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong with a file: where it is, and what was expected instead."""

    file: str
    line: int  # 1-based; 0 when the whole file (or the command line) is meant
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


class ConfigError(FabricError):
    """The operator's file or command line is wrong; holds every problem found, not just the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def at(cls, where: object, text: str, *, line: int = 0) -> ConfigError:
        """Return the error for the one problem of a file or an option."""
        return cls([Problem(str(where), line, text)])


class ExecutorError(FabricError):
    """The transport failed, not the tool."""


class HostUnreachable(ExecutorError):
    """No session with the host, or the session was lost; *step* says during what."""

    condition: ClassVar[str] = "silent"
    """What is said of its host, as the condition of a NamedPart."""

    def __init__(self, host: str, step: str, cause: str) -> None:
        self.host, self.step, self.cause = host, step, cause
        super().__init__(f"{host}: {step}: {cause}")


class HostRefused(HostUnreachable):
    """The host answered, but refused for good (host key, authentication, MaxSessions); never retried."""

    condition = "refusing"


class JumpHostUnreachable(HostUnreachable):
    """Nothing is known of the host: the way to it, through a jump host, is closed; the cause names that."""

    condition = "behind"


class SessionLost(HostUnreachable):
    """The session was lost while a command ran in it; a new one may work, so one such loss proves little."""


class CommandTimeout(ExecutorError):
    """The deadline passed; the command and all it started were ended. Its last line on stderr often tells why."""

    def __init__(self, host: str, timeout_s: float, stdout: str = "", stderr: str = "") -> None:
        self.host, self.timeout_s, self.stdout, self.stderr = host, timeout_s, stdout, stderr
        lines = stderr.split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")[:_LAST_WORDS]
        super().__init__(f"{host}: no answer within {timeout_s:g} s" + (f"; its last words: {last}" if last else ""))


class ToolError(FabricError):
    """The tool ran, but we cannot use its output."""


class UnreadableOutput(ToolError):
    """The tool printed text we do not understand; the message quotes it."""


class ChangeError(FabricError):
    """A change of the fabric was not made, or not as asked."""


class Refused(ChangeError):
    """
    A guard rail refused, before anything was altered; *allow* is the word that would allow it, None if nothing does.
    """

    def __init__(self, reason: str, *, allow: str | None = None) -> None:
        self.reason, self.allow = reason, allow
        super().__init__(reason if allow is None else f"{reason} (to do it all the same: allow: [{allow}])")


class NotInForce(ChangeError):
    """A change was applied but cannot be seen in force; the message says what was seen instead."""


class MayBeLive(ChangeError):
    """A change may still be live on the fabric; the message says where, and how to undo it by hand."""


class StoreError(FabricError):
    """The run directory cannot be written or read."""


class Interrupted(FabricError):
    """Somebody stopped the run; the message says where the measurements until then are."""


class OutOfMemory(FabricError):
    """This process may have no more memory, or no more threads; the message says what to do."""


_NO_SEGMENT = ("failed to map segment", "cannot allocate memory")
"""Messages of the dynamic linker when a library no longer fits into memory."""


def out_of_memory(exc: BaseException) -> str:
    """Return a message if an error comes from a lack of memory, whoever raised it; empty for every other error."""
    seen: list[BaseException] = []
    one: BaseException | None = exc
    while one is not None and one not in seen:
        seen.append(one)
        message = str(one).lower()
        if "start new thread" in message and isinstance(one, RuntimeError):
            return (
                "out of memory, or of processes: no thread can be started here; raise the limit (ulimit -v, ulimit -u)"
            )
        if (
            isinstance(one, OutOfMemory | MemoryError)
            or (isinstance(one, OSError) and one.errno == errno.ENOMEM)
            or (isinstance(one, ImportError) and any(words in message for words in _NO_SEGMENT))
        ):
            more = "raise the limit (ulimit -v, or the memory of its job or container), or ask for fewer hosts at once"
            return f"out of memory: {more}"
        one = one.__cause__ or one.__context__
    return ""
