"""SSH keys: the user's keys for authentication, and the host keys on record in known_hosts files.

Both are read once per run. Of known_hosts, plain names, hashed names, wildcards and @revoked are understood.
"""

from __future__ import annotations

import base64
import getpass
import hmac
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import paramiko

from fabric.errors import HostRefused, HostUnreachable
from fabric.model.inventory import JumpHost, SshSettings

if TYPE_CHECKING:
    from paramiko.message import _LikeBytes


KeyStanding = Literal["known", "unknown", "changed", "revoked"]
"""What the files say about a key that a host showed."""


@dataclass(frozen=True, slots=True)
class HostKey:
    """A public host key: its type as written in the file, and its blob."""

    key_type: str
    blob: bytes


_Line = tuple[Callable[[str], bool], HostKey]
"""A predicate that tells whether a line is about a name, and the line's key."""


class KnownHosts:
    """An index over lines of known_hosts files: O(n) to build, a dictionary look-up for plain names."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._plain: dict[str, list[HostKey]] = {}
        self._marked: dict[str, list[_Line]] = {"": [], "@revoked": []}
        for line in lines:
            words = line.split()
            marker = words.pop(0) if words and words[0].startswith("@") else ""
            if len(words) < 3 or words[0].startswith("#") or marker not in self._marked:
                continue
            names, key_type, encoded = words[:3]
            try:
                key = HostKey(key_type, base64.b64decode(encoded, validate=True))
                if marker or re.search(r"^\|1\||[*?!]", names):
                    self._marked[marker].append((_covering(names), key))
                else:
                    for name in names.lower().split(","):
                        self._plain.setdefault(name, []).append(key)
            except ValueError:  # an unreadable line vouches for nobody
                continue

    @classmethod
    def load(cls, files: Iterable[str]) -> KnownHosts:
        """
        Index all *files*; a missing file holds nothing, as with OpenSSH.

        Raises HostUnreachable (for no host in particular) when a file exists and cannot be read.
        """
        lines: list[str] = []
        for name in files:
            try:
                lines += Path(name).expanduser().read_text("utf-8", "replace").splitlines()
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise HostUnreachable("every host", "reading known_hosts", str(exc)) from exc
        return cls(lines)

    def keys(self, address: str, port: int) -> tuple[HostKey, ...]:
        """Return the keys on record for an address and port, without revoked ones."""
        name = _name(address, port)
        found = [key for covers, key in self._marked[""] if covers(name)]
        return tuple(dict.fromkeys([*self._plain.get(name, ()), *found]))

    def standing(self, address: str, port: int, key: HostKey) -> KeyStanding:
        """Return how *key*, shown by the server at *address* and *port*, compares with the files."""
        name = _name(address, port)
        if any(one.blob == key.blob and covers(name) for covers, one in self._marked["@revoked"]):
            return "revoked"
        on_record = self.keys(address, port)
        if key in on_record:
            return "known"
        if any(known.key_type == key.key_type for known in on_record):
            return "changed"
        return "unknown"


def _name(address: str, port: int) -> str:
    return address.lower() if port == 22 else f"[{address.lower()}]:{port}"


def _covering(names: str) -> Callable[[str], bool]:
    """Return a predicate that matches a name against the hashed one, or against patterns (``!`` excludes)."""
    if names.startswith("|1|"):
        salt, digest = map(base64.b64decode, names[3:].split("|"))
        return lambda name: hmac.compare_digest(hmac.digest(salt, name.encode("utf-8"), "sha1"), digest)
    words = names.lower().split(",")
    wanted = [_pattern(word) for word in words if not word.startswith("!")]
    unwanted = [_pattern(word[1:]) for word in words if word.startswith("!")]
    return lambda name: any(one.fullmatch(name) for one in wanted) and not any(one.fullmatch(name) for one in unwanted)


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern in which only ``*`` and ``?`` are special; brackets are literal, as in ``[host]:port``."""
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in text))


