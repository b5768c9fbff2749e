"""What `rigops init` would write for a host."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rigops.concerns import registry
from rigops.concerns.acs.concern import ACS
from rigops.concerns.nvidia_driver.record import PATH, PinnedDriver, document
from rigops.concerns.nvidia_driver.resolver.request import identity
from rigops.concerns.registry import read
from rigops.doctor.proposal import ProposedKeys, accept, propose
from rigops.ownership.ownership import OwnedFile, Ownership
from rigops.probe.sections.rigops_state import OWNED_FILES, RECORD
from rigops.probe.snapshot import HostSnapshot
from rigops.record import declared
from rigops.record.declared import DeclaredKeys
from tests.unit.concerns.nvidia_driver.resolver.choices import RIG, chosen, with_driver
from tests.unit.doctor.examining import catalog
from tests.unit.probe import answers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pytest

    from rigops.concerns.nvidia_driver.resolver.options import Choice

PLAIN_GRUB = answers.GRUB.replace("== /etc/default/grub.d/99-rigops.cfg", "== /etc/other")
BAD: Final = chosen(RIG, "bookworm", loaded="545.29.06")
GOOD: Final = chosen(with_driver(RIG, "535.261.03-1"), "bookworm", loaded="535.261.03")


@dataclass(frozen=True)
class Key:
    """`line`: all keys that are declared together."""

    value: object
    holds: bool
    reason: str
    line: Mapping[str, object]


def listed(entries: Iterable[ProposedKeys]) -> Iterator[tuple[str, Key]]:
    for one in entries:
        for name, value in one.keys.items():
            yield name, Key(value, one.holds, one.reason, one.keys)


def proposed(choice: Choice | None = BAD, **changed: str | None) -> dict[str, Key]:
    """The last entry of each key."""
    texts = {**answers.BROKEN, **{name.replace("_", "-"): text for name, text in changed.items()}}
    bundle = answers.bundle({name: text for name, text in texts.items() if text is not None})
    return dict(listed(propose(HostSnapshot(bundle), catalog(), lambda: choice)))


def declaring(**keys: object) -> str:
    """Rigops' own files on a host that was changed with these declarations."""
    return f"== {declared.PATH}\n{DeclaredKeys.from_keys('2026-11-20T10:00:00Z', keys).to_json()}"


def test_a_host_without_cards_declares_none() -> None:
    assert "gpus" not in proposed(None, pci=answers.NO_GPU)


def test_the_cards_that_are_there_are_declared() -> None:
    gpus = proposed()["gpus"]

    assert (gpus.value, gpus.holds) == ({"GeForce RTX 3090": 2}, True)
    unknown = answers.PCI.replace("device=0x2204", "device=0xffff")
    assert proposed(pci=unknown)["gpus"].value == 2


def test_a_bad_driver_is_answered_with_what_its_sources_have() -> None:
    found = proposed()

    assert (found["driver"].value, found["driver"].holds) == ("535", False)
    assert "545.29.06 is known to be bad" in found["driver"].reason
    assert "driver_flavor" not in found


def test_sources_without_a_driver_are_answered_with_one_that_has_it() -> None:
    bare = replace(RIG, lacks_components=("contrib", "non-free"))

    found = proposed(chosen(bare))

    assert found["driver"].line == {"driver": "535", "driver_source": "distribution"}


def test_nothing_is_offered_that_plan_would_refuse_or_this_version_cannot_do() -> None:
    signed_only = replace(RIG, secure_boot=True, manager="pacman")

    assert not proposed().keys() & {"gpu_persistence", "gpu_power_limit", "gpu_clocks"}
    assert "driver" not in proposed(chosen(signed_only, "bookworm"))


def test_a_good_driver_is_a_suggestion_until_it_is_declared() -> None:
    well = {"nvidia_version": answers.VERSION.format("535.261.03")}
    loose = proposed(GOOD, **well)["driver"]

    assert (loose.value, loose.holds) == ("535", False)
    assert "is installed and known to be good" in loose.reason
    kept = proposed(GOOD, **well, rigops_state=declaring(driver="535.261.03"))["driver"]
    assert (kept.value, kept.holds) == ("535.261.03", True)


def test_what_was_declared_is_declared_again() -> None:
    keys = {
        "driver": "535", "driver_source": {"URIs": "http://a", "Suites": "b"}, "gpus": 3,
        "kernel_args": ["iommu=pt"], "acs_redirect": "off", "nccl": {"NCCL_P2P_LEVEL": "SYS"},
    }  # fmt: skip

    found = proposed(rigops_state=declaring(**keys))

    assert {name: one.value for name, one in found.items()} == keys
    assert all(one.holds for one in found.values())
    assert "2026-11-20" in found["driver"].reason


def test_what_this_version_cannot_act_on_stays_a_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    coming = [replace(one, deploy=None) if one is ACS else one for one in registry.CONCERNS]
    monkeypatch.setattr(registry, "CONCERNS", coming)
    found = proposed(rigops_state=declaring(acs_redirect="off"))["acs_redirect"]

    assert (found.value, found.holds) == ("off", False)
    assert "cannot act on it" in found.reason


