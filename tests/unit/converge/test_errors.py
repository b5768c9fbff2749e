from __future__ import annotations

import pytest

from rigops.concerns.registry import read
from rigops.converge.errors import DeployError, NoRootError, host_error
from rigops.converge.request import host_blocker
from rigops.errors import Problem, RigopsError
from rigops.probe.sections import os_release
from rigops.transport import TransportError

RIG = read({"kernel_args": ["iommu=pt", "pci=realloc"], "gpu_persistence": True})


def test_what_a_connection_says_keeps_its_kind_and_its_fix() -> None:
    found = host_error(TransportError("auth", "no key was taken", host="rig", fix="add one"))

    assert (found.kind, found.fix) == ("auth", "add one")
    assert "no key was taken" in found.message


@pytest.mark.parametrize(
    ("sudo", "message", "fix"),
    [
        ("sudo: a password is required", "rig: sudo asks for a password", "--ask-sudo-password"),
        (
            "sudo-rs: interactive authentication is required",
            "rig: sudo asks for a password",
            "--ask-sudo-password",
        ),
        ("", "rig: the login is not root, and sudo is not installed", "log in as root"),
        ("sudo: parse error", "sudo does not make this user root: sudo: parse error", "a shell"),
    ],
)
def test_a_login_without_root_says_why_and_the_way_out(sudo: str, message: str, fix: str) -> None:
    found = host_error(NoRootError("rig", sudo))

    assert found.kind == "sudo"
    assert found.message.endswith(message)
    assert fix in found.fix


def test_a_problem_of_ours_keeps_its_fix() -> None:
    found = host_error(RigopsError(Problem(message="the record is damaged", fix="mend it")))

    assert (found.kind, found.message, found.fix) == ("failed", "the record is damaged", "mend it")


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("base64: write error: No space left on device", "df -h"),
        ("mv: cannot create '/etc/x': Read-only file system", "dmesg"),
        ("sync: error syncing '/var': Input/output error", "smartctl"),
        ("exit code 7", ""),
    ],
)
def test_what_a_host_says_has_its_fix_where_there_is_one(said: str, fix: str) -> None:
    found = host_error(DeployError(said))

    assert found.message == said
    assert fix in found.fix
    assert bool(found.fix) is bool(fix)


def test_whatever_a_deploy_raises_is_told_with_its_kind() -> None:
    assert host_error(KeyError("nvme0")).message == "KeyError: 'nvme0'"


# ---- distributions


def why(release: str) -> str | None:
    return host_blocker(os_release.parse(release), RIG)


def test_nixos_gets_lines_for_its_own_configuration() -> None:
    assert why("== /etc/os-release\nID=nixos\n") == (
        "NixOS makes its files from its own configuration: put "
        'boot.kernelParams = [ "iommu=pt" "pci=realloc" ]; '
        "hardware.nvidia.nvidiaPersistenced = true; there"
    )


def test_an_image_gets_the_command_that_layers_the_arguments() -> None:
    said = why("== /etc/os-release\nID=fedora\nPRETTY_NAME='Silverblue'\nOSTREE_VERSION='40.1'\n")

    assert said is not None
    assert said.startswith("Silverblue is an image")
    assert "rpm-ostree kargs --append-if-missing=iommu=pt --append-if-missing=pci=realloc" in said


def test_any_other_system_is_not_refused() -> None:
    assert why("== /etc/os-release\nID=debian\n") is None
    assert why("== /etc/os-release\nID=arch\n") is None
    assert host_blocker(None, RIG) is None
