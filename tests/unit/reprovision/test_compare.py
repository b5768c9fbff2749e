"""A host after its reinstall against its capture: same, better, worse or other, and why."""

from __future__ import annotations

from dataclasses import replace

from rigops.capture.document import (
    Borg,
    Capture,
    Declared,
    Disk,
    Driver,
    FileSystem,
    Gpu,
    Interface,
    Limits,
    Mount,
    Network,
    P2p,
    P2pPair,
    Package,
    PublicKey,
    Requirement,
    System,
    User,
)
from rigops.probe.bundle import Bundle, Collected
from rigops.probe.sections.nvidia_version import SECTION as DRIVER
from rigops.probe.sections.nvidia_version import NvidiaVersion
from rigops.probe.sections.packages import parse
from rigops.probe.snapshot import Answer, HostSnapshot
from rigops.reprovision.compare import (
    Compared,
    ReplacedGpu,
    Verdict,
    compare,
    overall,
    replaced_gpus,
)
from rigops.reprovision.driver_packages import with_installed, with_loaded

FIRST = Gpu(
    uuid="GPU-1",
    name="GeForce RTX 3090",
    address="0000:0a:00.0",
    link_width=16,
    max_link_gts=8.0,
    power_limit_watts=285.0,
)
SECOND = replace(FIRST, uuid="GPU-2", address="0000:42:00.0")
LIBCUDA = Package(
    name="libcuda1", version="1", architecture="amd64", sha256="a" * 64, size=1, is_in_vault=True
)
ME = User(  # noqa: S604 - no program
    name="me", uid=1000, gid=1000, home="/home/me", shell="/bin/bash", groups=("video",)
)
ROOT = replace(ME, name="root", uid=0)
CAPTURED = Capture(
    host="rig",
    status="safe",
    system=System(
        os_name="Debian GNU/Linux 12 (bookworm)",
        kernel="6.1.0-31-amd64",
        arguments=("BOOT_IMAGE=/boot/vmlinuz", "root=UUID=1", "ro", "iommu=pt", "quiet"),
    ),
    declared=Declared(kernel_args=("iommu=pt",)),
    driver=Driver(version="535.261.03", flavor="proprietary", packages=(LIBCUDA,)),
    gpus=(FIRST, SECOND),
    p2p=P2p(
        at="2026-11-25T16:30:00Z",
        level="L1",
        pairs=(
            P2pPair(source=FIRST.address, target=SECOND.address, verdict="ok"),
            P2pPair(source=SECOND.address, target=FIRST.address, verdict="ok"),
        ),
    ),
    limits=Limits(shm_bytes=1 << 30, nofile=1024),
    disks=(
        Disk(name="nvme0n1", id_serial="Root_1", holds=("root",)),
        Disk(name="sda", id_serial="Models_2", model="Big", holds=("data",)),
    ),
    file_systems=(
        FileSystem(uuid="r", type="btrfs", disks=("nvme0n1",), mounts=(Mount(at="/"),)),
        FileSystem(uuid="d", type="btrfs", disks=("sda",), mounts=(Mount(at="/models"),)),
    ),
    users=(ME, ROOT),
    packages=("borgbackup", "htop"),
    network=Network(interfaces=(Interface(name="enp5s0", mac="aa:01", kind="wired"),)),
    host_keys=(PublicKey(type="ssh-ed25519", fingerprint="SHA256:old"),),
)


def changes(after: Capture, *, adopts: bool = False) -> dict[str, Compared]:
    return {
        one.subject: one
        for one in compare(CAPTURED, after, adopts_parts=adopts)
        if one.verdict != "same"
    }


def verdicts(after: Capture, *, adopts: bool = False) -> dict[str, Verdict]:
    return {name: one.verdict for name, one in changes(after, adopts=adopts).items()}


def with_gpus(*gpus: Gpu) -> Capture:
    return replace(CAPTURED, gpus=gpus, p2p=None if len(gpus) < 2 else CAPTURED.p2p)


def test_the_same_host_is_the_same() -> None:
    every = compare(CAPTURED, CAPTURED, adopts_parts=False)

    assert {one.verdict for one in every} == {"same"}
    assert overall(every) == "same"
    assert "kernel argument root=UUID=1" not in {one.subject for one in every}


def test_another_system_is_no_worse_one() -> None:
    system = replace(CAPTURED.system, os_name="Debian GNU/Linux 13 (trixie)", kernel="6.12")
    after = replace(CAPTURED, system=system)

    assert verdicts(after) == {"system": "other", "kernel": "other"}
    assert overall(compare(CAPTURED, after, adopts_parts=False)) == "same"


