from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.doctor.views import kernel_arguments
from rigops.probe.sections import bootloader
from rigops.probe.sections.rigops_state import ARGUMENTS
from rigops.record.kernel_arguments import Arguments, arguments_document
from tests.corpus import CORPUS
from tests.unit.concerns.kernel_args.bootloader import machines
from tests.unit.doctor import package_rig as rig
from tests.unit.doctor.examining import checks_of, spec
from tests.unit.probe import answers

if TYPE_CHECKING:
    from pathlib import Path

CHECKS = checks_of("cmdline.drift")
DRIFT = "cmdline.drift"
BAD = "cmdline.bad"
PLAIN = "BOOT_IMAGE=/boot/vmlinuz root=UUID=1234 ro quiet"
LIVE = f"{PLAIN} iommu=pt\n"
CONFIGURED = rig.GRUB.replace("ro quiet", "ro quiet iommu=pt")
IN_FILE = rig.GRUB.replace('DEFAULT="quiet"', 'DEFAULT="quiet iommu=pt"').replace(
    "== grep linux", "== cat"
)
SYSTEMD_BOOT = "== ls /boot\nvmlinuz-linux\n== ls loader\n/boot/loader/entries\n"
DECLARED = spec(kernel_args=["iommu=pt"])


@pytest.mark.parametrize(
    ("live", "configured", "status"),
    [
        (LIVE, CONFIGURED, "warn"),
        (LIVE, IN_FILE, "ok"),
        (LIVE, SYSTEMD_BOOT, "ok"),
        (LIVE, None, "ok"),
        (LIVE, rig.GRUB, "warn"),
        (PLAIN, CONFIGURED, "warn"),
        (PLAIN, IN_FILE, "warn"),
        (PLAIN, answers.GRUB, "warn"),
        (PLAIN, rig.GRUB, "fail"),
        (PLAIN, rig.GRUB.replace("== grep linux", "== cat"), "fail"),
        (PLAIN, SYSTEMD_BOOT, "fail"),
        (PLAIN, None, "unknown"),
        (None, CONFIGURED, "unknown"),
        (None, rig.GRUB, "fail"),
        (None, None, "unknown"),
        (PLAIN.replace("quiet", "iommu=ptx xiommu=pt"), rig.GRUB, "fail"),
    ],
)
def test_declared_configured_and_live(
    live: str | None, configured: str | None, status: str
) -> None:
    found = rig.look(DRIFT, DECLARED, proc_cmdline=live, bootloader=configured)

    assert found.status == status
    if status in {"fail", "warn"}:
        assert found.fix is not None
        if configured == SYSTEMD_BOOT:  # which plan does not change
            assert found.fix.kind == "hands"
            return
        assert found.fix.kind == "apply+reboot"
        assert found.fix.concern == "kernel_args"
        assert found.fix.declare == {"kernel_args": ["iommu=pt"]}


def test_an_owed_reboot_is_all_that_is_missing() -> None:
    found = rig.look(DRIFT, DECLARED, proc_cmdline=PLAIN, bootloader=CONFIGURED)

    assert found.fix is not None
    assert "only the reboot is missing" in found.fix.text
    assert found.data == {"owed": ["iommu=pt"]}
    assert [one.section for one in found.evidence] == ["proc-cmdline", "bootloader"]


def test_an_argument_that_waits_for_its_trial_is_owed_although_no_bootloader_has_it() -> None:
    record = arguments_document(Arguments(trying=("iommu=pt",)))
    state = f"== {ARGUMENTS}\n{record}"
    found = rig.look(DRIFT, DECLARED, proc_cmdline=PLAIN, rigops_state=state)

    assert (found.status, found.data) == ("warn", {"owed": ["iommu=pt"]})
    assert "waits for the reboot that tries it" in found.summary
    assert [one.section for one in found.evidence] == ["proc-cmdline", "rigops-state"]
    assert found.fix is not None
    assert "systemctl reboot" not in found.fix.by_hand  # that would not bring it


