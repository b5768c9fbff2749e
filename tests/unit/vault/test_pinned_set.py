from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rigops.vault.pinned_set import document, parse, with_proven
from tests.unit.vault.pinned_sets import package, pinned_set

OLD, NOW, NEW = (pinned_set(version) for version in ("535.183.01", "535.261.03", "580.178.04"))
LATER = "2026-12-01T00:00:00Z"


def test_the_document_is_read_as_it_was_written() -> None:
    assert parse(document((NOW, OLD))) == (NOW, OLD)


def test_the_document_names_every_file() -> None:
    (one,) = json.loads(document((NOW,)))["sets"]

    assert one["packages"][0] == {
        "name": "nvidia-kernel-dkms",
        "version": "535.261.03-1",
        "architecture": "amd64",
        "sha256": NOW.packages[0].sha256,
        "size": NOW.packages[0].size,
        "file": "pool/nvidia-kernel-dkms_535.261.03-1_amd64.deb",
    }


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"schema": "rigops.vault/2", "sets": []}'])
def test_a_document_that_cannot_be_read_tells_of_nothing(text: str | None) -> None:
    assert parse(text) == ()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "../../etc/passwd"),
        ("name", "a/b"),
        ("version", "1\n2"),
        ("architecture", "../x"),
        ("sha256", "0" * 63),
        ("sha256", "Z" * 64),
    ],
)
def test_a_file_outside_the_pool_is_no_package(field: str, value: str) -> None:
    told = json.loads(document((NOW,)))
    told["sets"][0]["packages"][0][field] = value

    assert parse(json.dumps(told)) == ()


def test_an_epoch_is_no_part_of_a_file_name() -> None:
    assert package("libgl1", "1:2.3-1").file == "libgl1_2.3-1_amd64.deb"


def test_the_two_that_were_proven_last_stay() -> None:
    sets = with_proven(with_proven(with_proven((), OLD), NOW), NEW)

    assert sets == (NEW, NOW)


def test_a_set_with_more_beside_the_same_driver_takes_the_place_of_the_one_before() -> None:
    """Else it would push the driver out that a rollback goes back to."""
    more = replace(NOW, packages=(*NOW.packages, package("nvidia-settings", "535.247.01-1")))

    assert with_proven((NOW, OLD), more) == (more, OLD)
    other = replace(NOW, packages=NOW.packages[1:])
    assert with_proven((NOW, OLD), other) == (other, NOW)


def test_proven_again_nothing_changes_its_time_neither() -> None:
    again = replace(NOW, at=LATER, kernel="6.12.48")

    assert with_proven((NOW, OLD), again) == (NOW, OLD)


def test_a_record_that_was_changed_does_not_stay() -> None:
    first, *rest = NOW.packages
    changed = replace(NOW, packages=(replace(first, sha256="0" * 64), *rest))

    assert with_proven((changed, OLD), NOW)[0] == NOW


def test_one_that_was_gone_back_to_comes_first() -> None:
    again = replace(OLD, at=LATER)

    assert with_proven((NOW, OLD), again) == (again, NOW)
