"""known_hosts files, read once for the run and asked for each host: plain, hashed, wildcards, revoked, authorities."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable
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
class Authority:
    """A key that a @cert-authority line trusts to sign host certificates, and where that line is."""

    key: HostKey
    place: str


@dataclass(frozen=True, slots=True)
class _Hashed:
    salt: bytes
    digest: bytes
    key: HostKey

    def cover(self, name: str) -> bool:
        """True when the line is about *name*."""
        return hmac.compare_digest(hmac.digest(self.salt, name.encode("utf-8"), "sha1"), self.digest)


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Comma-separated names of which some hold wildcards or are negated; a negated match excludes the line."""

    wanted: tuple[re.Pattern[str], ...]
    unwanted: tuple[re.Pattern[str], ...]
    key: HostKey

    def cover(self, name: str) -> bool:
        """True when the line is about *name*."""
        return any(p.fullmatch(name) for p in self.wanted) and not any(p.fullmatch(name) for p in self.unwanted)


class KnownHosts:
    """An index over lines of known_hosts files: O(n) to build, a dictionary look-up for plain names."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._plain: dict[str, list[HostKey]] = {}
        self._hashed: list[_Hashed] = []
        self._patterns: list[_Patterns] = []
        self._revoked: list[_Patterns | _Hashed] = []
        self._authorities: list[tuple[_Patterns | _Hashed, Authority]] = []
        for number, line in enumerate(lines, start=1):
            self._add(line.split(), f"line {number}")

    @classmethod
    def load(cls, files: Iterable[str]) -> KnownHosts:
        """
        Index all *files*; one that does not exist holds nothing, as with OpenSSH.

        Raises HostUnreachable (for no host in particular) when one exists and cannot be read.
        """
        known = cls(())
        for name in files:
            path = Path(name).expanduser()
            try:
                lines = path.read_text("utf-8", "replace").splitlines()
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise HostUnreachable("every host", "reading known_hosts", str(exc)) from exc
            for number, line in enumerate(lines, start=1):
                known._add(line.split(), f"{name} line {number}")
        return known

    def keys(self, address: str, port: int) -> tuple[HostKey, ...]:
        """The keys on record for an address and port, revoked ones not counted."""
        name = _name(address, port)
        found = list(self._plain.get(name, ()))
        found += [entry.key for entry in self._hashed if entry.cover(name)]
        found += [entry.key for entry in self._patterns if entry.cover(name)]
        return tuple(dict.fromkeys(found))

    def authorities(self, address: str, port: int) -> tuple[Authority, ...]:
        """Whose signature under a certificate is trusted there; as with OpenSSH a line without port is for any."""
        both = {_name(address, port), _name(address, 22)}
        return tuple(found for entry, found in self._authorities if any(entry.cover(name) for name in both))

    def revoked(self, address: str, port: int, key: HostKey) -> bool:
        """Whether a @revoked line takes all trust from *key* there, also as an authority."""
        name = _name(address, port)
        return any(entry.key.blob == key.blob and entry.cover(name) for entry in self._revoked)

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

    def _add(self, words: list[str], place: str) -> None:
        """Index one line; what cannot be read is passed over, and so vouches for nobody."""
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker not in ("", "@revoked", "@cert-authority"):
            return
        names, key_type, encoded = words[:3]
        try:
            key = HostKey(key_type, base64.b64decode(encoded, validate=True))
            if marker == "@revoked":
                self._revoked.append(_entry(names, key))
            elif marker:
                self._authorities.append((_entry(names, key), Authority(key, place)))
            elif names.startswith("|1|"):
                self._hashed.append(_hashed(names, key))
            elif re.search(r"[*?!]", names):
                self._patterns.append(_patterns(names, key))
            else:
                for name in names.lower().split(","):
                    self._plain.setdefault(name, []).append(key)
        except (binascii.Error, ValueError):
            return


def _name(address: str, port: int) -> str:
    return address.lower() if port == 22 else f"[{address.lower()}]:{port}"


def _entry(names: str, key: HostKey) -> _Patterns | _Hashed:
    return _hashed(names, key) if names.startswith("|1|") else _patterns(names, key)


def _hashed(names: str, key: HostKey) -> _Hashed:
    salt, digest = names[3:].split("|")
    return _Hashed(base64.b64decode(salt), base64.b64decode(digest), key)


def _patterns(names: str, key: HostKey) -> _Patterns:
    words = names.lower().split(",")
    wanted = tuple(pattern(word) for word in words if not word.startswith("!"))
    return _Patterns(wanted, tuple(pattern(word[1:]) for word in words if word.startswith("!")), key)


def pattern(text: str) -> re.Pattern[str]:
    """``*`` and ``?`` are wildcards, nothing else is; brackets stand for themselves, as in ``[host]:port``."""
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in text))
