"""What people paste, in the layouts of forums, issues and terminals: recognized and judged.

The files are made up in those layouts; their addresses, names and UUIDs are invented. Layouts of
bryansteiner/gpu-passthrough-tutorial#39, NVIDIA/open-gpu-kernel-modules#188, #789, #1229,
QubesOS/qubes-issues#10036, NVIDIA/nvidia-docker#741, #1553, NVIDIA/cuda-samples#104,
tinygrad/open-gpu-kernel-modules#45, vllm-project/vllm#5531, #15255, pop-os/pop#1650,
MrMEEE/bumblebee-Old-and-abbandoned#610, NVIDIA/NVSentinel#155, leptonai/gpud#1209,
NVIDIA/open-gpu-kernel-modules#446, #1230, NVIDIA/nvidia-container-toolkit#69, pop-os/pop#3363,
minisforum-docs/MS-02-Ultra#10, wilicc/gpu-burn#69, #124, psygreg/linuxtoys#445,
linux-surface/linux-surface#1884, geerlingguy/raspberry-pi-pcie-devices#480, #504,
ray-project/ray_lightning#24, NVIDIA/nccl#1637, deepseek-ai/DeepEP#145 are among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from rigops.doctor.known_lines import has_known_lines
from rigops.doctor.notes import command_for_more, of_paste
from rigops.doctor.registry import CHECKS, examine
from rigops.probe.bundles.reading import read_all, read_content
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor.examining import catalog

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding
    from rigops.probe.bundle import Bundle

FOLDER: Final = Path(__file__).parents[2] / "fixtures/pastes"


@dataclass(frozen=True)
class Expected:
    """`findings` must be there, and no other alarm. `ok`: besides OF_LOGS, which logs may show."""

    kinds: str
    findings: str = ""
    ok: str = ""
    unknown: str = ""


OF_LOGS: Final = frozenset(
    (
        *("xid", "drv.gsp", "iommu.fault", "gpu.init", "host.hang", "ram.ecc", "cpu.mce"),
        *("disk.errors", "pci.apei", "pci.aer.corr", "pci.aer.uncorr"),
    )
)


PASTES: Final = {
    "aer-acs-violation": Expected("kernel log", "fail pci.aer.uncorr"),
    "aer-correctable-of-new-kernel": Expected("kernel log", "info pci.aer.corr"),
    "aer-corrected-storm": Expected("kernel log", "info pci.aer.corr"),
    "aer-fatal-human-times": Expected("kernel log", "fail xid; warn pci.aer.uncorr"),
    "aer-mail-wrapped": Expected("kernel log", "warn pci.aer.uncorr"),
    "api-mismatch-after-update": Expected(
        "the error of nvidia-smi; kernel log; /proc/driver/nvidia/version",
        "fail drv.mismatch",
        ok="drv.loaded drv.pin",
    ),
    "apt-build-log-stamps": Expected("", "fail pkg.errors"),
    "apt-dkms-build-failed": Expected("", "fail pkg.errors"),
    "apt-italian-dkms": Expected("", "fail pkg.errors"),
    "apt-italian-unmet": Expected("", "fail pkg.errors"),
    "apt-old-lists": Expected("", "fail pkg.errors"),
    "apt-russian-unmet": Expected("", "fail pkg.errors"),
    "apt-unmet": Expected("", "fail pkg.errors"),
    "apt-unmet-quoted": Expected("", "fail pkg.errors"),
    "bar-no-space": Expected("kernel log", "fail bar1.size"),
    "bar-of-no-size": Expected("kernel log", "fail bar1.size"),
    "cmdline-and-grub-healthy": Expected(
        "/proc/cmdline; /etc/default/grub; uname -a", ok="cmdline.bad"
    ),
    "cmdline-known-by-command": Expected("/proc/cmdline", "warn cmdline.bad; warn pci.aer.blind"),
    "collect-env-pytorch": Expected(
        "PyTorch's collect_env", "fail drv.pin", ok="drv.loaded gpu.count"
    ),
    "dkms-added-only": Expected("dkms status", "fail drv.dkms"),
    "dkms-build-halts-apt": Expected("", "fail pkg.errors"),
    "dkms-make-log": Expected("", "fail drv.dkms; fail pkg.errors"),
    "dkms-make-log-cut": Expected("", "fail pkg.errors"),
    "dkms-narrow-terminal": Expected("", "fail pkg.errors"),
    "dkms-status-and-dpkg": Expected(
        "uname -r; dkms status; dpkg -l", "fail drv.dkms; fail drv.loaded"
    ),
    "dmar-fault-syslog-crlf": Expected("kernel log", "warn iommu.fault"),
    "dmar-no-pasid": Expected("kernel log", "warn iommu.fault"),
    "dmesg-json-cut": Expected("kernel log", "fail xid"),
    "dmesg-json-one-line-cut": Expected("kernel log", "fail xid"),
    "dmesg-narrow-link": Expected("kernel log", "warn pci.width"),
    "dpkg-asks-for-secure-boot": Expected("", "fail drv.secureboot"),
    "dpkg-chinese": Expected("", "fail pkg.errors"),
    "dpkg-columns-cut": Expected("dpkg -l", "fail drv.dkms; info drv.secureboot"),
    "dpkg-french-unmet": Expected("", "fail pkg.errors"),
    "dpkg-german": Expected("", "fail pkg.errors"),
    "dpkg-overwrite": Expected("", "fail pkg.errors"),
    "dpkg-portuguese": Expected("", "fail pkg.errors"),
    "dpkg-russian": Expected("", "fail pkg.errors"),
    "dpkg-spanish": Expected("", "fail pkg.errors"),
    "egpu-completion-timeout-condensed": Expected("kernel log", "fail pci.aer.uncorr; warn xid"),
    "fallen-off-journal-grep": Expected("kernel log", "fail gpu.init; fail xid"),
    "fallen-off-without-xid": Expected("kernel log", "fail xid"),
    "gfw-boot-after-system-block": Expected("kernel log", "fail drv.gsp"),
    "gpu-burn-cut": Expected("gpu_burn", unknown="bench.burn"),
    "gpu-burn-faulty": Expected("gpu_burn", "fail bench.burn"),
    "gpu-burn-no-clients": Expected("gpu_burn", "fail bench.burn"),
    "gpu-burn-nothing-computed": Expected("gpu_burn", unknown="bench.burn"),
    "gsp-heartbeat-595": Expected("kernel log", "fail drv.gsp"),
    "gsp-timeout-details-summary": Expected("kernel log; uname -a", "fail drv.gsp; fail xid"),
    "healthy-kmsg": Expected("kernel log"),
    "healthy-log": Expected("kernel log"),
    "installer-load-failed": Expected("", "fail pkg.errors"),
    "iommu-event-overflow": Expected("kernel log", "fail iommu.fault"),
    "iommu-fault-repeated": Expected("kernel log", "fail iommu.fault"),
    "iommu-faults-bbcode": Expected("kernel log", "fail iommu.fault; warn bench.nccl"),
    "journal-cat-ecc": Expected("kernel log", "fail xid"),
    "journal-json-lines": Expected("kernel log", "fail xid"),
    "journal-verbose": Expected("kernel log", "fail xid"),
    "journal-with-unit": Expected("kernel log", "fail xid; warn xid"),
    "kern-log-localized-date": Expected("kernel log", "warn xid"),
    "legacy-card-ignored": Expected("kernel log", "fail drv.flavor"),
    "legacy-card-ignored-by-590": Expected(
        "kernel log; the error of nvidia-smi", "fail drv.flavor; fail drv.loaded"
    ),
    "log-cut-mid-line": Expected("kernel log", "warn xid"),
    "log-grep-files": Expected("kernel log", "fail gpu.init; fail xid"),
    "log-grep-n": Expected("kernel log", "fail xid"),
    "log-in-markdown-lists": Expected("kernel log", "fail xid; warn xid"),
    "log-nbsp-smart-quotes": Expected("kernel log", "fail drv.gsp; fail xid"),
    "log-numbered": Expected("kernel log", "fail xid"),
    "log-two-stamps": Expected("kernel log", "fail xid; warn xid"),
    "log-wrapped-at-80": Expected("kernel log", "fail xid"),
    "lspci-acs-ports": Expected("lspci", "info acs.path", ok="gpu.count"),
    "lspci-nn-rev-ff": Expected("lspci", "fail gpu.count; fail gpu.lost"),
    "lspci-of-a-guest": Expected("lspci", ok="gpu.count"),
    "lspci-one-lane-board": Expected("lspci", "warn pci.width; info bar1.size", ok="gpu.count"),
    "lspci-rtx-pro-bar-2": Expected("lspci", ok="gpu.count"),
    "lspci-slow-riser": Expected("lspci", "warn pci.width", ok="gpu.count"),
    "lspci-tabs-lost-and-cut": Expected("lspci", "info bar1.size", ok="gpu.count"),
    "lspci-without-indentation": Expected(
        "lspci", "warn pci.width; info bar1.size", ok="gpu.count"
    ),
    "lspci-two-3080-grepped": Expected("lspci", ok="gpu.count"),
    "lspci-vfio": Expected("lspci", "info drv.nouveau", ok="gpu.count"),
    "mixed-bench-and-burn-healthy": Expected("nccl-tests; gpu_burn", ok="bench.burn bench.nccl"),
    "mixed-boot-before-and-now": Expected("kernel log", "fail drv.gsp; fail xid"),
    "mixed-collect-env-cut": Expected(
        "nvidia-smi topo; PyTorch's collect_env", ok="drv.loaded gpu.count"
    ),
    "mixed-containers-one-card-lost": Expected(
        "nvidia-smi; the error of nvidia-smi",
        "fail drv.pin; fail gpu.lost; fail gpu.count",
        ok="drv.loaded mig",
    ),
    "mixed-dmesg-before-kern-log": Expected("kernel log", "fail xid; warn xid"),
    "mixed-forum-quote-and-answer": Expected(
        "the error of nvidia-smi; lspci; kernel log",
        "fail gpu.count; fail gpu.lost; fail xid",
        ok="drv.loaded",
    ),
    "mixed-hang-report-github": Expected(
        "nvidia-smi topo; /proc/cmdline; kernel log; NCCL's log",
        "fail iommu.fault; info nccl.log; warn bench.nccl",
        ok="cmdline.bad gpu.count",
    ),
    "mixed-healthy-rig": Expected(
        "/proc/cmdline; /proc/driver/nvidia/version; nvidia-smi topo; kernel log",
        ok="cmdline.bad drv.loaded drv.pin gpu.count",
    ),
    "mixed-install-fails-then-no-driver": Expected(
        "the error of nvidia-smi; uname -a", "fail drv.loaded; fail pkg.errors"
    ),
    "mixed-kubectl-prefix": Expected(
        "NCCL's log; nvidia-smi", "info nccl.log", ok="drv.loaded gpu.count tmp.core tmp.fan"
    ),
    "mixed-lspci-and-log-cut": Expected(
        "lspci; kernel log", "warn pci.width; info pci.aer.corr", ok="gpu.count"
    ),
    "mixed-lspci-nnk-and-cmdline-of-qubes": Expected(
        "/proc/cmdline; lspci; the error of nvidia-smi",
        "warn drv.nouveau",
        ok="cmdline.bad drv.loaded gpu.count",
    ),
    "mixed-screen-of-commands-without-prompts": Expected(
        "uname -a; dkms status; nvidia-smi -L; /proc/cmdline", ok="cmdline.bad drv.loaded gpu.count"
    ),
    "mixed-smi-list-and-iommu-log": Expected(
        "nvidia-smi -L; kernel log", "fail iommu.mode", ok="drv.loaded gpu.count"
    ),
    "mixed-topo-and-p2p-test-cut": Expected(
        "nvidia-smi topo; p2pBandwidthLatencyTest", ok="gpu.count", unknown="bench.p2p"
    ),
    "mixed-utf-16-powershell": Expected("/proc/cmdline; kernel log", "fail xid", ok="cmdline.bad"),
    "mixed-v100-with-590": Expected(
        "/proc/driver/nvidia/version; lspci", "fail drv.flavor", ok="drv.loaded gpu.count"
    ),
    "modprobe-key-rejected": Expected("kernel log", "fail drv.secureboot"),
    "modprobe-other-kernel": Expected("kernel log", "fail drv.dkms"),
    "nccl-log-compose-prefix-cut": Expected("NCCL's log", "info nccl.log", unknown="nccl.log"),
    "nccl-log-p2p-disabled-5090": Expected("NCCL's log", "info nccl.log", unknown="nccl.log"),
    "nccl-log-peer-refused": Expected("NCCL's log", "fail nccl.log; info nccl.log"),
    "nccl-log-ray-prefix": Expected("NCCL's log", "info nccl.log", unknown="nccl.log"),
    "nccl-log-warn": Expected("NCCL's log", "fail nccl.log; info nccl.log"),
    "nccl-tests-2-17-wrong": Expected("nccl-tests", "fail bench.nccl"),
    "nccl-tests-hang": Expected("nccl-tests", unknown="bench.nccl"),
    "nccl-tests-healthy": Expected("nccl-tests", ok="bench.nccl"),
    "nccl-tests-with-p2p-disabled": Expected(
        "NCCL's log; nccl-tests", "warn bench.nccl; info nccl.log"
    ),
    "nccl-tests-wrong-values": Expected("nccl-tests", "fail bench.nccl"),
    "not-probed-issue": Expected("kernel log", "fail drv.nouveau"),
    "nouveau-and-secure-boot": Expected(
        "mokutil --sb-state; kernel log; the error of nvidia-smi",
        "fail drv.loaded; fail drv.secureboot",
    ),
    "nvbandwidth-json": Expected("nvbandwidth", "info bench.nvbandwidth", ok="drv.loaded"),
    "nvbandwidth-slow-peers": Expected("nvbandwidth", "info bench.nvbandwidth", ok="drv.loaded"),
    "nvbandwidth-waived": Expected("nvbandwidth", "fail bench.nvbandwidth", ok="drv.loaded"),
    "nvlink-fatal-with-sxid": Expected("kernel log", "fail xid"),
    "nvlink-status": Expected("nvidia-smi nvlink", "warn nvl.state"),
    "p2p-bandwidth-hang": Expected("p2pBandwidthLatencyTest", unknown="bench.p2p"),
    "p2p-bandwidth-slow-fish": Expected("p2pBandwidthLatencyTest", "fail bench.p2p"),
    "p2p-granted-all-letters": Expected("nvidia-smi topo", ok="gpu.count"),
    "p2p-not-supported": Expected("nvidia-smi topo", ok="gpu.count"),
    "p2p-of-what": Expected("nvidia-smi topo", unknown="gpu.count"),
    "rm-init-adapter-with-no-devices": Expected(
        "the error of nvidia-smi; kernel log", "fail gpu.init", ok="drv.loaded"
    ),
    "rm-init-after-passthrough": Expected("kernel log", "fail gpu.init; fail gpu.lost"),
    "rm-init-of-old-driver": Expected("kernel log", "fail gpu.init"),
    "rm-init-with-oops-in-a-vm": Expected("kernel log", "fail gpu.init"),
    "simple-p2p-passed": Expected("p2pBandwidthLatencyTest", "info bench.p2p"),
    "simple-p2p-values-lost": Expected("p2pBandwidthLatencyTest", "fail bench.p2p"),
    "smi-lost-powershell": Expected(
        "the error of nvidia-smi", "fail gpu.count; fail gpu.lost", ok="drv.loaded"
    ),
    "smi-lost-tmux-frame": Expected(
        "the error of nvidia-smi", "fail gpu.count; fail gpu.lost", ok="drv.loaded"
    ),
    "smi-lost-with-live-list": Expected(
        "the error of nvidia-smi; nvidia-smi -L", "fail gpu.count; fail gpu.lost", ok="drv.loaded"
    ),
    "smi-not-installed-oh-my-zsh": Expected(
        "the error of nvidia-smi; lspci", "warn drv.loaded", ok="gpu.count"
    ),
    "smi-q-addressing-mode": Expected(
        "nvidia-smi -q",
        "info drv.pin; info gpu.lost; info bar1.size",
        ok="drv.loaded gpu.count inforom tmp.core tmp.fan",
    ),
    "smi-q-healthy-excerpt": Expected(
        "nvidia-smi -q",
        ok="clk.throttle drv.loaded drv.pin gpu.count inforom pci.width pwr.brake pwr.limit "
        "tmp.core tmp.fan",
    ),
    "smi-q-of-some-sections": Expected(
        "nvidia-smi -q",
        "fail clk.throttle; fail pwr.brake; info drv.pin; info pwr.limit",
        ok="drv.loaded gpu.count tmp.core",
    ),
    "smi-q-t-limit": Expected(
        "nvidia-smi -q", ok="drv.loaded drv.pin gpu.count inforom tmp.core tmp.fan tmp.mem"
    ),
    "smi-q-throttling-cut": Expected(
        "nvidia-smi -q",
        "fail clk.throttle; fail tmp.core; info pci.width",
        ok="drv.loaded drv.pin",
        unknown="gpu.count",
    ),
    "smi-rows-one-lost": Expected(
        "nvidia-smi --query-gpu", "fail gpu.lost; fail gpu.count; warn pci.width", ok="drv.loaded"
    ),
    "smi-table-cut-names": Expected(
        "nvidia-smi", "info drv.pin; info mixed.gpus", ok="drv.loaded ecc.vol gpu.count tmp.core"
    ),
    "smi-table-discourse-cut": Expected(
        "nvidia-smi", "info drv.persist", ok="drv.loaded", unknown="gpu.count"
    ),
    "smi-table-err": Expected(
        "nvidia-smi",
        "fail gpu.count; fail gpu.lost; warn tmp.fan; info drv.persist",
        ok="drv.loaded",
    ),
    "smi-table-row-without-head": Expected(
        "nvidia-smi", "info gpu.lost", ok="drv.loaded", unknown="gpu.count"
    ),
    "smi-table-watch": Expected(
        "nvidia-smi",
        ok="drv.loaded drv.nouveau drv.persist drv.pin gpu.count inforom tmp.core tmp.fan",
    ),
    "smi-xml-cut": Expected(
        "nvidia-smi -q -x", "fail drv.pin; info drv.persist", ok="drv.loaded", unknown="gpu.count"
    ),
    "syslog-rfc5424": Expected("kernel log", "fail xid"),
    "talos-gsp-timeout": Expected("kernel log", "fail drv.gsp; fail xid"),
    "topo-cut-in-table": Expected("nvidia-smi topo", unknown="gpu.count"),
    "topo-healthy-nvlink": Expected("nvidia-smi topo", ok="gpu.count"),
    "topo-spaces-quoted": Expected("nvidia-smi topo", ok="gpu.count"),
    "topo-underline-without-escape": Expected("nvidia-smi topo", ok="gpu.count"),
    "topo-with-nics": Expected("nvidia-smi topo", ok="gpu.count"),
    "uname-r-and-dkms": Expected(
        "uname -r; dkms status; the error of nvidia-smi", "fail drv.dkms; fail drv.loaded"
    ),
    "xid-31-journal-pager": Expected("kernel log", "warn xid"),
    "xid-79-proxmox-prompt": Expected("kernel log", "fail xid"),
    "xid-79-quoted-html-entities": Expected("kernel log", "fail xid"),
    "xid-79-usb-of-the-card": Expected("kernel log", "fail xid"),
    "xid-wrapped-quoted": Expected("kernel log", "fail iommu.fault; fail xid; warn pci.aer.uncorr"),
    "xorg-log": Expected("kernel log", "fail gpu.init"),
}

# By host, all alarms.
OF_TWO_HOSTS: Final = {
    "mixed-two-hosts-proxmox": {
        "pve": set(),
        "ai-vm": {"fail drv.loaded", "fail gpu.init"},
    },
    "mixed-two-rigs-and-a-container": {
        "rig1": set(),
        "rig2": {"fail drv.loaded", "warn cmdline.bad", "warn pci.aer.blind"},
    },
}


def pasted(name: str) -> Bundle:
    (bundle,) = read_all(FOLDER / f"{name}.txt", is_known=lambda _: True)
    return bundle


def errors_of_packages(text: str) -> list[Finding]:
    (bundle,) = read_content(text.encode(), place="post", host="post", is_known=lambda _: True)
    found = examine(HostSnapshot(bundle), None, catalog())
    return [one for one in found if one.id == "pkg.errors"]


def alarms(bundle: Bundle) -> set[str]:
    found = examine(HostSnapshot(bundle), None, catalog())
    return {f"{one.status} {one.id}" for one in found if one.status in {"fail", "warn"}}


def listed(words: str) -> set[str]:
    return set(words.split("; ")) - {""}


def test_a_paste_is_recognized_and_judged() -> None:
    for name, expected in PASTES.items():
        bundle = pasted(name)
        assert bundle.paste is not None, name
        found = examine(HostSnapshot(bundle), None, catalog())

        kinds = set(bundle.paste.recognized)
        shown = {f"{one.status} {one.id}" for one in found}
        alarms = {one for one in shown if one.startswith(("fail ", "warn "))}
        assert kinds == listed(expected.kinds), name
        assert listed(expected.findings) <= shown, name
        assert alarms <= listed(expected.findings), name
        # It is well or unknown only in what it shows.
        well = {one.id for one in found if one.status == "ok"}
        of_logs = OF_LOGS if "kernel log" in listed(expected.kinds) else frozenset[str]()
        assert well - of_logs == {*expected.ok.split()}, name
        unknown = {one.id: one.essential for one in found if one.status == "unknown"}
        assert unknown == dict.fromkeys(expected.unknown.split(), True), name


def test_of_a_log_the_number_of_its_lines_is_said() -> None:
    found = examine(HostSnapshot(pasted("healthy-log")), None, catalog())

    assert {one.id for one in found if one.status == "ok"} == OF_LOGS
    (xid,) = [one.summary for one in found if one.id == "xid"]
    assert xid == "no Xid in these 8 lines, from the boot on"


def test_every_file_is_in_the_table() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*PASTES, *OF_TWO_HOSTS, "prose-only"}


def test_prose_is_no_output() -> None:
    bundle = pasted("prose-only")

    assert bundle.paste
    assert not bundle.paste.recognized
    assert not has_known_lines(HostSnapshot(bundle), catalog())


@pytest.mark.parametrize("name", OF_TWO_HOSTS)
def test_hosts_that_prompts_name_are_judged_for_themselves(name: str) -> None:
    found = read_all(FOLDER / f"{name}.txt")

    assert {bundle.host: alarms(bundle) for bundle in found} == OF_TWO_HOSTS[name]


def test_prompts_of_several_hosts_in_a_directory_are_noted(tmp_path: Path) -> None:
    text = (FOLDER / "mixed-two-hosts-proxmox.txt").read_text()
    (tmp_path / "post 1.txt").write_text(text)
    (bundle,) = read_all(tmp_path)

    assert bundle.paste
    noted = of_paste(bundle.paste)

    assert any(one.startswith("prompts of several hosts (pve, ai-vm)") for one in noted)


@pytest.mark.parametrize(
    ("earlier", "later", "kept"),
    [
        ("api-mismatch-after-update", "collect-env-pytorch", "fail drv.mismatch"),
        ("collect-env-pytorch", "api-mismatch-after-update", "fail drv.mismatch"),
        ("smi-rows-one-lost", "smi-table-discourse-cut", "fail gpu.lost"),
        ("smi-table-err", "smi-q-healthy-excerpt", "fail gpu.lost"),
        ("smi-lost-powershell", "smi-table-watch", "fail gpu.lost"),
        ("gpu-burn-no-clients", "mixed-bench-and-burn-healthy", "fail bench.burn"),
        ("gpu-burn-faulty", "mixed-bench-and-burn-healthy", "fail bench.burn"),
        ("legacy-card-ignored-by-590", "bar-no-space", "fail bar1.size"),
    ],
)
def test_another_output_in_the_same_text_hides_no_failure(
    earlier: str, later: str, kept: str
) -> None:
    texts = [(FOLDER / f"{name}.txt").read_bytes().rstrip(b"\n") for name in (earlier, later)]
    whole = b"\n```\n\nand then\n\n```\n".join(texts) + b"\n"
    found = read_content(whole, place="post", host="post")

    assert any(kept in alarms(bundle) for bundle in found)


def test_dmesg_above_a_file_of_several_boots_is_of_the_last_one() -> None:
    found = examine(HostSnapshot(pasted("mixed-dmesg-before-kern-log")), None, catalog())

    (lost,) = [one.summary for one in found if one.id == "xid" and one.status == "fail"]
    assert lost == "Xid 79: GPU has fallen off the bus"


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("apt-italian-unmet", "the packages that were asked for do not fit together"),
        ("apt-old-lists", "the lists of packages are older than the archive"),
        ("apt-russian-unmet", "the packages that were asked for do not fit together"),
        ("apt-unmet", "the packages that were asked for do not fit together"),
        ("dkms-build-halts-apt", "DKMS could not build the NVIDIA module"),
        ("dkms-make-log", "the NVIDIA module does not compile for this kernel"),
        ("dkms-narrow-terminal", "DKMS could not build the NVIDIA module"),
        ("dpkg-overwrite", "two packages have the same file"),
        ("installer-load-failed", "the module was built and cannot be loaded"),
    ],
)
def test_the_cause_is_named_and_not_what_follows_from_it(name: str, summary: str) -> None:
    (only,) = errors_of_packages((FOLDER / f"{name}.txt").read_text())

    assert only.summary == summary
    assert only.fix


def test_what_does_not_fit_and_where_dkms_wrote_why_are_named() -> None:
    (unmet,) = errors_of_packages((FOLDER / "apt-unmet.txt").read_text())
    (build,) = errors_of_packages((FOLDER / "dkms-build-halts-apt.txt").read_text())

    assert any(
        "nvidia-driver-535 : Depends: libnvidia-gl-535" in one.line for one in unmet.evidence
    )
    assert build.fix
    assert "/var/lib/dkms/nvidia/545.29.06/build/make.log" in build.fix.text


def test_a_module_of_another_driver_is_no_failure_of_this_one() -> None:
    text = (FOLDER / "dkms-build-halts-apt.txt").read_text()
    (only,) = errors_of_packages(text.replace("nvidia/545.29.06", "rtl8812au/4.3.14"))

    assert (only.status, only.summary) == ("warn", "a module that is not NVIDIA's was not built")


def test_of_commands_that_decide_as_much_the_first_is_named() -> None:
    bundle = pasted("cmdline-and-grub-healthy")
    found = examine(HostSnapshot(bundle), None, catalog())

    assert command_for_more(bundle.sections, found, CHECKS) == "nvidia-smi -q"
