"""Device programs, assembled as systemd, runc and NVIDIA's hook write them."""

from __future__ import annotations

import ast
import json
import struct
from typing import TYPE_CHECKING

import pytest

from rigops.hostside import device_programs
from rigops.hostside.device_programs import Program, UnreadableError, allowed, is_of_systemd
from rigops.hostside.packing import pack

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DEVICES = [(195, 0), (195, 255), (510, 0)]
ALL = "195:0=rw,195:255=rw,510:0=rw"


def code(*instructions: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("<BBhi", *one) for one in instructions)


RIGHTS = ((0x61, 0x13, 0, 0), (0x74, 3, 0, 16))  # r3 = access
NUMBERS = ((0x61, 0x14, 4, 0), (0x61, 0x15, 8, 0))  # r4 = major, r5 = minor
SYSTEMD = code((0x61, 0x12, 0, 0), (0x54, 2, 0, 0xFFFF), *RIGHTS, *NUMBERS)
RUNTIME = code((0x69, 0x12, 0, 0), *RIGHTS, *NUMBERS)
REFUSES = code((0xB7, 0, 0, 0), (0x95, 0, 0, 0))
ALLOWS = code((0xB7, 0, 0, 1), (0x95, 0, 0, 0))


def rule(major: int, minor: int, rights: int) -> bytes:
    """Allow a character device these rights: mknod 1, read 2, write 4."""
    return code(
        (0x55, 2, 7, 2),
        (0xBC, 0x31, 0, 0),
        (0x54, 1, 0, rights),
        (0x5D, 0x31, 4, 0),
        (0x55, 4, 3, major),
        (0x55, 5, 2, minor),
    ) + code((0xB4, 0, 0, 1), (0x95, 0, 0, 0))


def jumping_rule(major: int) -> bytes:
    """As systemd allows all of a major: it goes on to one end."""
    return code((0x15, 4, 1, major), (0x05, 0, 1, 0), (0x05, 0, 2, 0))


def of_runtime(text: bytes) -> Program:
    return Program("", is_gpl=False, code=text)


def of_systemd(text: bytes, name: str = "sd_devices") -> Program:
    return Program(name, is_gpl=True, code=text)


def programs(*texts: bytes) -> list[Program]:
    return [of_runtime(one) for one in texts]


def test_what_all_programs_allow_is_allowed() -> None:
    runtime = RUNTIME + rule(195, 0, 7) + rule(195, 255, 6) + rule(510, 0, 6) + REFUSES
    systemd = SYSTEMD + rule(195, 255, 2) + rule(510, 0, 7) + REFUSES

    assert allowed(programs(runtime), DEVICES) == ALL
    assert allowed(programs(systemd), DEVICES) == "195:255=r,510:0=rw"
    assert allowed(programs(runtime, systemd), DEVICES) == "195:255=r,510:0=rw"
    assert allowed([], DEVICES) == ALL


def test_jumps_to_one_end_are_followed() -> None:
    assert allowed(programs(SYSTEMD + jumping_rule(195) + REFUSES + ALLOWS), DEVICES) == (
        "195:0=rw,195:255=rw"
    )


@pytest.mark.parametrize(
    "strange",
    [code((0x85, 0, 0, 1)), code((0x05, 0, -1, 0)), code((0xB7, 0, 0, 1)), b"", b"\x95"],
    ids=["a helper is called", "no end", "runs out", "nothing", "cut off"],
)
def test_a_program_that_is_not_understood_allows_and_denies_nothing(strange: bytes) -> None:
    with pytest.raises(UnreadableError):
        allowed(programs(strange), DEVICES)


@pytest.mark.parametrize(
    ("program", "is_systemd_s"),
    [
        (of_systemd(RUNTIME), True),
        (of_systemd(SYSTEMD + REFUSES, name=""), True),  # 249 of Ubuntu 22.04
        (of_runtime(SYSTEMD + REFUSES), False),  # runc's begin in the same way
        (of_systemd(SYSTEMD, name="other"), False),
    ],
)
def test_systemd_s_own_program_is_told_by_its_name_or_its_license(
    program: Program, *, is_systemd_s: bool
) -> None:
    assert is_of_systemd(program) is is_systemd_s


