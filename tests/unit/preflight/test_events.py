"""Events of the preflight program, which a host may print in any shape."""

from __future__ import annotations

import pytest

from rigops.preflight.payload import read_event


@pytest.mark.parametrize(
    "line",
    [
        b'{"event": "step", "pair": [Infinity, 0], "step": "copy", "rung": ""}',
        b'{"event": "step", "pair": [0, NaN], "step": "copy", "rung": ""}',
        b'{"event": "step", "pair": ["x", 0], "step": "copy", "rung": ""}',
        b'{"event": "pair", "pair": 7}',
        b'{"event": "pair"}',
        b'{"event": "step"}',
        b"NVRM: oops",
        b"[1]",
        b"{",
        b"\xff{",
    ],
)
def test_what_is_no_event_is_none(line: bytes) -> None:
    assert read_event(line) is None
