"""
Signatures of certificates: ``ssh-keygen -Y`` of OpenSSH 8.2 or newer makes and checks them.

Anybody can check one without this tool:
``ssh-keygen -Y verify -n fabric-certificate -f allowed -I who -s FILE.sig < FILE``.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from fabric.errors import ConfigError, ExecutorError, Problem, StoreError
from fabric.hosts.process import ProcessExecutor
from fabric.model.command import Command, CommandResult
from fabric.ports import run_once

NAMESPACE = "fabric-certificate"
"""What is signed with it: a signature made for another purpose is none."""

TIMEOUT_S = 60.0
"""Of one call (a choice: a key in a token waits for a finger)."""

_WITH_INPUT = 'exec ssh-keygen "$@" < "$0"'
_SIGNER = re.compile(rf'Good "{NAMESPACE}" signature with \S+ key (SHA256:\S+)')
_KEY = re.compile(r"[0-9]+ (SHA256:\S+) ")
_PASSPHRASE = "the key has a passphrase: sign with ssh-keygen -Y sign -n fabric-certificate -f KEY certificate.json"


def sign(message: bytes, key: Path) -> bytes:
    """The armoured signature of a message; ConfigError for a key that cannot sign it."""
    result = _ssh_keygen(message, "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key))
    if result.exit_status == 0 and result.stdout.startswith("-----BEGIN SSH SIGNATURE-----"):
        return result.stdout.encode()
    text = _PASSPHRASE if "passphrase" in result.stderr else f"cannot sign with it: {_said(result)}"
    raise ConfigError([Problem(str(key), 0, text)])


def signer(message: bytes, signature: bytes) -> str | None:
    """
    Whose signature this is, as the fingerprint of the key; None when it is not one of this message.

    StoreError when it is no signature that can be read: of another kind, for another purpose.
    """
    with TemporaryDirectory(prefix="fabric-") as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        result = _ssh_keygen(message, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(file))
    if result.exit_status == 0 and (found := _SIGNER.match(result.stdout)):
        return found[1]
    if "incorrect signature" in result.stderr:
        return None
    raise StoreError(f"no SSH signature of a certificate: {_said(result)}")


def fingerprint(public: bytes, where: str) -> str:
    """``SHA256:...`` of a public key, the line in a .pub file; ConfigError for anything else."""
    found = _KEY.match(_ssh_keygen(public, "-l", "-E", "sha256", "-f", "-").stdout)
    if found is None or len(public.splitlines()) > 1:
        text = f"no public key: expected a line 'ssh-ed25519 AAAA...', got {public[:40].decode('utf-8', 'replace')!r}"
        raise ConfigError([Problem(where, 0, text)])
    return found[1]


def _ssh_keygen(message: bytes, *words: str) -> CommandResult:
    """StoreError where it is not there, or does not answer."""
    executor = ProcessExecutor(agents=False)
    try:
        with TemporaryDirectory(prefix="fabric-") as folder:
            file = Path(folder) / "message"
            file.write_bytes(message)
            argv = ("sh", "-c", _WITH_INPUT, str(file), *words)
            result = run_once(executor, Command("here", argv, TIMEOUT_S, env=(("SSH_ASKPASS_REQUIRE", "never"),)))
    except (OSError, ExecutorError) as exc:
        raise StoreError(f"ssh-keygen cannot be run: {exc}") from exc
    finally:
        executor.close()
    if result.exit_status == 127:
        raise StoreError("ssh-keygen is not there: install OpenSSH, 8.2 or newer")
    return result


def _said(result: CommandResult) -> str:
    lines = [line for line in result.stderr.splitlines() if line.strip(" @")]
    return lines[0].strip()[:200] if lines else f"ssh-keygen ended with {result.exit_status}"