def check_host_key(
    known: KnownHosts, shown: paramiko.PKey, host: str, target: JumpHost, *, via: str, file: str
) -> None:
    """
    Raise HostRefused unless the files vouch for the key that *host* has shown at *target*.

    The cause says what is wrong and what the operator can do: ssh-keyscan, *via* a jump host if that is not empty, for
    *file*.
    """
    address, port, key = target.address, target.port, HostKey(shown.get_name(), shown.asbytes())
    place = address if port == 22 else f"[{address}]:{port}"
    named = f"{key.key_type} {shown.fingerprint}"
    match known.standing(address, port, key):
        case "known":
            return
        case "revoked":
            problem = f"{place} shows a key that known_hosts marks as revoked: {named}"
        case "changed":
            shows = f"{place} shows another key than known_hosts has for it: {named}"
            problem = f"{shows}; reinstalled, or someone in between? If you are sure: ssh-keygen -R '{place}' -f {file}"
        case "unknown":
            scan = f"ssh-keyscan -p {port} -t {key.key_type.removeprefix('ssh-').partition('-')[0]} {address}"
            scan = f"ssh {via} {scan}" if via else scan
            problem = f"{place} is not in known_hosts; it shows {named}. If that is right: {scan} >> {file}"
    raise HostRefused(host, "checking the host key", problem)


_USUAL_FILES = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
_MOST = 5  # sshd's MaxAuthTries is 6 by default
_STEP = "reading the user's key"

Keys = tuple[tuple[str, paramiko.PKey], ...]
"""Name and key of each key to offer, in order."""


def user_name(settings: SshSettings) -> str:
    """Return the user to log in as."""
    return settings.user or getpass.getuser()


def user_keys(settings: SshSettings) -> Keys:
    """Return the keys to offer; raises HostUnreachable (for no host in particular) when there is no usable key."""
    if settings.key_file is not None:
        return ((settings.key_file, _loaded(settings.key_file)),)
    found: list[tuple[str, paramiko.PKey]] = []
    if settings.agent:
        found += _agent_keys()
    if not found:
        usual = [name for name in _USUAL_FILES if Path(name).expanduser().is_file()]
        found += [(name, _loaded(name)) for name in usual]
    if not found:
        name_one = "set ssh.key_file in the inventory (fabric inventory discover: --key-file)"
        cause = f"no key: the agent has none, and there is no {', '.join(_USUAL_FILES)}; {name_one}"
        raise HostUnreachable("every host", _STEP, cause)
    return tuple(found[:_MOST])


def key_problem(settings: SshSettings) -> str | None:
    """
    Return why nobody could log in with these settings, without asking any host; None when there is a key to offer.
    """
    try:
        close_agent(user_keys(settings))
    except HostUnreachable as exc:
        return exc.cause
    return None


def close_agent(keys: Keys) -> None:
    """Close the agent's socket."""
    for _, key in keys:
        if isinstance(key, _AgentKey) and isinstance(key.agent, paramiko.Agent):
            key.agent.close()


class _AgentKey(paramiko.AgentKey):
    """A key in the agent; signs one at a time, because paramiko shares one unlocked socket among all threads."""

    lock = threading.Lock()

    def sign_ssh_data(self, data: _LikeBytes, algorithm: str | None = None) -> paramiko.Message:
        """Have the agent sign."""
        with self.lock:
            return super().sign_ssh_data(data, algorithm)


def _agent_keys() -> list[tuple[str, paramiko.PKey]]:
    try:
        keys = paramiko.Agent().get_keys()
    except (OSError, paramiko.SSHException) as exc:
        raise HostUnreachable("every host", _STEP, f"the agent does not answer: {exc}") from exc
    return [(f"{key.get_name()} of the agent", _AgentKey(key.agent, key.blob, key.comment)) for key in keys]


def _loaded(name: str) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(Path(name).expanduser())
    except FileNotFoundError as exc:
        raise HostUnreachable("every host", _STEP, f"{name} does not exist") from exc
    except (paramiko.PasswordRequiredException, TypeError) as exc:  # TypeError is how cryptography asks for it
        cause = f"{name} is locked by a passphrase; add it to ssh-agent and leave ssh.key_file out"
        raise HostUnreachable("every host", _STEP, cause) from exc
    except (OSError, ValueError, paramiko.SSHException) as exc:
        raise HostUnreachable("every host", _STEP, f"{name}: {exc}") from exc
