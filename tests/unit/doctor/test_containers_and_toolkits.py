"""What stands on the driver: containers, CUDA toolkits, MIG, the fabric of NVSwitches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigops.doctor.registry import examine
from rigops.doctor.views.container_engines import ADVISED
from rigops.probe.smi.report import SmiGpu, SmiReport
from rigops.probe.snapshot import HostSnapshot
from tests.unit.doctor import package_rig as rig
from tests.unit.doctor.examining import catalog, checks_of, snapshot_of
from tests.unit.probe import answers

NO_GPU: dict[str, str | None] = {"pci": answers.NO_GPU, "nvidia-smi-p2p-read": None}

ENGINES = "== command -v docker podman containerd nvidia-ctk nvidia-container-runtime nvidia-container-runtime-hook\n"  # noqa: E501 - one line is the format
DOCKER = f"{ENGINES}/usr/bin/docker\n"
TOOLKIT = f"{DOCKER}/usr/bin/nvidia-ctk\n== nvidia-ctk --version\nNVIDIA Container Toolkit CLI version 1.14.6\n"  # noqa: E501 - the same
HOOK = TOOLKIT.replace(
    "/usr/bin/nvidia-ctk\n", "/usr/bin/nvidia-ctk\n/usr/bin/nvidia-container-runtime-hook\n"
)
DAEMON = (
    '== /etc/docker/daemon.json\n{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}\n'
)
SPEC = "== stat cdi\n1700000000 /etc/cdi/nvidia.yaml\n"
NONE = "== stat cdi\n== stat libcuda\n"
NAMED = "== grep libcuda cdi\n/etc/cdi/nvidia.yaml:libcuda.so.{}\n"
LIBRARY = "== stat libcuda\n{} /usr/lib/x86_64-linux-gnu/libcuda.so.{}\n"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (ENGINES + NONE, "skipped"),
        (DOCKER + NONE, "info"),
        (TOOLKIT + NONE, "warn"),
        (HOOK + NONE, "info"),
        (TOOLKIT + DAEMON + NONE, "ok"),
        (TOOLKIT + '== /etc/docker/daemon.json\n{"debug": true}\n' + NONE, "warn"),
        (TOOLKIT + "== /etc/docker/daemon.json\ncat: Permission denied\n" + NONE, "unknown"),
        (TOOLKIT + SPEC, "ok"),
        (TOOLKIT + SPEC + NAMED.format(rig.VERSION), "ok"),
        (TOOLKIT + SPEC + NAMED.format("535.129.03"), "warn"),
        (TOOLKIT + SPEC + NAMED.format("535.129.03") + LIBRARY.format(1, "535.129.03"), "ok"),
        (TOOLKIT + SPEC + LIBRARY.format(1700000001, rig.VERSION), "warn"),
        (TOOLKIT + SPEC + LIBRARY.format(1699999999, rig.VERSION), "ok"),
        ("rubbish", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_containers(said: str | None, status: str) -> None:
    found = rig.look("container", container=said)

    assert found.status == status
    assert (found.fix is not None) or status != "warn"


def test_the_specification_that_is_stale_is_named() -> None:
    found = rig.look("container", container=TOOLKIT + SPEC + NAMED.format("535.129.03"))

    assert "/etc/cdi/nvidia.yaml names driver 535.129.03" in found.summary
    assert found.fix is not None
    assert found.fix.text == "`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"


@given(is_lost=st.booleans(), share=st.floats(0, 1))
def test_a_section_that_is_cut_never_makes_a_stale_specification_well(
    *, is_lost: bool, share: float
) -> None:
    stale = TOOLKIT + SPEC + NAMED.format("535.129.03")
    damaged = None if is_lost else stale[: int(len(stale) * share)]

    found = rig.look("container", cut=["container"], container=damaged)

    assert found.status not in {"ok", "info", "skipped"}


NODES = {
    "dev-nodes": "== /proc/devices\n195 nvidia-frontend\n235 nvidia-caps\n510 nvidia-uvm\n"
    "== ls -lnd /dev/nvidia* /dev/dri/render*\n"
}
FITTING = TOOLKIT + SPEC + NAMED.format(rig.VERSION)
REFRESHED = "== ls nvidia-cdi-refresh\n/etc/systemd/system/multi-user.target.wants/nvidia-cdi-refresh.path\n"  # noqa: E501 - the same


@pytest.mark.parametrize(
    ("node", "stale"),
    [
        ("/dev/nvidia-uvm major 510", False),
        ("/dev/nvidia-uvm-tools major 508", True),
        ("/dev/nvidia-caps/nvidia-cap1 major 234", True),
        ("/dev/nvidia0 major 195", False),
        ("/dev/nvidia-fs0 major 444", False),
    ],
)
def test_a_specification_with_device_numbers_of_an_earlier_load_is_stale(
    node: str, *, stale: bool
) -> None:
    said = f"{FITTING}/etc/cdi/nvidia.yaml:{node}\n"

    found = rig.look("container", sections=NODES, container=said)

    assert found.status == ("warn" if stale else "ok")
    assert (node.partition(" ")[0] in found.summary) is stale


def test_a_stale_copy_makes_way_for_the_service_that_writes_fresh_ones() -> None:
    said = TOOLKIT + SPEC + NAMED.format("535.129.03") + REFRESHED

    found = rig.look("container", container=said)

    assert found.fix is not None
    assert found.fix.text == (
        "move /etc/cdi/nvidia.yaml away, and `systemctl restart nvidia-cdi-refresh`"
    )


def test_a_copy_made_by_hand_beside_that_service_is_named() -> None:
    found = rig.look("container", container=FITTING + REFRESHED)

    assert (found.status, found.fix is not None) == ("info", True)
    assert "/etc/cdi/nvidia.yaml was made by hand" in found.summary


@pytest.mark.parametrize(
    ("schema", "engine", "status"),
    [
        ("0.7.0", ("docker-ce", "5:26.0.2-1~debian.12~bookworm"), "warn"),
        ("0.7.0", ("docker-ce", "5:26.1.0-1~debian.12~bookworm"), "ok"),
        ("0.7.0", ("podman", "4.9.3+ds1-1"), "warn"),
        ("0.5.0", ("podman", "4.9.3+ds1-1"), "ok"),
        ("0.7.0", ("podman", "5.4.2+ds1-2"), "ok"),
    ],
)
def test_a_specification_in_a_schema_that_the_engine_cannot_read(
    schema: str, engine: tuple[str, str], status: str
) -> None:
    said = f"{FITTING}/etc/cdi/nvidia.yaml:cdiVersion: {schema}\n"

    found = rig.look("container", container=said, packages=rig.installed(others=[engine]))

    assert found.status == status
    assert found.fix is None or found.fix.declare == {"container_toolkit": ADVISED}


@pytest.mark.parametrize(
    ("version", "status"),
    [("1.17.7", "warn"), ("1.19.1", "info"), (ADVISED, "ok"), ("1.14.6", "ok")],
)
def test_a_toolkit_is_judged_by_the_reports_against_it(version: str, status: str) -> None:
    found = rig.look("container.toolkit", container=TOOLKIT.replace("1.14.6", version))

    assert found.status == status
    assert (found.fix is None) is (status == "ok")
    assert status == "ok" or "Reported: NVIDIA/nvidia-container-toolkit#1" in found.why


def test_a_toolkit_that_is_not_there_or_was_not_read_is_not_judged() -> None:
    others = rig.installed(others=[])

    assert rig.look("container.toolkit", container=DOCKER + NONE, packages=others).status == (
        "skipped"
    )
    assert rig.look("container.toolkit", container=None, packages=others).status == "unknown"


def report(said: SmiReport | None, check: str) -> list[tuple[str, str, str]]:
    """`status, subject, summary` of each finding, with nvidia-smi's answer as given."""
    known = snapshot_of(HostSnapshot(answers.bundle(rig.WELL)), nvidia_smi_xml=said)
    found = examine(known, None, catalog(), checks=checks_of("mig", "cuda.compat"))
    return [(one.status, one.subject, one.summary) for one in found if one.id == check]


