"""sshd reloads its restored keys in its own time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rigops.reprovision import data, trust
from rigops.transport import TransportError

CAPTURED, OTHER = "SHA256:captured", "SHA256:other"
REFUSED = TransportError("refused", "connection refused", host="rig")


def answering(*answers: str | TransportError) -> Callable[[], Any]:
    """In turn; the last one for ever."""
    left = list(answers)

    def introduce() -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, TransportError):
            raise answer
        return SimpleNamespace(fingerprint=answer)

    return introduce


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_accepted(found: Any, why: str) -> TransportError:
        return TransportError("key_changed", f"{found.fingerprint}: {why}", host="rig")

    monkeypatch.setattr(data, "_RELOAD_PAUSE_S", 0)
    monkeypatch.setattr(trust, "not_accepted", not_accepted)


def test_a_connection_refused_meanwhile_and_the_old_key_are_waited_for() -> None:
    found = data.introduce_reloaded(answering(OTHER, REFUSED, REFUSED, CAPTURED), [CAPTURED])

    assert found.fingerprint == CAPTURED


@pytest.mark.parametrize(
    ("answer", "said"), [(REFUSED, "refused"), (OTHER, "not the captured one")]
)
def test_what_stays_wrong_is_said(answer: str | TransportError, said: str) -> None:
    with pytest.raises(TransportError, match=said):
        data.introduce_reloaded(answering(answer), [CAPTURED])
