"""Which checkpoints are old: never the newest, and never what may be something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.concerns.borg.host.checkpoint_series import (
    FolderEntry,
    find_series_place,
    older_checkpoints,
)

NUMBERS = st.sets(st.integers(0, 10**9), min_size=1, max_size=12)
STEMS = st.sampled_from(["checkpoint-", "run2_step_", "epoch=", "iter_", "model.ckpt-"])
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\x00"), min_size=1)


def folders(*names: str) -> list[FolderEntry]:
    return [FolderEntry(name, is_folder=True) for name in names]


def files(*names: str) -> list[FolderEntry]:
    return [FolderEntry(name, is_folder=False) for name in names]


@pytest.mark.parametrize(
    ("entry", "numbers"),
    [
        *((one, (500,)) for one in folders("checkpoint-500", "global_step500", "globalstep500")),
        *((one, (1000,)) for one in folders("iter_0001000", "step-1000", "run_epoch_1000")),
        *((one, (1000,)) for one in files("step_1000.pt", "Step1000.PTH", "model.ckpt-1000.index")),
        *((one, (3, 900)) for one in files("epoch=3-step=900.ckpt", "epoch=3-step=900-v1.ckpt")),
        *((one, (12,)) for one in files("epoch_12.pth.tar", "checkpoint12.pt", "iter_12")),
        *((one, (10,)) for one in files("ckpt-10.data-00000-of-00002", "step_10_rank_3.pt")),
        (files("lora-step00001000-00002-of-00004.safetensors")[0], (1000,)),
    ],
)
def test_a_checkpoint_is_recognized(entry: FolderEntry, numbers: tuple[int, ...]) -> None:
    found = find_series_place(entry)

    assert found is not None
    assert found.numbers == numbers


@pytest.mark.parametrize(
    "entry",
    [
        *files("model-00001-of-00004.safetensors", "pytorch_model-00001-of-00002.bin"),
        *files("checkpoint-00001-of-00004.safetensors", "consolidated.00.pth"),
        *files("rng_state_0.pth", "mp_rank_00_model_states.pt", "model_1.safetensors"),
        *files("layer_01-model_00-model_states.pt", "random_states_0.pkl", "checkpoint_3_5000"),
        *files("part-0001.parquet", "img_001.png", "step_100.png", "epoch_3.json", "step_9.pt.tmp"),
        *files("notes 2.txt", "best.ckpt", "last.ckpt", "episode_12.h5", "footstep_2.pt"),
        *folders("version_0", "fold_1", "run-20", "1000", "seed=3", "steps_20", "epochs_10"),
        *folders("checkpoint-500.bak", "checkpoint-best", "step_100_samples", "epoch-2026-11-25"),
    ],
)  # fmt: skip
def test_what_may_be_something_else_is_no_checkpoint(entry: FolderEntry) -> None:
    assert find_series_place(entry) is None


def test_the_newest_are_those_with_the_highest_numbers() -> None:
    found = older_checkpoints(folders("checkpoint-1000", "checkpoint-90", "checkpoint-500"), 2)

    assert found == [("checkpoint-90",)]
    lightning = files("epoch=10-step=5.ckpt", "epoch=9-step=900.ckpt", "epoch=10-step=40.ckpt")
    assert older_checkpoints(lightning, 1) == [
        ("epoch=9-step=900.ckpt",),
        ("epoch=10-step=5.ckpt",),
    ]


def test_two_series_in_one_folder_are_two() -> None:
    mixed = [
        *folders("checkpoint-1", "checkpoint-2", "step_8"),
        *files("a_step_1.pt", "a_step_2.pt", "b_step_1.pt", "step_1.pt", "step_1-ema.pt"),
    ]

    assert older_checkpoints(mixed, 1) == [("checkpoint-1",), ("a_step_1.pt",)]


def test_a_file_and_a_folder_are_no_series() -> None:
    assert older_checkpoints([*folders("step_1"), *files("step_2")], 1) == []


def test_one_number_in_two_spellings_is_one_checkpoint() -> None:
    found = older_checkpoints(files("step_0100.pt", "step_100.pt", "step_200.pt"), 1)

    assert found == [("step_0100.pt", "step_100.pt")]


@given(stem=STEMS, numbers=NUMBERS, newest=st.integers(1, 5), is_folder=st.booleans())
def test_exactly_the_newest_stay(
    *, stem: str, numbers: set[int], newest: int, is_folder: bool
) -> None:
    entries = [FolderEntry(f"{stem}{number}", is_folder) for number in numbers]

    gone = {name for names in older_checkpoints(entries, newest) for name in names}

    staying = [number for number in numbers if f"{stem}{number}" not in gone]
    assert sorted(staying) == sorted(numbers)[-newest:]


@given(names=st.sets(NAMES | st.from_regex(r"[a-z]{0,4}(step|ckpt|iter)[-_=]?[0-9]{1,4}(\.pt)?")))
def test_of_each_series_something_stays_and_nothing_else_goes(names: set[str]) -> None:
    entries = files(*names)

    gone = {name for left in older_checkpoints(entries, 1) for name in left}

    assert gone <= names
    places = {name: find_series_place(entry) for name, entry in zip(names, entries, strict=True)}
    assert not [name for name in gone if places[name] is None]
    newest: dict[str, tuple[int, ...]] = {}
    for place in filter(None, places.values()):
        newest[place.series] = max(newest.get(place.series, ()), place.numbers)
    for name, found in places.items():
        assert (name in gone) == (found is not None and found.numbers < newest[found.series])


@given(
    steps=NUMBERS,
    shards=st.integers(1, 5),
    missing=st.integers(0, 4),
    newest=st.integers(1, 3),
)
def test_shards_of_a_checkpoint_stay_together(
    steps: set[int], shards: int, missing: int, newest: int
) -> None:
    """Also where the newest is not written to its end."""
    names = {
        step: [f"m-step_{step}-{one:05}-of-{shards:05}.safetensors" for one in range(shards)]
        for step in steps
    }
    names[max(steps)] = names[max(steps)][missing % shards :]

    gone = older_checkpoints(files(*(name for every in names.values() for name in every)), newest)

    assert sorted(gone) == sorted(tuple(names[step]) for step in sorted(steps)[:-newest])


@given(st.sets(st.integers(0, 99_999)))
def test_shards_of_one_model_never_go(numbers: set[int]) -> None:
    stems = ("model", "checkpoint", "step")
    names = [f"{stem}-{one:05}-of-99999.safetensors" for stem in stems for one in numbers]

    assert older_checkpoints(files(*names), 1) == []
