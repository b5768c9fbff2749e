from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.doctor.checks import command_line
from rigops.probe.sections import bootloader
from tests.corpus import CORPUS
from tests.unit.doctor import package_rig as rig
from tests.unit.doctor.examining import spec
from tests.unit.probe import answers

CHECKS = command_line.CHECKS
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
        (LIVE, CONFIGURED, "ok"),
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
    found = rig.look(DRIFT, CHECKS, DECLARED, proc_cmdline=live, bootloader=configured)

    assert found.status == status
    if status in {"fail", "warn"}:
        assert found.remedy is not None
        assert found.remedy.kind == "apply+reboot"
        assert found.remedy.concern == "kernel_args"
        assert found.remedy.declare == {"kernel_args": ["iommu=pt"]}


def test_an_owed_reboot_is_all_that_is_missing() -> None:
    found = rig.look(DRIFT, CHECKS, DECLARED, proc_cmdline=PLAIN, bootloader=CONFIGURED)

    assert found.remedy is not None
    assert "only the reboot is missing" in found.remedy.text
    assert found.data == {"owed": ["iommu=pt"]}
    assert [one.section for one in found.evidence] == ["proc-cmdline", "bootloader"]


def test_a_menu_that_was_not_made_anew_does_not_boot_the_argument() -> None:
    stale = answers.GRUB.replace("quiet iommu=pt\n", "quiet\n")

    assert rig.look(DRIFT, CHECKS, DECLARED, proc_cmdline=PLAIN, bootloader=stale).status == "fail"


def test_each_argument_counts() -> None:
    both = spec(kernel_args=["iommu=pt", "pcie_aspm=off"])

    found = rig.look(DRIFT, CHECKS, both, proc_cmdline=LIVE, bootloader=CONFIGURED)

    assert found.status == "fail"
    assert found.data == {"missing": ["pcie_aspm=off"]}
    assert "iommu=pt" not in found.summary


@pytest.mark.parametrize("declared", [spec(), spec(kernel_args=[])])
def test_nothing_is_declared(declared: object) -> None:
    from rigops.spec import RigSpec  # noqa: PLC0415 - to narrow the parameter only

    assert isinstance(declared, RigSpec)
    assert rig.look(DRIFT, CHECKS, declared).status == "skipped"


def test_an_unknown_is_essential_where_arguments_are_declared() -> None:
    assert rig.look(DRIFT, CHECKS, DECLARED, proc_cmdline=None, bootloader=None).essential


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

    found = rig.look(DRIFT, CHECKS, DECLARED, cut=[section], sections=texts)

    assert found.status in {"fail", "warn", "unknown"}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("", "ok", "nothing"),
        ("iommu=pt", "ok", "nothing"),
        ("pci=noaer", "warn", "pci=noaer hides PCIe errors"),
        ("pci=realloc=off,noaer", "warn", "pci=realloc=off,noaer hides"),
        ("pcie_acs_override=downstream,multifunction", "warn", "on paper only"),
        ("pci=noacs", "info", "not known to do anything"),
        ("amd_iommu=on iommu=pt", "info", "amd_iommu=on is no documented value"),
        ("amd_iommu=off iommu=pt", "info", "amd_iommu=off with iommu=pt says two things"),
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
    found = rig.look(BAD, CHECKS, proc_cmdline=f"{PLAIN} {arguments}\n")

    assert found.status == status
    assert said in found.summary
    assert (found.remedy is not None) == (status == "warn")


def test_an_argument_of_the_inventory_is_taken_out_there() -> None:
    declared = spec(kernel_args=["iommu=pt", "pci=noaer"])

    remedy = rig.look(BAD, CHECKS, declared, proc_cmdline=f"{PLAIN} pci=noaer").remedy

    assert remedy is not None
    assert (remedy.kind, remedy.declare) == ("apply+reboot", {"kernel_args": ["iommu=pt"]})


def test_somebody_elses_argument_is_for_hands() -> None:
    remedy = rig.look(BAD, CHECKS, proc_cmdline=f"{PLAIN} pci=noaer").remedy

    assert remedy is not None
    assert remedy.kind == "hands"
    assert "take pci=noaer out" in remedy.text


def test_a_command_line_that_was_not_read_is_not_well() -> None:
    assert rig.look(BAD, CHECKS, proc_cmdline=None).status == "unknown"
    assert rig.look(BAD, CHECKS, cut=["proc-cmdline"]).status == "unknown"
    cut = rig.look(BAD, CHECKS, cut=["proc-cmdline"], proc_cmdline=f"{PLAIN} pci=noaer")
    assert cut.status == "warn"


# What /etc/default/grub of real machines says, and what is told about it.
ROWS = {
    "07-cmdline-grub-iommu/luigifcruz-esc8000a.etc-default-grub.txt": (
        ("amd_iommu=off", "iommu=pt", "pci=realloc=off"),
        14,
        "amd_iommu=off with iommu=pt says two things",
    ),
}


@pytest.mark.corpus
@pytest.mark.parametrize("path", sorted(ROWS))
def test_defaults_of_grub_of_real_machines(path: str) -> None:
    # A paste has a prompt where a section has the name of its file.
    pasted = (CORPUS / path).read_text()
    text = f"== {'/etc/default/grub'}\n{pasted}"
    arguments, count, told = ROWS[path]

    following = command_line.configured(bootloader.parse(text))

    assert following is not None
    assert following.place == "/etc/default/grub"
    assert set(arguments) <= following.arguments
    assert len(following.arguments) == count
    found = rig.look(BAD, CHECKS, proc_cmdline=" ".join(sorted(following.arguments)))
    assert (found.status, found.summary) == ("info", told)


@pytest.mark.corpus
def test_every_real_command_line_has_a_row() -> None:
    folder = CORPUS / "07-cmdline-grub-iommu"

    assert {str(one.relative_to(CORPUS)) for one in folder.iterdir()} == set(ROWS)
