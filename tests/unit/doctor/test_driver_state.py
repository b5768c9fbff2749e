"""A driver that is loaded: versions, kind, nodes, settings, and whether it hangs."""

from __future__ import annotations

import pytest

from tests.unit.doctor import module_rigs as rigs
from tests.unit.doctor.examining import look, spec
from tests.unit.probe import answers

NEWER = "535.274.02"
REFUSES = (
    "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.274\n"
)
API = (
    "[  90.100000] NVRM: API mismatch: the client has the version 535.274.02, but\n"
    "[  90.100000] NVRM: this kernel module has the version 535.261.03.  Please\n"
)
UPDATED = {
    "nvidia-modinfo": rigs.modinfo(rigs.KERNEL, version=NEWER),
    "packages": rigs.PACKAGES.replace(f"libcuda1\t{rigs.DRIVER}", f"libcuda1\t{NEWER}"),
    "nvidia-smi-xml": REFUSES,
}


def status(check: str, changed: dict[str, str | None], **declared: object) -> str:
    wish = spec(**declared) if declared else None
    return rigs.one(rigs.find({**rigs.WELL, **changed}, wish), check).status


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "ok"),
        (UPDATED, "fail"),
        ({"nvidia-modinfo": UPDATED["nvidia-modinfo"]}, "fail"),
        ({"packages": UPDATED["packages"], "nvidia-smi-xml": None}, "fail"),
        ({"packages": UPDATED["packages"]}, "ok"),  # nvidia-smi works, so its libraries fit
        ({"nvidia-smi-xml": REFUSES}, "fail"),
        ({"nvidia-smi-xml": None, "kernel-log": API}, "fail"),
        ({"kernel-log": API}, "info"),
        ({"nvidia-modinfo": None}, "unknown"),
        ({"nvidia-modinfo": None, "dkms": rigs.dkms(rigs.KERNEL, version=NEWER)}, "fail"),
        ({"nvidia-smi-xml": None}, "unknown"),
        ({"nvidia-version": None}, "unknown"),
        ({"nvidia-version": "", "nvidia-smi-xml": None}, "skipped"),
    ],
)
def test_three_versions_of_one_driver(changed: dict[str, str | None], expected: str) -> None:
    assert status("drv.mismatch", changed) == expected


@pytest.mark.parametrize("log", [API, None])
def test_a_complaint_alone_is_enough(log: str | None) -> None:
    bare: dict[str, str | None] = {"lspci": rigs.lspci(), "kernel-log": log}
    found = rigs.statuses(rigs.find(bare | ({} if log else {"nvidia-smi-xml": REFUSES})))

    assert found["drv.mismatch"] == "fail"
    assert found["drv.loaded"] == ("fail" if log else "ok")  # its driver answered, or is gone


def test_both_versions_are_named() -> None:
    found = rigs.one(rigs.find({**rigs.WELL, **UPDATED}), "drv.mismatch")

    assert rigs.DRIVER in found.summary
    assert NEWER in found.summary
    assert {each.section for each in found.evidence} >= {"nvidia-version", "nvidia-modinfo"}


@pytest.mark.parametrize(
    ("processes", "said"),
    [
        (rigs.TASKS, "nvidia-persiste uses the cards"),
        (rigs.TASKS.replace("pid=913 comm=nvidia-persiste\n", ""), "modprobe -r"),
        (rigs.TASKS.partition("== ls")[0], "systemctl reboot"),
        (None, "systemctl reboot"),
    ],
)
def test_a_module_in_use_needs_the_reboot(processes: str | None, said: str) -> None:
    found = rigs.find({**rigs.WELL, **UPDATED, "processes": processes})

    fix = rigs.one(found, "drv.mismatch").fix
    assert fix is not None
    assert said in fix.text


def test_a_reboot_that_did_not_help_has_a_fix_too() -> None:
    found = rigs.one(rigs.find({**rigs.WELL, "nvidia-smi-xml": REFUSES}), "drv.mismatch")

    assert found.status == "fail"
    assert "comes back" in str(found.fix)
    assert "the initramfs has the old module" in str(found.fix)
    assert "two drivers are installed" in str(found.fix)


