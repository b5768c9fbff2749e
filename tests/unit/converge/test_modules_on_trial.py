"""Preflight judges modules of the owner's while the boot that tries them is the only one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rigops.converge.errors import DeployError
from rigops.inventory.spec import RigSpec
from rigops.preflight.found import HostFound
from rigops.probe.sections import proc_cmdline
from rigops.probe.sections.own_modules import ARGUMENT
from rigops.probe.sections.rigops_state import ARGUMENTS, RigopsState
from rigops.record.kernel_arguments import Arguments, arguments_document
from tests.unit.converge.fakes import NOTHING_COLLECTED
from tests.unit.converge.test_host_run import TWO_CARDS, WRITES, planned

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Literal

    from rigops.converge.host_run import HostRun
    from rigops.plan.context import TrialOptions

    P2p = Literal["measure", "required"]

ON_TRIAL = replace(
    NOTHING_COLLECTED,
    silicon=TWO_CARDS,
    command_line=proc_cmdline.parse(f"ro iommu=pt {ARGUMENT} rigops.trial"),
    state=RigopsState(
        records={ARGUMENTS: arguments_document(Arguments(("iommu=pt", ARGUMENT), armed_in="a"))}
    ),
)


def trying(folder: Path, status: str, p2p: P2p = "required") -> tuple[HostRun, list[str]]:
    """A host whose preflight comes to this; and what is done there, in order."""
    rig = planned(folder, {"base": WRITES.replace("NAME", "base")}, ON_TRIAL)
    rig.request = replace(rig.request, spec=RigSpec(p2p=p2p), data={"p2p": p2p})
    done: list[str] = []

    def preflight() -> None:
        done.append("preflight")
        rig.result.preflight = HostFound(host="rig", status=status)

    def apply(stage: str = "change", trial: TrialOptions | None = None) -> None:
        done.append(f"{stage} {trial.failed} {trial.tried}" if trial else stage)

    rig._preflight = preflight  # type: ignore[method-assign]  # a fake
    rig._record_run = lambda: done.append("record")  # type: ignore[method-assign]  # a fake
    rig._session.confirm_trial = lambda: done.append("confirm")  # type: ignore[method-assign]  # a fake
    rig._session.take_lock = lambda: None  # type: ignore[method-assign]  # a fake
    rig._session.apply = apply  # type: ignore[method-assign]  # a fake
    rig._session.verify = lambda: rig.result.plan  # type: ignore[method-assign]  # a fake
    return rig, done


def test_copies_that_fail_where_p2p_is_required_speak_against_the_modules(tmp_path: Path) -> None:
    rig, done = trying(tmp_path, "fail")

    assert rig._fails_its_proof((ARGUMENT,)) == "preflight failed with modules of your own"
    assert done == ["confirm", "preflight", "record"]


def test_what_preflight_could_not_judge_is_not_permanent_and_may_be_judged_again(
    tmp_path: Path,
) -> None:
    rig, done = trying(tmp_path, "unknown")

    with pytest.raises(DeployError, match="nothing is permanent yet; run this again"):
        rig._fails_its_proof((ARGUMENT,))

    assert done == ["confirm", "preflight"]


@pytest.mark.parametrize(("p2p", "argument"), [("measure", ARGUMENT), ("required", "iommu=pt")])
def test_nothing_else_waits_for_copies(tmp_path: Path, p2p: P2p, argument: str) -> None:
    rig, done = trying(tmp_path, "fail", p2p)

    assert rig._fails_its_proof((argument,)) == ""
    assert done == []


def test_what_was_copied_before_it_became_permanent_is_not_copied_again(tmp_path: Path) -> None:
    rig, done = trying(tmp_path, "ok")
    assert rig._fails_its_proof((ARGUMENT,)) == ""
    rig.result.outcome = "changed"

    rig.prove()

    assert done == ["confirm", "preflight"]


def test_a_trial_of_a_run_that_was_cut_off_is_judged_before_its_arguments_are_permanent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rigops.converge.trial_boot.failure_of_concern", lambda *_: "")
    good, done = trying(tmp_path, "ok")
    good.change()
    bad, undone = trying(tmp_path, "fail")
    with pytest.raises(DeployError, match="reboot it"):
        bad.change()

    assert done == ["confirm", "preflight", "change"]
    tried = ("iommu=pt", ARGUMENT)
    returned = f"return preflight failed with modules of your own {tried}"
    assert undone == ["confirm", "preflight", "record", returned]
