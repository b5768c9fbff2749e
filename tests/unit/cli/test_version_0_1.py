"""What version 0.1 wrote is read, and written again as it was; what it printed still holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigops.concerns.nvidia_driver import record as driver
from rigops.ownership.ownership import Ownership
from rigops.packages.records import Holds
from rigops.record import lockfile as lock
from rigops.record.kernel_arguments import arguments_document, read_arguments
from rigops.record.proven import Proven
from rigops.vault import pinned_set
from tests import version_0_1
from tests.unit.cli.conftest import apart
from tests.version_0_1 import FOLDER, HOST, STATE, breaches

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.cli.conftest import Rigops

RIGS = Path(__file__).parents[2] / "fixtures" / "rigs"
OF_HOST = f"host{STATE}"
NOBODY = {"ssh_hostname": "127.0.0.1", "ssh_port": 1}  # refuses at once


def _driver(text: str) -> str:
    pinned = driver.pinned(text)
    assert pinned
    return driver.document(pinned)


def _owned(text: str) -> str:
    """But for the files of `notify`, which was a key of `base` then."""
    return Ownership.parse(text).to_json().replace('"monitoring"', '"base"')


@pytest.mark.parametrize(
    ("name", "written_again"),
    [
        (f"{OF_HOST}/owned.json", _owned),
        (f"{OF_HOST}/holds.json", lambda text: Holds.parse(text).to_json()),
        (f"{OF_HOST}/driver.json", _driver),
        (f"{OF_HOST}/proven.json", lambda text: Proven.from_json(text).to_json()),
        (f"{OF_HOST}/vault/vault.json", lambda text: pinned_set.document(pinned_set.parse(text))),
        ("reboot_owed/owned.json", _owned),
        (
            "reboot_owed/kernel_args.json",
            lambda text: arguments_document(read_arguments(text)),
        ),
    ],
)
def test_a_document_of_a_host_is_read_and_written_again_as_it_was(
    name: str, written_again: Callable[[str], str]
) -> None:
    assert written_again(version_0_1.text(name)) == version_0_1.text(name)


def test_a_lockfile_is_read_and_written_again_as_it_was() -> None:
    path = FOLDER / "inventory.lock.json"

    assert lock.read(path).to_json() == path.read_text(encoding="utf-8")


@pytest.fixture
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an inventory that version 0.1 applied, whose host cannot be reached now."""
    state = tmp_path / "state"
    (state / "rigops").mkdir(parents=True)
    (state / "rigops" / "journal.jsonl").write_text(version_0_1.text("journal.jsonl"))
    (tmp_path / "inventory.lock.json").write_text(version_0_1.text("inventory.lock.json"))
    data = {**version_0_1.load("declared.json"), **NOBODY}
    (tmp_path / "inventory.py").write_text(f"rigs = [({HOST!r}, {data!r})]\n")
    for name in ("state", "data"):
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    monkeypatch.delenv("RIGOPS_INVENTORY", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("laptop")
def test_the_journal_of_a_controller_is_read(rigops: Rigops) -> None:
    found = rigops("history", "--json").json()

    lines = version_0_1.text("journal.jsonl").splitlines()
    before = [json.loads(line) for line in reversed(lines)]
    runs = zip(found["runs"], before, strict=True)
    assert [{name: run[name] for name in one} for run, one in runs] == before
    assert breaches(found) == []


def test_documents_of_a_host_that_cannot_be_reached_are_those_of_before(
    rigops: Rigops, laptop: Path
) -> None:
    converge = ["plan"], ["apply", "--yes"], ["release", HOST, "--yes"], ["rollback", HOST, "--yes"]
    others = ["doctor", HOST], ["preflight", "--yes"], ["drivers", "--host", HOST], ["ssh-config"]

    every = apart(laptop, *([*words, "--json"] for words in converge))
    every += [rigops(*words, "--json") for words in others]

    for words, said in zip((*converge, *others), every, strict=True):
        found = json.loads(said.out)
        assert [host["host"] for host in found["hosts"]] == [HOST], words
        assert breaches(found) == [], words


@pytest.mark.parametrize("rig", sorted(path.name for path in RIGS.iterdir()))
def test_findings_are_those_of_before(rigops: Rigops, rig: str) -> None:
    found = rigops("doctor", "--json", "--from", str(RIGS / rig)).json()

    assert {one["id"] for one in found["hosts"][0]["findings"]} >= set(
        version_0_1.load("checks.json")
    )
    assert breaches(found) == []


def test_the_catalog_of_drivers_is_printed_as_before(rigops: Rigops) -> None:
    found = rigops("drivers", "--json").json()

    assert len(found["drivers"]) > 1
    assert breaches(found) == []


@pytest.mark.parametrize(
    "inventory",
    ['rigs = [("a", {"driver": "latest", "gpu_power_limt": 285})]\n', "rigs = [\n"],
    ids=["values", "syntax"],
)
def test_an_error_is_printed_as_before(rigops: Rigops, inventory: str) -> None:
    Path("inventory.py").write_text(inventory)

    said = rigops("ssh-config", "--json")

    assert (said.code, breaches(said.json())) == (2, [])


@pytest.mark.parametrize(
    ("wrong", "breach"),
    [
        ({"runs": None, "hosts": []}, "rigops.history/1.runs is null: array"),
        ({"hosts": []}, "rigops.history/1.runs is absent"),
        ({"runs": [], "hosts": [{}]}, "rigops.history/1.hosts[].host is absent"),
    ],
    ids=["type", "field", "field of an item"],
)
def test_what_a_reader_would_miss_is_named(wrong: dict[str, object], breach: str) -> None:
    assert breach in breaches({"schema": "rigops.history/1", **wrong})
