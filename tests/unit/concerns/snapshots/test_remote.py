"""A server that is not what it was: silent, flooding, or answering something else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from rigops.backup.host.btrfs import BtrfsError
from rigops.backup.host.errors import HostError
from rigops.concerns.snapshots.host import pump, remote
from rigops.concerns.snapshots.host.remote import UnreachableError
from rigops.hostside.shared import bounded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.concerns.snapshots.fake_server import Server

NAME = "20261127T000000Z-manual"
UUID = "11111111-1111-1111-1111-111111111111"
SOON_S = 0.2  # of what never comes
FOREVER = "while True: signal.pause()"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = bounded.run_bounded
    monkeypatch.setattr(remote, "run_bounded", lambda words, **_: asked(words, most_s=SOON_S))
    moved = pump.pump
    monkeypatch.setattr(
        remote, "pump", lambda source, sink, count: moved(source, sink, count, SOON_S)
    )


def test_an_answer_is_read(server: Server) -> None:
    row = [NAME, UUID, UUID, True]

    assert server.answers([row]).copies("@") == [(NAME, UUID, UUID, True)]
    assert server.answers(["data%2Fhome", "@"]).folders() == ["@", "data%2Fhome"]
    assert server.answers([5, 10]).room() == (5, 10)
    assert server.answers(["file", 5]).kind_of("@", NAME, "a") == ("file", 5)
    assert server.answers([]).kind_of("@", NAME, "a") == ("", 0)


WRONG: tuple[Any, ...] = (
    None, True, 5, "x", {}, {"0": [NAME, UUID, UUID, True]}, [None], [5], [[]], [[NAME]], [{}],
    [[NAME, UUID, UUID, 1]], [[NAME, UUID, UUID, True, True]], [[NAME, UUID, None, True]],
    [[NAME, UUID, UUID, "true"]], [[5, UUID, UUID, True]], [["pinned", UUID, UUID, True]],
    [["../x", UUID, UUID, True]], [[f"{NAME}\n", UUID, UUID, True]], [[NAME, "x", UUID, True]],
    [[NAME, UUID, f"{UUID}\n", True]], [[NAME, UUID, UUID, True], "x"],
)  # fmt: skip


def test_of_any_other_shape_it_is_no_answer(server: Server) -> None:
    other = "root@server:/backup: something else than the snapshot program answers"
    for document in WRONG:
        with pytest.raises(HostError) as caught:
            server.answers(document).copies("@")
        assert caught.value.message == other, document
    for document in ([".."], ["a/b"], ["a%0Ab"], [""], ["@receiving-1"], [["@"]], {"@": 1}):
        with pytest.raises(HostError, match="something else"):
            server.answers(document).folders()
    for document in ([], [1], [1, 2, 3], [True, 5], [-1, 5], [1.5, 5], ["1", 5], [1 << 70, 5]):
        with pytest.raises(HostError, match="something else"):
            server.answers(document).room()
    for document in (["link", 5], ["file"], ["file", "5"], [5, "file"], [[], 5]):
        with pytest.raises(HostError, match="something else"):
            server.answers(document).kind_of("@", NAME, "a")


@pytest.mark.parametrize(
    "text", ["", "print('{')", "print('[' * 100_000)", "os.write(1, b'\\xff')"]
)
def test_no_json_is_no_answer(server: Server, text: str) -> None:
    with pytest.raises(HostError, match="something else"):
        server.does(text).folders()


def test_a_flood_is_no_answer(server: Server) -> None:
    with pytest.raises(HostError, match="something else"):
        server.does("while True: os.write(1, b' ' * 65536)").folders()


@pytest.mark.usefixtures("impatient")
def test_one_that_does_not_answer_is_unreachable(server: Server) -> None:
    with pytest.raises(UnreachableError, match="gave no answer"):
        server.does(FOREVER).folders()


def test_what_it_complains_of_steers_no_terminal(server: Server) -> None:
    text = "sys.stderr.write('Error: \\x1b[31mred\\x07. fix: \\x1b]0;x\\n'); sys.exit(1)"
    with pytest.raises(HostError) as caught:
        server.does(text).folders()

    assert (caught.value.message + caught.value.fix).isprintable()


def stream(size: int) -> int:
    reading, writing = os.pipe()
    os.write(writing, bytes(size))
    os.close(writing)
    return reading


def test_what_it_receives_is_all_of_the_stream(server: Server, tmp_path: Path) -> None:
    got = tmp_path / "got"
    place = server.does(f"open({str(got)!r}, 'wb').write(sys.stdin.buffer.read())")
    counted: list[int] = []

    place.receive("@", NAME, stream(50_000), counted.append)

    assert got.read_bytes() == bytes(50_000)
    assert sum(counted) == 50_000


def test_a_receiver_that_complains_without_end_is_heard_to_its_end(server: Server) -> None:
    flood = "sys.stderr.write('x' * 999_999 + '\\nNo space left on device\\n'); sys.exit(1)"
    with pytest.raises(BtrfsError) as caught:
        server.does(flood).receive("@", NAME, stream(5), lambda _: None)

    assert caught.value.is_full


def test_a_server_that_is_lost_in_the_middle_is_unreachable(server: Server) -> None:
    lost = "sys.stderr.write('Timeout, server not responding.\\r\\n'); sys.exit(255)"
    place = server.does(f"sys.stdin.buffer.read(); {lost}")

    with pytest.raises(UnreachableError) as caught:
        place.receive("@", NAME, stream(5), lambda _: None)

    text = "root@server:/backup is unreachable: Timeout, server not responding."
    assert (caught.value.message, place.away(caught.value)) == (text, caught.value)
    assert place.away(HostError("another one")) is None


@pytest.mark.usefixtures("impatient")
def test_a_receiver_that_takes_nothing_is_given_up(server: Server) -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(HostError, match="nothing came for"):
            server.does(FOREVER).receive("@", NAME, reading, lambda _: None)
    finally:
        os.close(writing)
