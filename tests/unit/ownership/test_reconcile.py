from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.errors import RigopsError
from rigops.ownership.ownership import (
    Forget,
    InPlace,
    OwnedFile,
    Ownership,
    Show,
    Step,
    Undo,
    WantedFile,
    Write,
    previous_of,
    reconcile,
)
from rigops.probe.sections.rigops_state import Present
from tests.unit.ownership.simulated import CONCERNS, File, Host, PowerCutError, digest_of

PATH = "/etc/modprobe.d/rigops.conf"
OURS, OURS_NEXT, THEIRS, EDITED = File("ours"), File("ours, next"), File("theirs"), File("edited")
KEPT = previous_of(PATH, THEIRS.present())
OWNED = OwnedFile(path=PATH, concern="acs", digest=digest_of("ours"), mode=0o644)
OWNED_OVER_THEIRS = replace(OWNED, previous=KEPT)
OWNED_NEXT = replace(OWNED, digest=digest_of("ours, next"), replaces=digest_of("ours"))


def step_for(
    owned: OwnedFile | None,
    wanted: File | None,
    found: File | None,
    *,
    selected: tuple[str, ...] = ("acs",),
) -> Step | None:
    steps = reconcile(
        Ownership({PATH: owned} if owned else {}),
        {PATH: wanted.wanted()} if wanted else {},
        {PATH: found.present() if found else None},
        selected=selected,
    )
    assert len(steps) <= 1
    return steps[0] if steps else None


def test_a_new_file_is_written() -> None:
    assert step_for(None, OURS, None) == Write(OWNED, before=None, backup=None)


def test_what_somebody_had_there_is_kept_aside() -> None:
    step = step_for(None, OURS, THEIRS)
    assert step == Write(OWNED_OVER_THEIRS, before=THEIRS.present(), backup=KEPT)


def test_a_foreign_file_that_already_satisfies_stays_foreign() -> None:
    assert step_for(None, OURS, OURS) == InPlace()
    assert step_for(None, None, OURS) is None


def test_a_foreign_file_with_the_wrong_mode_does_not_satisfy() -> None:
    open_to_all = File("ours", 0o666)
    step = step_for(None, OURS, open_to_all)
    assert isinstance(step, Write)
    assert step.backup == previous_of(PATH, open_to_all.present())


def test_ours_and_unchanged_is_previous_of() -> None:
    assert step_for(OWNED, OURS, OURS) == InPlace()


def test_a_changed_declaration_is_written_and_needs_no_copy_of_ours() -> None:
    assert step_for(OWNED, OURS_NEXT, OURS) == Write(OWNED_NEXT, before=OURS.present(), backup=None)


def test_a_changed_mode_is_written() -> None:
    step = step_for(OWNED, File("ours", 0o600), OURS)
    assert isinstance(step, Write)
    assert step.record.mode == 0o600
    assert step.backup is None


def test_a_mode_that_somebody_changed_is_put_right() -> None:
    assert isinstance(step_for(OWNED, OURS, File("ours", 0o666)), Write)


def test_ours_but_deleted_is_written_again() -> None:
    assert step_for(OWNED_OVER_THEIRS, OURS, None) == Write(
        OWNED_OVER_THEIRS,
        before=None,
        backup=None,
    )


def test_what_somebody_changed_is_shown_kept_aside_and_overwritten() -> None:
    edited = EDITED.present()
    assert step_for(OWNED, OURS, EDITED) == Write(
        OWNED, edited, previous_of(PATH, edited), by_hand=True
    )


def test_what_is_put_back_in_the_end_is_what_was_there_before_rigops() -> None:
    step = step_for(OWNED_OVER_THEIRS, OURS, EDITED)
    assert isinstance(step, Write)
    assert step.by_hand
    assert step.record.previous == KEPT
    assert step.backup != KEPT


def test_what_somebody_changed_to_just_what_is_wanted_is_no_conflict() -> None:
    step = step_for(OWNED, OURS_NEXT, OURS_NEXT)
    assert isinstance(step, Write)
    assert step.backup is None


def test_no_longer_wanted_is_removed() -> None:
    assert step_for(OWNED, None, OURS) == Undo(OWNED)


def test_no_longer_wanted_gives_back_what_was_there() -> None:
    assert step_for(OWNED_OVER_THEIRS, None, OURS) == Undo(OWNED_OVER_THEIRS)


def test_no_longer_wanted_gives_back_the_mode_even_of_equal_content() -> None:
    open_to_all = previous_of(PATH, File("ours", 0o666).present())
    owned = replace(OWNED, previous=open_to_all)
    assert step_for(owned, None, OURS) == Undo(owned)
    assert step_for(owned, None, File("ours", 0o666)) == Forget(owned)