def test_a_newer_borg_is_no_worse_one_and_an_older_or_none_is() -> None:
    before = replace(CAPTURED, borg=Borg(version="1.2.4"))

    def verdict(borg: Borg | None) -> list[tuple[str, str]]:
        found = compare(before, replace(CAPTURED, borg=borg), adopts_parts=False)
        return [(one.verdict, one.after) for one in found if one.subject == "borg"]

    assert verdict(Borg(version="1.2.4")) == [("same", "1.2.4")]
    assert verdict(Borg(version="1.10.0")) == [("other", "1.10.0")]
    assert verdict(Borg(version="1.1.16")) == [("worse", "1.1.16")]
    assert verdict(None) == [("worse", "absent")]


def test_a_declared_argument_that_is_missing_is_worse_than_another() -> None:
    system = replace(CAPTURED.system, arguments=("ro", "debug"))

    assert verdicts(replace(CAPTURED, system=system)) == {
        "kernel argument iommu=pt": "worse",
        "kernel argument quiet": "other",
        "kernel argument debug": "other",
    }


def test_what_only_a_trial_boot_had_is_not_compared() -> None:
    trial = ("rigops.trial", "systemd.wants=rigops-trial.service", "panic=10")
    system = replace(CAPTURED.system, arguments=(*CAPTURED.system.arguments, *trial))

    assert verdicts(replace(CAPTURED, system=system)) == {}


def test_a_driver_that_is_gone_is_worse_and_other_bytes_are_named() -> None:
    assert verdicts(replace(CAPTURED, driver=None)) == {"driver": "worse"}
    assert CAPTURED.driver
    rebuilt = replace(CAPTURED.driver, packages=(replace(LIBCUDA, sha256="b" * 64),))
    (found,) = changes(replace(CAPTURED, driver=rebuilt)).values()
    assert (found.verdict, found.note) == ("other", "other content: libcuda1")


def test_a_package_of_the_driver_that_is_not_installed_is_lost() -> None:
    assert CAPTURED.driver
    apart = tuple(replace(LIBCUDA, name=name) for name in ("dkms", "nvidia-smi"))
    proven = replace(CAPTURED.driver, packages=(LIBCUDA, *apart))
    before = replace(CAPTURED, driver=proven)
    there = parse("== dpkg-query -W\nlibcuda1\t1\tamd64\tii \tnvidia\n")

    now = with_installed(before, there)

    assert now.driver
    assert [one.name for one in now.driver.packages] == ["libcuda1", "dkms"]
    assert with_installed(before, None) == before
    found = {one.subject: one for one in compare(before, now, adopts_parts=False)}[
        "driver packages"
    ]
    assert (found.verdict, found.note) == ("worse", "not there: nvidia-smi")


def test_a_lost_card_is_worse() -> None:
    found = verdicts(with_gpus(FIRST))

    assert found == {"GPU 0000:42:00.0": "worse", "P2P": "worse"}


def test_cards_on_the_bus_without_a_driver_are_one_line_that_says_why() -> None:
    nameless = tuple(replace(one, uuid=None) for one in (FIRST, SECOND))
    after = replace(CAPTURED, gpus=nameless, driver=None, p2p=None)

    found = changes(after)

    assert found["driver"].note.startswith("no driver is declared, so none was installed")
    cards = found["GPU 0000:0a:00.0, GPU 0000:42:00.0"]
    assert (cards.verdict, cards.after) == ("worse", "on the bus, without a driver")
    assert set(found) == {"driver", cards.subject, "P2P"}
    driven = replace(after, driver=CAPTURED.driver)
    assert changes(driven)[cards.subject].after == "on the bus, and the driver does not see it"
    declared = replace(after, declared=replace(CAPTURED.declared, driver="535"))
    assert changes(declared)["driver"].note.startswith("declared, and not loaded")


def test_a_driver_that_was_accepted_to_stay_away_makes_the_host_no_worse() -> None:
    accepted = Requirement(id="driver", status="warn", summary="will not be installed")
    before = replace(CAPTURED, requirements=(accepted,))
    nameless = tuple(replace(one, uuid=None) for one in (FIRST, SECOND))
    after = replace(CAPTURED, gpus=nameless, driver=None, p2p=None)
    declared = replace(after, declared=replace(CAPTURED.declared, driver="535"))

    found = compare(before, after, adopts_parts=False)

    assert overall(found) == "same"
    assert {one.subject: one.note for one in found}["driver"].startswith("not declared, accepted")
    assert overall(compare(before, declared, adopts_parts=False)) == "worse"


def test_a_card_that_is_not_on_the_bus_says_so() -> None:
    assert changes(with_gpus(FIRST))["GPU 0000:42:00.0"].note == "not on the bus"


def test_the_lockfile_brings_no_driver_that_is_not_loaded() -> None:
    def answer(text: str | None) -> Answer[NvidiaVersion]:
        collected = None if text is None else Collected(text, root=True)
        sections = {DRIVER.name: collected} if collected else {}
        return HostSnapshot(Bundle("rig", None, root=True, sections=sections))[DRIVER]

    loaded = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Tue Jul 22\n"
    assert with_loaded(CAPTURED, answer("")).driver is None
    assert with_loaded(CAPTURED, answer(loaded)) == CAPTURED
    assert with_loaded(CAPTURED, answer(None)) == CAPTURED


