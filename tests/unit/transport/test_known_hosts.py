from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.transport import key_files
from rigops.transport.host_keys import HostKeys
from rigops.transport.key_files import append, blob_type, fingerprint, lookup, parse_line
from rigops.transport.route import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

NOWHERE = Path("/nowhere")


def blob_of(kind: str = "ssh-ed25519", body: bytes = b"k" * 32) -> bytes:
    return b"".join(len(part).to_bytes(4, "big") + part for part in (kind.encode(), body))


BLOB = blob_of()
KEY = f"ssh-ed25519 {base64.b64encode(BLOB).decode()}"


def matches(names: str, wanted: str) -> bool:
    return parse_line(f"{names} {KEY}\n".encode(), [wanted.encode()], NOWHERE, 1) is not None


@pytest.mark.parametrize(
    ("names", "wanted", "expected"),
    [
        ("rig", "rig", True),
        ("RIG", "rig", True),
        ("rig,10.0.0.5", "10.0.0.5", True),
        ("rig", "rig2", False),
        ("*.lan", "rig.lan", True),
        ("r?g", "rig", True),
        ("*,!rig", "rig", False),
        ("!other,*", "rig", True),
        ("!other", "rig", False),
        ("[rig]:2222", "[rig]:2222", True),
        ("[rig]:2222", "rig", False),
        ("[*]:2222", "[rig]:2222", True),
        ("", "rig", False),
        (",,", "rig", False),
    ],
)
def test_names_match_as_openssh_has_it(names: str, wanted: str, *, expected: bool) -> None:
    assert matches(names, wanted) is expected


def test_a_hashed_name_made_by_openssh_is_found() -> None:
    # ssh-keygen -H made this one from the name "rig".
    salt, digest = b"0123456789abcdefghij", key_files._hash(b"0123456789abcdefghij", b"rig")
    names = "|1|" + "|".join(base64.b64encode(part).decode() for part in (salt, digest))
    assert matches(names, "rig")
    assert not matches(names, "other")


@given(st.binary(max_size=300))
def test_no_line_is_fatal(line: bytes) -> None:
    parse_line(line, [b"rig"], NOWHERE, 1)


@given(
    st.sampled_from([b"", b"@revoked ", b"@cert-authority ", b"@else "]),
    st.sampled_from([b"rig", b"*", b"|1|AAAA|AAAA", b"|1|", b"!", b"|2|a|b"]),
    st.sampled_from([b"ssh-ed25519", b"ssh-new", b"1024", b"\xff"]),
    st.one_of(st.binary(max_size=60), st.just(base64.b64encode(BLOB))),
)
def test_no_nearly_right_line_is_fatal(mark: bytes, names: bytes, kind: bytes, key: bytes) -> None:
    found = parse_line(b" ".join((mark + names, kind, key)), [b"rig"], NOWHERE, 1)
    assert found is None or found.blob == BLOB


@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_patterns_mean_what_a_shell_means(pattern: str, text: str) -> None:
    import fnmatch  # noqa: PLC0415 - the reference of this one test

    expected = fnmatch.fnmatchcase(text, pattern)
    assert key_files._glob(pattern.encode(), text.encode()) is expected


def test_a_wicked_pattern_takes_no_more_steps_than_the_product_of_the_lengths() -> None:
    pattern, text = b"*a" * 200 + b"b", b"a" * 400
    steps = 0

    def count(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        nonlocal steps
        assert frame.f_code.co_name == "_glob"
        steps += event == "line"
        assert steps < 10 * len(pattern) * len(text)
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        found = key_files._glob(pattern, text)
    finally:
        sys.settrace(before)

    assert not found
    assert steps > len(text)


def test_in_a_big_file_the_line_is_found(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    lines = [f"{'*a' * 2000}b {KEY}"] + [f"host{number} {KEY}" for number in range(5_000)]
    lines += ["y" * 1_000_000, f"rig {KEY}"]
    file.write_text("\n".join(lines))

    (found,) = lookup([file], ["rig"])

    assert found.line == 5_003


def test_files_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    assert lookup([tmp_path / "none", tmp_path], ["rig"]) == []


def test_a_line_says_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"# rig\n\n@revoked rig {KEY} comment with words\n@cert-authority * {KEY}\n")
    first, second = lookup([file], ["rig"])
    assert (first.marker, first.line, first.key_type) == ("revoked", 3, "ssh-ed25519")
    assert (second.marker, second.line) == ("cert-authority", 4)


def test_a_key_that_lies_about_its_type_is_passed_over() -> None:
    line = f"rig ssh-rsa {base64.b64encode(BLOB).decode()}".encode()
    assert parse_line(line, [b"rig"], NOWHERE, 1) is None


@given(st.binary(max_size=80))
def test_the_type_of_any_blob_can_be_asked(blob: bytes) -> None:
    blob_type(blob)


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("before", ["", "a b c\n", "a b c"])
def test_an_added_key_is_found_again(tmp_path: Path, before: str, *, hashed: bool) -> None:
    file = tmp_path / "ssh" / "known_hosts"
    if before:
        file.parent.mkdir()
        file.write_text(before)
    append(file, "[Rig]:2222", "ssh-ed25519", BLOB, hashed=hashed)
    (found,) = lookup([file], ["[rig]:2222"])
    assert found.blob == BLOB
    assert file.read_text().startswith(before)
    assert file.read_text().endswith("\n")
    assert ("ig]" in file.read_text()) is not hashed


def _nul(file: Path) -> None:
    file.write_bytes(file.read_bytes() + bytes(40))


def _torn(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 5)


@pytest.mark.parametrize("damage", [_nul, _torn])
def test_a_torn_file_costs_its_last_line_only(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    file = tmp_path / "known_hosts"
    for name in ("a", "b"):
        append(file, name, "ssh-ed25519", BLOB, hashed=False)
    damage(file)

    append(file, "c", "ssh-ed25519", BLOB, hashed=False)

    assert [one.name for one in lookup([file], ["a", "c"])] == ["a", "c"]


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    os.mkfifo(file)

    assert lookup([file], ["rig"]) == []


def test_a_key_that_found_no_room_was_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "write", lambda _descriptor, data: len(data) - 1)

    with pytest.raises(OSError, match="incomplete write"):
        append(tmp_path / "known_hosts", "rig", "ssh-ed25519", BLOB, hashed=False)


def test_a_known_type_is_asked_for_first(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    rsa = base64.b64encode(blob_of("ssh-rsa")).decode()
    file.write_text(f"[rig]:2222 ssh-rsa {rsa}\nrig {KEY}\n")
    server = Server(
        name="rig", alias="rig", hostname="rig", port=2222, user="me", known_hosts=(file,)
    )
    keys = HostKeys(server)
    assert keys.types == ["ssh-rsa", "ssh-ed25519"]
    assert keys.is_known(BLOB)
    assert not keys.is_known(blob_of(body=b"x" * 32))


def test_a_fingerprint_looks_as_openssh_shows_it() -> None:
    assert fingerprint(b"") == "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
