"""What is read of the driver's module, its nodes and its processes."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rigops.probe.sections import (
    dev_nodes,
    nvidia_modinfo,
    nvidia_params,
    processes,
    secure_boot,
)
from tests.unit import programs
from tests.unit.doctor import module_rigs as rigs
from tests.unit.probe.snippets import TOOLS, as_collected, called
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

MODINFO = """\
filename:       /lib/modules/6.8.0-48-generic/updates/dkms/nvidia.ko.zst
alias:          char-major-195-*
version:        560.35.03
supported:      external
license:        Dual MIT/GPL
srcversion:     0123456789ABCDEF0123456
name:           nvidia
vermagic:       6.8.0-48-generic SMP preempt mod_unload modversions
sig_id:         PKCS#7
signer:         rig Secure Boot Module Signature key
parm:           NVreg_ResmanDebugLevel:int
"""


def test_the_parameters() -> None:
    found = nvidia_params.parse("== cat /proc/driver/nvidia/params\r\n" + rigs.PARAMS)

    assert found.values["DeviceFileMode"] == "438"
    assert found.values["RegistryDwords"] == "PowerMizerEnable=0x1;"
    assert found.values["RmMsg"] == ""
    assert found.lines["EnableResizableBar"] == "EnableResizableBar: 0"
    assert not found.unparsed
    assert nvidia_params.parse("rubbish").unparsed == ("rubbish",)


def test_modinfo_by_hand_is_that_of_the_running_kernel() -> None:
    found = nvidia_modinfo.parse(MODINFO)

    (module,) = found.modules
    assert module.kernel is None
    assert (module.version, module.license) == ("560.35.03", "Dual MIT/GPL")
    assert module.is_open
    assert module.is_signed
    assert module.line == "version:        560.35.03"
    assert found.module_for("whatever") is module
    assert not found.unparsed


def test_modinfo_of_several_kernels() -> None:
    text = rigs.modinfo(rigs.KERNEL) + rigs.without_module(rigs.NEXT)

    found = nvidia_modinfo.parse(text.replace("\n", "\r\n"))

    module = found.module_for(rigs.KERNEL)
    assert module is not None
    assert (module.version, module.is_open, module.is_signed) == (rigs.DRIVER, False, False)
    assert found.kernels_without == (rigs.NEXT,)
    assert found.module_for(rigs.NEXT) is None


def test_a_module_of_which_the_end_is_lost_is_not_called_unsigned() -> None:
    (module,) = nvidia_modinfo.parse(MODINFO.partition("vermagic")[0]).modules

    assert module.is_signed is None


@pytest.mark.parametrize(
    "said", ["modinfo: ERROR: Module nvidia not found.", "modinfo: module 'nvidia' not found"]
)
def test_a_running_kernel_without_a_module(said: str) -> None:
    assert nvidia_modinfo.parse(f"{said}\n").kernels_without == (None,)


def test_without_kmod_the_files_tell() -> None:
    found = nvidia_modinfo.parse(
        "== find /lib/modules/6.1 -name nvidia*.ko*\n/lib/modules/6.1/extra/nvidia.ko.xz\n"
        "== find /lib/modules/6.2 -name nvidia*.ko*\n\n"
    )

    (module,) = found.modules
    assert (module.kernel, module.version, module.is_signed) == ("6.1", None, None)
    assert found.kernels_without == ("6.2",)


@pytest.mark.parametrize(
    ("text", "enabled", "insists"),
    [
        ("SecureBoot enabled\n", True, True),
        ("== mokutil --sb-state\r\nSecureBoot enabled\r\n", True, True),
        ("SecureBoot disabled\nPlatform is in Setup Mode\n", False, False),
        ("SecureBoot enabled\nSecureBoot validation is disabled in shim\n", True, False),
        ("This system doesn't support Secure Boot\n", False, False),
        ("EFI variables are not supported on this system\n", False, False),
        ("Cannot determine secure boot state.\n", None, None),
        ("mokutil: not found\n", None, None),
        ("SecureBoot ena", None, None),
        ("", None, None),
        ("== /sys/kernel/security/lockdown\nnone [integrity] confidentiality\n", None, True),
        ("== ls -d /sys/firmware/efi\nls: /sys/firmware/efi: No such file or directory\n",
         False, False),
        ("== od -An -t u1 /sys/firmware/efi/efivars/SecureBoot-8be4\n   6   0   0   0   1\n",
         True, True),
        ("== od -An -t u1 /sys/firmware/efi/efivars/SecureBoot-8be4\n   6   0   0\n", None, None),
    ],
)  # fmt: skip
def test_secure_boot(text: str, enabled: bool | None, insists: bool | None) -> None:  # noqa: FBT001 - parameters
    found = secure_boot.parse(text)

    assert (found.enabled, found.insists) == (enabled, insists)


def test_what_is_no_state_of_secure_boot_is_left_over() -> None:
    assert secure_boot.parse("rubbish").unparsed == ("rubbish",)


def test_the_device_nodes() -> None:
    found = dev_nodes.parse(rigs.NODES)

    assert [(node.path, node.major) for node in found.cards] == [
        ("/dev/nvidia0", 195),
        ("/dev/nvidia1", 195),
    ]
    uvm = found.node("/dev/nvidia-uvm")
    assert uvm is not None
    assert uvm.is_for_all
    assert found.majors == {"nvidia-frontend": 195, "nvidia-uvm": 511}
    assert found.makes_nodes_itself
    assert not found.unparsed


def test_nodes_as_busybox_lists_them_and_without_a_head() -> None:
    found = dev_nodes.parse(
        "crw-rw----    1 0        44       195,   0 Nov 21 10:00 /dev/nvidia0\n"
        "ls: /dev/dri/render*: No such file or directory\n"
    )

    (node,) = found.cards
    assert (node.gid, node.is_for_all, node.is_for_its_group) == (44, False, True)
    assert not found.unparsed
    assert not found.makes_nodes_itself


def test_the_tasks_and_who_holds_the_cards() -> None:
    found = processes.parse(
        "== cat /proc/[0-9]*/stat\n"
        "pid=77 state=D cpu=0 wchan=nvidia_close comm=python3 (old)\n"
        "pid=78 state=S cpu=99 wchan=- comm=irq/57-nvidia\n"
        "== ls -l /proc/[0-9]*/fd\npid=77 comm=python3 (old)\n"
    )

    assert found.tasks is not None
    assert [task.waits_for_driver for task in found.tasks] == [True, False]
    assert [task.is_driver_thread for task in found.tasks] == [False, True]
    assert found.holders == (
        processes.Holder(pid=77, comm="python3 (old)", line="pid=77 comm=python3 (old)"),
    )
    assert not found.unparsed


def test_a_table_of_ps() -> None:
    found = processes.parse(
        "    PID    PPID STAT %CPU WCHAN                          COMMAND\n"
        "   1234       1 Dl+   0.0 os_acquire_rwlock_write        nvidia-smi\n"
        "     57       2 R    99.8 -                              nv_queue\n"
    )

    assert found.tasks is not None
    assert [(task.comm, task.waits_for_driver) for task in found.tasks] == [
        ("nvidia-smi", True),
        ("nv_queue", False),
    ]
    assert found.tasks[1].cpu_percent == 99
    assert found.holders is None


def test_rubbish_is_no_list_of_processes() -> None:
    found = processes.parse("rubbish")

    assert found == processes.Processes(unparsed=("rubbish",))


def _asked(snippet: str, shell: str, **names: str) -> str:
    for old, new in names.items():
        snippet = snippet.replace(old, new)
    done = subprocess.run(
        [*programs.shell(shell), "-c", f"{TOOLS}\nsleep() {{ :; }}\n{called(snippet)}"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
    )
    assert done.stderr == ""
    return as_collected(done.stdout)


def _process(proc: Path, pid: int, stat: str, *, holds: str = "/dev/null") -> None:
    (proc / f"{pid}/fd").mkdir(parents=True)
    (proc / f"{pid}/stat").write_text(f"{pid} {stat}\n")
    (proc / f"{pid}/fd/3").symlink_to(holds)
    (proc / f"{pid}/wchan").write_text("nvidia_close")


@pytest.mark.parametrize("shell", SHELLS)
def test_only_what_waits_or_works_for_the_driver_is_listed(tmp_path: Path, shell: str) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/stat").touch()
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    _process(tmp_path, 10, "(smi) D) D 1 2 3 4 5 6 7 8 9 10 70 5 0 0", holds="/dev/nvidia0")
    _process(tmp_path, 11, "(bash) S 1 2 3 4 5 6 7 8 9 10 70 5 0 0")
    _process(tmp_path, 12, "(irq/9-nvidia) S 2 2 3 4 5 6 7 8 9 10 70 5 0 0")

    said = _asked(processes.SECTION.snippet, shell, **{"/proc": str(tmp_path)})

    assert said.splitlines() == [
        f"== cat {tmp_path}/[0-9]*/stat",
        "pid=10 state=D cpu=0 wchan=nvidia_close comm=smi) D",
        "pid=12 state=S cpu=0 wchan=nvidia_close comm=irq/9-nvidia",
        f"== ls -l {tmp_path}/[0-9]*/fd",
        "pid=10 comm=smi) D",
    ]


KMOD = """\
#!/bin/sh
[ "$1" = --version ] && { echo "kmod version 30"; exit; }
case "$2 $3" in
    "6.1 nvidia-current") printf "%s\\n" "version: 535.1" "alias: pci:x" "vermagic: 6.1" ;;
    *) echo "modinfo: ERROR: Module $3 not found." >&2; exit 1 ;;
