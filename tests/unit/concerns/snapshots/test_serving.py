"""What the key of a rig may ask of the server."""

from __future__ import annotations

import pytest

from rigops.backup.host.errors import HostError
from rigops.concerns.snapshots.host.serving import parse_request

NAME = "20261127T000000Z-manual"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("folders", []),
        ("list @", ["@"]),
        (f"receive data%2Fhome {NAME}", ["data%2Fhome", NAME]),
        (f"send @ {NAME} {NAME}", ["@", NAME, NAME]),
        (f"tar @ {NAME} 'a b/../c'", ["@", NAME, "a b/../c"]),
    ],
)
def test_a_request_is_a_verb_and_names(asked: str, words: list[str]) -> None:
    assert parse_request(asked) == (asked.partition(" ")[0], words)


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "sh",
        "serve /",
        "folders x",
        "list",
        "list ..",
        "list .",
        "list ''",
        "list a/b",
        "list /etc",
        "list @receiving-0123456789abcdef",
        "list data%2fhome",  # as nobody of ours writes it
        "list 'a%0Ab'",
        "list 'a%1B%5B31m'",
        "list 'a%FF'",
        "list $'a\nb'",
        "list 'a\udcff'",  # a byte that is no UTF-8
        "list \u00e4",
        "receive @",
        "receive @ name",
        "receive @ ..",
        f"receive @ ../{NAME}",
        f"receive @ '{NAME}\n'",
        f"delete @ {NAME} {NAME}",
        "delete @ pinned",
        f"send @ {NAME} parents",
        f"look @ {NAME}",
        "tar @ x y",
        "list 'unclosed",
        f"tar @ {NAME} {'a/' * 9000}",
    ],
)
def test_every_other_one_is_refused(asked: str) -> None:
    with pytest.raises(HostError):
        parse_request(asked)
