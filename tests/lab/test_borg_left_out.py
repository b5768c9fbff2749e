"""What is in an archive on request alone, and what is left out of it: with a real borg."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.lab.borg_14 import install_14, use_14
from tests.lab.borg_host import BORG, LIVE, REPOSITORY, BorgHost
from tests.shards import LAB_BORG

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

pytestmark = pytest.mark.shard(LAB_BORG)

RIG: Final = "epyc-8x4090"


@pytest.fixture(scope="module")
def on(module_lab: Lab) -> BorgHost:
    found = BorgHost(module_lab.one(RIG))
    found.install()
    return found


def list_archive(on: BorgHost) -> list[str]:
    """The newest, as borg itself has it."""
    archive = f"{REPOSITORY}::{on.archives()[-1]}"
    return on.does(f"{BORG} list --format '/{{path}}{{NL}}' {archive}").splitlines()


@pytest.mark.parametrize("paths", [[LIVE], [LIVE, "/etc"]])
@pytest.mark.parametrize("wanted", [False, True])
def test_the_keys_of_the_host_are_in_the_archive_on_request_alone(
    on: BorgHost, *, paths: list[str], wanted: bool
) -> None:
    made = [f"/etc/ssh/ssh_host_test_key{end}" for end in ("", ".pub")]
    on.does(f"mkdir -p /etc/ssh; touch {' '.join(made)}")

    on.begin(identity=True, paths=paths, host_keys=wanted)

    on.does(f"rm {' '.join(made)}")
    listed = list_archive(on)
    assert "/etc/hostname" in listed
    assert [one for one in made if one in listed] == (made if wanted else [])
    assert wanted or not [one for one in listed if one.startswith("/etc/ssh/ssh_host_")]


RUNS: Final = f"{LIVE}/runs"
STAYING: Final = (
    "a/checkpoint-900/model-00001-of-00002.safetensors",
    "a/checkpoint-900/model-00002-of-00002.safetensors",
    "a/checkpoint-1000/model-00001-of-00002.safetensors",
    "a/checkpoint-1000/rng_state_0.pth",
    "a/checkpoint-1000/rng_state_1.pth",
    "a/checkpoint-1000/rng_state_2.pth",
    "b/deep [1]*/epoch=2-step=30.ckpt",
    "b/deep [1]*/epoch=10-step=5.ckpt",
    "b/deep [1]*/epoch_1.json",
    "best/step_1.pt",
    "best/step_2.pt",
    "best/step_3.pt",
    "version_0/text",
    "version_1/text",
    "version_2/text",
)
OLD: Final = (
    "a/checkpoint-100/model-00001-of-00002.safetensors",
    "a/checkpoint-100/deeper/text",
    "b/deep [1]*/epoch=1-step=900.ckpt",
)


@pytest.mark.parametrize("version", ["1.2", "1.4"])
def test_of_a_series_only_the_newest_checkpoints_are_in_the_archive(
    on: BorgHost, version: str
) -> None:
    on.begin(checkpoints={RUNS: 2})
    if version == "1.4":
        install_14(on)
        use_14(on)
    for name in (*STAYING, *OLD):
        on.does(f"mkdir -p '{RUNS}/{name.rpartition('/')[0]}'; echo {name} >'{RUNS}/{name}'")
    on.does(f"ln -s step_1.pt {RUNS}/best/best.pt")

    ran = on.run("backup")

    assert ran.code == 0, ran.text + ran.stderr
    assert on.state()["repository"]["last_borg"].startswith(version)
    assert f"{RUNS}: checkpoints left out: 2; of each series, the newest 2 stay" in ran.text
    assert ran.result["created"][0]["checkpoints_left_out"] == 2
    listed = list_archive(on)
    assert [one for one in STAYING if f"{RUNS}/{one}" not in listed] == []
    assert [one for one in listed if "checkpoint-100/" in f"{one}/" or "step=900" in one] == []
    assert on.does(f"ls '{RUNS}/a'").split() == [
        "checkpoint-100",
        "checkpoint-1000",
        "checkpoint-900",
    ]
    on.restore(RUNS, "--to", "/root/found")
    found = on.does(
        "cd /root/found/runs; find -type f | LC_ALL=C sort; rm -r /root/found"
    ).splitlines()
    assert found == sorted(f"./{name}" for name in STAYING)


def test_more_checkpoints_than_arguments_may_name_are_left_out(on: BorgHost) -> None:
    """A drill too: what it does not find in the archive would be a difference."""
    folder = f"{RUNS}/{'long' * 50}"
    on.begin(checkpoints={RUNS: 1})
    on.does(f"mkdir -p {folder}; cd {folder}; seq -f step_%.0f.pt 1 12000 | xargs touch")

    codes = [on.run("backup").code, on.run("drill").code]

    assert codes == [0, 0]
    assert [one for one in list_archive(on) if "step_" in one] == [f"{folder}/step_12000.pt"]
