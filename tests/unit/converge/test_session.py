"""What a session knows of a reboot, and what is left of a trial boot whose reboot was refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from rigops.concerns.concern import HostRequest
from rigops.converge import session as module
from rigops.converge.engine import Engine
from rigops.converge.reboot_impact import RebootImpact
from rigops.converge.result import HostResult
from rigops.converge.session import HostSession
from rigops.converge.trial_boot import TrialBoot
from rigops.errors import Problem, RigopsError
from rigops.inventory.spec import RigSpec
from rigops.transport import Target
from tests.unit.converge.fakes import FakeHost, run_options

if TYPE_CHECKING:
    from collections.abc import Callable

INHIBITED = RigopsError(Problem(message="backup (7) asks not to shut down", fix="wait"))
AWAY = RigopsError(Problem(message="it did not come back", fix="look"))


def rebooted(monkeypatch: pytest.MonkeyPatch, reboot: Callable[..., object]) -> HostSession:
    request = HostRequest("rig", Target(name="rig"), {}, RigSpec())
    session = HostSession(request, run_options(), Engine({"rig": {}}), HostResult("rig"))
    session._connection = FakeHost()
    monkeypatch.setattr(module, "reboot", reboot)
    with pytest.raises(RigopsError):
        session.reboot(RebootImpact(), 1.0)
    return session


def test_a_reboot_that_was_refused_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would count as the canary, and no other host would be rebooted."""

    def refused(*_: object, **__: object) -> None:
        raise INHIBITED

    assert not rebooted(monkeypatch, refused).rebooted


def test_a_reboot_that_was_ordered_counts_whatever_comes_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(*_: object, waiting: Callable[[float], None], **__: object) -> None:
        waiting(0.0)
        raise AWAY

    assert rebooted(monkeypatch, lost).rebooted


def test_why_there_was_no_reboot_counts_more_than_that_its_trial_cannot_be_undone() -> None:
    def apply(stage: str, _: object) -> None:
        if stage == "return":
            raise ValueError("no space left")

    fake: Any = SimpleNamespace(
        stage_now="reboot",
        trial_options=lambda **_: None,
        apply=apply,
        release=lambda: None,
    )
    result = HostResult("rig")
    trial = TrialBoot.__new__(TrialBoot)
    trial._session, trial._result, trial.arguments = cast("HostSession", fake), result, ("a=1",)

    with pytest.raises(RigopsError, match="asks not to shut down"), trial.undone_if_refused():
        raise INHIBITED

    assert result.story == ["the trial boot could not be undone: no space left"]
