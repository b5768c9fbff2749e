"""Disks by what they say of themselves."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.unit.doctor.examining import check_of, judge

ATA: Final = {"smartctl": {"exit_status": 0}, "smart_status": {"passed": True}}
NVME: Final = {"critical_warning": 0, "percentage_used": 3, "media_errors": 0}


def nvme(**values: int) -> dict[str, object]:
    log = {**NVME, **values}
    is_well = not log["critical_warning"]
    return {"smart_status": {"passed": is_well}, "nvme_smart_health_information_log": log}


def ata(**values: int) -> dict[str, object]:
    numbers = {"reallocated": 5, "reported": 187, "pending": 197, "offline": 198}
    table = [{"id": numbers[name], "raw": {"value": value}} for name, value in values.items()]
    return {**ATA, "ata_smart_attributes": {"table": table}}


def section(*outputs: object, listed: int | None = None) -> str:
    names = [f"sd{chr(ord('a') + at)}" for at in range(len(outputs) if listed is None else listed)]
    text = "== ls /sys/block\n" + "".join(f"{name}\n" for name in names)
    for name, output in zip(names, outputs):  # noqa: B905 - a list may be longer
        body = output if isinstance(output, str) else json.dumps(output, indent=2)
        text += f"== smartctl -n standby -j -a /dev/{name}\n{body}\n"
    return text


def statuses(text: str | None, *, root: bool = True, code: int = 0) -> list[str]:
    checks = [check_of("disk.smart")]
    found = judge({"smart": text}, checks=checks, codes={"smart": code}, root=root)
    return [one.status for one in found]


STANDBY: Final = '{"smartctl": {"messages": [{"string": "Device is in STANDBY mode, exit(2)"}]}}'


@pytest.mark.parametrize(
    ("output", "status"),
    [
        (nvme(), "ok"),
        (nvme(critical_warning=0b100), "fail"),
        (nvme(critical_warning=0b10), "warn"),
        (nvme(critical_warning=0b110), "fail"),
        (nvme(media_errors=1), "warn"),
        (nvme(percentage_used=89), "ok"),
        (nvme(percentage_used=90), "warn"),
        (NVME, "ok"),
        ({"critical_warning": 0, "percent_used": 101, "media_errors": 0}, "warn"),
        (ata(), "ok"),
        (ata(reallocated=8), "ok"),
        (ata(pending=1), "warn"),
        (ata(offline=1), "warn"),
        (ata(reported=3, pending=0), "warn"),
        ({**ATA, "smart_status": {"passed": False}}, "fail"),
        (STANDBY, "skipped"),
        ({"smart_support": {"available": False}}, "skipped"),
        ({"smartctl": {"exit_status": 2}}, "unknown"),
        ("/dev/sda: Unable to detect device type", "unknown"),
        (json.dumps(nvme())[:-9], "unknown"),
        ("[" * 100_000, "unknown"),
    ],
)
def test_a_disk(output: object, status: str) -> None:
    assert statuses(section(output)) == [status]


def test_a_disk_that_is_not_well_does_not_hide_one_that_does_not_answer() -> None:
    assert statuses(section(ata(pending=2), "", ata())) == ["warn", "unknown"]


def test_a_disk_that_was_not_asked_is_never_well() -> None:
    assert statuses(section(listed=1)) == ["unknown"]
    assert statuses(section(ata(), listed=2)) == ["unknown"]
    assert statuses("", root=False) == ["unknown"]
    assert statuses(section(ata()), code=141) == ["unknown"]
    assert statuses(None) == ["unknown"]


def test_a_host_without_disks_has_none_to_ask() -> None:
    assert statuses(section()) == ["skipped"]


def test_a_bundle_that_lists_no_disks_is_judged_by_those_that_were_asked() -> None:
    text = section(ata())
    assert statuses(text.replace("== ls /sys/block\nsda\n", "")) == ["ok"]
