"""The index over known_hosts files."""

from __future__ import annotations

import base64
import hmac
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import HostUnreachable
from fabric.hosts.ssh.keys import HostKey, KnownHosts

ED, OTHER_ED = HostKey("ssh-ed25519", b"first"), HostKey("ssh-ed25519", b"second")
RSA = HostKey("ssh-rsa", b"third")


def line(names: str, key: HostKey) -> str:
    """A line of the file."""
    return f"{names} {key.key_type} {base64.b64encode(key.blob).decode()} a comment"


def hashed(name: str) -> str:
    """A name as ``ssh-keygen -H`` writes it."""
    salt = b"12345678901234567890"
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def test_plain_names_with_and_without_port():
    """A name stands for port 22, ``[name]:port`` for another, and neither for the other."""
    known = KnownHosts([line("gpu1,10.0.0.1", ED), line("[gpu1]:2222", OTHER_ED)])
    assert known.standing("gpu1", 22, ED) == "known"
    assert known.standing("10.0.0.1", 22, ED) == "known"
    assert known.standing("GPU1", 22, ED) == "known"
    assert known.standing("gpu1", 2222, OTHER_ED) == "known"
    assert known.standing("gpu1", 22, OTHER_ED) == "changed"
    assert known.standing("gpu2", 22, ED) == "unknown"


def test_key_of_another_type_is_unknown_not_changed():
    """Only another key of the same type is a change."""
    assert KnownHosts([line("gpu1", RSA)]).standing("gpu1", 22, ED) == "unknown"


def test_hashed_names():
    """Hashed names are found, with and without port."""
    known = KnownHosts([line(hashed("gpu1"), ED), line(hashed("[gpu1]:2222"), RSA)])
    assert known.standing("gpu1", 22, ED) == "known"
    assert known.standing("gpu1", 2222, RSA) == "known"
    assert known.standing("gpu2", 22, ED) == "unknown"


def test_wildcards_and_exceptions():
    """Wildcards match as the shell's do; a negated name excludes; brackets stand for themselves."""
    known = KnownHosts([line("gpu*,!gpu13,[rack?]:2222", ED)])
    assert known.standing("gpu1", 22, ED) == "known"
    assert known.standing("gpu13", 22, ED) == "unknown"
    assert known.standing("rack1", 2222, ED) == "known"
    assert known.standing("k", 2222, ED) == "unknown"


def test_revoked_key_is_worse_than_all():
    """A revoked key is refused even where it is on record."""
    known = KnownHosts([line("gpu1", ED), "@revoked " + line("*", ED)])
    assert known.standing("gpu1", 22, ED) == "revoked"


def test_authorities_comments_and_broken_lines_vouch_for_nobody():
    """What is not understood is passed over."""
    broken = [
        "# " + line("gpu1", ED),
        "",
        "gpu1 ssh-ed25519",
        "gpu1 ssh-ed25519 !!!",
        "|1|x gpu1 AAAA",
        "|1|!|! a AAAA",
    ]
    known = KnownHosts([*broken, "@cert-authority " + line("*", ED), "@other " + line("gpu1", ED)])
    assert known.standing("gpu1", 22, ED) == "unknown"


def test_missing_file_is_empty_and_unreadable_one_is_said(tmp_path: Path):
    """A file that is not there holds nothing; one that cannot be read is an error."""
    (tmp_path / "here").write_text(line("gpu1", ED))
    known = KnownHosts.load([str(tmp_path / "missing"), str(tmp_path / "here")])
    assert known.standing("gpu1", 22, ED) == "known"
    with pytest.raises(HostUnreachable, match="reading known_hosts"):
        KnownHosts.load([str(tmp_path)])


@given(st.lists(st.text(max_size=60), max_size=20))
def test_any_text_is_survived(lines: list[str]):
    """No file makes it fail, or makes an unknown key known."""
    assert KnownHosts(lines).standing("gpu1", 22, ED) != "known"
