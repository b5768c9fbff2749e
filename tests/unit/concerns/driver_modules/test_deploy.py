"""The deploys of driver_modules and kernel_args, planned and applied on a host of known facts."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops import assets
from rigops.concerns.driver_modules import decide, late_mounts, operations, record, tree
from rigops.concerns.driver_modules.after_proof import StoredTree
from rigops.concerns.driver_modules.concern import DRIVER_MODULES
from rigops.concerns.driver_modules.late_mounts import LateMounts
from rigops.concerns.kernel_args.bootloader import grub
from rigops.concerns.kernel_args.operations import TrialConditions
from rigops.concerns.kernel_args.trial_boot.parts import PROGRAM, UNIT_FILE
from rigops.concerns.nvidia_driver import record as driver_record
from rigops.concerns.nvidia_driver.facts import DriverHost, DriverModules, SecureBoot
from rigops.concerns.registry import read
from rigops.facts.files import FileFound
from rigops.facts.sections import GpuPackages, OsRelease, OwnModules, Pci, Uname
from rigops.hostside.packing import installed_at, pack
from rigops.ownership.ownership import OwnedFile, Ownership, digest
from rigops.plan.context import Consent, TrialOptions
from rigops.probe.sections import own_modules, pci
from rigops.probe.sections.own_modules import ARGUMENT, FOLDER, MODPROBE_FILE, BuiltSet
from rigops.probe.sections.rigops_state import Present
from rigops.probe.sections.rigops_state import RigopsState as StateFacts
from rigops.rendering import render
from tests.unit.concerns.driver_modules.trees import VERSION, files, written
from tests.unit.converge.fakes import FakeHost
from tests.unit.converge.known_host import GUARD_PATHS, boot_facts, engine_of, guarded
from tests.unit.converge.test_kernel_trial import CUSTOM, GOOD, RUNNING, boot

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rigops.plan.change import Plan

DEPLOYS: Final = [
    assets.find("deploys") / f"{name}.py" for name in ("driver_modules", "kernel_args")
]
KERNEL: Final = "6.8.0-31-generic"
PINNED: Final = driver_record.PinnedDriver(
    version=VERSION,
    flavor="open",
    declared="",
    packages={"nvidia-dkms-595-open": f"{VERSION}-0ubuntu1"},
)
RTX3090: Final = "0000:0a:00.0 vendor=0x10de device=0x2204 class=0x030000 rev=a1 driver=nvidia\n"
V100: Final = RTX3090.replace("2204", "1db1")
TEXTS: Final[dict[Any, str]] = {
    DriverHost: f"== kernels\n6.8.0-11-generic headers\n{KERNEL} headers\n",
    DriverModules: "",
    LateMounts: "",
    GpuPackages: "== dpkg-query -W\nfoo\t1\tamd64\tii \tfoo\n",
    OsRelease: "ID=ubuntu\nVERSION_ID=24.04\nVERSION_CODENAME=noble\n",
    SecureBoot: "",
    Uname: f"{KERNEL}\nx86_64\n",
}
BOOT_ID: Final = "6d3c8f4e-0000-4000-8000-00000000000a"
KEYS: Final = {"nvidia": {"NVreg_RegistryDwords": "PeerMappingOverride=1"}}
TRIAL: Final = TrialOptions(deadline_s=900, cards=("0000:0a:00.0",))


class Rig:
    def __init__(
        self,
        folder: Path,
        *,
        there: own_modules.OwnModules = own_modules.OwnModules(),  # noqa: B008 - frozen
        owned: Mapping[str, str] | None = None,
        records: Mapping[str, str] | None = None,
        texts: Mapping[Any, str] | None = None,
        cards: str = RTX3090,
        line: str = RUNNING,
        own: tuple[str, ...] = (),
        **declared: object,
    ) -> None:
        """`own`: the arguments that are permanent."""
        self.host = FakeHost()
        drop_in = grub.drop_in(own) if own else ""
        found = {
            path: OwnedFile(path=path, concern="driver_modules", digest=digest(text.encode()),
                            mode=0o755 if "libexec" in path else 0o644)
            for path, text in (owned or {}).items()
        }  # fmt: skip
        if own:
            found[grub.DROP_IN] = OwnedFile(
                path=grub.DROP_IN,
                concern="kernel_args",
                digest=digest(drop_in.encode()),
                mode=0o644,
            )
        state = StateFacts(
            owned=Ownership(found).to_json() if found else None,
            present={path: Present(one.digest, one.mode) for path, one in found.items()},
            records={driver_record.PATH: driver_record.document(PINNED), **(records or {})},
        )
        sections = {**TEXTS, **(texts or {})}
        known = {
            **boot_facts(boot(drop_in), state, line=line, boot_id=BOOT_ID),
            **guarded(pci=cards),
            **{fact: fact.section.parse(text) for fact, text in sections.items()},
            Pci: pci.parse(cards),
            OwnModules: there,
            TrialConditions: GOOD,
        }
        programs = (installed_at("nvidia_modules"), installed_at("own_modules"))
        data = {"driver": VERSION, "driver_modules": str(folder), **declared}
        self.engine = engine_of(
            self.host,
            {name: value for name, value in data.items() if value is not None},
            known,
            [CUSTOM, PROGRAM, UNIT_FILE, MODPROBE_FILE, *programs, *GUARD_PATHS],
            {path: FileFound(state.present[path], text) for path, text in (owned or {}).items()},
        )

    def plan(self, **options: Any) -> Plan:
        return self.engine.plan(
            "rig", DEPLOYS, consent=Consent(removals=None), trial=replace(TRIAL, **options)
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path / "tree", files())


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    monkeypatch.setattr(operations, "packages", lambda **words: asked.extend(words["install"]))
    return asked


OWN: Final = {installed_at(name): pack(name).text for name in ("nvidia_modules", "own_modules")} | {
    MODPROBE_FILE: render(
        "rigops-nvidia-modules.conf.j2", program=installed_at("nvidia_modules"), module="nvidia"
    )
}


def _running(digest: str, *, chosen: str = "own", built: str = "") -> own_modules.OwnModules:
    """A boot that chose; `built`: the digest of what is there for the next one."""
    ids = {"nvidia": "ab" * 20}
    return own_modules.OwnModules(
        chosen=chosen,
        digest=digest if chosen == "own" else "",
        reason="" if chosen == "own" else "damaged",
        loaded=ids,
        built={KERNEL: BuiltSet(built or digest, VERSION, ids)},
        trees=(built or digest,),
        has_modprobe_file=True,
    )


def _failed(digest: str) -> dict[str, str]:
    found = record.FailedModules(digest, "a card was gone", "2026-11-28T06:00:00Z")
    return {record.PATH: found.to_json()}


def test_a_plan_names_the_tree_the_kernels_and_the_trial_boot(
    folder: Path, tools: list[str]
) -> None:
    plan = Rig(folder).plan()

    read = tree.read(str(folder))
    assert [one.subject for one in plan.changes if one.concern == "driver_modules"] == [
        installed_at("nvidia_modules"),
        installed_at("own_modules"),
        f"{FOLDER}/{read.digest}.tar.gz",
        f"modules of your own for Linux {KERNEL}",
        MODPROBE_FILE,
    ]
    assert tools == ["dkms", "g++", "make"]
    assert plan.trial_arguments == (ARGUMENT,)
    assert plan.headlines[0] == (
        "driver_modules",
        f"kernel modules of your own 595.71.05 ({read.digest[:12]})",
    )
    (note,) = [text for concern, text in plan.notices if concern == "driver_modules"]
    assert "nobody but you has checked or signed them, and 1 kernel to build for" in note


def test_a_tree_arrives_in_pieces_and_counts_only_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "announce", lambda *_: None)
    monkeypatch.setattr(operations, "_PIECE", 200)
    read = tree.read(str(folder))
    sent: Any = operations.tree_sent

    *pieces, last = list(sent._inner(tree=read, there=()))

    assert len(pieces) > 1
    assert b"".join(one.connector_arguments["_stdin"] for one in pieces) == read.archive
    assert [str(one).split()[-1] for one in pieces[:2]] == ["first", "more"]
    assert str(last).split()[-2:] == [read.digest, sha256(read.archive).hexdigest()]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"driver": None}, 'needs the driver of its version. fix: declare "driver": "595.71.05"'),
        ({"driver": "535"}, '"driver": "535" excludes 595.71.05, which'),
        ({"driver_flavor": "proprietary"}, '"driver_flavor" is "proprietary". fix: leave'),
        ({"driver_modules": "/nowhere"}, "/nowhere is no folder, git checkout or .tar.gz on this"),
        ({"cards": V100}, "drive Turing and newer cards only, and this machine has"),
        (
            {"texts": {SecureBoot: "== mokutil --sb-state\nSecureBoot enabled\n"}},
            "Secure Boot is on, and the key that signs modules built here is not",
        ),
        ({"records": {driver_record.PATH: driver_record.NOTHING}}, "not before the driver"),
        (
            {"texts": {LateMounts: "/dev/vg/var /var ext4 rw,relatime 0 0\n"}},
            "/var is a file system of its own, which a boot mounts about when it loads the modules",
        ),
    ],
)
def test_what_cannot_be_had_blocks_it_and_nothing_changes(
    folder: Path, changed: dict[str, Any], reason: str
) -> None:
    plan = Rig(**{"folder": folder, **changed}).plan()

    assert [concern for concern, _ in plan.blocked] == ["driver_modules"]
    assert reason in plan.blocked[0][1]
    assert (plan.changes, plan.trial_arguments) == ((), ())


def test_a_host_that_runs_with_them_changes_nothing(folder: Path) -> None:
    digest = tree.read(str(folder)).digest
    rig = Rig(
        folder, there=_running(digest), owned=OWN, line=f"{RUNNING} {ARGUMENT}", own=(ARGUMENT,)
    )

    plan = rig.plan()

    assert (plan.changes, plan.blocked, plan.trial_arguments) == ((), (), ())


def test_a_changed_tree_is_tried_by_one_boot_although_the_argument_is_there(folder: Path) -> None:
    rig = Rig(
        folder, there=_running("0" * 64), owned=OWN, line=f"{RUNNING} {ARGUMENT}", own=(ARGUMENT,)
    )

    plan = rig.plan(now=True)

    assert plan.trial_arguments == (ARGUMENT,)
    going = [one for one in plan.changes if one.concern == "kernel_args" and one.kind == "file"]
    assert [one.after for one in going if one.subject == grub.DROP_IN] == [None]


def test_the_boot_that_tries_them_has_an_initramfs_that_was_made_since(folder: Path) -> None:
    """The power may have been cut while it was made, when all files were in place already."""
    there = _running(tree.read(str(folder)).digest, chosen="stock")

    def made(*, now: bool) -> bool:
        plan = Rig(folder, there=there, owned=OWN).plan(now=now)
        return ("driver_modules", "the initramfs") in plan.housekeeping

    assert (made(now=True), made(now=False)) == (True, False)


def test_a_tree_that_failed_is_not_tried_again_and_another_one_is(folder: Path) -> None:
    digest = tree.read(str(folder)).digest
    same = Rig(folder, owned=OWN, records=_failed(digest)).plan()
    other = Rig(folder, owned=OWN, records=_failed("0" * 64)).plan()
    told = Rig(folder, owned=OWN, records=_failed(digest), module_options=KEYS).plan()

    (reason,) = [text for _, text in same.blocked]
    assert "are not tried again: a card was gone. fix: declare another tree" in reason
    assert (same.trial_arguments, other.trial_arguments) == ((), (ARGUMENT,))
    assert told.trial_arguments == (ARGUMENT,)


def test_what_failed_is_recorded_and_its_argument_goes(folder: Path) -> None:
    digest = tree.read(str(folder)).digest
    rig = Rig(
        folder, there=_running(digest), owned=OWN, line=f"{RUNNING} {ARGUMENT}", own=(ARGUMENT,)
    )

    given_up = replace(TRIAL, given_up=True, failed="preflight failed", tried=(ARGUMENT,))
    rig.engine.apply("rig", DEPLOYS, trial=given_up)

    sent = "".join(one.stdin for one in rig.host.sent)
    assert record.PATH in sent
    assert sent.index(record.PATH) < sent.index(grub.DROP_IN)


def test_undeclared_all_of_it_goes_with_consent(folder: Path) -> None:
    gone = Rig(folder, owned=OWN, own=(ARGUMENT,), driver_modules=None)

    plan = gone.plan()

    assert {one.subject for one in plan.changes} == {*OWN, grub.DROP_IN}
    assert all(one.after is None for one in plan.changes)
    assert set(plan.undeclared) == {"driver_modules", "kernel_args"}


def test_released_all_that_was_built_and_sent_goes_with_the_files(folder: Path) -> None:
    rig = Rig(folder, owned=OWN, own=(ARGUMENT,), driver=None, driver_modules=None)
    rig.engine.apply("rig", DEPLOYS, consent=Consent(removals=None), trial=TRIAL)

    sent = "".join(one.stdin for one in rig.host.sent)
    assert f"rm -rf {FOLDER} {record.PATH}" in sent


def test_a_reinstalled_host_gets_the_proven_tree_from_the_vault_where_the_folder_is_gone(
    tmp_path: Path,
) -> None:
    proven = tree.read(str(written(tmp_path / "tree", files())))
    kept = tmp_path / "kept"
    kept.write_bytes(proven.archive)
    rig = Rig(tmp_path / "gone")
    rig.engine.provide("rig", StoredTree(kept, proven.digest))

    plan = rig.plan()

    assert (plan.blocked, plan.trial_arguments) == ((), (ARGUMENT,))
    assert any("is taken from the vault" in text for _, text in plan.notices)
    sent = [one.subject for one in plan.changes if one.subject.endswith(".tar.gz")]
    assert sent == [f"{FOLDER}/{proven.digest}.tar.gz"]


@pytest.mark.parametrize("is_confirmed", [False, True])
def test_where_one_key_alone_is_declared_arguments_of_the_other_stay_until_it_is_confirmed(
    folder: Path, *, is_confirmed: bool
) -> None:
    digest, both = tree.read(str(folder)).digest, ("iommu=pt", ARGUMENT)
    line = f"{RUNNING} {' '.join(both)}"
    consent = Consent(removals=None if is_confirmed else ())

    def coming(**declared: Any) -> tuple[set[str], tuple[str, ...]]:
        rig = Rig(folder, there=_running(digest), owned=OWN, line=line, own=both, **declared)
        plan = rig.engine.plan("rig", DEPLOYS, consent=consent, trial=TRIAL)
        return set(plan.undeclared), tuple(
            str(one.after) for one in plan.changes if one.subject == grub.DROP_IN
        )

    assert coming() == (
        {"kernel_args"},
        (grub.drop_in((ARGUMENT,)),) if is_confirmed else (),
    )
    assert coming(driver_modules=None, kernel_args=["iommu=pt"]) == (
        {"driver_modules"},
        (grub.drop_in(("iommu=pt",)),) if is_confirmed else (),
    )


def test_only_file_systems_that_hold_the_sets_are_late() -> None:
    text = "/dev/a / ext4 rw 0 0\n/dev/b /var/log ext4 rw 0 0\n/dev/d /var/lib ext4 rw 0 0\n"

    assert late_mounts.parse(text + "/dev/c /var ext4 rw 0 0\n") == ("/var", "/var/lib")
    assert late_mounts.parse("/dev/e /variants ext4 rw 0 0\n") == ()


def test_a_host_that_declares_none_of_it_is_asked_nothing_and_has_nothing_of_it(
    folder: Path,
) -> None:
    """What is not known of the host would be asked, and sent."""
    rig = Rig(folder, driver_modules=None)
    plan = rig.plan()

    assert (plan.changes, plan.notices, plan.blocked, rig.host.sent) == ((), (), (), [])
    assert DRIVER_MODULES.facts(read({})) == ()
    assert list(DRIVER_MODULES.reboot_reasons(read({}))) == []
    assert DRIVER_MODULES.self_check(read({})) == ()


def test_a_boot_that_loaded_others_does_not_hold() -> None:
    good = _running("a" * 64)
    mixed = replace(good, loaded={**good.loaded, "nvidia-uvm": "cd" * 20})

    assert decide.not_loaded(good) == ""
    assert decide.not_loaded(None) == "nobody loaded the nvidia modules"
    assert "a file of your own set is damaged" in decide.not_loaded(_running("", chosen="stock"))
    assert decide.not_loaded(mixed) == "nvidia-uvm is not of the set that was built"


def test_where_p2p_is_required_of_stock_modules_two_lines_say_what_it_takes(folder: Path) -> None:
    def lines(cards: str, p2p: str = "required") -> list[str]:
        plan = Rig(folder, cards=cards, p2p=p2p, driver_modules=None).plan()
        return [text for concern, text in plan.notices if concern == "driver_modules"]

    three = "".join(RTX3090.replace("0a:00", f"{place}:00") for place in ("0a", "41", "42"))
    mixed = three + RTX3090.replace("0a:00", "43:00").replace("2204", "2b85")

    stock, needed = lines(three)
    assert stock.endswith("the stock modules: they grant GeForce RTX 3090 none over PCIe")
    assert needed.startswith('needed: "driver_modules": a tree of your own that does, BAR1 as')
    assert "no modules are known that grant it between these" in lines(mixed)[1]
    assert lines(three, "measure") == lines(RTX3090) == lines(three.replace("2204", "1db1")) == []
