"""
Signatures as ``ssh-keygen -Y sign`` makes them (SSHSIG, OpenSSH PROTOCOL.sshsig), with Ed25519 keys.

Anybody can check one without this tool:
``ssh-keygen -Y verify -n fabric-certificate -f allowed -I who -s FILE.sig < FILE``.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import TYPE_CHECKING

from fabric.errors import ConfigError, Problem, StoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NAMESPACE = b"fabric-certificate"
"""What is signed with it: a signature made for another purpose is none."""

_MAGIC, _VERSION, _HASH, _KIND = b"SSHSIG", 1, b"sha512", b"ssh-ed25519"
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_WIDTH = 70
_PUBLIC_BYTES, _SIGNATURE_BYTES = 32, 64


def private_key(data: bytes, where: str) -> Ed25519PrivateKey:
    """The key in an OpenSSH or PEM file; ConfigError for any other kind, and for one with a passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
    try:
        key = load(data, password=None)
    except TypeError as exc:
        text = "the key has a passphrase: sign with ssh-keygen -Y sign -n fabric-certificate -f KEY certificate.json"
        raise ConfigError([Problem(where, 0, text)]) from exc
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise ConfigError([Problem(where, 0, f"no private key: {exc}")]) from exc
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError([Problem(where, 0, f"expected an Ed25519 key, got {type(key).__name__.lstrip('_')}")])
    return key


def public_key(text: str, where: str) -> bytes:
    """The 32 bytes of the key in a line ``ssh-ed25519 AAAA... comment``; ConfigError for anything else."""
    words = text.split()
    try:
        if len(words) < 2 or words[0] != _KIND.decode():
            raise ValueError(f"expected a line 'ssh-ed25519 AAAA...', got {text[:40]!r}")
        return _key_of(base64.b64decode(words[1], validate=True))
    except (ValueError, StoreError) as exc:
        raise ConfigError([Problem(where, 0, f"no Ed25519 public key: {exc}")]) from exc


def sign(message: bytes, key: Ed25519PrivateKey) -> str:
    """The armoured signature of a message."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    own = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    signature = _string(_KIND) + _string(key.sign(_signed(message)))
    body = _MAGIC + struct.pack(">I", _VERSION) + _string(_string(_KIND) + _string(own))
    body += _string(NAMESPACE) + _string(b"") + _string(_HASH) + _string(signature)
    text = base64.b64encode(body).decode()
    lines = [text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH)]
    return "\n".join((_BEGIN, *lines, _END, ""))


def signer(message: bytes, armoured: str) -> bytes | None:
    """
    Whose signature this is, as the 32 bytes of the key; None when it is not one of this message.

    StoreError when it is no signature that can be read: of another kind, for another purpose.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public, hash_name, signature = _taken_apart(armoured)
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _signed(message, hash_name))
    except InvalidSignature:
        return None
    return public


def fingerprint(public: bytes) -> str:
    """``SHA256:...`` as ``ssh-keygen -l`` prints it."""
    found = hashlib.sha256(_string(_KIND) + _string(public)).digest()
    return f"SHA256:{base64.b64encode(found).decode().rstrip('=')}"


def _signed(message: bytes, hash_name: bytes = _HASH) -> bytes:
    hashed = hashlib.new(hash_name.decode(), message).digest()
    return _MAGIC + _string(NAMESPACE) + _string(b"") + _string(hash_name) + _string(hashed)


def _taken_apart(armoured: str) -> tuple[bytes, bytes, bytes]:
    """Public key, name of the hash, and the signature itself."""
    lines = [line.strip() for line in armoured.strip().splitlines()]
    if len(lines) < 3 or lines[0] != _BEGIN or lines[-1] != _END:
        raise StoreError("no SSH signature")
    try:
        body = base64.b64decode("".join(lines[1:-1]), validate=True)
    except ValueError as exc:
        raise StoreError(f"no SSH signature: {exc}") from exc
    head = _MAGIC + struct.pack(">I", _VERSION)
    if not body.startswith(head):
        raise StoreError("no SSH signature of version 1")
    fields, rest = [], body[len(head) :]
    for _ in range(5):
        field, rest = _first(rest)
        fields.append(field)
    public, namespace, _, hash_name, signature = fields
    if rest or namespace != NAMESPACE or hash_name not in (b"sha256", b"sha512"):
        raise StoreError(f"a signature for {namespace.decode('utf-8', 'replace')!r}, not for a certificate")
    kind, tail = _first(signature)
    value, tail = _first(tail)
    if kind != _KIND or tail or len(value) != _SIGNATURE_BYTES:
        raise StoreError("not an Ed25519 signature")
    return _key_of(public), hash_name, value


def _key_of(blob: bytes) -> bytes:
    kind, rest = _first(blob)
    key, rest = _first(rest)
    if kind != _KIND or rest or len(key) != _PUBLIC_BYTES:
        raise StoreError("not an Ed25519 key")
    return key


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _first(data: bytes) -> tuple[bytes, bytes]:
    """The first string of an SSH message, and what follows it."""
    if len(data) < 4:
        raise StoreError("an SSH signature that ends too early")
    (length,) = struct.unpack(">I", data[:4])
    if length > len(data) - 4:
        raise StoreError("an SSH signature that ends too early")
    return data[4 : 4 + length], data[4 + length :]