def test_a_mismatch_of_an_older_boot_is_over() -> None:
    stamp = "2026-01-{}T18:00:00.000000+0000 rig kernel: "
    line = API.splitlines()[0].partition("] ")[2]
    lines = (f"{stamp.format('08')}{line}", f"{stamp.format(11)}Linux version 6.1.0-18-amd64", "")
    found = rigs.find({"lspci": rigs.lspci(), "kernel-log": "\n".join(lines)})

    assert rigs.one(found, "drv.mismatch").status == "skipped"


@pytest.mark.parametrize(
    "lines",
    [
        API,
        # NVIDIA since 2023: Frogging-Family/nvidia-all#394
        (
            "[    9.424670] NVRM: API mismatch: the client 'kwin_wayland' (pid 1005)\n"
            "               NVRM: has the version 595.84, but this kernel module has\n"
            "               NVRM: the version 595.80.  Please make sure that this\n"
        ),
        # through rsyslog: stackhpc/ansible-slurm-appliance#287
        (
            "Jun 30 11:07:05 gpu-0 kernel: NVRM: API mismatch: the client has the version "
            "535.54.03, but#012NVRM: this kernel module has the version 530.30.02.  Please#012\n"
        ),
    ],
)
def test_the_versions_of_a_refused_program_are_evidence(lines: str) -> None:
    found = rigs.one(rigs.find({"lspci": rigs.lspci(), "kernel-log": lines}), "drv.mismatch")
    cited = " ".join(one.line for one in found.evidence)

    assert found.status == "fail"
    assert cited.count("version 5") == 2


@pytest.mark.parametrize(
    "line",
    [
        # void-linux/void-packages#4473 and #5745, and the source of nvidia-drm
        "nvidia-modeset: Version mismatch: nvidia.ko(410.73) nvidia-modeset.ko(390.87)",
        "nvidia-modeset: Version mismatch: nvidia.ko(378.13) nvidia-modeset(375.26)",
        (
            "[drm:nv_drm_init [nvidia_drm]] *ERROR* [nvidia-drm] Version mismatch: "
            "nvidia-modeset.ko(418.152.00) nvidia-drm.ko(430.64)"
        ),
    ],
)
def test_modules_of_two_versions(line: str) -> None:
    log = {"kernel-log": f"[   12.100000] {line}\n"}
    found = rigs.one(rigs.find({"lspci": rigs.lspci(), **log}), "drv.mismatch")

    assert found.status == "fail"
    assert found.evidence[0].line.endswith(line)
    assert status("drv.mismatch", {**log}) == "warn"


def test_libraries_that_nvidia_smi_does_not_find() -> None:
    text = (
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that "
        "the NVIDIA Display Driver is properly installed and present in your system.\n"
    )
    found = rigs.one(rigs.find({**rigs.WELL, "nvidia-smi-xml": text}), "drv.mismatch")

    assert (found.status, found.evidence[0].line) == ("fail", text.strip())


V100, RTX_5090 = "0x1db1", "0x2b85"
OPEN = answers.OPEN_VERSION


@pytest.mark.parametrize(
    ("device", "version", "declared", "expected"),
    [
        ("0x2204", answers.VERSION.format(rigs.DRIVER), None, "ok"),
        ("0x2204", OPEN, None, "ok"),
        (V100, OPEN, None, "fail"),
        (V100, answers.VERSION.format(rigs.DRIVER), None, "ok"),
        (RTX_5090, answers.VERSION.format("580.95.05"), None, "fail"),
        (RTX_5090, OPEN, None, "ok"),
        ("0x2204", OPEN, "proprietary", "fail"),
        ("0x2204", OPEN, "open", "ok"),
        ("0x2204", OPEN, "auto", "ok"),
        ("0x2204", None, "open", "unknown"),
    ],
)
def test_the_kind_of_module(
    device: str, version: str | None, declared: str | None, expected: str
) -> None:
    changed = {
        "pci": answers.PCI.replace("0x2204", device),
        "nvidia-version": version,
        "nvidia-smi-xml": None,
    }
    wish = {"driver_flavor": declared} if declared else {}

    assert status("drv.flavor", changed, **wish) == expected


