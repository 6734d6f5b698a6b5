"""Signatures that ssh-keygen can check, and those that it made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import ConfigError, StoreError
from fabric.report.certificate_signature import fingerprint, private_key, public_key, sign, signer

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
RAW = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
needs_ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


@given(st.binary(max_size=2000))
def test_a_signature_names_its_signer_and_is_of_no_other_text(message: bytes) -> None:
    armoured = sign(message, KEY)
    assert signer(message, armoured) == RAW
    assert signer(message + b"\n", armoured) is None


@given(st.text(max_size=400))
def test_any_text_is_a_signature_or_is_refused(text: str) -> None:
    for armoured in (text, f"-----BEGIN SSH SIGNATURE-----\n{text}\n-----END SSH SIGNATURE-----\n"):
        with pytest.raises(StoreError):
            signer(b"", armoured)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_byte_of_a_signature_can_be_changed_unseen(place: int, other: int) -> None:
    import base64

    lines = sign(b"text", KEY).splitlines()
    body = bytearray(base64.b64decode("".join(lines[1:-1])))
    body[place % len(body)] ^= other
    armoured = "\n".join((lines[0], base64.b64encode(bytes(body)).decode(), lines[-1]))
    try:
        assert signer(b"text", armoured) != RAW
    except StoreError as exc:
        assert str(exc)  # noqa: PT017 - refused is as good as not signed


@needs_ssh_keygen
def test_ssh_keygen_takes_our_signature(tmp_path: Path) -> None:
    message = b"a certificate\n"
    public = KEY.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    (tmp_path / "allowed").write_text(f"somebody {public}\n")
    (tmp_path / "sig").write_text(sign(message, KEY))
    words = ("-Y", "verify", "-n", "fabric-certificate", "-f", "allowed", "-I", "somebody", "-s", "sig")
    found = subprocess.run(("ssh-keygen", *words), input=message, cwd=tmp_path, capture_output=True, timeout=60)
    assert found.returncode == 0, found.stderr
    assert fingerprint(RAW).encode() in found.stdout


@needs_ssh_keygen
def test_we_take_ssh_keygens_signature_and_not_one_for_another_purpose(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    key.chmod(0o600)
    for namespace in ("fabric-certificate", "file"):
        words = ("ssh-keygen", "-Y", "sign", "-n", namespace, "-f", str(key))
        said = subprocess.run(words, input=b"text", capture_output=True, timeout=60, check=True).stdout.decode()
        if namespace == "file":
            with pytest.raises(StoreError, match="a signature for 'file'"):
                signer(b"text", said)
        else:
            assert signer(b"text", said) == RAW


def test_keys_are_read_in_both_formats_and_others_are_refused() -> None:
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

    for form in (PrivateFormat.OpenSSH, PrivateFormat.PKCS8):
        assert private_key(KEY.private_bytes(Encoding.PEM, form, NoEncryption()), "k").public_key() == KEY.public_key()
    rsa = generate_private_key(65537, 2048)
    with pytest.raises(ConfigError, match="expected an Ed25519 key"):
        private_key(rsa.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), "k")
    with pytest.raises(ConfigError, match="no private key"):
        private_key(b"nothing", "k")
    line = KEY.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert public_key(f"{line} somebody", "k.pub") == RAW
    for text in ("", "ssh-rsa AAAA", "ssh-ed25519 %%%", "ssh-ed25519 AAAA"):
        with pytest.raises(ConfigError, match="no Ed25519 public key"):
            public_key(text, "k.pub")


def test_a_key_with_a_passphrase_is_refused_with_what_to_do() -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

    data = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    with pytest.raises(ConfigError, match="has a passphrase: sign with ssh-keygen"):
        private_key(data, "k")