def test_no_longer_wanted_but_changed_by_somebody_is_left_and_shown() -> None:
    assert step_for(OWNED, None, EDITED) == Show(OWNED)


@pytest.mark.parametrize("owned", [OWNED, OWNED_OVER_THEIRS])
def test_no_longer_wanted_and_already_gone_is_forgotten(owned: OwnedFile) -> None:
    assert step_for(owned, None, None) == Forget(owned)


def test_recorded_but_never_written_is_written_again() -> None:
    written_again = Write(OWNED_OVER_THEIRS, before=THEIRS.present(), backup=KEPT)
    assert step_for(OWNED_OVER_THEIRS, OURS, THEIRS) == written_again


def test_recorded_but_never_written_and_no_longer_wanted_is_forgotten() -> None:
    assert step_for(OWNED_OVER_THEIRS, None, THEIRS) == Forget(OWNED_OVER_THEIRS)


def test_an_interrupted_change_of_ours_is_not_taken_for_somebodys() -> None:
    assert step_for(OWNED_NEXT, OURS_NEXT, OURS) == Write(OWNED_NEXT, OURS.present(), None)
    assert step_for(OWNED_NEXT, None, OURS) == Undo(OWNED_NEXT)


@pytest.mark.parametrize("wanted", [OURS, None])
@pytest.mark.parametrize("found", [OURS, EDITED, None])
def test_outside_the_selection_nothing_happens(wanted: File | None, found: File | None) -> None:
    assert step_for(OWNED, wanted, found, selected=("kernel_args",)) is None


def test_a_file_that_another_concern_wants_is_not_undone() -> None:
    wanted = {PATH: OURS.wanted("kernel_args")}
    ownership, present = Ownership({PATH: OWNED}), {PATH: OURS.present()}
    assert reconcile(ownership, wanted, present, selected=("acs",)) == []
    [step] = reconcile(ownership, wanted, present, selected=("acs", "kernel_args"))
    assert isinstance(step, Write)
    assert step.record.concern == "kernel_args"


def test_what_is_wanted_comes_before_what_is_taken_back() -> None:
    paths = ["/etc/a", "/etc/b", "/etc/c"]
    ownership = Ownership({"/etc/a": replace(OWNED, path="/etc/a")})
    steps = reconcile(
        ownership,
        {path: OURS.wanted() for path in reversed(paths[1:])},
        {"/etc/a": OURS.present(), "/etc/b": None, "/etc/c": None},
        selected=("acs",),
    )
    assert [type(step) for step in steps] == [Write, Write, Undo]
    assert [step.record.path for step in steps if isinstance(step, Write)] == paths[1:]


def test_a_path_that_nobody_looked_at_is_not_taken_for_absent() -> None:
    with pytest.raises(KeyError):
        reconcile(Ownership({PATH: OWNED}), {}, {}, selected=("acs",))


@pytest.mark.parametrize("path", ["etc/x", "/etc/../x", "/etc//x", "/etc/x/", "/", "", "/etc/\0"])
def test_a_path_that_is_not_plain_is_refused(path: str) -> None:
    wanted = {path: WantedFile("acs", digest_of("x"), 0o644)}
    with pytest.raises(RigopsError, match="no path for a file"):
        reconcile(Ownership(), wanted, {path: None}, selected=())


def test_equal_content_at_two_paths_is_kept_under_two_names() -> None:
    found = Present(digest_of("x"), 0o644)
    assert previous_of("/etc/a/x.conf", found).name != previous_of("/etc/b/x.conf", found).name


PATHS = st.sampled_from(["/etc/a", "/etc/b", "/etc/b.d/a", "/usr/local/libexec/rigops/guard"])
FILES = st.builds(File, st.sampled_from("xyz"), st.sampled_from([0o600, 0o644]))
HOSTS = st.builds(Host, st.dictionaries(PATHS, FILES))
WANTED = st.dictionaries(PATHS, st.tuples(st.sampled_from(CONCERNS), FILES))
SELECTED = st.sampled_from([(), *((concern,) for concern in CONCERNS), CONCERNS])
RUNS = st.lists(st.tuples(WANTED, SELECTED, st.none() | st.integers(0, 8)), max_size=5)
EDITS = st.dictionaries(PATHS, st.none() | FILES)

Run = tuple[dict[str, tuple[str, File]], tuple[str, ...], int | None]


def go_through(host: Host, runs: list[Run]) -> None:
    for wanted, selected, writes in runs:
        with suppress(PowerCutError):
            host.converge(wanted, selected=selected, writes_before_crash=writes)