def test_a_record_brings_no_key_or_value_that_no_inventory_may_have() -> None:
    known = proposed(rigops_state=declaring())
    found = proposed(rigops_state=declaring(driver=["x"], evil="os.system", ssh_user="root"))

    assert found == known
    of_this_machine = {
        "borg": {"repository": "/b", "paths": ["/"], "passphrase_command": "reboot"},
        "catalog": "/etc/passwd",
        "rigops_vault": "/home/me",
        "notify": "reboot",
    }
    assert proposed(rigops_state=declaring(**of_this_machine)) == known
    damaged = f"== {declared.PATH}\n{{"
    assert proposed(rigops_state=damaged) == known


def test_of_a_key_with_a_secret_the_rest_comes_back_and_the_secret_is_to_be_filled_in() -> None:
    parts = {"borg": {"repository": "/b", "paths": ["/etc"], "passphrase_command": "reboot"}}
    left_out = ("borg.passphrase_command", "notify", "borg.paths", "os.system", "driver")
    record = DeclaredKeys.from_keys("2026-11-20T10:00:00Z", {}, parts=parts, left_out=left_out)
    texts = {**answers.BROKEN, "rigops-state": f"== {declared.PATH}\n{record.to_json()}"}

    entries = propose(HostSnapshot(answers.bundle(texts)), catalog(), lambda: None)

    (kept,) = (one for one in entries if "borg" in one.keys)
    assert (kept.keys, kept.holds) == ({"borg": {"repository": "/b", "paths": ["/etc"]}}, True)
    assert [one.reason.partition(":")[0] for one in entries if not one.keys] == [
        'fill in "passphrase_command" of "borg"',
        'fill in "notify"',
    ]


def test_a_concern_that_was_set_up_and_is_in_no_record_is_to_be_filled_in() -> None:
    file = OwnedFile(path="/etc/rigops/borg.json", concern="borg", digest="0" * 64, mode=0o600)
    owned = Ownership({file.path: file}).to_json()
    state = f"== {RECORD}\n{owned}\n== {OWNED_FILES}\n"
    texts = {**answers.BROKEN, "rigops-state": state}

    entries = propose(HostSnapshot(answers.bundle(texts)), catalog(), lambda: None)

    (note,) = (one.reason for one in entries if not one.keys)
    assert note == 'fill in "borg": rigops set it up, and plan would undo it'


def test_a_host_of_before_says_what_its_pinned_driver_was_resolved_from() -> None:
    spec = read({"driver": "535", "driver_source": "snapshot:20260101T000000Z"})
    record = PinnedDriver(version="535.261.03", flavor="proprietary", declared=identity(spec))
    back = PinnedDriver(version="535.183.01", flavor="open", declared="rollback to 535.183.01")

    found = proposed(GOOD, rigops_state=f"== {PATH}\n{document(record)}")
    assert {name: one.value for name, one in found.items() if "driver" in name} == {
        "driver": "535",
        "driver_source": "snapshot:20260101T000000Z",
    }
    assert (
        proposed(GOOD, rigops_state=f"== {PATH}\n{document(back)}")["driver"].value == back.version
    )


def test_a_folder_and_fields_of_a_source_are_as_in_the_inventory() -> None:
    for source in ("dir:/srv/debs", {"URIs": "http://a", "Suites": "b"}, "distribution"):
        spec = read({"driver": "535", "driver_source": source})
        record = PinnedDriver(version="570.124.06", flavor="open", declared=identity(spec))
        found = proposed(rigops_state=f"== {PATH}\n{document(record)}")
        assert found["driver_source"].value == source
    junk = PinnedDriver(version="570.124.06", flavor="open", declared=json.dumps([1, 2]))
    assert proposed(rigops_state=f"== {PATH}\n{document(junk)}")["driver"].value == "570.124.06"


def test_an_argument_is_recommended_beside_the_declared_ones() -> None:
    texts = answers.bundle({**answers.BROKEN, "rigops-state": declaring(kernel_args=["a=b"])})

    entries = propose(HostSnapshot(texts), catalog(), lambda: None)

    kept, offered = (one for one in entries if "kernel_args" in one.keys)
    assert (kept.keys, kept.holds) == ({"kernel_args": ["a=b"]}, True)
    assert (offered.keys, offered.holds) == ({"kernel_args": ["a=b", "iommu=pt"]}, False)
    accepted = [one for one in accept(entries) if "kernel_args" in one.keys]
    assert accepted == [replace(offered, holds=True)]


def test_a_translating_iommu_gets_the_argument_recommended() -> None:
    args = proposed(bootloader=PLAIN_GRUB)["kernel_args"]

    assert (args.value, args.holds) == (["iommu=pt"], False)
    assert "kernel_args" not in proposed(bootloader=PLAIN_GRUB, iommu_groups=answers.PASSTHROUGH)


def test_an_argument_is_declared_only_where_it_runs_and_stays() -> None:
    live = answers.CMDLINE.replace("quiet", "quiet iommu=pt")

    args = proposed(proc_cmdline=live)["kernel_args"]
    assert (args.value, args.holds) == (["iommu=pt"], True)
    assert "kernel_args" not in proposed(
        proc_cmdline=live, bootloader=PLAIN_GRUB, iommu_groups=answers.PASSTHROUGH
    )
