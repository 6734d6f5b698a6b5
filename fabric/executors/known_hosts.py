"""known_hosts files, read once for the run and asked for each host: plain, hashed, wildcards, revoked, authorities."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from fabric.errors import HostUnreachable


class Standing(Enum):
    """What the files say about a key that a host showed."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class HostKey:
    """A public host key: its type as written in the file, and its blob."""

    key_type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """As OpenSSH prints it: ``SHA256:...``."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode("ascii")
        return "SHA256:" + digest.rstrip("=")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line: whether it is about a name, its key, and where it is; of a @cert-authority line the key signs."""

    covers: Callable[[str], bool]
    key: HostKey
    place: str


class KnownHosts:
    """An index over lines of known_hosts files: O(n) to build, a dictionary look-up for plain names."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._plain: dict[str, list[HostKey]] = {}
        self._marked: dict[str, list[Entry]] = {"": [], "@revoked": [], "@cert-authority": []}
        self._add(lines, "line")

    @classmethod
    def load(cls, files: Iterable[str]) -> KnownHosts:
        """
        Index all *files*; one that does not exist holds nothing, as with OpenSSH.

        Raises HostUnreachable (for no host in particular) when one exists and cannot be read.
        """
        known = cls(())
        for name in files:
            try:
                known._add(Path(name).expanduser().read_text("utf-8", "replace").splitlines(), f"{name} line")
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise HostUnreachable("every host", "reading known_hosts", str(exc)) from exc
        return known

    def keys(self, address: str, port: int) -> tuple[HostKey, ...]:
        """The keys on record for an address and port, revoked ones not counted."""
        name = _name(address, port)
        found = [entry.key for entry in self._marked[""] if entry.covers(name)]
        return tuple(dict.fromkeys([*self._plain.get(name, ()), *found]))

    def authorities(self, address: str, port: int) -> tuple[Entry, ...]:
        """Whose signature under a certificate is trusted there; as with OpenSSH a line without port is for any."""
        names = {_name(address, port), _name(address, 22)}
        return tuple(one for one in self._marked["@cert-authority"] if any(map(one.covers, names)))

    def revoked(self, address: str, port: int, key: HostKey) -> bool:
        """Whether a @revoked line takes all trust from *key* there, also as an authority."""
        name = _name(address, port)
        return any(one.key.blob == key.blob and one.covers(name) for one in self._marked["@revoked"])

    def standing(self, address: str, port: int, key: HostKey) -> Standing:
        """What is to be thought of *key*, shown by the server at *address* and *port*."""
        if self.revoked(address, port, key):
            return Standing.REVOKED
        on_record = self.keys(address, port)
        if key in on_record:
            return Standing.KNOWN
        if any(known.key_type == key.key_type for known in on_record):
            return Standing.CHANGED
        return Standing.UNKNOWN

    def _add(self, lines: Iterable[str], place: str) -> None:
        """Index lines; what cannot be read is passed over, and so vouches for nobody."""
        for number, line in enumerate(lines, start=1):
            words = line.split()
            marker = words.pop(0) if words and words[0].startswith("@") else ""
            if len(words) < 3 or words[0].startswith("#") or marker not in self._marked:
                continue
            names, key_type, encoded = words[:3]
            try:
                key = HostKey(key_type, base64.b64decode(encoded, validate=True))
                if marker or re.search(r"^\|1\||[*?!]", names):
                    self._marked[marker].append(Entry(_covering(names), key, f"{place} {number}"))
                else:
                    for name in names.lower().split(","):
                        self._plain.setdefault(name, []).append(key)
            except ValueError:
                continue


def _name(address: str, port: int) -> str:
    return address.lower() if port == 22 else f"[{address.lower()}]:{port}"


def _covering(names: str) -> Callable[[str], bool]:
    """Whether a name is meant by the hashed one, or by patterns of which none that is negated may match."""
    if names.startswith("|1|"):
        salt, digest = map(base64.b64decode, names[3:].split("|"))
        return lambda name: hmac.compare_digest(hmac.digest(salt, name.encode("utf-8"), "sha1"), digest)
    words = names.lower().split(",")
    wanted = [pattern(word) for word in words if not word.startswith("!")]
    unwanted = [pattern(word[1:]) for word in words if word.startswith("!")]
    return lambda name: any(one.fullmatch(name) for one in wanted) and not any(one.fullmatch(name) for one in unwanted)


def pattern(text: str) -> re.Pattern[str]:
    """``*`` and ``?`` are wildcards, nothing else is; brackets stand for themselves, as in ``[host]:port``."""
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in text))