def test_where_the_own_record_was_not_read_nobody_knows_whether_a_boot_tries_it() -> None:
    found = rig.look(DRIFT, DECLARED, cut=["rigops-state"], proc_cmdline=PLAIN)

    assert found.status == "unknown"
    assert "whether the next boot will have it could not be read" in found.summary


def test_a_menu_that_was_not_made_anew_does_not_boot_the_argument() -> None:
    stale = answers.GRUB.replace("quiet iommu=pt\n", "quiet\n")

    assert rig.look(DRIFT, DECLARED, proc_cmdline=PLAIN, bootloader=stale).status == "fail"


@pytest.mark.parametrize(
    ("name", "there", "place"),
    [
        ("debian-12", "quiet", "/boot/grub/grub.cfg"),
        ("arch-grub", "loglevel=3", "/boot/grub/grub.cfg"),
        ("fedora", "rhgb", "6.11.4-301.fc41.x86_64.conf"),
        ("el8", "crashkernel=auto", "4.18.0-553.el8_10.x86_64.conf"),
        ("archinstall", "zswap.enabled=0", "lts.conf"),
        ("debian-systemd-boot", "quiet", "6.12.48-amd64.conf"),
        ("pop-os", "splash", "Pop_OS-oldkern.conf"),
        ("arch-uki", "quiet", "/etc/kernel/cmdline"),
    ],
)
def test_the_next_boot_of_every_bootloader_is_known(
    name: str, there: str, place: str, tmp_path: Path
) -> None:
    known = machines.machine(name)
    known.lay_out(tmp_path)
    text = known.ask(tmp_path)
    declared, absent = spec(kernel_args=[there]), spec(kernel_args=["absent=1"])
    live = "BOOT_IMAGE=/x root=/y"

    owed = rig.look(DRIFT, declared, proc_cmdline=live, bootloader=text)
    missing = rig.look(DRIFT, absent, proc_cmdline=live, bootloader=text)
    typed = rig.look(DRIFT, absent, proc_cmdline=f"{live} absent=1", bootloader=text)

    assert owed.status == "warn"
    assert owed.fix is not None
    assert place in owed.fix.text
    assert there in owed.evidence[-1].line or "$kernelopts" in owed.evidence[-1].line
    assert missing.status == "fail"
    assert "declared and not configured" in missing.summary
    # Where only the sources of an image are seen, what it has inside is not.
    assert typed.status == ("ok" if name == "arch-uki" else "warn")


def test_by_hand_is_told_in_the_words_of_the_bootloader(tmp_path: Path) -> None:
    known = machines.machine("fedora")
    known.lay_out(tmp_path)
    text = known.ask(tmp_path)

    fix = rig.look(DRIFT, DECLARED, proc_cmdline=PLAIN, bootloader=text).fix

    assert fix is not None
    assert fix.by_hand == 'run `grubby --update-kernel=ALL --args="iommu=pt"` and reboot'


def test_each_argument_counts() -> None:
    both = spec(kernel_args=["iommu=pt", "pcie_aspm=off"])

    found = rig.look(DRIFT, both, proc_cmdline=LIVE, bootloader=CONFIGURED)

    assert found.status == "fail"
    assert found.data == {"missing": ["pcie_aspm=off"]}
    assert "iommu=pt" not in found.summary


@pytest.mark.parametrize("declared", [spec(), spec(kernel_args=[])])
def test_nothing_is_declared(declared: object) -> None:
    from rigops.inventory.spec import RigSpec  # noqa: PLC0415 - to narrow the parameter only

    assert isinstance(declared, RigSpec)
    assert rig.look(DRIFT, declared).status == "skipped"


def test_an_unknown_is_essential_where_arguments_are_declared() -> None:
    assert rig.look(DRIFT, DECLARED, proc_cmdline=None, bootloader=None).essential


