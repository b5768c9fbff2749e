"""Another key for one host: its lines change, and no other line of the file does."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.errors import RigopsError
from rigops.transport.key_files import append, lookup
from rigops.transport.known_hosts import HostKey, Rewriting, replace_key
from rigops.transport.route import Server
from tests.unit.transport.test_known_hosts import blob_of

OLD, NEW = blob_of(body=b"o" * 32), blob_of(body=b"n" * 32)
OTHER = blob_of("ssh-rsa", b"r" * 32)
KEY = HostKey("ssh-ed25519", NEW, "10.0.0.5")
NAME = b"[rig]:2200"


def line(names: str, blob: bytes = OLD, kind: str = "ssh-ed25519", rest: str = "") -> bytes:
    return f"{names} {kind} {base64.b64encode(blob).decode()}{rest}\n".encode()


def new_line(names: str) -> bytes:
    return line(names, NEW)


def after(content: bytes, *others: bytes) -> bytes:
    return Rewriting(NAME, tuple(others), frozenset({OLD, OTHER}), KEY).replaced(content)


def test_all_lines_of_the_host_become_one_where_the_first_was() -> None:
    content = b"".join(
        (line("a"), line("[rig]:2200"), line("b"), line("[rig]:2200", OTHER, "ssh-rsa"))
    )

    assert after(content) == line("a") + new_line("[rig]:2200") + line("b")


def test_other_names_of_a_line_keep_the_old_key() -> None:
    assert after(line("other,[RIG]:2200,more", rest=" note")) == (
        line("other,more", rest=" note") + new_line("[RIG]:2200")
    )


def test_the_address_gets_the_new_key_where_it_had_the_old_one() -> None:
    content = line("[rig]:2200") + line("[10.0.0.5]:2200") + line("[10.0.0.6]:2200")

    assert after(content, b"[10.0.0.5]:2200") == (
        new_line("[rig]:2200") + new_line("[10.0.0.5]:2200") + line("[10.0.0.6]:2200")
    )


def test_an_address_with_another_key_is_another_machine() -> None:
    foreign = line("[10.0.0.5]:2200", blob_of(body=b"f" * 32))

    assert after(foreign, b"[10.0.0.5]:2200") == foreign


@pytest.mark.parametrize(
    "content",
    [
        line("[rig]:22"),
        line("rig"),
        line("[rig]:*"),
        line("*,![rig]:2200"),
        b"@cert-authority " + line("[rig]:2200"),
        b"@revoked " + line("[rig]:2200"),
        b"# " + line("[rig]:2200"),
        b"[rig]:2200 ssh-ed25519 no-key\n",
        b"[rig]:2200\n",
    ],
)
def test_what_is_about_others_patterns_and_marks_stay(content: bytes) -> None:
    assert after(content) == content


def test_a_file_with_the_new_key_stays() -> None:
    content = line("a") + new_line("[rig]:2200")

    assert after(content) == content


def test_an_old_key_beside_the_new_one_goes() -> None:
    content = line("[rig]:2200") + new_line("[rig]:2200")

    assert after(content) == new_line("[rig]:2200")


FOREIGN = st.one_of(
    st.binary(max_size=60).filter(lambda text: b"\n" not in text and b"[rig]:2200" not in text),
    st.sampled_from([b"", b"# note", b"x ssh-ed25519 AAAA", line("b").rstrip(), b"\r", b"\t \r"]),
)
OWN = st.sampled_from(
    [
        line("[rig]:2200").rstrip(),
        line("[rig]:2200", OTHER, "ssh-rsa").rstrip(),
        line("[rig]:2200", rest=" a comment\r").rstrip(b"\n"),
    ]
)


@given(st.lists(st.tuples(st.booleans(), FOREIGN, OWN), min_size=1, max_size=12))
def test_every_other_line_stays_byte_for_byte(lines: list[tuple[bool, bytes, bytes]]) -> None:
    given = [own if is_own else foreign for is_own, foreign, own in lines]
    content = b"\n".join(given)
    written = {new_line("[rig]:2200").rstrip(), new_line("[rig]:2200").rstrip() + b"\r"}

    found = after(content).split(b"\n")

    others = [one for one in found if one not in written]
    kept = [foreign for is_own, foreign, _ in lines if not is_own]
    has_own = any(is_own for is_own, _, _ in lines)
    assert others == kept
    assert len(found) - len(others) == int(has_own)
    assert after(after(content)) == after(content)


def server(*files: Path, hashed: bool = False) -> Server:
    return Server(
        name="rig",
        alias="rig",
        hostname="rig",
        port=2200,
        user="me",
        known_hosts=files,
        hash_known_hosts=hashed,
    )


def test_a_file_is_replaced_with_its_mode_and_found_again(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(line("a") + line("[rig]:2200"))
    file.chmod(0o640)

    assert replace_key(server(file), KEY) == []

    assert file.read_bytes() == line("a") + new_line("[rig]:2200")
    assert file.stat().st_mode & 0o777 == 0o640
    assert [one.blob for one in lookup([file], ["[rig]:2200"])] == [NEW]


def test_a_host_without_a_line_gets_one_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "new" / "known_hosts"

    replace_key(server(file), KEY)
    assert file.read_bytes() == new_line("[rig]:2200")
    assert file.stat().st_mode & 0o777 == 0o600

    file.write_bytes(line("a").rstrip())
    replace_key(server(file), KEY)
    assert file.read_bytes() == line("a") + new_line("[rig]:2200")


def test_a_hashed_line_stays_hashed_and_a_new_one_is_where_the_configuration_wants_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "known_hosts"
    append(file, "[rig]:2200", "ssh-ed25519", OLD, hashed=True)
    before = file.read_bytes().split()[0]
    replace_key(server(file), KEY)
    assert file.read_bytes() == new_line(before.decode())

    file.write_bytes(b"")
    replace_key(server(file, hashed=True), KEY)
    assert file.read_bytes().startswith(b"|1|")
    assert [one.blob for one in lookup([file], ["[rig]:2200"])] == [NEW]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, file = tmp_path / "dotfiles", tmp_path / "known_hosts"
    real.write_bytes(line("[rig]:2200"))
    file.symlink_to(real)

    replace_key(server(file), KEY)

    assert file.is_symlink()
    assert real.read_bytes() == new_line("[rig]:2200")


def test_the_second_file_changes_too(tmp_path: Path) -> None:
    first, second = tmp_path / "known_hosts", tmp_path / "known_hosts2"
    second.write_bytes(line("[rig]:2200") + line("b"))

    replace_key(server(first, second), KEY)

    assert first.read_bytes() == new_line("[rig]:2200")
    assert second.read_bytes() == line("b")


def test_without_a_file_nothing_could_be_trusted_later() -> None:
    with pytest.raises(RigopsError, match="no known_hosts file"):
        replace_key(server(), KEY)
