from __future__ import annotations

from dataclasses import replace

import pytest

from rigops.concerns import registry
from rigops.concerns.acs.concern import ACS
from rigops.concerns.registry import read
from rigops.converge.request import Selection, blocked
from rigops.converge.result import Blocker, HostResult, Outcome, exit_code
from rigops.errors import UsageError
from rigops.preflight.found import HostFound
from rigops.probe.sections.proc_cmdline import CommandLine

ALL = Selection()


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["converged", "changed", "reboot_owed"], 0),
        (["converged", "unreachable"], 3),
        (["unreachable", "failed"], 1),
        (["unreachable", "refused"], 1),
        (["failed", "interrupted"], 130),
        ([], 0),
    ],
)
def test_the_gravest_host_decides_the_exit_code(outcomes: list[Outcome], code: int) -> None:
    assert exit_code([HostResult("rig", outcome) for outcome in outcomes]) == code


@pytest.mark.parametrize(
    ("status", "code"), [("ok", 0), ("warn", 0), ("skipped", 0), ("fail", 1), ("unknown", 3)]
)
def test_a_preflight_that_fails_makes_the_exit_code_whatever_the_outcome(
    status: str, code: int
) -> None:
    result = HostResult("rig", "changed", preflight=HostFound(host="rig", status=status))

    assert result.exit_code == code


def test_what_stands_in_the_way_is_never_exit_0() -> None:
    way = Blocker("borg", ("borg",), "not in this version")

    assert HostResult("rig", "changed", blocked=(way,)).exit_code == 1


def test_a_declaration_that_no_deploy_acts_on_is_in_the_way_unless_it_was_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coming = [replace(one, deploy=None) if one is ACS else one for one in registry.CONCERNS]
    monkeypatch.setattr(registry, "CONCERNS", coming)
    spec = read({"acs_redirect": "off", "kernel_args": ["a"], "gpus": 3, "p2p": "nvlink"})

    assert [(one.concern, one.keys) for one in blocked(spec, ALL)] == [("acs", ("acs_redirect",))]
    assert blocked(spec, Selection.from_words([], ["acs"])) == ()
    assert blocked(spec, Selection.from_words(["kernel_args"], [])) == ()


def test_a_misspelled_concern_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as refused:
        Selection.from_words(["kernel-args"], [])

    assert "kernel_args" in refused.value.problems[0].fix


def facts(*live: str) -> CommandLine:
    return CommandLine(" ".join(live), live)
