"""Host certificates as sshd shows them: read, and checked against the authorities that known_hosts trusts."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    SSHCertificateType,
    SSHCertPublicKeyTypes,
    load_ssh_public_identity,
)

from fabric.executors.known_hosts import Entry, HostKey, KnownHosts, Standing, pattern
from fabric.executors.ssh_connection import Refused

SUFFIX = "-cert-v01@openssh.com"
"""How the type of a certificate ends (OpenSSH's PROTOCOL.certkeys)."""

_STEP = "checking the host key"
_MOST_PRINCIPALS = 256  # as OpenSSH (SSHKEY_CERT_MAX_PRINCIPALS)
_SHA_1 = b"\0\0\0\7ssh-rsa"  # how a signature begins that no OpenSSH of today takes


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
    except (
        UnsupportedAlgorithm,
        NotImplementedError,
        AssertionError,
        TypeError,
    ) as exc:  # as it comes, of foreign bytes
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


def certified_key(known: KnownHosts, shown: HostKey, *, host: str, address: str, port: int) -> HostKey | None:
    """
    None when *shown* is a certificate that an authority of known_hosts vouches for; else the key to be looked up there.

    That is *shown* itself, or the key inside a certificate that no authority on record has signed. Raises Refused,
    with the line, when a trusted authority's certificate is not valid there, or when a key in it is revoked.
    """
    trusted = known.authorities(address, port)
    if not shown.key_type.endswith(SUFFIX):
        return _plain(known, shown, trusted, host=host, address=address, port=port)
    try:
        certificate = read_certificate(shown)
    except ValueError as exc:
        raise Refused(host, _STEP, f"{address} shows a host certificate that cannot be read: {exc}") from exc
    signers = [one for one in trusted if one.key.blob == certificate.authority.blob]
    said = f"{address} shows a host certificate {certificate.key_id!r} of {_named(certificate.authority)}"
    for key in (certificate.authority, certificate.key):
        if known.revoked(address, port, key):
            raise Refused(host, _STEP, f"{said}, and known_hosts marks {_named(key)} as revoked")
    if not signers:
        if known.standing(address, port, certificate.key) is Standing.KNOWN:
            return certificate.key
        lines = f"; trusted there: {_places(trusted)}" if trusted else ""
        raise Refused(host, _STEP, f"{said}, which no @cert-authority line of known_hosts trusts for it{lines}")
    problem = problem_of(certificate, address, time.time())
    if problem is not None:
        raise Refused(host, _STEP, f"{said}, trusted by {_places(signers)}, but {problem}")
    return None


def _plain(
    known: KnownHosts, shown: HostKey, trusted: Sequence[Entry], *, host: str, address: str, port: int
) -> HostKey:
    """A plain key is looked up; where only an authority is on record, say that the host showed no certificate."""
    if trusted and not known.keys(address, port) and not known.revoked(address, port, shown):
        cause = (
            f"{address} shows the plain key {_named(shown)} and no certificate (HostCertificate of its sshd_config?)"
        )
        raise Refused(host, _STEP, f"{cause}; known_hosts trusts only authorities for it: {_places(trusted)}")
    return shown


def _named(key: HostKey) -> str:
    return f"{key.key_type} {key.fingerprint}"


def _places(authorities: Sequence[Entry]) -> str:
    return ", ".join(authority.place for authority in authorities)


def _plain_key(key: SSHCertPublicKeyTypes) -> HostKey:
    key_type, blob = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii").split()
    return HostKey(key_type, base64.b64decode(blob))


def _date(epoch_s: int) -> str:
    if epoch_s > 253_402_300_799:  # the end of the year 9999
        return "for ever"
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
