"""
The keys that hosts show, plain or in a certificate: looked up in known_hosts files, which are read once for the run.

Plain names, hashed ones, wildcards, @revoked and @cert-authority are understood.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    SSHCertPublicKeyTypes,
    load_ssh_public_identity,
)

from fabric.errors import HostUnreachable
from fabric.model.inventory import JumpHost

SUFFIX = "-cert-v01@openssh.com"
"""How the type of a certificate ends (OpenSSH's PROTOCOL.certkeys)."""

_MOST_PRINCIPALS = 256  # as OpenSSH (SSHKEY_CERT_MAX_PRINCIPALS)
_SHA_1 = b"\0\0\0\7ssh-rsa"  # how a signature begins that no OpenSSH of today takes


class HostRefused(HostUnreachable):
    """The host answered, and asking again will not change it: host key or authentication; never retried."""


class KeyStanding(Enum):
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
class KnownHostsLine:
    """A line: whether it is about a name, its key, and where it is; of a @cert-authority line the key signs."""

    covers: Callable[[str], bool]
    key: HostKey
    place: str


class KnownHosts:
    """An index over lines of known_hosts files: O(n) to build, a dictionary look-up for plain names."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._plain: dict[str, list[HostKey]] = {}
        self._marked: dict[str, list[KnownHostsLine]] = {"": [], "@revoked": [], "@cert-authority": []}
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

    def authorities(self, address: str, port: int) -> tuple[KnownHostsLine, ...]:
        """Whose signature under a certificate is trusted there; as with OpenSSH a line without port is for any."""
        names = {_name(address, port), _name(address, 22)}
        return tuple(one for one in self._marked["@cert-authority"] if any(map(one.covers, names)))

    def revoked(self, address: str, port: int, key: HostKey) -> bool:
        """Whether a @revoked line takes all trust from *key* there, also as an authority."""
        name = _name(address, port)
        return any(one.key.blob == key.blob and one.covers(name) for one in self._marked["@revoked"])

    def standing(self, address: str, port: int, key: HostKey) -> KeyStanding:
        """What is to be thought of *key*, shown by the server at *address* and *port*."""
        if self.revoked(address, port, key):
            return KeyStanding.REVOKED
        on_record = self.keys(address, port)
        if key in on_record:
            return KeyStanding.KNOWN
        if any(known.key_type == key.key_type for known in on_record):
            return KeyStanding.CHANGED
        return KeyStanding.UNKNOWN

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
                    self._marked[marker].append(KnownHostsLine(_covering(names), key, f"{place} {number}"))
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


@dataclass(frozen=True, slots=True)
class HostCertificate:
    """What a certificate says: *key* is what it certifies, *authority* the key that signed it, *blob* all of it."""

    key: HostKey
    authority: HostKey
    blob: bytes
    said: SSHCertificate

    @property
    def key_id(self) -> str:
        """What the authority calls it."""
        return self.said.key_id.decode("utf-8", "replace")

    @property
    def principals(self) -> tuple[str, ...]:
        """The hosts that it is for; every host where there is none."""
        return tuple(name.decode("utf-8", "replace").lower() for name in self.said.valid_principals)


def read_certificate(shown: HostKey) -> HostCertificate:
    """Read a certificate's blob; raises ValueError with what is wrong with it."""
    line = shown.key_type.encode("ascii", "replace") + b" " + base64.b64encode(shown.blob)
    try:
        said = load_ssh_public_identity(line)
        if not isinstance(said, SSHCertificate):
            raise ValueError(f"{shown.key_type!r} is not the type of a certificate")
        certificate = HostCertificate(_plain_key(said.public_key()), _plain_key(said.signature_key()), shown.blob, said)
    except (UnsupportedAlgorithm, NotImplementedError, AssertionError, TypeError) as exc:  # of foreign bytes
        raise ValueError(str(exc)) from exc
    if len(said.valid_principals) > _MOST_PRINCIPALS:
        raise ValueError(f"it has more than {_MOST_PRINCIPALS} principals")
    return certificate


def problem_of(certificate: HostCertificate, address: str, now_s: float) -> str | None:
    """Why a certificate is not valid for the host at *address* now (seconds since the epoch); None when it is."""
    said = certificate.said
    if said.type is not SSHCertificateType.HOST:
        return "it is not a host's but a user's"
    if said.critical_options:
        return "it holds a critical option, of which OpenSSH knows none for hosts"
    if now_s < said.valid_after:
        return f"it is valid from {_date(said.valid_after)} on, and not yet"
    if now_s >= said.valid_before:
        return f"it was valid until {_date(said.valid_before)}"
    # As with OpenSSH, principals may hold wildcards, and a certificate without any is good for every host.
    names = certificate.principals
    if names and not any(pattern(name).fullmatch(address.lower()) for name in names):
        return f"it is for {', '.join(names)}, not for {address}"
    _, authority, signature = certificate.blob.rpartition(certificate.authority.blob)
    try:
        said.verify_cert_signature()
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, AssertionError):
        return "its signature is wrong"
    return None if authority and not signature[4:].startswith(_SHA_1) else "its signature is by SHA-1"


