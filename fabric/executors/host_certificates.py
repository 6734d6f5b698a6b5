"""Host certificates as sshd shows them: read, and checked against the authorities that known_hosts trusts."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import paramiko

from fabric.executors.known_hosts import Authority, HostKey, KnownHosts, Standing, pattern
from fabric.executors.ssh_connection import Refused

SUFFIX = "-cert-v01@openssh.com"
"""How the type of a certificate ends (OpenSSH's PROTOCOL.certkeys)."""

_STEP = "checking the host key"
_HOST = 2  # SSH2_CERT_TYPE_HOST
_KEY_FIELDS = {"ssh-ed25519": 1, "ssh-rsa": 2}  # how many fields a public key has; the ECDSA types have curve and point
_MOST_PRINCIPALS = 256  # as OpenSSH (SSHKEY_CERT_MAX_PRINCIPALS)
_FOR_EVER = 2**64 - 1
_KINDS = {"ssh-ed25519": paramiko.Ed25519Key, "ssh-rsa": paramiko.RSAKey}


@dataclass(frozen=True, slots=True)
class HostCertificate:
    """
    What a certificate says. *key* is what it certifies, *authority* the key that signed it; times are seconds since
    the epoch. *signed* is what *signature* is over.
    """

    key: HostKey
    authority: HostKey
    kind: int
    key_id: str
    principals: tuple[str, ...]
    valid_from: int
    valid_until: int
    critical: bytes
    signed: bytes
    signature: bytes


def read_certificate(shown: HostKey) -> HostCertificate:
    """Read a certificate's blob; raises ValueError with what is wrong with it."""
    message = paramiko.Message(shown.blob)
    cert_type = message.get_text()
    if not cert_type.endswith(SUFFIX):
        raise ValueError(f"{cert_type!r} is not the type of a certificate")
    plain_type = cert_type.removesuffix(SUFFIX)
    message.get_string()  # the nonce
    plain = paramiko.Message()
    plain.add_string(plain_type)
    for _ in range(_KEY_FIELDS.get(plain_type, 2)):
        plain.add_string(message.get_string())
    message.get_int64()  # the serial number
    kind, key_id = message.get_int(), message.get_string().decode("utf-8", "replace")
    principals = _strings(message.get_string())
    valid_from, valid_until = message.get_int64(), message.get_int64()
    critical, _extensions, _reserved = message.get_string(), message.get_string(), message.get_string()
    signer = message.get_string()
    signed = message.get_so_far()
    signature = message.get_string()
    if message.get_remainder() or not signature:
        raise ValueError("it is cut short, or goes on after its signature")
    authority = HostKey(paramiko.Message(signer).get_text(), signer)
    return HostCertificate(
        HostKey(plain_type, plain.asbytes()),
        authority,
        kind,
        key_id,
        principals,
        valid_from,
        valid_until,
        critical,
        signed,
        signature,
    )


def problem_of(certificate: HostCertificate, address: str, now_s: float) -> str | None:
    """Why a certificate is not valid for the host at *address* now (seconds since the epoch); None when it is."""
    if certificate.kind != _HOST:
        return "it is not a host's but a user's"
    if certificate.critical:
        return "it holds a critical option, of which OpenSSH knows none for hosts"
    if now_s < certificate.valid_from:
        return f"it is valid from {_date(certificate.valid_from)} on, and not yet"
    if now_s >= certificate.valid_until:
        return f"it was valid until {_date(certificate.valid_until)}"
    # As with OpenSSH, principals may hold wildcards, and a certificate without any is good for every host.
    if certificate.principals and not any(pattern(name).fullmatch(address.lower()) for name in certificate.principals):
        return f"it is for {', '.join(certificate.principals)}, not for {address}"
    if not _is_signed(certificate):
        return "its signature is wrong"
    return None


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
    except (ValueError, paramiko.SSHException, struct.error) as exc:
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
    known: KnownHosts, shown: HostKey, trusted: Sequence[Authority], *, host: str, address: str, port: int
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


def _places(authorities: Sequence[Authority]) -> str:
    return ", ".join(authority.place for authority in authorities)


def _is_signed(certificate: HostCertificate) -> bool:
    authority = certificate.authority
    kind = paramiko.ECDSAKey if authority.key_type.startswith("ecdsa-") else _KINDS.get(authority.key_type)
    if kind is None:
        return False
    try:
        key = kind(data=authority.blob)
        return bool(key.verify_ssh_sig(certificate.signed, paramiko.Message(certificate.signature)))
    except (paramiko.SSHException, ValueError):
        return False


def _strings(packed: bytes) -> tuple[str, ...]:
    message = paramiko.Message(packed)
    found: list[str] = []
    while message.get_remainder():
        if len(found) == _MOST_PRINCIPALS:
            raise ValueError(f"it has more than {_MOST_PRINCIPALS} principals")
        found.append(message.get_string().decode("utf-8", "replace").lower())
    return tuple(found)


def _date(epoch_s: int) -> str:
    if epoch_s >= _FOR_EVER or epoch_s > 253_402_300_799:  # the end of the year 9999
        return "for ever"
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
