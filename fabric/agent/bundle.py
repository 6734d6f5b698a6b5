"""The agent's files as the one program that is sent to a host, and the command line that receives it."""

from __future__ import annotations

import importlib.resources
import importlib.util
import marshal
import threading
import zlib
from functools import cache

_FILES = ("wire.py", "sessions.py", "commands.py", "sampling.py", "work.py", "agent.py")
# Nothing is left to be done at the end; to take the interpreter apart would cost a host milliseconds.
_BEGIN = "\nAgent(sys.argv[2], float(sys.argv[3])).serve()\nos._exit(0)\n"
# The C module under signal, which has all that we need: signal itself makes enumerations, which takes 4 ms to import.
_LIGHTER = {"import signal": "import _signal as signal"}
_NAME = "fabric-agent"
_LOCK = threading.Lock()
# One line, for csh ends a quoted text at a newline. It reads the program's bytes from file descriptor 0, and not one
# more, because what follows belongs to the agent. To compile the source is half of the agent's start, so what a Python
# like ours would make of it comes along; a Python that is not like ours (its magic number says so) compiles the source.
_RECEIVE = (
    "import os,sys,zlib,marshal,_frozen_importlib_external as f;sys.version_info<(3,6) and sys.exit(71);"
    "r=lambda n:n and (lambda c:c and c+r(n-len(c)))(os.read(0,n)) or bytes();"
    "s,c=r(int(sys.argv[1])),r(int(sys.argv[4]));z=zlib.decompress;"
    'exec(marshal.loads(z(c)) if f.MAGIC_NUMBER.hex()==sys.argv[5] else compile(z(s),"' + _NAME + '","exec"))'
)


@cache
def source() -> str:
    """All files one after the other; imports of one from another are left out, for they share one name space."""
    folder = importlib.resources.files(__package__)
    lines = [line for name in _FILES for line in (folder / name).read_text("utf-8").splitlines()]
    lines = [_LIGHTER.get(line, line) for line in lines if not line.startswith("from fabric.")]
    return "\n".join(lines) + _BEGIN


def program() -> bytes:
    """What follows the command line on stdin: the source and its code, both compressed."""
    return b"".join(_parts())


def _parts() -> tuple[bytes, bytes]:
    with _LOCK:  # else the threads that connect to the first hosts all make them
        return _made()


@cache
def _made() -> tuple[bytes, bytes]:
    text = source()
    code = compile(text, _NAME, "exec", dont_inherit=True)
    return zlib.compress(text.encode("ascii"), 9), zlib.compress(marshal.dumps(code), 9)


def receiving_argv(nonce: str, silence_s: float) -> tuple[str, ...]:
    """
    The command line that reads ``program()`` from stdin and becomes the agent.

    The agent begins what it says with *nonce*, and ends itself when it hears nothing for *silence_s*. Python is
    isolated (-I) from the user's packages and variables, and starts without the site's (-S), which is quicker. A Python
    older than 3.6 ends with 71.
    """
    text, code = map(len, _parts())
    magic = importlib.util.MAGIC_NUMBER.hex()
    return ("python3", "-I", "-S", "-u", "-c", _RECEIVE, str(text), nonce, f"{silence_s:g}", str(code), magic)
