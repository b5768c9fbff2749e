"""What may pass from a sender that nobody trusts to `btrfs receive`."""

from __future__ import annotations

import random
import uuid
from typing import Final

import pytest

from rigops.concerns.snapshots.host.send_stream import (
    MissingParentError,
    StreamCheck,
    StreamError,
)
from tests import send_streams as made

NAMES: Final = {"full": made.FULL, "increment": made.NEXT}
OF_PARENT: Final = (made.REAL / "full-1.stream").read_bytes()
PARENT: Final = str(uuid.UUID(bytes=OF_PARENT[58:74]))  # the second attribute of the first command
MUTATED: Final = 200


class Remembering(StreamCheck):
    let = b""

    def take(self, stream: bytearray, filled: int) -> int:
        took = super().take(stream, filled)
        self.let += bytes(stream[:took])
        return took


def passed(check: StreamCheck, stream: bytes, seed: str = "") -> bytes:
    """As far as it is let pass, in parts of any length; the error, if any, is the caller's."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    buffer, found, left = bytearray(2 << 20), b"", stream
    filled = 0
    while left:
        size = chance.choice((1, 9, 100, 5000, 1 << 20))
        part, left = left[:size], left[size:]
        buffer[filled : filled + len(part)] = part
        filled += len(part)
        took = check.take(buffer, filled)
        found += bytes(buffer[:took])
        buffer[: filled - took] = buffer[took:filled]
        filled -= took
    check.finish()
    return found


def checked(name: str = made.FULL, parents: tuple[str, ...] = ()) -> StreamCheck:
    return StreamCheck(name, parents, lambda _, path: path == b"small")


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("what", NAMES)
def test_a_real_stream_passes_as_it_is(what: str, version: int) -> None:
    stream = (made.REAL / f"{what}-{version}.stream").read_bytes()
    check = checked(NAMES[what], (PARENT,))

    assert passed(check, stream, what) == stream
    assert check.origin
    assert check.parent == (PARENT if what == "increment" else "")


def test_a_hostile_stream_is_refused() -> None:
    parents = (str(uuid.UUID(bytes=made.THEIRS)),)
    let_pass = [
        what
        for what, stream in made.hostile()
        for name in NAMES.values()
        if not is_refused(checked(name, parents), stream)
    ]

    assert let_pass == []


def is_refused(check: StreamCheck, stream: bytes) -> bool:
    try:
        passed(check, stream)
    except StreamError:
        return True
    return False


def test_whatever_is_changed_in_a_real_stream_nothing_that_leads_elsewhere_passes() -> None:
    refused = 0
    for number, stream in enumerate(made.mutated("streams", MUTATED)):
        for name in NAMES.values():
            check = Remembering(name, (PARENT,), lambda *_: True)
            refused += is_refused(check, stream)
            assert leads_nowhere(check.let), number
    assert MUTATED < refused < 2 * MUTATED  # of each either name is the wrong one


def leads_nowhere(stream: bytes) -> bool:
    paths = {made.PATH, made.PATH_TO, made.CLONE_PATH}
    for kind, attributes in made.commands_of(stream) if stream else ():
        named = paths | ({made.PATH_LINK} if kind == made.LINK else set())
        for attribute, value in attributes:
            if attribute in named and (
                value.startswith(b"/") or b"\0" in value or b".." in value.split(b"/")
            ):
                return False
    return True


def test_a_parent_that_is_not_here_is_told_apart_since_another_one_may_be() -> None:
    stream = made.build_upon(made.THEIRS) + made.end()

    with pytest.raises(MissingParentError):
        passed(checked(made.NEXT), stream)
    passed(checked(made.NEXT, (str(uuid.UUID(bytes=made.THEIRS)),)), stream)


def test_a_clone_is_of_a_file_of_the_parent_or_of_itself() -> None:
    parents = (str(uuid.UUID(bytes=made.THEIRS)),)
    begun = made.build_upon(made.THEIRS) + made.mkfile(b"a")
    for good in (made.clone(b"a", made.THEIRS, b"small"), made.clone(b"a", made.OURS, b"link/x")):
        passed(checked(made.NEXT, parents), begun + good + good + made.end())

    through = begun + made.clone(b"a", made.THEIRS, b"link/etc/shadow") + made.end()
    with pytest.raises(StreamError, match="no file of its parent"):
        passed(checked(made.NEXT, parents), through)


def test_the_target_of_a_symbolic_link_is_content() -> None:
    stream = made.begin() + made.symlink(b"a", b"../../etc") + made.end()

    assert passed(checked(), stream) == stream


def test_a_command_waits_until_it_is_whole() -> None:
    stream = made.begin() + made.write(b"a", bytes(40000)) + made.end()
    buffer = bytearray(stream)
    check = checked()

    first = check.take(buffer, 17000)
    assert buffer[:first] == made.begin()
    assert check.take(buffer[first:], len(stream) - first) == len(stream) - first
    check.finish()