esac
"""


@pytest.mark.parametrize("has_kmod", [True, False])
@pytest.mark.parametrize("shell", SHELLS)
def test_debian_s_name_of_the_module_is_found(
    tmp_path: Path, shell: str, *, has_kmod: bool
) -> None:
    for kernel, files in {
        "6.1": ("nvidia-current.ko", "nvidia-current-drm.ko", "nvidia-wmi-ec-backlight.ko"),
        "6.2": ("nvidiafb.ko",),
    }.items():
        (tmp_path / kernel / "kernel").mkdir(parents=True)
        for file in files:
            (tmp_path / kernel / "kernel" / file).touch()
    (tmp_path / "left-over").mkdir()
    modinfo = tmp_path / "modinfo"
    modinfo.write_text(KMOD if has_kmod else "#!/bin/sh\nexit 1\n")
    modinfo.chmod(0o755)
    snippet = f"PATH={tmp_path}:$PATH; {nvidia_modinfo.SECTION.snippet}"

    said = _asked(snippet, shell, **{"/lib/modules": str(tmp_path)})

    found = nvidia_modinfo.parse(said.replace(str(tmp_path), "/lib/modules"))
    (module,) = found.modules
    assert (module.kernel, module.version) == ("6.1", "535.1" if has_kmod else None)
    assert found.kernels_without == ("6.2",)
    assert not found.unparsed
    assert "alias" not in said


@pytest.mark.parametrize(
    "section",
    [
        nvidia_params.SECTION,
        nvidia_modinfo.SECTION,
        dev_nodes.SECTION,
        processes.SECTION,
        secure_boot.SECTION,
    ],
    ids=lambda section: section.name,
)
def test_a_host_without_any_of_it_answers_wholly(section: object) -> None:
    from rigops.probe.section import Section  # noqa: PLC0415 - to narrow the parameter only

    assert isinstance(section, Section)

    said = _asked(section.snippet, "dash")

    assert not section.parse(said).unparsed