LEGACY = """\
[    4.1] NVRM: The NVIDIA Tesla V100-SXM2-16GB GPU installed in this system is
          NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please
          NVRM:  visit http://www.nvidia.com/object/unix.html for more
          NVRM:  information.  The 590.48.01 NVIDIA driver will ignore
          NVRM:  this GPU.  Continuing probe...
"""
KEPLER = LEGACY.replace("Tesla V100-SXM2-16GB", "NVS 5200M").replace("580.xx", "390.xx")
IGNORED = "[    4.1] NVRM: The NVIDIA GPU 0000:0a:00.0 (PCI ID: 10de:{})\n          NVRM: {}\n"
NEEDS_OPEN = "installed in this system requires use of the NVIDIA open kernel modules."
TOO_NEW = "installed in this system is not supported by the NVIDIA 550.163.01 driver release."


def refused(log: str, *, device: str, version: str = "590.48.01") -> dict[str, str | None]:
    return {
        "pci": answers.ONE_GPU.replace("0x2204", device),
        "nvidia-version": answers.VERSION.format(version),
        "nvidia-smi-xml": "No devices were found\n",
        "nvidia-smi-topo": None,
        "nvidia-smi-p2p-read": None,
        "kernel-log": rigs.LOG + log,
    }


def test_a_card_that_the_driver_ignores_needs_its_last_branch() -> None:
    found = rigs.one(rigs.find({**rigs.WELL, **refused(LEGACY, device=V100)}), "drv.flavor")

    assert (found.status, found.subject) == ("fail", "gpu 0000:0a:00.0")
    assert "V100" in found.summary
    assert "580" in found.summary
    assert "590.48.01" in found.summary
    assert len(found.evidence) == 4
    assert found.fix is not None
    assert (found.fix.kind, found.fix.declare) == ("apply+reboot", {"driver": "580"})


def test_a_declared_open_module_does_not_drive_it_either() -> None:
    texts = {**rigs.WELL, **refused(LEGACY, device=V100)}
    found = rigs.one(rigs.find(texts, spec(driver_flavor="open")), "drv.flavor")

    assert found.fix is not None
    assert found.fix.declare == {"driver": "580", "driver_flavor": "proprietary"}


def test_without_a_module_the_driver_that_ignores_the_card_is_the_cause() -> None:
    texts = {**rigs.WELL, **refused(LEGACY, device=V100), "nvidia-version": ""}
    texts["nvidia-smi-xml"] = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
        "that the latest NVIDIA driver is installed and running.\n"
    )
    found = rigs.one(rigs.find(texts), "drv.loaded")

    assert found.status == "fail"
    assert "ignores" in found.summary
    assert found.data == {"cause": "drv.flavor"}
    assert found.fix is not None
    assert found.fix.declare == {"driver": "580"}


@pytest.mark.parametrize(
    ("log", "device", "version", "said", "declared"),
    [
        (KEPLER, "0x1234", "590.48.01", "390 is its last", None),
        (IGNORED.format("2b85", NEEDS_OPEN), RTX_5090, "580.95.05", "the open module", "open"),
        (IGNORED.format("2b85", TOO_NEW), RTX_5090, "550.163.01", "does not know", None),
        (IGNORED.format("1db1", TOO_NEW), V100, "550.163.01", "others of its branch drive", None),
    ],
)
def test_other_reasons_to_ignore_a_card(
    log: str, device: str, version: str, said: str, declared: str | None
) -> None:
    texts = {**rigs.WELL, **refused(log, device=device, version=version)}
    found = rigs.one(rigs.find(texts), "drv.flavor")

    assert (found.status, found.subject) == ("fail", "gpu 0000:0a:00.0")
    assert said in found.summary
    assert found.fix is not None
    assert (found.fix.declare or {}).get("driver_flavor") == declared


def test_no_one_driver_for_all_cards_is_said() -> None:
    texts = {**rigs.WELL, **refused(LEGACY, device=V100)}
    texts["pci"] = answers.PCI.replace("0x2204", V100, 1).replace("0x2204", RTX_5090)
    found = rigs.one(rigs.find(texts), "drv.flavor")

    assert found.fix is not None
    assert found.fix.kind == "hands"
    assert "RTX 5090" in found.fix.text


def test_a_driver_that_was_replaced_since_ignores_nothing() -> None:
    texts = {**rigs.WELL, **refused(LEGACY, device=V100, version="580.95.05")}

    assert rigs.one(rigs.find(texts), "drv.flavor").status == "ok"


GTX_480, GT_730, GTX_950, NOBODY = "0x06c0", "0x1287", "0x1402", "0x0666"


