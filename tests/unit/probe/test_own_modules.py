"""The section about kernel modules of the owner's own."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import own_modules
from rigops.probe.sections.own_modules import FOLDER, MODPROBE_FILE, RECORD, BuiltSet, OwnModules
from tests.unit.probe.asking import ask
from tests.unit.probe.host_sections import OWN_MODULES
from tests.unit.probe.snippets import tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = "d" * 64
IDS = {"nvidia": "ab" * 20, "nvidia-uvm": "cd" * 20}


def test_an_own_set_that_is_loaded() -> None:
    assert own_modules.parse(OWN_MODULES) == OwnModules(
        chosen="own",
        digest=DIGEST,
        loaded=IDS,
        built={"6.1.0-18-amd64": BuiltSet(DIGEST, "535.309.01", IDS)},
        trees=(DIGEST,),
        has_modprobe_file=True,
    )


def test_a_stock_set_has_its_reason_and_what_is_no_choice_is_unparsed() -> None:
    found = own_modules.parse(f"== {RECORD}\nstock not-built\nelse\n")

    assert (found.chosen, found.reason, found.unparsed) == ("stock", "not-built", ("else",))


@pytest.mark.parametrize("shell", SHELLS)
def test_the_section_reads_what_the_programs_wrote(shell: str, tmp_path: Path) -> None:
    files = {
        MODPROBE_FILE: "",
        RECORD: f"own {DIGEST}\n",
        f"{FOLDER}/{DIGEST}.tar.gz": "",
        f"{FOLDER}/6.1.0/set": f"digest {DIGEST}\nversion 535.309.01\nbuild-id nvidia abababab\n",
    }
    tree(tmp_path, files)
    note = tmp_path / "sys/module/nvidia_drm/notes/.note.gnu.build-id"
    note.parent.mkdir(parents=True)
    note.write_bytes(struct.pack("<III4s", 4, 20, 3, b"GNU") + bytes(range(20)))

    found = own_modules.parse(ask(own_modules.SECTION, shell, tmp_path).text)

    assert found == OwnModules(
        chosen="own",
        digest=DIGEST,
        loaded={"nvidia-drm": bytes(range(20)).hex()},
        built={"6.1.0": BuiltSet(DIGEST, "535.309.01", {"nvidia": "abababab"})},
        trees=(DIGEST,),
        has_modprobe_file=True,
    )


def test_a_host_that_has_nothing_of_it_starts_no_program_for_it(tmp_path: Path) -> None:
    assert ask(own_modules.SECTION, "dash", tmp_path).text.strip() == ""