def edit(host: Host, edits: dict[str, File | None]) -> None:
    for path, file in edits.items():
        if file is None:
            host.files.pop(path, None)
        else:
            host.files[path] = file


@given(HOSTS, RUNS, EDITS, WANTED)
def test_converging_once_leaves_nothing_to_do(
    host: Host,
    runs: list[Run],
    edits: dict[str, File | None],
    wanted: dict[str, tuple[str, File]],
) -> None:
    go_through(host, runs)
    edit(host, edits)
    host.converge(wanted)
    assert all(isinstance(step, InPlace | Show) for step in host.steps_to(wanted))
    assert {path: host.files[path] for path in wanted} == {
        path: file for path, (_, file) in wanted.items()
    }


@given(HOSTS, RUNS)
def test_undeclaring_everything_gives_the_host_back_byte_for_byte(
    host: Host,
    runs: list[Run],
) -> None:
    before = dict(host.files)
    go_through(host, runs)
    host.converge({})
    assert host.files == before
    assert Ownership.parse(host.record) == Ownership()


@given(HOSTS, WANTED, st.sets(PATHS), st.lists(st.integers(0, 8), max_size=5))
def test_what_somebody_changed_is_left_alone_and_only_that(
    host: Host,
    wanted: dict[str, tuple[str, File]],
    edited: set[str],
    crashes: list[int],
) -> None:
    before = dict(host.files)
    host.converge(wanted)
    foreign = {path: File("somebody's", 0o640) for path in edited}
    host.files.update(foreign)
    go_through(host, [({}, CONCERNS, writes) for writes in crashes])
    host.converge({})
    assert host.files == {**before, **foreign}
    shown = {step.owned.path for step in host.steps_to({}) if isinstance(step, Show)}
    assert shown == set(Ownership.parse(host.record).files)


@given(HOSTS, RUNS, st.sets(PATHS), WANTED)
def test_nothing_that_somebody_wrote_is_lost(
    host: Host,
    runs: list[Run],
    edited: set[str],
    wanted: dict[str, tuple[str, File]],
) -> None:
    go_through(host, runs)
    foreign = {path: File("somebody's", 0o640) for path in edited}
    host.files.update(foreign)
    host.converge(wanted)
    kept_or_there = {*host.previous.values(), *(file.content for file in host.files.values())}
    assert {file.content for file in foreign.values()} <= kept_or_there


@given(HOSTS, RUNS, WANTED, WANTED, SELECTED)
def test_only_selected_concerns_are_touched(
    host: Host,
    runs: list[Run],
    first: dict[str, tuple[str, File]],
    second: dict[str, tuple[str, File]],
    selected: tuple[str, ...],
) -> None:
    go_through(host, runs)
    host.converge(first)
    before, owned = dict(host.files), Ownership.parse(host.record).files
    host.converge(second, selected=selected)
    for path in {*before, *host.files}:
        concern = (
            second[path][0] if path in second else owned[path].concern if path in owned else ""
        )
        if concern not in selected:
            assert host.files.get(path) == before.get(path)
            assert Ownership.parse(host.record).files.get(path) == owned.get(path)


RIGS = "1000:1000"


def test_ours_of_another_owner_is_written_again_and_is_no_edit() -> None:
    found = replace(OURS.present(), owner=RIGS)

    (step,) = reconcile(
        Ownership({PATH: OWNED}), {PATH: OURS.wanted()}, {PATH: found}, selected=CONCERNS
    )

    assert isinstance(step, Write)
    assert step.backup is None
    assert OURS.wanted().drift(found) == f"the owner is {RIGS}, declared 0:0"


def test_a_foreign_file_of_another_owner_does_not_satisfy_and_comes_back_as_it_was() -> None:
    found = replace(OURS.present(), owner=RIGS)

    (step,) = reconcile(Ownership(), {PATH: OURS.wanted()}, {PATH: found}, selected=CONCERNS)

    assert isinstance(step, Write)
    assert step.backup == previous_of(PATH, found)
    taken = Ownership.parse(Ownership({PATH: step.record}).to_json())
    (undone,) = reconcile(taken, {}, {PATH: OURS.present()}, selected=CONCERNS)
    assert isinstance(undone, Undo)
    (done,) = reconcile(taken, {}, {PATH: found}, selected=CONCERNS)
    assert isinstance(done, Forget)


@pytest.mark.parametrize("kind", ["a symbolic link", "a directory", "a FIFO"])
def test_what_is_no_file_is_never_taken_for_ours(kind: str) -> None:
    found = Present("", 0o777, kind=kind)

    (step,) = reconcile(Ownership({PATH: OWNED}), {}, {PATH: found}, selected=CONCERNS)

    assert step == Show(OWNED)