@pytest.mark.parametrize(
    ("device", "driver", "last", "declared"),
    [
        (V100, "590.48.01", "branch 580 is its last", {"driver": "580"}),
        (GTX_950, "595.45.04", "branch 580 is its last", {"driver": "580"}),
        (GT_730, "580.95.05", "branch 470 is its last", {"driver": "470"}),
        (GTX_480, "580.95.05", "branch 390 is its last", None),
        (RTX_5090, "550.54.15", "from branch 570 on", {"driver": "580"}),
    ],
)
def test_by_the_catalog_alone_a_card_that_its_branch_does_not_drive(
    device: str, driver: str, last: str, declared: dict[str, str] | None
) -> None:
    texts = {
        **rigs.WELL,
        "pci": answers.PCI.replace("0x2204", device),
        "nvidia-version": answers.VERSION.format(driver),
        "nvidia-smi-xml": None,
        "packages": None,
    }
    found = [one for one in rigs.find(texts) if one.id == "drv.flavor"]
    pin = look("drv.pin", instead=texts)

    assert [(one.status, one.subject) for one in found] == [
        ("fail", "gpu 0000:0a:00.0"),
        ("fail", "gpu 0000:0b:00.0"),
    ]
    assert f"driver {driver} does not drive" in found[0].summary
    assert last in found[0].summary
    assert found[0].fix is not None
    assert found[0].fix.declare == declared
    assert any(one.section == "catalog" for one in found[0].evidence)
    assert pin.status in {"skipped", "fail"}


def test_what_nvidia_smi_lists_is_driven_whatever_is_known_of_its_chip() -> None:
    texts = {
        **rigs.WELL,
        "pci": answers.PCI.replace("0x2204", GT_730),
        "nvidia-version": answers.VERSION.format("580.95.05"),
    }

    assert rigs.one(rigs.find(texts), "drv.flavor").status == "ok"


@pytest.mark.parametrize(
    ("devices", "version", "expected"),
    [
        ((GTX_480,), answers.VERSION.format("358.16"), "ok"),
        ((NOBODY,), answers.VERSION.format("358.16"), "ok"),
        ((GTX_480,), OPEN.replace("580.95.05", "520.61.05"), "fail"),
        ((V100, NOBODY), OPEN.replace("580.95.05", "520.61.05"), "fail"),
        ((V100, RTX_5090), OPEN.replace("580.95.05", "520.61.05"), "fail"),
    ],
)
def test_no_kind_of_module_is_advised_that_a_card_cannot_have(
    devices: tuple[str, ...], version: str, expected: str
) -> None:
    cards = (answers.ONE_GPU.replace("0x2204", one) for one in devices)
    texts = {
        **rigs.WELL,
        "pci": "".join(
            one.replace("0a:00.0", f"{at:02x}:00.0") for at, one in enumerate(cards, 10)
        ),
        "nvidia-version": version,
        "nvidia-smi-xml": None,
        "lspci": None,
        "nvidia-smi-topo": None,
        "nvidia-smi-p2p-read": None,
        "packages": None,
    }
    found = rigs.one(rigs.find(texts), "drv.flavor")

    assert found.status == expected
    assert found.fix is None or found.fix.kind == "hands"


def test_no_driver_is_recommended_by_guess() -> None:
    texts = {"lspci": None, "nvidia-smi-xml": None, "packages": None}
    fix = look("drv.pin", instead=texts, pci=answers.PCI.replace("0x2204", NOBODY)).fix

    assert fix is not None
    assert (fix.kind, fix.declare) == ("hands", None)
    assert "is not known: the catalog has neither" in fix.text


