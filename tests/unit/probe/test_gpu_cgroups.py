from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rigops.probe.gpu_units import Device, GpuCgroups, GpuUnit
from rigops.probe.sections import gpu_cgroups
from tests.unit.probe.host_sections import GPU_CGROUPS
from tests.unit.probe.snippets import run, tree
from tests.unit.programs import SHELLS

if TYPE_CHECKING:
    from pathlib import Path

CARD, CONTROL, UVM = (Device(195, 0, "rw"), Device(195, 255, "rw"), Device(510, 0, "rw"))


def _unit(found: GpuCgroups, unit: str) -> GpuUnit:
    return next(one for one in found.units if one.unit.startswith(unit))


def test_a_container_that_got_its_cards_behind_systemd_s_back_lacks_them_all() -> None:
    found = gpu_cgroups.parse(GPU_CGROUPS)
    vllm = _unit(found, "docker-")

    assert (found.systemd, found.generator_at, found.unparsed) == (252, 1795848360, ())
    assert (vllm.name, vllm.engine, vllm.policy, vllm.told) == ("vllm", "docker", "strict", ())
    assert vllm.started == 1795848000
    assert vllm.lacks == vllm.cut == (CARD, CONTROL, UVM)


def test_devices_that_systemd_was_told_of_stay_however_they_are_written() -> None:
    comfy = _unit(gpu_cgroups.parse(GPU_CGROUPS), "libpod-")

    assert comfy.told == (CONTROL, CARD, Device(510, None, "rw"), Device(235, 2, "r"))
    assert (comfy.lacks, comfy.cut, comfy.is_readable) == ((), (), True)


def test_a_control_group_without_a_unit_and_a_unit_without_a_policy_lose_nothing() -> None:
    found = gpu_cgroups.parse(GPU_CGROUPS)
    plain, firefox = found.units[2:]

    assert (plain.unit, plain.name, plain.policy) == ("", "plain", "")
    assert (firefox.unit, firefox.policy, firefox.runtime) == ("user@1000.service", "", None)
    for one in (plain, firefox):
        assert (one.lacks, one.cut, one.is_readable) == ((), (), True)
    assert found.unread == "a device program has instructions that rigops does not know"


def test_without_python_policies_and_lists_are_known_and_programs_are_not() -> None:
    found = gpu_cgroups.parse(GPU_CGROUPS.partition("== device programs")[0])
    vllm = _unit(found, "docker-")

    assert found.unread == "no python3 on the host"
    assert (vllm.policy, vllm.runtime, vllm.is_readable) == ("strict", None, False)
    assert (vllm.lacks, vllm.cut) == ((), ())


@pytest.mark.parametrize("names", [("nvidia-frontend", "nvidia-u*"), ("195", "510")])
def test_a_whole_major_is_told_by_the_driver_s_name_of_it_or_as_crun_has_it(
    names: tuple[str, str],
) -> None:
    told = "".join(f"DeviceAllow=char-{one} rw\n" for one in names)
    text = GPU_CGROUPS.replace("DeviceAllow=char-pts rwm\n", told)

    assert _unit(gpu_cgroups.parse(text), "docker-").lacks == ()


def test_less_access_than_the_runtime_allows_is_not_enough() -> None:
    text = GPU_CGROUPS.replace("char-nvidia-uvm rw", "/dev/char/195:0 r").replace(
        "/dev/char/195:0 rwm", "/dev/char/195:0 w"
    )

    assert _unit(gpu_cgroups.parse(text), "libpod-").lacks == (CARD,)


def test_several_groups_of_one_unit_are_one_unit() -> None:
    group = "/system.slice/docker-{}.scope".format("1a2b" * 16)
    inner = f"{group}/docker/inner"
    text = GPU_CGROUPS.replace(f"{group}\n/machine", f"{group}\n{inner}\n/machine").replace(
        "engine=podman", f"engine=docker name= runtime=510:1=rw systemd= {inner}\nengine=podman"
    )

    assert _unit(gpu_cgroups.parse(text), "docker-").lacks == (
        CARD, CONTROL, UVM, Device(510, 1, "rw"),
    )  # fmt: skip


def test_a_host_without_containers_has_none() -> None:
    found = gpu_cgroups.parse(f"== {gpu_cgroups.GROUPS}\n")

    assert found == GpuCgroups()


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("/system.slice/docker-1.scope", "docker-1.scope"),
        ("/machine.slice/libpod-1.scope/container", "libpod-1.scope"),
        ("/system.slice/comfy.service/libpod-payload-1", "comfy.service"),
        ("/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope", "cri-containerd-1.scope"),
        ("/user.slice/user-1.slice/user@1.service/app.slice/a.scope", "user@1.service"),
        ("/docker/1", ""),
        ("/init.scope", "init.scope"),
        ("/", ""),
    ],
)
def test_the_unit_is_that_of_the_host_s_systemd(cgroup: str, unit: str) -> None:
    assert gpu_cgroups.unit_of(cgroup) == unit


CONTAINER = "/system.slice/docker-1a.scope"
SHOW = "systemctl show --no-pager -p Id -p DevicePolicy -p DeviceAllow -p ActiveEnterTimestamp"
COMMANDS = """
systemctl() { echo "systemctl $*"; }
python3() { shift 3; echo "python3 $*"; }
own_id=0
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_only_processes_with_a_root_of_their_own_that_has_a_card_are_asked_about(
    shell: str, tmp_path: Path
) -> None:
    tree(
        tmp_path,
        {
            "proc/driver/nvidia/version": "",
            "proc/devices": "195 nvidia\n1 mem\n",
            "proc/1/cgroup": "0::/init.scope\n",
            "proc/20/cgroup": f"0::{CONTAINER}\n",
            "proc/21/cgroup": f"0::{CONTAINER}\n",
            "proc/22/cgroup": "0::/docker/$(reboot)\n",
            "proc/23/cgroup": "0::/docker/2b\n",
            "proc/30/cgroup": "0::/system.slice/other.service\n",
            "proc/30/root/etc/x": "",
            **{f"proc/{pid}/root/dev/nvidiactl": "" for pid in (20, 21, 22, 23)},
        },
    )
    (tmp_path / "proc/1/root").symlink_to("/")

    code, said = run(gpu_cgroups.SECTION, shell, tmp_path, "/proc", commands=COMMANDS)

    assert code == 0
    assert said.splitlines() == [
        "== cat /proc/[0-9]*/cgroup",
        CONTAINER,
        "/docker/2b",
        "== /proc/devices",
        "195 nvidia",
        "== systemctl --version",
        "systemctl --version",
        "== systemctl show",
        f"{SHOW} -- docker-1a.scope",
        "== device programs",
        f"python3 {CONTAINER} /docker/2b",
    ]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_host_whose_containers_have_no_card_starts_no_program(shell: str, tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/driver/nvidia/version": "",
            "proc/20/cgroup": f"0::{CONTAINER}\n",
            "proc/20/root/dev/null": "",
        },
    )

    code, said = run(gpu_cgroups.SECTION, shell, tmp_path, "/proc", commands=COMMANDS)

    assert (code, said) == (0, "== cat /proc/[0-9]*/cgroup\n")


def test_the_program_can_be_an_argument_within_single_quotes() -> None:
    assert "'" not in gpu_cgroups._PROGRAM