def test_a_card_in_another_slot_is_said_and_its_pairs_are_found_there() -> None:
    moved = replace(SECOND, address="0000:43:00.0")
    pairs = tuple(
        replace(
            one,
            source=one.source.replace("42", "43"),
            target=one.target.replace("42", "43"),
        )
        for one in (CAPTURED.p2p.pairs if CAPTURED.p2p else ())
    )
    p2p = P2p(at="", level="L1", pairs=pairs)

    found = changes(replace(CAPTURED, gpus=(FIRST, moved), p2p=p2p))

    assert {name: one.note for name, one in found.items()} == {
        "GPU 0000:42:00.0": "in another slot"
    }


def test_a_narrower_link_is_worse_and_a_wider_one_better() -> None:
    narrow = with_gpus(FIRST, replace(SECOND, link_width=8))
    found = changes(narrow)["GPU 0000:42:00.0 link width"]
    assert (found.verdict, found.before, found.after) == ("worse", "x16", "x8")

    back = {one.subject: one.verdict for one in compare(narrow, CAPTURED, adopts_parts=False)}
    assert back["GPU 0000:42:00.0 link width"] == "better"


def test_another_card_in_the_slot_is_a_lost_one_until_it_is_adopted() -> None:
    after = with_gpus(FIRST, replace(SECOND, uuid="GPU-9"))

    assert replaced_gpus(CAPTURED, after) == (ReplacedGpu("0000:42:00.0", "GPU-2", "GPU-9"),)
    assert verdicts(after) == {"GPU 0000:42:00.0": "worse"}
    assert verdicts(after, adopts=True) == {"GPU 0000:42:00.0": "other"}


def test_an_added_card_is_better() -> None:
    third = replace(FIRST, uuid="GPU-3", address="0000:43:00.0")

    assert verdicts(with_gpus(FIRST, SECOND, third)) == {"GPU 0000:43:00.0": "better"}


def test_a_pair_that_lost_p2p_is_worse() -> None:
    assert CAPTURED.p2p
    first, second = CAPTURED.p2p.pairs
    for verdict in ("not_granted", "hang", "wrong_data"):
        p2p = replace(CAPTURED.p2p, pairs=(replace(first, verdict=verdict), second))
        found = verdicts(replace(CAPTURED, p2p=p2p))
        assert found == {"P2P 0000:0a:00.0 to 0000:42:00.0": "worse"}, verdict


def test_no_bound_is_more_than_any() -> None:
    bound = Capture(host="rig", status="safe", limits=Limits(memlock_bytes=8 << 20, nofile=1024))
    unbound = replace(bound, limits=Limits(nofile=1024, unlimited=("memlock",)))

    (lost,) = [
        one for one in compare(unbound, bound, adopts_parts=False) if one.subject == "locked memory"
    ]

    assert (lost.verdict, lost.before, lost.after) == ("worse", "unlimited", "8388608 bytes")
    same = {one.subject: one for one in compare(unbound, unbound, adopts_parts=False)}
    assert (same["locked memory"].verdict, same["open files"].before) == ("same", "1024")


def test_limits_disks_mounts_names_and_users_are_compared() -> None:
    after = replace(
        CAPTURED,
        limits=Limits(shm_bytes=1 << 20, nofile=4096),
        disks=(Disk(name="nvme0n1", id_serial="Root_1", holds=("root",)),),
        file_systems=CAPTURED.file_systems[:1],
        users=(replace(ME, groups=()),),
        packages=("borgbackup",),
        network=Network(interfaces=(Interface(name="enp6s0", mac="aa:01", kind="wired"),)),
        host_keys=(PublicKey(type="ssh-ed25519", fingerprint="SHA256:new"),),
    )

    assert verdicts(after) == {
        "shared memory": "worse",
        "open files": "better",
        "disk Models_2": "worse",
        "mount /models": "worse",
        "user me": "other",
        "selected packages": "other",
        "network aa:01": "other",
        "ssh host keys": "other",
    }


def test_a_user_with_another_number_does_not_own_the_restored_files() -> None:
    assert verdicts(replace(CAPTURED, users=(replace(ME, uid=1001),))) == {"user me": "worse"}


def test_a_user_that_is_gone_comes_with_the_command_that_makes_it() -> None:
    found = changes(replace(CAPTURED, users=()))["user me"]

    assert found.note.endswith("useradd --uid 1000 --home-dir /home/me --shell /bin/bash me")


def test_what_was_not_collected_before_is_not_compared() -> None:
    found = compare(Capture(host="rig", status="unknown"), CAPTURED, adopts_parts=False)

    assert {one.verdict for one in found} <= {"better", "other"}
    assert not any("driver" in one.subject or "disk" in one.subject for one in found)
