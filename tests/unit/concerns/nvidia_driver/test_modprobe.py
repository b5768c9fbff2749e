from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.concerns.nvidia_driver.modprobe import MODPROBE, beside, blacklists, blacklists_at_boot
from rigops.probe.sections import modprobe

if TYPE_CHECKING:
    from rigops.concerns.nvidia_driver.modprobe import FoundOptions

OURS = f"== {MODPROBE}\nblacklist nouveau\noptions nvidia NVreg_Ours=1\n"
DECLARED = (("nvidia", (("NVreg_A", "1"),)),)


def found(files: dict[str, str], module: str = "nvidia", **declared: str) -> FoundOptions:
    text = "".join(f"== {path}\n{said}\n" for path, said in files.items())
    wanted = {module: declared or {"NVreg_A": "1"}}
    return beside(wanted, modprobe.parse(OURS + text))


def test_what_nobody_else_says_is_ours_to_say() -> None:
    seen = found({"/etc/modprobe.d/other.conf": "options nvidia NVreg_B=2"})

    assert (seen.options, seen.blockers, seen.notices) == (DECLARED, (), ())


def test_our_own_file_is_no_other() -> None:
    seen = found({}, NVreg_Ours="2")

    assert (seen.options, seen.blockers) == ((("nvidia", (("NVreg_Ours", "2"),)),), ())


def test_a_later_file_with_another_value_is_named_as_what_would_count() -> None:
    (text,) = found({"/etc/modprobe.d/zz.conf": "options nvidia NVreg_A=0"}).blockers

    assert text.startswith("/etc/modprobe.d/zz.conf says `options nvidia NVreg_A=0`, which would")
    assert "override the declared nvidia NVreg_A=1: remove it from" in text


def test_the_name_of_the_file_decides_and_not_its_folder() -> None:
    assert found({"/usr/lib/modprobe.d/zz.conf": "options nvidia NVreg_A=0"}).blockers
    assert not found({"/etc/modprobe.d/a.conf": "options nvidia NVreg_A=0"}).blockers


def test_an_earlier_file_with_another_value_is_told_and_ours_counts() -> None:
    seen = found({"/etc/modprobe.d/a.conf": "options nvidia NVreg_A=0"})

    assert seen.options == DECLARED
    (text,) = seen.notices
    assert text.startswith(
        "/etc/modprobe.d/a.conf says `options nvidia NVreg_A=0`, which the declared"
    )
    assert text.endswith("the declared nvidia NVreg_A=1 overrides")


@pytest.mark.parametrize("value", ["1", '"1"', "0x1"])
def test_what_is_set_as_declared_is_not_doubled(value: str) -> None:
    seen = found({"/etc/modprobe.d/a.conf": f"options nvidia NVreg_A={value}"})

    assert (seen.options, seen.blockers, seen.notices) == ((), (), ())


def test_of_a_module_with_two_options_the_other_stays_ours() -> None:
    seen = found({"/etc/modprobe.d/a.conf": "options nvidia NVreg_A=1"}, NVreg_A="1", NVreg_B="x;y")

    assert seen.options == (("nvidia", (("NVreg_B", "x;y"),)),)


def test_an_option_under_the_name_that_a_command_loads_comes_after_all_others() -> None:
    files = {"/etc/modprobe.d/a.conf": "options nvidia NVreg_A=0"}
    (text,) = found(files, module="nvidia-current").blockers

    assert "override the declared nvidia-current NVreg_A=1" in text


def test_the_same_under_another_name_does_not_spare_ours() -> None:
    files = {"/etc/modprobe.d/a.conf": "options nvidia NVreg_A=1"}
    seen = found(files, module="nvidia-current")

    assert (seen.options, seen.blockers) == ((("nvidia-current", (("NVreg_A", "1"),)),), ())


def test_another_module_of_the_driver_is_another() -> None:
    seen = found({"/etc/modprobe.d/zz.conf": "options nvidia_uvm NVreg_A=0"})

    assert (seen.options, seen.blockers) == (DECLARED, ())


@pytest.mark.parametrize(
    "line",
    [
        "blacklist nvidia",
        "alias nvidia off",
        "install nvidia /bin/false",
        "blacklist nvidia-current",
        "install nvidia_uvm /bin/true",
    ],
)
def test_what_keeps_the_driver_out_is_named_with_the_fix(line: str) -> None:
    (text,) = blacklists(modprobe.parse(f"{OURS}== /etc/modprobe.d/no.conf\n{line}\n"))

    assert text.startswith(
        f"/etc/modprobe.d/no.conf says `{line}`, so NVIDIA's driver does not load"
    )
    assert "remove that line, run `sudo update-initramfs -u -k all`" in text


@pytest.mark.parametrize(
    "line",
    [
        "blacklist nouveau",
        "blacklist nvidia_drm",
        "blacklist nvidia-uvm",
        "blacklist nvidiafb",
        "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS",
    ],
)
def test_what_leaves_the_driver_alone_is_in_nobodys_way(line: str) -> None:
    assert blacklists(modprobe.parse(f"== /etc/modprobe.d/x.conf\n{line}\n")) == ()


def test_a_blacklist_on_the_kernel_line_keeps_the_driver_out_too() -> None:
    line = ("ro", "modprobe.blacklist=nouveau,nvidia", "module_blacklist=nvidia_current")

    told = blacklists_at_boot(line)

    assert len(told) == 2
    assert "`modprobe.blacklist=nouveau,nvidia`" in told[0]
    assert blacklists_at_boot(("modprobe.blacklist=nouveau", "nvidia=1")) == ()