def test_with_nothing_loaded_the_module_on_disk_counts() -> None:
    changed = {
        "nvidia-version": "",
        "nvidia-smi-xml": None,
        "nvidia-modinfo": rigs.modinfo(rigs.KERNEL, license_="Dual MIT/GPL"),
        "pci": answers.PCI.replace("0x2204", V100),
    }

    assert status("drv.flavor", changed) == "fail"
    assert status("drv.flavor", {**changed, "nvidia-modinfo": None}) == "skipped"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "ok"),
        ({"nvidia-version": answers.VERSION.format("610.57.04-p2p")}, "info"),
        ({"dkms": f"nvidia/570.148.08-p2p, {rigs.KERNEL}, x86_64: installed\n"}, "info"),
        ({"nvidia-modinfo": rigs.modinfo(rigs.KERNEL, version="570.148.08-p2p")}, "info"),
        ({"nvidia-modinfo": None}, "unknown"),
    ],
)
def test_a_patched_module_is_told(changed: dict[str, str | None], expected: str) -> None:
    assert status("drv.patched", changed) == expected


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ("nouveau", "fail"),
        ("nova", "fail"),
        ("vfio-pci", "warn"),
        ("odd", "warn"),
        ("-", "skipped"),
    ],
)
def test_who_holds_the_card(driver: str, expected: str) -> None:
    pci = answers.PCI.replace("driver=nvidia", f"driver={driver}", 1)

    found = rigs.one(rigs.find({**rigs.WELL, "pci": pci}), "drv.nouveau")

    assert found.status == expected
    assert found.subject == ("host" if driver == "-" else "gpu 0000:0a:00.0")


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        ("vfio-pci", "vfio-pci.ids"),
        ("pciback", "xen-pciback.hide"),
        ("xen-pciback", "xen-pciback.hide"),
        ("pci-stub", "pci-stub.ids"),
    ],
)
def test_what_keeps_a_card_for_virtual_machines_is_named(driver: str, said: str) -> None:
    pci = answers.PCI.replace("driver=nvidia", f"driver={driver}", 1)

    assert said in str(rigs.one(rigs.find({**rigs.WELL, "pci": pci}), "drv.nouveau").fix)


def test_the_log_tells_where_the_cards_do_not() -> None:
    log = "[    6.100000] nouveau 0000:0a:00.0: NVIDIA GA102 (b72000a1)\n"

    hidden = {"pci": None, "nvidia-smi-xml": None}
    assert status("drv.nouveau", {**hidden, "kernel-log": log}) == "fail"
    assert status("drv.nouveau", {"pci": None, "nvidia-smi-xml": None}) == "unknown"
    assert status("drv.nouveau", {"pci": None}) == "ok"  # nvidia-smi lists both


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", "ok"),
        ("state=S cpu=1 wchan=irq_thread", "state=S cpu=97 wchan=-", "fail"),
        ("state=S cpu=1 wchan=irq_thread comm=irq/57-nvidia",
         "state=D cpu=0 wchan=os_acquire_rwlock comm=python3", "fail"),
        ("state=S cpu=1 wchan=irq_thread comm=irq/57-nvidia",
         "state=D cpu=0 wchan=nfs_wait comm=python3", "ok"),
        ("state=S cpu=1 wchan=irq_thread comm=irq/57-nvidia",
         "state=D cpu=0 wchan=- comm=nvidia-smi", "fail"),
    ],
)  # fmt: skip
def test_what_waits_or_spins(old: str, new: str, expected: str) -> None:
    changed = rigs.TASKS.replace(old, new) if old else rigs.TASKS

    assert status("drv.hang", {"processes": changed}) == expected


def test_an_nvidia_smi_that_does_not_answer_is_enough() -> None:
    found = rigs.find({**rigs.WELL, "nvidia-smi-topo": ""}, timed_out=["nvidia-smi-topo"])

    hang = rigs.one(found, "drv.hang")
    assert hang.status == "fail"
    assert "did not answer within 20 s" in hang.summary
    assert hang.fix is not None
    assert hang.fix.kind == "hands"


def test_blocked_tasks_in_the_log() -> None:
    line = "[  484.300000] INFO: task {}:2233 blocked for more than 120 seconds.\n"

    assert status("drv.hang", {"kernel-log": line.format("nvidia-smi")}) == "fail"
    assert status("drv.hang", {"kernel-log": line.format("btrfs-transacti")}) == "ok"


def test_a_task_that_was_blocked_in_the_boot_before_is_none_now() -> None:
    stamp = "2026-01-{}T18:00:00.000000+0000 rig kernel: "
    begin = f"{stamp.format(30)}Linux version 6.1.0-18-amd64\n"
    blocked = "INFO: task nvidia-smi:2233 blocked for more than 120 seconds.\n"

    assert status("drv.hang", {"kernel-log": stamp.format(29) + blocked + begin}) == "ok"
    assert status("drv.hang", {"kernel-log": begin + stamp.format(30) + blocked}) == "fail"