@pytest.mark.parametrize(
    ("packages", "said", "status"),
    [
        ("cuda-toolkit-12-2", "12.2", "ok"),
        ("cuda-toolkit-12-2", "13.0", "ok"),
        ("cuda-toolkit-12-4", "12.2", "warn"),
        ("cuda-toolkit-13-0", "12.2", "warn"),
        ("cuda-toolkit-12-10", "12.9", "warn"),
        ("cuda-toolkit-12-2", None, "ok"),
        ("cuda-toolkit-12-4", None, "warn"),
        ("cuda-toolkit-12-4-config-common", "12.2", "skipped"),
        ("nvidia-container-toolkit", "12.2", "skipped"),
    ],
)
def test_toolkits(packages: str, said: str | None, status: str) -> None:
    texts = {**rig.WELL, "packages": rig.installed(others=[(packages, "1-1")])}
    known = HostSnapshot(answers.bundle(texts))
    known = snapshot_of(known, nvidia_smi_xml=SmiReport(cuda=said) if said else None)

    (found,) = examine(known, None, catalog(), checks=checks_of("cuda.compat"))

    assert found.status == status


def test_a_toolkit_of_the_distribution_tells_its_version_by_its_version() -> None:
    texts = rig.installed(others=[("nvidia-cuda-toolkit", "13.1.1~550.1-1")])

    found = rig.look("cuda.compat", packages=texts)

    assert found.status == "warn"
    assert "toolkit 13.1" in found.summary


def test_toolkits_that_nobody_can_compare() -> None:
    assert rig.look("cuda.compat", packages=None).status == "unknown"
    assert rig.look("cuda.compat", nvidia_version=None).status == "unknown"
    assert rig.look("cuda.compat", cut=["packages"]).status == "unknown"
    assert rig.look("cuda.compat", sections=NO_GPU).status == "skipped"


