"""Containers that lose their cards by a reload of systemd, or have lost them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.unit.doctor import package_rig as rig
from tests.unit.doctor.examining import check_of, judge

if TYPE_CHECKING:
    from rigops.doctor.finding import Finding

ID = "1a2b" * 16
UNIT = f"docker-{ID}.scope"
GROUP = f"/system.slice/{UNIT}"
ENGINES = "== command -v docker podman containerd nvidia-ctk nvidia-container-runtime nvidia-container-runtime-hook\n"  # noqa: E501 - one line is the format
DOCKER = f"{ENGINES}/usr/bin/docker\n"
SPECIFICATION = "== stat cdi\n1700000000 /var/run/cdi/nvidia.yaml\n"
BOTH = "195:0=rw,195:255=rw"
STARTED, LATER, EARLIER = "2026-11-28 06:40:00", 1795848360, 1795840000


def containers(
    *,
    told: str = "",
    systemd: str = BOTH,
    runtime: str = BOTH,
    policy: str = "strict",
    version: int = 252,
    reloaded: int = EARLIER,
    engine: str = "docker",
) -> str:
    allowed = "".join(f"DeviceAllow=/dev/char/{one} rw\n" for one in told.split())
    return (
        f"== cat /proc/[0-9]*/cgroup\n{GROUP}\n== /proc/devices\n195 nvidia\n"
        f"== systemctl --version\nsystemd {version} ({version}.1)\n"
        f"== systemctl show\nDevicePolicy={policy}\n{allowed}"
        f"ActiveEnterTimestamp=Sat {STARTED} UTC\nId={UNIT}\n"
        f"== device programs\ngenerator {reloaded}\n"
        f"engine={engine} name=vllm runtime={runtime} systemd={systemd} {GROUP}\n"
    )


def look(
    check: str,
    said: str | None,
    *,
    container: str = DOCKER,
    packages: tuple[tuple[str, str], ...] = (),
    cut: bool = False,
) -> Finding:
    texts = {
        **rig.WELL,
        "container": container,
        "packages": rig.installed(others=packages),
        **({"gpu-cgroups": said} if said is not None else {}),
    }
    codes = {"gpu-cgroups": 124} if cut else {}
    (found,) = judge(texts, None, checks=[check_of(check)], codes=codes)
    return found


@pytest.mark.parametrize(
    ("said", "reload", "cut"),
    [
        (containers(), "warn", "ok"),
        (containers(told="195:0 195:255"), "ok", "ok"),
        (containers(told="195:255"), "warn", "ok"),
        (containers(systemd="195:255=rw"), "ok", "fail"),
        (containers(systemd=""), "ok", "fail"),
        (containers(policy="auto"), "ok", "ok"),
        (containers(runtime="?", systemd="?"), "warn", "ok"),
        (containers(runtime="?", systemd="?", told="195:0"), "unknown", "ok"),
        (containers(runtime="?", systemd="?", policy="auto"), "ok", "ok"),
        ("== cat /proc/[0-9]*/cgroup\n", "skipped", "skipped"),
        (f"{containers(told='195:0 195:255')}rubbish\n", "unknown", "unknown"),
        ("rubbish", "unknown", "unknown"),
        (None, "unknown", "unknown"),
    ],
)
def test_a_container_keeps_loses_or_has_lost_its_cards(
    said: str | None, reload: str, cut: str
) -> None:
    assert look("container.reload", said).status == reload
    assert look("container.cut", said).status == cut


def test_a_host_without_an_engine_is_not_asked_in_vain() -> None:
    said = f"{ENGINES}== stat cdi\n== stat libcuda\n"

    for check in ("container.reload", "container.cut"):
        assert look(check, None, container=said).status == "skipped"


@pytest.mark.parametrize("check", ["container.reload", "container.cut"])
def test_an_answer_that_was_cut_off_says_nothing_good(check: str) -> None:
    whole = containers()
    for size in range(0, len(whole), 40):
        found = look(check, whole[:size], cut=True)
        assert found.status in {"unknown", "warn", "fail"}, whole[:size]


def test_the_container_is_named_and_its_devices_are_given_to_systemd() -> None:
    found = look("container.reload", containers(told="195:255"))

    assert found.subject == "docker-1a2b1a2b1a2b (vllm)"
    assert found.summary == "its cards go at the next reload of systemd"
    assert found.fix is not None
    assert found.fix.text.startswith(
        "now, until it restarts: `sudo systemctl set-property --runtime "
        f"{UNIT} 'DeviceAllow=/dev/char/195:0 rw'`; for good: recreate the container"
    )
    assert [one.section for one in found.evidence] == ["gpu-cgroups"]


def test_cards_that_are_gone_come_back_without_a_restart() -> None:
    found = look("container.cut", containers(systemd="195:255=rw", reloaded=LATER))

    assert found.summary == "has lost its cards: systemd reloaded at 2026-11-28T06:46:00Z"
    assert found.fix is not None
    assert f"--runtime {UNIT} 'DeviceAllow=/dev/char/195:0 rw'`" in found.fix.text
    never = look("container.cut", containers(systemd="195:255=rw"))
    assert never.summary == "cannot open its cards: systemd's list of its devices lacks them"


@pytest.mark.parametrize(
    ("version", "reloaded", "when"),
    [(252, LATER, "next reload"), (257, EARLIER, "next reload"), (257, LATER, "starts or stops")],
)
def test_newer_systemd_takes_them_some_time_after_it_reloaded(
    version: int, reloaded: int, when: str
) -> None:
    found = look("container.reload", containers(version=version, reloaded=reloaded))

    assert when in found.summary


TOOLKIT = f"{DOCKER}== nvidia-ctk --version\nNVIDIA Container Toolkit CLI version {{}}\n"


@pytest.mark.parametrize(
    ("container", "packages", "engine", "cure"),
    [
        (TOOLKIT.format("1.18.2"), (), "docker", "`--runtime=nvidia` in place of `--gpus`"),
        (
            TOOLKIT.format("1.17.8") + SPECIFICATION,
            (("docker-ce", "5:29.2.0-1~debian.13~trixie"),),
            "docker",
            "as it is: this Docker",
        ),
        (
            TOOLKIT.format("1.17.8"),
            (("docker-ce", "5:29.2.0-1~debian.13~trixie"),),
            "docker",
            "`--device nvidia.com/gpu=all` in place of `--gpus`",
        ),
        (DOCKER, (("docker.io", "20.10.24+dfsg1-1+b3"),), "docker", "native.cgroupdriver=cgroupfs"),
        (
            DOCKER,
            (("docker-ce", "5:28.0.0-1"), ("runc", "1.1.5+ds1-1+deb12u1")),
            "docker",
            "runc 1.1.5 needs links in /dev/char",
        ),
        (DOCKER, (("runc", "1.1.15+ds1-2"),), "podman", "`--device nvidia.com/gpu=all`"),
        (DOCKER, (), "containerd", "gives it the cards by CDI"),
    ],
)
def test_the_cure_for_good_is_the_first_that_the_versions_allow(
    container: str, packages: tuple[tuple[str, str], ...], engine: str, cure: str
) -> None:
    found = look(
        "container.reload", containers(engine=engine), container=container, packages=packages
    )

    assert found.fix is not None
    assert cure in found.fix.text
    assert ("/dev/char: " in found.fix.text or "links" in found.fix.text) == (
        ("runc", "1.1.5+ds1-1+deb12u1") in packages
    )


def test_what_is_advised_is_a_command_that_a_shell_takes_as_it_is() -> None:
    found = look("container.reload", containers())

    assert found.fix is not None
    (command,) = re.findall(r"`(sudo [^`]*)`", found.fix.text)
    assert command.count("'") == 4