@given(
    section=st.sampled_from(["proc-cmdline", "bootloader"]),
    configured=st.sampled_from([CONFIGURED, rig.GRUB, SYSTEMD_BOOT]),
    is_lost=st.booleans(),
    share=st.floats(0, 1),
)
def test_a_section_that_is_lost_or_cut_never_makes_an_argument_live(
    section: str, configured: str, *, is_lost: bool, share: float
) -> None:
    texts: dict[str, str | None] = {"proc-cmdline": PLAIN, "bootloader": configured}
    text = texts[section] or ""
    texts[section] = None if is_lost else text[: int(len(text) * share)]

    found = rig.look(DRIFT, DECLARED, cut=[section], sections=texts)

    assert found.status in {"fail", "warn", "unknown"}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("", "ok", "nothing"),
        ("iommu=pt", "ok", "nothing"),
        ("pci=noaer", "warn", "pci=noaer hides PCIe errors"),
        ("pci=realloc=off,noaer", "warn", "pci=realloc=off,noaer hides"),
        ("pcie_acs_override=downstream,multifunction", "warn", "on paper only"),
        ("pci=noacs amd_iommu=on", "ok", "nothing"),
        ("amd_iommu=off iommu=pt", "info", "amd_iommu=off with iommu=pt contradict each other"),
        ("iommu=soft", "info", "does not turn AMD's IOMMU off"),
        ("nouveau.modeset=0", "info", "left over"),
        ("nouveau.modeset=1", "warn", "nouveau"),
        ("mitigations=off", "info", "mitigations=off"),
        ("nomodeset", "info", "display modes"),
        ("recovery nomodeset", "warn", "recovery is a start for repair"),
        ("xpci=noaer pci=noaerx", "ok", "nothing"),
    ],
)
def test_arguments_that_should_not_be_there(arguments: str, status: str, said: str) -> None:
    found = rig.look(BAD, proc_cmdline=f"{PLAIN} {arguments}\n")

    assert found.status == status
    assert said in found.summary
    assert (found.fix is not None) == (status == "warn")


def test_an_argument_of_the_inventory_is_taken_out_there() -> None:
    declared = spec(kernel_args=["iommu=pt", "pci=noaer"])

    fix = rig.look(BAD, declared, proc_cmdline=f"{PLAIN} pci=noaer").fix

    assert fix is not None
    assert (fix.kind, fix.declare) == ("apply+reboot", {"kernel_args": ["iommu=pt"]})


def test_somebody_elses_argument_is_for_hands() -> None:
    fix = rig.look(BAD, proc_cmdline=f"{PLAIN} pci=noaer").fix

    assert fix is not None
    assert fix.kind == "hands"
    assert "take pci=noaer out" in fix.text


def test_a_command_line_that_was_not_read_is_not_well() -> None:
    assert rig.look(BAD, proc_cmdline=None).status == "unknown"
    assert rig.look(BAD, cut=["proc-cmdline"]).status == "unknown"
    cut = rig.look(BAD, cut=["proc-cmdline"], proc_cmdline=f"{PLAIN} pci=noaer")
    assert cut.status == "warn"


# What /etc/default/grub of real machines says, and what is told about it.
ROWS = {
    "07-cmdline-grub-iommu/luigifcruz-esc8000a.etc-default-grub.txt": (
        ("amd_iommu=off", "iommu=pt", "pci=realloc=off"),
        14,
        "amd_iommu=off with iommu=pt contradict each other",
    ),
}


@pytest.mark.corpus
@pytest.mark.parametrize("path", sorted(ROWS))
def test_defaults_of_grub_of_real_machines(path: str) -> None:
    # A paste has a prompt where a section has the name of its file.
    pasted = (CORPUS / path).read_text()
    text = f"== {'/etc/default/grub'}\n{pasted}"
    arguments, count, told = ROWS[path]

    following = kernel_arguments.configured(bootloader.parse(text))

    assert following is not None
    assert following.place == "/etc/default/grub"
    assert set(arguments) <= following.arguments
    assert len(following.arguments) == count
    found = rig.look(BAD, proc_cmdline=" ".join(sorted(following.arguments)))
    assert (found.status, found.summary) == ("info", told)


@pytest.mark.corpus
def test_every_real_command_line_has_a_row() -> None:
    folder = CORPUS / "07-cmdline-grub-iommu"

    assert {str(one.relative_to(CORPUS)) for one in folder.iterdir()} == set(ROWS)