def check_host_key(known: KnownHosts, shown: HostKey, host: str, target: JumpHost, *, via: str, file: str) -> None:
    """
    Raise HostRefused unless the files vouch for the key that *host* shows at *target*, or for who has certified it.

    The cause says what is wrong, on which line, and what the operator can do: ssh-keyscan, *via* a jump host if that
    is not empty, for *file*.
    """
    address, port = target.address, target.port
    trusted = known.authorities(address, port)
    if shown.key_type.endswith(SUFFIX):
        problem = _certificate_problem(known, shown, trusted, address, port)
    elif trusted and not known.keys(address, port) and not known.revoked(address, port, shown):
        problem = (
            f"{address} shows the plain key {_named(shown)} and no certificate (HostCertificate of its sshd_config?); "
            f"known_hosts trusts only authorities for it: {_places(trusted)}"
        )
    else:
        problem = _key_problem(known, shown, address, port, via=via, file=file)
    if problem:
        raise HostRefused(host, "checking the host key", problem)


def _certificate_problem(
    known: KnownHosts, shown: HostKey, trusted: Sequence[KnownHostsLine], address: str, port: int
) -> str | None:
    try:
        certificate = read_certificate(shown)
    except ValueError as exc:
        return f"{address} shows a host certificate that cannot be read: {exc}"
    signers = [one for one in trusted if one.key.blob == certificate.authority.blob]
    said = f"{address} shows a host certificate {certificate.key_id!r} of {_named(certificate.authority)}"
    for key in (certificate.authority, certificate.key):
        if known.revoked(address, port, key):
            return f"{said}, and known_hosts marks {_named(key)} as revoked"
    if signers:
        problem = problem_of(certificate, address, time.time())
        return problem and f"{said}, trusted by {_places(signers)}, but {problem}"
    if known.standing(address, port, certificate.key) is KeyStanding.KNOWN:
        return None
    lines = f"; trusted there: {_places(trusted)}" if trusted else ""
    return f"{said}, which no @cert-authority line of known_hosts trusts for it{lines}"


def _key_problem(known: KnownHosts, key: HostKey, address: str, port: int, *, via: str, file: str) -> str | None:
    place = address if port == 22 else f"[{address}]:{port}"
    match known.standing(address, port, key):
        case KeyStanding.REVOKED:
            return f"{place} shows a key that known_hosts marks as revoked: {_named(key)}"
        case KeyStanding.CHANGED:
            shows = f"{place} shows another key than known_hosts has for it: {_named(key)}"
            return f"{shows}; reinstalled, or someone in between? If you are sure: ssh-keygen -R '{place}' -f {file}"
        case KeyStanding.UNKNOWN:
            scan = f"ssh-keyscan -p {port} -t {key.key_type.removeprefix('ssh-').partition('-')[0]} {address}"
            scan = f"ssh {via} {scan}" if via else scan
            return f"{place} is not in known_hosts; it shows {_named(key)}. If that is right: {scan} >> {file}"
        case _:
            return None


def _named(key: HostKey) -> str:
    return f"{key.key_type} {key.fingerprint}"


def _places(authorities: Sequence[KnownHostsLine]) -> str:
    return ", ".join(authority.place for authority in authorities)


def _plain_key(key: SSHCertPublicKeyTypes) -> HostKey:
    key_type, blob = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii").split()
    return HostKey(key_type, base64.b64decode(blob))


def _date(epoch_s: int) -> str:
    if epoch_s > 253_402_300_799:  # the end of the year 9999
        return "for ever"
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
