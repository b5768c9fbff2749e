"""Preflight in containers of real engines, in which the simulated driver is as on the host."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.lab.engines import IMAGE, does, prepare, run
from tests.lab.test_preflight_on_rigs import begin, preflight, verdicts
from tests.shards import LAB_CONTAINERS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab.conftest import Lab
    from tests.lab.engines import Engine
    from tests.lab.hosts import Host

pytestmark = pytest.mark.shard(LAB_CONTAINERS)

# The host's own Python, libraries and state of the simulated cards.
_FROM_HOST: Final = (
    "/usr", "/run/rigsim", "/etc/rigsim", "/etc/passwd", "/etc/group", "/etc/ld.so.cache",
)  # fmt: skip
_LINKED: Final = ("/lib", "/lib64", "/sbin")
ONE_CARD: Final = "/run/rigsim/one-card.conf"
NO_ACCESS: Final = "/run/rigsim/no-access.conf"
SLEEP: Final = ("sleep", "1000000")


@pytest.fixture(scope="module")
def host(module_lab: Lab) -> Host:
    return module_lab.one(
        "threadripper-3x3090=inside",
        "driver=535.261.03",
        "p2p=granted",
        "iommu=passthrough",
        "containers=on",
    )


def start(host: Host, name: str, *options: str, engine: Engine = "docker") -> None:
    """A container with all that the host has of the driver."""
    prepare(host, engine)
    places = [*zip(_FROM_HOST, _FROM_HOST, strict=True), *((f"/usr{one}", one) for one in _LINKED)]
    mounts = [word for one, other in places for word in ("--volume", f"{one}:{other}:ro")]
    words = [*run(engine, "runc"), "--detach", "--name", name, *mounts, *options]
    does(host, shlex.join([*words, IMAGE, *SLEEP]))


def left_in(host: Host, engine: Engine, name: str) -> tuple[list[str], list[str]]:
    """Its changed files and its processes."""
    files = does(host, f"{engine} diff {name}").splitlines()
    commands = does(host, f"{engine} exec {name} ps -o args").splitlines()
    return sorted(files), commands


def kinds(found: dict[str, Any]) -> list[str]:
    return [one["kind"] for one in found["differs"]]


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_with_all_that_the_host_has_differs_in_nothing(
    host: Host, tmp_path: Path, engine: Engine
) -> None:
    name = f"whole-{engine}"
    start(host, name, "--shm-size=2g", engine=engine)
    before = left_in(host, engine, name)

    code, found = preflight(host, tmp_path, "", "--in", name)

    assert (code, found["level"], verdicts(found)) == (0, "L5", {"ok"}), found
    assert (found["collectives"], found["differs"]) == ("proven", []), found
    assert (found["in"]["container"], found["in"]["engine"]) == (name, engine)
    assert left_in(host, engine, name) == before


def test_a_container_as_docker_makes_it_has_too_little_shared_memory(
    host: Host, tmp_path: Path
) -> None:
    start(host, "small")

    code, found = preflight(host, tmp_path, "", "--in", "small")

    assert (code, found["status"], kinds(found)) == (0, "warn", ["shared_memory"])
    assert "64 MiB of /dev/shm" in found["differs"][0]["summary"]
    assert found["differs"][0]["summary"] in found["reasons"]


def test_cards_that_a_container_was_not_given_are_named_and_are_no_failure(
    host: Host, tmp_path: Path
) -> None:
    does(host, f"grep -E '^(driver|gpu 0)' /run/rigsim/cuda.conf >{ONE_CARD}")
    start(host, "one-card", "--env", f"RIGSIM_CUDA_CONF={ONE_CARD}")

    code, found = preflight(host, tmp_path, "'gpus': 3", "--in", "one-card")

    assert (code, found["status"], kinds(found)) == (0, "warn", ["cards"])
    assert "lacks 2 of 3 GPUs" in found["differs"][0]["summary"]


def test_peer_access_that_is_lost_on_the_way_into_a_container_is_named(
    host: Host, tmp_path: Path
) -> None:
    does(host, f"sed s/granted=1/granted=0/ /run/rigsim/cuda.conf >{NO_ACCESS}")
    start(host, "refused", "--shm-size=1g", "--env", f"RIGSIM_CUDA_CONF={NO_ACCESS}")

    code, found = preflight(host, tmp_path, "", "--level", "quick", "--in", "refused")

    assert (code, found["status"], kinds(found)) == (0, "warn", ["p2p"])


def test_a_container_without_python_says_what_it_needs(host: Host, tmp_path: Path) -> None:
    does(host, shlex.join([*run("docker", "runc"), "-d", "--name", "bare", IMAGE, *SLEEP]))

    code, found = preflight(host, tmp_path, "", "--in", "bare")

    assert (code, found["status"]) == (3, "unknown")
    assert "no python3 in the container; preflight needs 3.8 or newer" in " ".join(found["reasons"])


def test_no_proof_of_the_host_is_recorded_or_revoked(host: Host) -> None:
    assert host.run("ls /var/lib/rigops 2>/dev/null").stdout == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent", "no such container"),
        ("stopped", "does not run: exited"),
        ("-v", "not a name or id"),
        ("a;reboot", "not a name or id"),
    ],
)
def test_what_cannot_be_run_in_is_a_usage_error(
    host: Host, tmp_path: Path, name: str, words: str
) -> None:
    if name == "stopped":
        does(host, shlex.join([*run("docker", "runc"), "--name", name, IMAGE, "true"]))

    process = begin(host, tmp_path, "", f"--in={name}")
    output, _ = process.communicate()

    assert process.returncode == 2
    (error,) = json.loads(output)["errors"]
    assert words in error["message"]
    if name == "absent":
        assert "small" in error["cure"]
