"""A host that version 0.1 set up: nothing is to be done, and all of it can be undone."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests import version_0_1
from tests.lab.applying import DROP_IN, INVENTORY
from tests.lab.driver_rig import Rig, stages, tended
from tests.lab.tended import DEPLOYS
from tests.lab.tree import Tree
from tests.shards import LAB_APPLY
from tests.version_0_1 import HOST, STATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.shard(LAB_APPLY)

DECLARED = version_0_1.load("declared.json")
PATHS = [one["path"] for one in version_0_1.load("manifest.json")]
# Of the user, before rigops came.
LIMITS = "/etc/security/limits.d/90-rigops.conf"
NCCL = "/etc/nccl.conf"
PIN = "/etc/apt/preferences.d/rigops-nvidia.pref"
VAULT = f"{STATE}/vault"
LIBEXEC = "/usr/local/libexec/rigops/"
THEIRS = {LIMITS: "# of a user\n* - nofile 4096", NCCL: "# mine: café\nNCCL_SOCKET_IFNAME = eno1"}
# Which that version neither pinned nor held, and which were of another branch there.
TOOLS = {"nvidia-modprobe", "nvidia-persistenced", "nvidia-settings"}
PINS_OF_TOOLS = {PIN, "/etc/apt/apt.conf.d/52rigops-nvidia", "packages that are held"}
# By now they name what reports their failure.
UNITS = {f"/etc/systemd/system/rigops-{name}.service" for name in ("shm", "acs")}
PORTS = ("0000:00:03.1", "0000:40:01.3", "0000:40:03.1")
REDIRECTING = "001d"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tended(tmp_path_factory, f"threadripper-3x3090={HOST}") as rig:
        kernel = rig.does("uname -r")
        _unpack(rig, version_0_1.archive(kernel))
        _install(rig)
        rig.reboot()
        state = rig.laptop.folder / "state" / "rigops"
        state.mkdir(parents=True)
        (state / "journal.jsonl").write_text(version_0_1.text("journal.jsonl", kernel))
        _lockfile(rig).write_text(version_0_1.text("inventory.lock.json", kernel))
        rig.declare(**DECLARED)
        yield rig


@pytest.fixture(scope="module")
def owing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Before the reboot: another driver is loaded than is installed, and no boot tried iommu=pt."""
    with tended(tmp_path_factory, f"threadripper-3x3090={HOST}-owing") as rig:
        _unpack(rig, version_0_1.archive(rig.does("uname -r"), reboot_owed=True))
        rig.reboot()
        _install(rig)
        rig.declare(**DECLARED)
        yield rig


def _unpack(rig: Rig, archive: bytes) -> None:
    rig.does("apt-get -q -y install linux-headers-amd64 linux-image-amd64")
    done = rig.host.run("base64 -d | tar -C / -xp", given=base64.b64encode(archive).decode())
    assert done.returncode == 0, done.stderr


def _install(rig: Rig) -> None:
    """The packages of version 0.1, and all that it ran because of them."""
    packages = version_0_1.text("packages").splitlines()
    wanted = " ".join("=".join(line.split()) for line in packages)
    rig.does(f"DEBIAN_FRONTEND=noninteractive apt-get -q -y --allow-downgrades install {wanted}")
    rig.does(f"apt-mark hold {' '.join(version_0_1.text('holds').split())}")
    rig.does("for kernel in $(ls /lib/modules); do dkms autoinstall -k $kernel || exit; done")
    rig.does("update-initramfs -u -k all && update-grub")


def _lockfile(rig: Rig) -> Path:
    return rig.laptop.folder / "inventory.lock.json"


def _locked(rig: Rig) -> Mapping[str, Any]:
    (host,) = json.loads(_lockfile(rig).read_text())["hosts"]
    return {name: host[name] for name in host if name != "packages"}


