"""Signatures that ssh-keygen makes and checks."""

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from fabric.app.verify import fingerprint, sign, signer
from fabric.errors import ConfigError, StoreError

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")


def new_key(folder: Path, name: str = "key", passphrase: str = "") -> Path:
    """A private key, its public one beside it."""
    path = folder / name
    words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "somebody", "-f", str(path))
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return path


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_key(tmp_path_factory.mktemp("key"))


def own(key: Path) -> str:
    """The fingerprint of its public half."""
    public = key.with_suffix(".pub")
    return fingerprint(public.read_bytes(), str(public))


@pytest.mark.parametrize("message", [b"", b"a certificate\n", b"\x00\xff'\"$(true)\n" * 1000])
def test_a_signature_names_its_signer_and_is_of_no_other_text(key: Path, message: bytes) -> None:
    signature = sign(message, key)
    assert signer(message, signature) == own(key)
    assert signer(message + b"\n", signature) is None


def test_ssh_keygen_takes_our_signature(key: Path, tmp_path: Path) -> None:
    """As docs/certificate.md says it, byte for byte."""
    message = b"a certificate\n"
    (tmp_path / "allowed").write_text(f"somebody {key.with_suffix('.pub').read_text()}")
    (tmp_path / "sig").write_bytes(sign(message, key))
    words = ("-Y", "verify", "-n", "fabric-certificate", "-f", "allowed", "-I", "somebody", "-s", "sig")
    found = subprocess.run(("ssh-keygen", *words), input=message, cwd=tmp_path, capture_output=True, timeout=60)
    assert found.returncode == 0, found.stderr
    assert own(key).encode() in found.stdout


@pytest.mark.slow
def test_no_byte_of_a_signature_can_be_changed_unseen(key: Path) -> None:
    lines = sign(b"text", key).decode().splitlines()
    body = base64.b64decode("".join(lines[1:-1]))
    for place in range(0, len(body), 13):
        changed = bytes([*body[:place], body[place] ^ 1, *body[place + 1 :]])
        armoured = "\n".join((lines[0], base64.b64encode(changed).decode(), lines[-1], ""))
        try:
            assert signer(b"text", armoured.encode()) != own(key)
        except StoreError as exc:
            assert str(exc)  # noqa: PT017 - refused is as good as not signed


@pytest.mark.parametrize(
    "text", [b"", b"nothing", b"\xff\x00", b"-----BEGIN SSH SIGNATURE-----\n", b"-----BEGIN SSH SIGNATURE-----\nAAAA\n"]
)
def test_what_is_no_signature_is_refused(text: bytes) -> None:
    with pytest.raises(StoreError, match=r"no SSH signature of a certificate: ."):
        signer(b"", text)


def test_a_signature_for_another_purpose_is_none(key: Path) -> None:
    words = ("ssh-keygen", "-Y", "sign", "-n", "file", "-f", str(key))
    said = subprocess.run(words, input=b"text", capture_output=True, timeout=60, check=True).stdout
    with pytest.raises(StoreError, match="namespace does not match"):
        signer(b"text", said)


def test_keys_that_cannot_be_used_are_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "nothing").write_text("nothing\n")
    for name, reason in (("absent", "cannot sign with it: .*absent"), ("nothing", "cannot sign with it: .")):
        with pytest.raises(ConfigError, match=reason):
            sign(b"text", tmp_path / name)
    with pytest.raises(ConfigError, match="has a passphrase: sign with ssh-keygen"):
        sign(b"text", new_key(tmp_path, "locked", "secret"))


@pytest.mark.parametrize("text", [b"", b"ssh-rsa AAAA", b"ssh-ed25519 %%%", b"ssh-ed25519 AAAA", b"\xff"])
def test_what_is_no_public_key_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError, match="no public key: expected a line"):
        fingerprint(text, "k.pub")


def test_without_ssh_keygen_it_is_said_what_to_install(
    key: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A PATH with everything else."""
    for folder in map(Path, ("/usr/bin", "/bin")):
        for program in folder.iterdir():
            if program.name != "ssh-keygen" and not (tmp_path / program.name).is_symlink():
                (tmp_path / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreError, match="ssh-keygen is not there: install OpenSSH"):
        sign(b"text", key)