def card(address: str, current: bool | None, pending: bool | None) -> SmiGpu:  # noqa: FBT001 - a row
    return SmiGpu(address=address, mig_current=current, mig_pending=pending, line=f"GPU {address}")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((None, None), (None, None), [("skipped", "host")]),
        ((False, False), (False, False), [("ok", "host")]),
        ((True, True), (False, False), [("info", "gpu 0000:0a:00.0")]),
        (
            (True, False),
            (False, True),
            [("warn", "gpu 0000:0a:00.0"), ("warn", "gpu 0000:0b:00.0")],
        ),
    ],
)
def test_mig(
    first: tuple[bool | None, bool | None],
    second: tuple[bool | None, bool | None],
    expected: list[tuple[str, str]],
) -> None:
    gpus = (card("0000:0a:00.0", *first), card("0000:0b:00.0", *second))

    found = report(SmiReport(gpus=gpus, is_complete=True), "mig")

    assert [(status, subject) for status, subject, _ in found] == expected


def test_mig_of_cards_that_nvidia_smi_did_not_tell_about() -> None:
    part = SmiReport(gpus=(card("0000:0a:00.0", current=False, pending=False),))

    assert [one[0] for one in report(None, "mig")] == ["unknown"]
    assert [one[0] for one in report(SmiReport(), "mig")] == ["unknown"]
    assert [one[0] for one in report(part, "mig")] == ["unknown"]


SWITCH = answers.PCI + (
    "0000:c0:00.0 vendor=0x10de device=0x22a3 class=0x068000 rev=a1 driver=- link=-,- max=-,- "
    "numa=0 bar1=- path=/sys/devices/x\n"
)
MANAGER = [("nvidia-fabricmanager-535", "535.183.01-1")]


def unit(active: str, load: str = "loaded") -> str:
    return (
        "== systemctl show -p Id\nId=nvidia-fabricmanager.service\n"
        f"LoadState={load}\nActiveState={active}\n"
    )


@pytest.mark.parametrize(
    ("pci", "units", "others", "status"),
    [
        (answers.PCI, None, MANAGER, "skipped"),
        (None, None, MANAGER, "unknown"),
        (SWITCH, None, MANAGER, "unknown"),
        (SWITCH, unit("active"), MANAGER, "ok"),
        (SWITCH, unit("active"), [("nvidia-fabricmanager-535", "535.129.03-1")], "fail"),
        (SWITCH, unit("active"), [], "unknown"),
        (SWITCH, unit("inactive"), MANAGER, "fail"),
        (SWITCH, unit("inactive", "not-found"), [], "fail"),
    ],
)
def test_the_fabric(
    pci: str | None, units: str | None, others: list[tuple[str, str]], status: str
) -> None:
    found = rig.look("fabric", pci=pci, units=units, packages=rig.installed(others=others))

    assert found.status == status
    assert (found.fix is not None) == (status == "fail")


BLACKWELL = answers.PCI.replace("device=0x2204", "device=0x2b85")
PARAMETER = "== /sys/module/nvidia_uvm/parameters/uvm_disable_hmm\n{}\n"


@pytest.mark.parametrize(
    ("pci", "modules", "status"),
    [
        (answers.PCI, PARAMETER.format("N"), "skipped"),
        (answers.ONE_GPU.replace("0x2204", "0x2b85"), PARAMETER.format("N"), "skipped"),
        (BLACKWELL, PARAMETER.format("N"), "info"),
        (BLACKWELL, PARAMETER.format("Y"), "ok"),
        (BLACKWELL, PARAMETER.format("?"), "unknown"),
        (BLACKWELL, None, "unknown"),
        (BLACKWELL.replace("0x2b85", "0xffff"), PARAMETER.format("N"), "unknown"),
    ],
)
def test_hmm_is_told_on_several_blackwell_cards(pci: str, modules: str | None, status: str) -> None:
    found = rig.look("uvm.hmm", pci=pci, modprobe=modules, nvidia_smi_p2p_read=None)

    assert found.status == status


@pytest.mark.parametrize(
    ("nodes", "balancing", "status"),
    [
        ("0-1", "1", "info"),
        ("0-1", "0", "ok"),
        ("0", "1", "skipped"),
        ("", "1", "unknown"),
        ("0,2", "", "unknown"),
    ],
)
def test_numa_balancing(nodes: str, balancing: str, status: str) -> None:
    said = (
        f"== /proc/sys/kernel/numa_balancing\n{balancing}\n"
        f"== /sys/devices/system/node/online\n{nodes}\n"
    )

    found = rig.look("hugetlb.numa_balancing", limits=said)

    assert found.status == status
    lost = rig.look("hugetlb.numa_balancing", limits=None)
    assert lost.status == "unknown"