@pytest.mark.parametrize(
    ("group", "inner"),
    [
        ("/system.slice/docker-1.scope", ["/system.slice/docker-1.scope"]),
        ("/a.slice/b.slice/c.scope/d", ["/a.slice/b.slice/c.scope", "/a.slice/b.slice/c.scope/d"]),
        ("/docker/1", ["/docker", "/docker/1"]),
        ("/a.slice", ["/a.slice"]),
    ],
)
def test_groups_are_read_from_the_unit_downwards(group: str, inner: list[str]) -> None:
    assert device_programs.inner_groups(group) == inner


ID = "1a2b" * 16
CUT, INNER, BARE, HARD = (
    f"/system.slice/docker-{ID}.scope",
    "/machine.slice/libpod-2.scope/container",
    "/docker/3",
    "/system.slice/docker-4.scope",
)
ATTACHED = {
    CUT: [
        of_runtime(RUNTIME + rule(195, 0, 7) + rule(195, 255, 7) + REFUSES),
        of_systemd(SYSTEMD + rule(195, 255, 7) + REFUSES),
    ],
    "/machine.slice/libpod-2.scope": [of_systemd(SYSTEMD + rule(195, 0, 7) + REFUSES)],
    INNER: [of_runtime(RUNTIME + rule(195, 0, 7) + REFUSES)],
    "/docker": [],
    BARE: [of_runtime(RUNTIME + rule(510, 0, 7) + REFUSES)],
    HARD: [of_runtime(code((0x85, 0, 0, 1)))],
}


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def attached(group: str) -> Iterable[Program]:
        if group not in ATTACHED:
            raise FileNotFoundError(group)
        return iter(ATTACHED[group])

    monkeypatch.setattr(device_programs, "TOP", "")
    monkeypatch.setattr(device_programs, "attached", attached)
    monkeypatch.setattr(device_programs, "nvidia_devices", lambda: DEVICES)
    monkeypatch.setattr(device_programs, "GENERATOR", tmp_path)
    monkeypatch.setattr(device_programs, "DAEMON", tmp_path / "daemon.json")
    monkeypatch.setattr(device_programs, "PODMAN", (tmp_path,))
    (tmp_path / "vfs-containers").mkdir()
    (tmp_path / "daemon.json").write_text(json.dumps({"data-root": str(tmp_path)}))
    (tmp_path / f"containers/{ID}").mkdir(parents=True)
    return tmp_path


def name_of_docker_s(engines: Path, name: object) -> str:
    config = engines / f"containers/{ID}/config.v2.json"
    config.write_text(json.dumps({"Name": name, "Config": {"Env": ["TOKEN=1"]}}))
    return device_programs.container(CUT)[1]


@pytest.mark.usefixtures("engines")
def test_each_group_is_answered_and_one_that_has_ended_is_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    device_programs.main([CUT, "/system.slice/gone.scope", INNER, BARE, HARD])

    generator, *lines = capsys.readouterr().out.splitlines()
    assert generator.split()[0] == "generator"
    assert lines == [
        f"engine=docker name= runtime=195:0=rw,195:255=rw systemd=195:255=rw {CUT}",
        f"engine=podman name= runtime=195:0=rw systemd=195:0=rw {INNER}",
        f"engine=docker name= runtime=510:0=rw systemd={ALL} {BARE}",
        "unread a device program has instructions that rigops does not know",
        f"engine=docker name= runtime=? systemd=? {HARD}",
    ]


def test_names_are_believed_where_they_look_like_names(engines: Path) -> None:
    assert name_of_docker_s(engines, "/vllm") == "vllm"
    assert name_of_docker_s(engines, "/x\x1b[2J") == ""
    assert name_of_docker_s(engines, "/" + "x" * 65) == ""
    assert name_of_docker_s(engines, ["vllm"]) == ""


@pytest.mark.parametrize("text", ["", "[[[", "[" * 100_000, '{"id": 1}', '[{"id": "x"}, 7]'])
def test_files_of_podman_s_that_are_none_give_no_name(engines: Path, text: str) -> None:
    (engines / "vfs-containers/containers.json").write_text(text)

    assert device_programs.container(f"/machine.slice/libpod-{ID}.scope") == ("podman", "")


def test_podman_s_names_are_in_its_list(engines: Path) -> None:
    listed = [{"id": "0" * 64, "names": ["other"]}, {"id": ID, "names": ["comfy"]}]
    (engines / "vfs-containers/containers.json").write_text(json.dumps(listed))

    assert device_programs.container(f"/machine.slice/libpod-{ID}.scope") == ("podman", "comfy")


def test_old_interpreters_read_it() -> None:
    ast.parse(pack("device_programs").text, feature_version=(3, 8))