@pytest.mark.parametrize("lost", ["processes", "kernel-log", "nvidia-smi-nvlink"])
def test_a_driver_hangs_not_only_if_all_was_looked_at(lost: str) -> None:
    assert status("drv.hang", {lost: None}) == "unknown"


HELPER = "-rwsr-xr-x 1 0 0 42688 Jan  1  2024 /usr/bin/nvidia-modprobe\n"
UVM = "crw-rw-rw- 1 0 0 511,   0 Nov 21 10:00 /dev/nvidia-uvm\n"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (rigs.NODES, "ok"),
        (rigs.NODES.replace(UVM, ""), "info"),
        (rigs.NODES.replace(UVM, "").replace(HELPER, ""), "fail"),
        (rigs.NODES.replace("511, ", "509, "), "fail"),
        (rigs.NODES.replace("/dev/nvidiactl", "/dev/nvidia2"), "fail"),
        (rigs.NODES.replace("/dev/nvidia1", "/dev/other").replace(HELPER, ""), "fail"),
        (rigs.NODES.replace("rw-rw-rw- 1 0 0 ", "rw-rw---- 1 0 44 "), "info"),
        (rigs.NODES.replace("rw-rw-rw-", "rw-rw----"), "warn"),
        (rigs.NODES + "rubbish\n", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_device_nodes(nodes: str | None, expected: str) -> None:
    assert status("drv.uvm_nodes", {"dev-nodes": nodes}) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"nvidia": {"NVreg_EnableResizableBar": "0"}}, "ok"),
        ({"nvidia": {"NVreg_EnableResizableBar": "1"}}, "warn"),
        ({"nvidia-current": {"NVreg_EnableGpuFirmware": "0"}}, "warn"),
        ({"nvidia": {"NVreg_DeviceFileMode": "0666", "NVreg_EnableGpuFirmware": "0x12"}}, "ok"),
        ({"nvidia": {"NVreg_RegistryDwords": "PowerMizerEnable=0x1;"}}, "ok"),
        ({"nvidia": {"NVreg_Unheard": "1"}}, "unknown"),
        ({"nvidia-drm": {"modeset": "1"}}, "skipped"),
    ],
)
def test_the_declared_options(options: dict[str, dict[str, str]], expected: str) -> None:
    assert status("drv.params", {}, module_options=options) == expected


def test_options_that_nobody_could_read() -> None:
    wish = {"nvidia": {"NVreg_EnableResizableBar": "0"}}

    found = rigs.one(
        rigs.find({**rigs.WELL, "nvidia-params": None}, spec(module_options=wish)), "drv.params"
    )

    assert (found.status, found.essential) == ("unknown", True)


@pytest.mark.parametrize(
    ("states", "declared", "expected"),
    [
        (("Enabled", "Enabled"), None, {"host": "ok"}),
        (("Disabled", "Disabled"), None, {"host": "warn"}),
        (("Enabled", "Disabled"), None, {"gpu 0000:0b:00.0": "warn"}),
        (("Disabled", "Disabled"), True, {"host": "warn"}),
        (("Disabled", "Disabled"), False, {"host": "ok"}),
        (("Enabled", "Enabled"), False, {"host": "warn"}),
        (("Enabled", "Disabled"), False, {"gpu 0000:0a:00.0": "warn"}),
        (("N/A", "N/A"), None, {"host": "skipped"}),
        (("Enabled", "N/A"), None, {"host": "unknown"}),
        (("Enabled",), None, {"host": "unknown"}),
    ],
)
def test_persistence(
    states: tuple[str, ...], *, declared: bool | None, expected: dict[str, str]
) -> None:
    wish = spec(gpu_persistence=declared) if declared is not None else None

    found = rigs.find({**rigs.WELL, "nvidia-smi-xml": rigs.smi(*states)}, wish)

    shown = {each.subject: each.status for each in found if each.id == "drv.persist"}
    assert shown == expected


def test_persistence_is_for_the_tuning_deploy() -> None:
    found = rigs.find(
        {**rigs.WELL, "nvidia-smi-xml": rigs.smi("Disabled", "Disabled")},
        concerns=frozenset({"gpu_tuning"}),
    )

    fix = rigs.one(found, "drv.persist").fix
    assert fix is not None
    assert (fix.concern, fix.declare) == ("gpu_tuning", {"gpu_persistence": True})
