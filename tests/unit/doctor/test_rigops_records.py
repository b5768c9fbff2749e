"""The records of rigops on a host: each of them with each damage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from rigops.concerns.host_records import damaged_records
from rigops.concerns.registry import read
from rigops.converge.host_journal import leftovers
from rigops.errors import RigopsError
from rigops.probe.sections import rigops_state
from rigops.probe.sections.rigops_state import MISSHAPEN, OWNED_FILES, RECORD, STATE
from rigops.probe.sections.rigops_traces import TRACES
from tests import version_0_1
from tests.unit.doctor.examining import look

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHECK = "rigops.records"
JOURNAL = f"{STATE}/journal.jsonl"
TEXTS: Final[Mapping[str, str]] = {
    **{
        f"{STATE}/{name}": version_0_1.text(f"host{STATE}/{name}")
        for name in (
            "owned.json", "holds.json", "kernel_args.json", "proven.json", "driver.json",
            "acs.json", "vault/vault.json",
        )
    },
    f"{STATE}/packages.json": '{"schema": "rigops.owned_packages/1", "packages": []}\n',
    f"{STATE}/package_work.json": '{"schema": "rigops.package_work/1", "packages": []}\n',
    f"{STATE}/leaving.json": '{"schema": "rigops.leaving/1", "boot_id": "b", "arguments": []}\n',
}  # fmt: skip
DAMAGES: Final[Mapping[str, Callable[[str], str]]] = {
    "cut by 5 bytes": lambda text: text[:-5],
    "emptied": lambda _: "",
    "filled with NUL": lambda text: "\0" * len(text),
    "garbage": lambda _: "\ufffd{]\n" * 10,
    "a list": lambda _: "[]\n",
    "a number without end": lambda _: "9" * 5000,
    "nested": lambda _: "[" * 100_000,
}
REFUSED: Final = {"holds.json", "kernel_args.json", "packages.json", "package_work.json"}


def answer(texts: Mapping[str, str], *more: str) -> str:
    shown = "".join(f"== {path}\n{text}\n" for path, text in texts.items())
    return f"{shown}{''.join(more)}== {OWNED_FILES}\n== {TRACES}\n"


def trace(path: str) -> str:
    return f"made 81a4 0:0 {'a' * 64} {path}\n"


def test_whole_records_are_well() -> None:
    assert look(CHECK, rigops_state=answer(TEXTS)).status == "ok"


def test_a_host_that_rigops_never_wrote_to_is_skipped_and_no_answer_is_unknown() -> None:
    assert look(CHECK, rigops_state=answer({})).status == "skipped"
    assert look(CHECK, rigops_state=None).status == "unknown"


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("path", TEXTS)
def test_each_damage_of_each_record_is_found_with_a_fix(path: str, damage: str) -> None:
    texts = {**TEXTS, path: DAMAGES[damage](TEXTS[path])}

    found = look(CHECK, rigops_state=answer(texts))

    is_grave = path == RECORD or path.rpartition("/")[2] in REFUSED
    assert (found.status, found.subject) == ("fail" if is_grave else "warn", path)
    assert found.fix is not None
    assert found.fix.text


@pytest.mark.parametrize("path", TEXTS)
def test_another_schema_is_not_taken_for_this_one(path: str) -> None:
    document = {**json.loads(TEXTS[path]), "schema": "else/1"}

    found = look(CHECK, rigops_state=answer({**TEXTS, path: json.dumps(document)}))

    is_grave = path == RECORD or path.rpartition("/")[2] in REFUSED
    assert (found.status, found.subject) == ("fail" if is_grave else "warn", path)


@pytest.mark.parametrize("path", [*TEXTS, JOURNAL])
def test_what_is_no_file_is_damaged_and_not_absent(path: str) -> None:
    texts = {known: text for known, text in TEXTS.items() if known != path}

    found = look(CHECK, rigops_state=answer(texts, f"== {MISSHAPEN}\n{path}\n"))

    assert found.status in {"fail", "warn"}
    assert found.subject == path


def test_files_of_rigops_without_a_record_are_a_failure() -> None:
    text = answer({}) + trace("/etc/apt/preferences.d/rigops-nvidia.pref")

    found = look(CHECK, rigops_state=text)

    assert (found.status, found.subject) == ("fail", RECORD)
    assert "is lost; it named what rigops wrote: /etc/apt/pref" in found.summary


def test_a_copy_of_an_owned_file_is_named_and_nothing_is_refused() -> None:
    path = f"{json.loads(TEXTS[RECORD])['files'][0]['path']}.bak"

    found = look(CHECK, rigops_state=answer(TEXTS) + trace(path))

    assert (found.status, found.subject) == ("warn", path)
    assert "not in its record" in found.summary


DECLARED: Final = {
    "borg": {"repository": "me@nas:rig", "paths": ["/home"], "passphrase_command": "pass x"},
    "snapshots": {"subvolumes": ["/home"]},
}


@pytest.mark.parametrize("concern", DECLARED)
def test_a_key_of_rigops_that_is_not_recorded_is_not_to_be_deleted(concern: str) -> None:
    path = f"/etc/rigops/{concern}_key"
    text = answer(TEXTS) + trace(path).replace("made", "there", 1)

    declared = read({concern: DECLARED[concern]})
    found = look(CHECK, declared, concerns=frozenset({concern}), rigops_state=text)
    undeclared = look(CHECK, rigops_state=text)

    for one, kind in ((found, "apply"), (undeclared, "hands")):
        assert (one.status, one.subject) == ("warn", path)
        assert one.summary.endswith(f"key for {concern}, and is not recorded: do not delete it")
        assert one.fix is not None
        assert one.fix.kind == kind
        assert "`rigops apply` records it" in one.fix.text


def test_torn_lines_of_the_journal_are_counted() -> None:
    journal = version_0_1.text("journal.jsonl")
    text = answer(TEXTS, f"== {rigops_state.JOURNAL}\n{journal[:-5]}\n")

    found = look(CHECK, rigops_state=text)

    assert (found.status, found.subject) == ("info", JOURNAL)
    assert "1 of its last lines" in found.summary


@pytest.mark.parametrize("path", [f"{STATE}/{name}" for name in sorted(REFUSED)])
def test_a_release_does_not_pass_over_a_record_that_names_what_is_left(path: str) -> None:
    empty = {RECORD: '{"schema": "rigops.owned/1", "files": []}\n'}
    state = rigops_state.parse(answer({**empty, path: "\0" * 40}))

    assert [one.path for one in damaged_records(state)] == [path]
    assert list(leftovers(state)) == [f"whatever {path} named, which cannot be read"]


def test_all_that_is_left_is_named() -> None:
    texts = {
        path: TEXTS[path] for path in TEXTS if path.endswith(("holds.json", "kernel_args.json"))
    }
    texts[f"{STATE}/kernel_args.json"] = texts[f"{STATE}/kernel_args.json"].replace(
        '"written": []', '"written": ["iommu=pt"]'
    )
    text = (
        answer(texts) + trace("/etc/nccl.conf") + f"== {rigops_state.STRAYS}\n/etc/x.rigops-new\n"
    )

    left = list(leftovers(rigops_state.parse(text)))

    assert left[:2] == ["/etc/nccl.conf", "/etc/x.rigops-new"]
    assert "the hold of firmware-nvidia-gsp" in left
    assert left[-1] == "kernel arguments iommu=pt"


def test_an_answer_that_broke_off_is_no_clean_host() -> None:
    text = answer({})
    for end in (text.index(f"== {TRACES}"), text.index(f"== {OWNED_FILES}")):
        state = rigops_state.parse(text[:end])
        try:
            assert list(leftovers(state))
        except RigopsError as error:
            assert "incomplete" in str(error)  # noqa: PT017 - either says so
