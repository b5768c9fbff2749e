"""doctor --watch: its lines, its documents and its exit code, until no host is tried again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rigops.hosts import access, watching
from rigops.transport import TransportError
from tests.unit.doctor.watched import BOOT, HEAD, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from typing_extensions import Self

    from rigops.transport import Target
    from tests.unit.cli.conftest import Rigops


class Watched:
    """A connection whose program prints this, and that cannot be made again."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run_script(
        self, script: Iterator[bytes], *, on_line: Callable[[bytes], None], **_: object
    ) -> None:
        assert b"nvidia-smi" in next(script)
        for line in self._lines:
            on_line(line.encode())
        raise TransportError("auth", "rig: not any more", host="rig", fix="log in")


@pytest.fixture(autouse=True)
def prints(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def prints(*lines: str) -> None:
        def connect(_: Target, **__: object) -> AbstractContextManager[Watched]:
            return Watched(*lines)

        monkeypatch.setattr(access, "connect", connect)

    monkeypatch.setattr(watching, "SLICE_S", 0.01)
    return prints


def test_a_line_for_each_card_and_the_summary_with_the_code_of_the_worst(
    rigops: Rigops, prints: Callable[..., None]
) -> None:
    prints(*BOOT, HEAD, row(1, 96, hot=True), row(2, 60))

    said = rigops("doctor", "rig", "--watch", "1")

    head, first, second, lost, *_ = said.out.splitlines()
    assert (said.code, head.split()[:3]) == (1, ["UTC", "host", "card"])
    assert first.split()[1:4] == ["rig", "0000:01:00.0", "96"]
    assert second.split()[1:4] == ["rig", "0000:02:00.0", "60"]
    assert lost.endswith("rig  not any more")
    assert "rig: fail: gpu 0000:01:00.0: 96 °C" in said.err
    assert "Watched 1 host" in said.out


def test_a_document_a_sample_and_one_of_all_at_the_end(
    rigops: Rigops, prints: Callable[..., None]
) -> None:
    prints(*BOOT, HEAD, row(1, 60), row(2, 60))

    said = rigops("doctor", "rig", "--watch", "1", "--json")

    sample, lost, total = map(json.loads, said.out.splitlines())
    assert {one["schema"] for one in (sample, lost, total)} == {"rigops.watch/1"}
    assert [card["celsius"] for card in sample["hosts"][0]["cards"]] == [60, 60]
    assert lost["hosts"][0]["error"]["kind"] == "auth"
    assert (said.code, total["status"], total["hosts"][0]["samples"]) == (3, "unknown", 1)


@pytest.mark.parametrize("other", ["--markdown", "--save=x", "--only=xid", "--html=x"])
def test_it_goes_with_nothing_that_is_made_of_one_look(rigops: Rigops, other: str) -> None:
    said = rigops("doctor", "rig", "--watch", "1", other)

    assert said.code == 2
    assert "not with --watch" in said.err