def _of_before(host: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Changes that are neither of what version 0.1 did not have nor newer programs of ours.

    It did not pin the driver's tools.
    """
    return [
        one
        for one in host["changes"]
        if one["after"] is None
        or not (
            one["concern"] == "monitoring"
            or one["subject"].startswith(LIBEXEC)
            or one["subject"] in PINS_OF_TOOLS | UNITS
        )
    ]


def _printed(rig: Rig, *words: str, code: int = 0) -> Any:
    said = rig.laptop.rigops(*words, "--json", *INVENTORY)
    assert said.code == code, said.out + said.err
    return said.json()


def _of_host(document: Any) -> Mapping[str, Any]:
    (host,) = document["hosts"]
    return dict(host)


def test_the_plan_shows_what_notify_has_got_since_and_removes_nothing(rig: Rig) -> None:
    host = _of_host(_printed(rig, "plan", "--exit-code", code=4))

    packages = [one["name"] for several in host["packages"].values() for one in several]
    assert (set(packages) <= TOOLS, host["reboot"]) == (True, False)
    assert (host["undeclared"], host["blocked"], host["other_debts"]) == ([], [], [])
    assert _of_before(host) == []


def test_doctor_finds_what_version_0_1_found(rig: Rig) -> None:
    host = _of_host(_printed(rig, "doctor"))

    (hold,) = (one for one in host["findings"] if one["id"] == "pkg.hold")
    assert set(hold["data"]["packages"]) == TOOLS
    wrong = {(one["id"], one["status"]) for one in host["findings"]} - {
        ("pkg.hold", "warn"),
        ("drv.persist", "warn"),
        ("rigops.selfcheck", "warn"),  # which that version did not have
    }
    assert {status for _, status in wrong} <= {"ok", "info", "skipped"}
    assert {"drv.pin", "cmdline.drift", "acs.path", "iommu.mode"} <= {
        one["id"] for one in host["findings"] if one["status"] == "ok"
    }


def test_what_base_owned_of_notify_is_taken_over(rig: Rig) -> None:
    paths = ("/etc/rigops/notify", "/usr/local/libexec/rigops/notify")
    assert _of_before(_of_host(_printed(rig, "plan", "--only", "base"))) == []
    before = rig.does(f"cat {paths[0]}")

    changes = _of_host(_printed(rig, "apply", "--yes"))["changes"]

    assert "/etc/rigops/notify" not in {one["subject"] for one in changes}
    assert rig.does(f"cat {paths[0]}") == before
    record = json.loads(rig.does(f"cat {STATE}/owned.json"))["files"]
    assert {one["concern"] for one in record if one["path"] in paths} == {"monitoring"}


def test_apply_believes_the_proof_and_only_fills_the_vault_again(rig: Rig) -> None:
    """Its packages are not among the fixtures; where they differ, they are locked anew."""
    before, locked = Tree(rig.host), _locked(rig)

    host = _of_host(_printed(rig, "apply", "--yes"))

    assert (host["outcome"], host["changes"], host["preflight"]) == ("converged", [], None)
    assert {"change", "reboot", "preflight"} & set(stages(host)) == set()
    assert {path for path in rig.changed_since(before) if not path.startswith(VAULT)} == set()
    assert _locked(rig) == locked


def test_plain_pyinfra_has_nothing_to_do_either(rig: Rig) -> None:
    done = rig.pyinfra(DEPLOYS / "rig.py", "--dry")

    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stderr.splitlines() if " | " in line]
    assert {tuple(row[-2:]) for row in rows} == {("-", "-")}, done.stderr


def test_history_tells_the_runs_of_version_0_1_too(rig: Rig) -> None:
    runs = _printed(rig, "history")["runs"]

    earlier = [json.loads(line)["at"] for line in version_0_1.text("journal.jsonl").splitlines()]
    assert {run["at"] for run in runs} > set(earlier)


def test_what_is_undeclared_is_withheld_under_its_concern(rig: Rig) -> None:
    rig.declare()
    host = _of_host(_printed(rig, "apply", "--yes", code=1))
    rig.declare(**DECLARED)

    concerns = [one["concern"] for one in host["withheld"]]
    assert concerns == ["base", "nvidia_driver", "kernel_args", "acs", "monitoring"]


def test_another_proof_is_recorded_in_the_shape_of_before(rig: Rig) -> None:
    host = _of_host(_printed(rig, "apply", "--yes", "--preflight", "always"))

    assert host["preflight"]["status"] == "ok"
    assert _of_host(_printed(rig, "preflight", "--yes"))["status"] == "ok"


def test_drift_is_repaired(rig: Rig) -> None:
    rig.does(f"rm {NCCL} {PIN}")

    changes = _of_host(_printed(rig, "apply", "--yes"))["changes"]

    assert {one["subject"] for one in changes} == {NCCL, PIN}


def test_a_release_undoes_it_and_gives_the_user_back_what_was_there(rig: Rig) -> None:
    rig.does(f"printf '%s' '{THEIRS[NCCL]}' >>{NCCL}")

    words = ("release", HOST, "--yes", "--reboot", "auto", "--drop-holds")
    host = _of_host(_printed(rig, *words))

    assert host["outcome"] == "changed"
    ours = [path for path in PATHS if "rigops" in path and path != LIMITS]
    assert rig.there(*ours, STATE) == []
    assert {path: rig.does(f"cat {path}") for path in THEIRS} == THEIRS
    assert rig.holds() == {"sudo"}
    assert {rig.does(f"setpci -s {port} ECAP_ACS+6.w") for port in PORTS} == {REDIRECTING}
    assert rig.host.run("grep iommu=pt /boot/grub/grub.cfg").stdout == ""


def test_a_trial_that_version_0_1_left_is_finished(owing: Rig) -> None:
    planned = _of_host(_printed(owing, "plan"))

    assert (_of_before(planned), planned["reboot"]) == ([], True)
    assert planned["trial"]["arguments"] == ["iommu=pt"]

    host = _of_host(_printed(owing, "apply", "--yes", "--reboot", "auto"))

    assert (host["outcome"], host["preflight"]["status"]) == ("changed", "ok")
    assert {one["subject"] for one in _of_before(host) if one["kind"] == "file"} <= {DROP_IN}
    assert "iommu=pt" in owing.does("cat /proc/cmdline")
    assert _of_host(_printed(owing, "plan"))["status"] == "converged"
