"""What runs on a host during a run: stdlib-only Python, sent over stdin, nothing installed.

Joins the agent's files into the one program that is sent to a host, and makes the command line that receives it. Does
the same for the program that a task of a Slurm step begins as.
"""

import importlib.resources
import zlib
from functools import cache

_FILES = ("sessions.py", "sampling.py", "work.py", "agent.py")
# os._exit: nothing is left to be done at the end, and taking the interpreter apart would cost a host milliseconds.
_BEGIN = "\nAgent(sys.argv[2], float(sys.argv[3])).serve()\nos._exit(0)\n"
# One line, because csh ends a quoted text at a newline. It reads the program's bytes from file descriptor 0, and not
# one more: what follows belongs to the agent.
_RECEIVE = (
    "import os,sys,zlib;sys.version_info<(3,6) and sys.exit(71);"
    "r=lambda n:n and (lambda c:c and c+r(n-len(c)))(os.read(0,n)) or bytes();"
    'exec(compile(zlib.decompress(r(int(sys.argv[1]))),"fabric-agent","exec"))'
)


@cache
def source() -> str:
    """Return all files, joined; imports of one from another are left out, because they share one name space."""
    folder = importlib.resources.files(__package__)
    lines = [line for name in _FILES for line in (folder / name).read_text("utf-8").splitlines()]
    return "\n".join(line for line in lines if not line.startswith("from fabric.")) + _BEGIN


@cache
def program() -> bytes:
    """Return what follows the command line on stdin: the source, compressed."""
    return zlib.compress(source().encode("ascii"), 9)


def receiving_argv(nonce: str, silence_s: float) -> tuple[str, ...]:
    """
    Return the command line that reads ``program()`` from stdin and becomes the agent.

    The agent begins its output with *nonce*, and ends itself when it hears nothing for *silence_s*.
    """
    return _receiving(program(), nonce, f"{silence_s:g}")


@cache
def task_program() -> bytes:
    """Return what ``task_argv`` reads from stdin before the line with the step's secret."""
    text = (importlib.resources.files(__package__) / "joining.py").read_text("utf-8")
    return zlib.compress((text + "\njoin(int(sys.argv[2]))\n").encode("ascii"), 9)


def task_argv(port: int) -> tuple[str, ...]:
    """Return the command line that reads ``task_program()`` from stdin and connects to the orchestrator at *port*."""
    return _receiving(task_program(), str(port))


def _receiving(program: bytes, *words: str) -> tuple[str, ...]:
    """
    Return a command line that reads *program* from stdin and becomes it, with *words* as its arguments.

    Python is isolated (-I) from the user's packages and variables, and starts without the site's (-S), which is faster.
    A Python older than 3.6 exits with 71.
    """
    return ("python3", "-I", "-S", "-u", "-c", _RECEIVE, str(len(program)), *words)
