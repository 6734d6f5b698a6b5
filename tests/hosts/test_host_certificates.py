"""Reading and checking host certificates that ssh-keygen made."""

from __future__ import annotations

import base64
import shutil
import struct
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.hosts.ssh.host_keys import HostKey, HostRefused, KnownHosts, check_host_key, problem_of, read_certificate
from fabric.model.inventory import JumpHost

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="certificates are made by ssh-keygen")


def keygen(*words: str) -> None:
    subprocess.run(("ssh-keygen", "-q", *words), check=True, capture_output=True, timeout=20)


def shown(path: Path) -> HostKey:
    """The key of a .pub file."""
    key_type, blob = path.read_text().split()[:2]
    return HostKey(key_type, base64.b64decode(blob))


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with an authority ``ca`` and a host key ``host``."""
    for name in ("ca", "host"):
        keygen("-t", "ed25519", "-N", "", "-f", str(tmp_path / name))
    return tmp_path


def check(known: KnownHosts, key: HostKey, address: str, port: int) -> None:
    """As a connection does."""
    check_host_key(known, key, "h", JumpHost(address, port=port), via="", file="known_hosts")


def signed(folder: Path, *words: str) -> HostKey:
    """The host's certificate, signed by the authority."""
    keygen("-s", str(folder / "ca"), "-I", "the host", *words, str(folder / "host.pub"))
    return shown(folder / "host-cert.pub")


def test_a_certificate_says_what_ssh_keygen_was_asked_for(made: Path) -> None:
    certificate = read_certificate(signed(made, "-h", "-n", "gpu1,*.mgmt", "-V", "20260101000000Z:20270101000000Z"))
    assert (certificate.key, certificate.authority) == (shown(made / "host.pub"), shown(made / "ca.pub"))
    assert (certificate.key_id, certificate.principals) == ("the host", ("gpu1", "*.mgmt"))
    assert problem_of(certificate, "GPU7.mgmt", certificate.said.valid_after) is None
    assert problem_of(certificate, "gpu1", certificate.said.valid_before - 1) is None


def test_time_principal_and_kind_are_checked(made: Path) -> None:
    certificate = read_certificate(signed(made, "-h", "-n", "gpu1", "-V", "20260101000000Z:20270101000000Z"))
    assert "not yet" in str(problem_of(certificate, "gpu1", certificate.said.valid_after - 1))
    assert "valid until 2027-01-01 00:00:00 UTC" in str(problem_of(certificate, "gpu1", certificate.said.valid_before))
    assert "not for gpu11" in str(problem_of(certificate, "gpu11", certificate.said.valid_after))
    user = read_certificate(signed(made, "-n", "gpu1"))
    assert "a user's" in str(problem_of(user, "gpu1", time.time()))


def test_what_was_altered_after_signing_is_seen(made: Path) -> None:
    whole = signed(made, "-h")
    assert problem_of(read_certificate(whole), "gpu1", time.time()) is None
    forged = read_certificate(replace(whole, blob=whole.blob.replace(b"the host", b"the h0st")))
    assert problem_of(forged, "gpu1", time.time()) == "its signature is wrong"


def test_a_signature_by_sha_1_is_refused(made: Path) -> None:
    keygen("-t", "rsa", "-b", "2048", "-N", "", "-f", str(made / "rsa"))
    keygen("-s", str(made / "rsa"), "-t", "ssh-rsa", "-I", "old", "-h", str(made / "host.pub"))
    assert "SHA-1" in str(problem_of(read_certificate(shown(made / "host-cert.pub")), "gpu1", time.time()))
    keygen("-s", str(made / "rsa"), "-t", "rsa-sha2-256", "-I", "new", "-h", str(made / "host.pub"))
    assert problem_of(read_certificate(shown(made / "host-cert.pub")), "gpu1", time.time()) is None


def test_a_certificate_in_pieces_is_refused_and_not_our_crash(made: Path) -> None:
    whole = signed(made, "-h")
    for length in range(len(whole.blob)):
        with pytest.raises(HostRefused, match=r"cannot be read|no @cert-authority"):
            check(KnownHosts(()), replace(whole, blob=whole.blob[:length]), "h", 22)


def test_an_authority_line_for_the_bare_name_is_for_every_port(made: Path) -> None:
    whole, authority = signed(made, "-h"), " ".join((made / "ca.pub").read_text().split()[:2])
    known = KnownHosts([f"@cert-authority *.mgmt {authority}"])
    check(known, whole, "gpu1.mgmt", 2222)
    with pytest.raises(HostRefused, match="no @cert-authority line"):
        check(known, whole, "gpu1.other", 2222)


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(tail: bytes) -> None:
    name = b"ssh-ed25519-cert-v01@openssh.com"
    key = HostKey(name.decode(), struct.pack(">I", len(name)) + name + tail)
    with pytest.raises(ValueError):  # noqa: PT011  # of whatever kind
        read_certificate(key)
