from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from rigops.transport import key_files
from rigops.transport.key_files import public_blob, read_identity

if TYPE_CHECKING:
    from pathlib import Path

_OLD = PrivateFormat.TraditionalOpenSSL


def make(path: Path, key: Ed25519PrivateKey | RSAPrivateKey, passphrase: str = "") -> Path:
    form = PrivateFormat.OpenSSH if isinstance(key, Ed25519PrivateKey) else _OLD
    lock = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    path.write_bytes(key.private_bytes(Encoding.PEM, form, lock))
    half = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.with_name(path.name + ".pub").write_bytes(half + b" me@home\n")
    return path


@pytest.mark.parametrize("passphrase", ["", "a secret phrase"])
def test_a_key_file_tells_its_type_and_whether_it_is_locked(
    tmp_path: Path, passphrase: str
) -> None:
    path = make(tmp_path / "id", Ed25519PrivateKey.generate(), passphrase)
    expected = public_blob((tmp_path / "id.pub").read_bytes())
    (tmp_path / "id.pub").unlink()
    identity = read_identity(path)
    assert identity is not None
    assert identity.private
    assert identity.locked is bool(passphrase)
    assert identity.key_type == "ssh-ed25519"
    assert identity.blob == expected


@pytest.mark.parametrize("passphrase", ["", "a secret phrase"])
def test_an_old_pem_file_is_read_with_its_public_half(tmp_path: Path, passphrase: str) -> None:
    identity = read_identity(make(tmp_path / "id", generate_private_key(65537, 2048), passphrase))
    assert identity is not None
    assert identity.locked is bool(passphrase)
    assert identity.key_type == "ssh-rsa"
    (tmp_path / "id.pub").unlink()
    identity = read_identity(tmp_path / "id")
    assert identity is not None
    assert identity.blob is None


def test_a_public_key_may_stand_for_one_that_an_agent_has(tmp_path: Path) -> None:
    make(tmp_path / "id", Ed25519PrivateKey.generate()).unlink()
    for name in ("id", "id.pub"):
        identity = read_identity(tmp_path / name)
        assert identity is not None
        assert not identity.private
        assert identity.key_type == "ssh-ed25519"


def test_a_security_key_is_seen_by_its_public_half(tmp_path: Path) -> None:
    kind = b"sk-ssh-ed25519@openssh.com"
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind, b"k" * 32, b"ssh:"))
    (tmp_path / "id.pub").write_bytes(kind + b" " + base64.b64encode(blob) + b" me\n")
    identity = read_identity(tmp_path / "id")
    assert identity is not None
    assert identity.is_security_key


def test_what_is_no_key_is_none(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("remember the milk")
    assert read_identity(tmp_path / "notes") is None
    assert read_identity(tmp_path / "gone") is None
    assert read_identity(tmp_path) is None


@given(st.binary(max_size=200))
def test_no_key_file_is_fatal(data: bytes) -> None:
    public_blob(data)
    key_files._parse_openssh(data)
    key_files._parse_openssh(base64.b64encode(b"openssh-key-v1\0" + data))
