"""Preflight in a container: which one, by whose engine, and what differs from the host."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.errors import UsageError
from rigops.inventory.spec.model import ExpectedGpus, RigSpec
from rigops.preflight import inside
from rigops.preflight.inside import check_name, find_container, prove_inside
from rigops.report.preflight import preflight_lines
from tests.unit.doctor.examining import catalog
from tests.unit.preflight.hosts import (
    GRANTED,
    PROVEN,
    REFUSED,
    A,
    B,
    FakeHost,
    answer,
    collectives,
    pair,
    said,
)
from tests.unit.programs import SHELLS, assert_clean_shell, shell

if TYPE_CHECKING:
    from pathlib import Path

    from rigops.preflight.found import HostFound
    from rigops.transport import ScriptResult

ID: Final = "1a2b" * 16
MUCH: Final = 1 << 33
ONE_CARD: Final = [{"address": A, "name": "RTX 3090"}]
ONE_WAY: Final = [pair(A, B, "not_granted"), pair(B, A, "skipped")]
ASKED: Final = "engine docker\nanswer docker: "


def found_line(how: str = "login", state: str = "running", engine: str = "docker") -> str:
    return f"engine {engine}\nfound {engine} {how} {ID} {state} /vllm vllm/vllm-openai:v1\n"


def prove(*answers: ScriptResult, spec: RigSpec | None = None, **more: Any) -> HostFound:
    host = more.pop("host", FakeHost([answer(found_line()), *answers]))
    return prove_inside(
        "rig",
        host,
        spec,
        "vllm",
        level=more.pop("level", "p2p"),
        pairs=(),
        catalog=catalog(),
        reconnect=lambda: host,
        progress=lambda _: None,
    )


def again(given: ScriptResult, **more: Any) -> ScriptResult:
    """The same answer with other fields."""
    result = json.loads(given.stdout.splitlines()[-1])["result"]
    return answer(json.dumps({"event": "result", "result": {**result, **more}}))


def test_the_program_runs_by_the_exec_of_the_engine_and_on_the_host_to_compare() -> None:
    roomy = [again(one, shared_memory=MUCH) for one in (GRANTED, PROVEN)]
    host = FakeHost([answer(found_line("sudo")), GRANTED, *roomy])

    found = prove(host=host)

    _, outside, census, copies = host.asked
    assert (outside[0], "--find-nccl" in outside) == ("sh", True)
    for words in (census, copies):
        assert words[:8] == ["sudo", "-n", "--", "docker", "exec", "-i", ID, "sh"]
    assert [one[one.index("--level") + 1] for one in (outside, census, copies)] == [
        "quick", "quick", "p2p",
    ]  # fmt: skip
    assert (found.status, found.level, found.differs) == ("ok", "L5", ())
    document = found.as_json()
    assert document["differs"] == []
    assert document["in"] == {
        "container": "vllm", "id": ID, "engine": "docker", "image": "vllm/vllm-openai:v1",
    }  # fmt: skip
    assert "in container vllm (docker)" in preflight_lines([found], 200)[0]


@pytest.mark.parametrize(
    ("outside", "more", "kind", "status", "words"),
    [
        ({}, {"shared_memory": 64 << 20}, "shared_memory", "warn", "64 MiB of /dev/shm"),
        ({}, {"shared_memory": None}, "shared_memory", "warn", "0 MiB of /dev/shm"),
        ({}, {"gpus": ONE_CARD, "pairs": []}, "cards", "warn", f"lacks 1 of 2 GPUs: {B}"),
        ({}, {"gpus": [], "pairs": []}, "cards", "warn", "lacks 2 of 2 GPUs"),
        ({}, {"pairs": ONE_WAY}, "p2p", "warn", f"refused in the container: {A} to {B}"),
        (
            {"collectives": collectives("not proven")},
            {"collectives": collectives("not proven", version="2.27.5")},
            "nccl", "ok", "NCCL 2.27.5 and the host 2.18.5",
        ),
    ],
)  # fmt: skip
def test_each_difference_is_a_reason_and_fails_nothing(
    outside: dict[str, Any], more: dict[str, Any], kind: str, status: str, words: str
) -> None:
    container = again(GRANTED, **{"shared_memory": MUCH, **more})

    found = prove(again(GRANTED, **outside), container, level="quick")

    (difference,) = found.differs
    assert (difference.kind, difference.status, found.status) == (kind, status, status)
    assert words in difference.summary
    assert difference.summary in found.reasons


def test_another_nccl_is_no_difference_where_one_has_none() -> None:
    container = again(GRANTED, shared_memory=MUCH, collectives=collectives("not proven"))

    assert prove(GRANTED, container, level="quick").differs == ()


def test_cards_on_the_bus_that_the_container_was_not_given_do_not_fail_it() -> None:
    on_bus = [{"address": one, "driver": "nvidia", "max_links": []} for one in (A, B)]
    one_card = again(GRANTED, gpus=ONE_CARD, pairs=[], on_bus=on_bus)

    found = prove(again(GRANTED, on_bus=on_bus), one_card, spec=RigSpec(gpus=ExpectedGpus(total=2)))

    assert (found.status, [one.kind for one in found.differs]) == ("warn", ["cards"])


def test_jobs_that_the_host_sees_keep_the_container_from_copies() -> None:
    busy = again(GRANTED, jobs=[{"address": A, "pid": 7, "name": "python3"}])

    found = prove(busy, again(GRANTED, shared_memory=MUCH))

    assert found.status == "unknown"
    assert "the GPUs are in use, so nothing was copied: python3 (7)" in " ".join(found.reasons)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (answer("", code=127), "no python3 in the container"),
        (answer("Python 3.6.15", code=126), "Python 3.6.15 in the container"),
        (answer("", code=126, err='exec: "sh": not found'), 'exit code 126: exec: "sh"'),
    ],
)  # fmt: skip
def test_a_container_that_cannot_run_the_program_says_why(given: ScriptResult, words: str) -> None:
    found = prove(GRANTED, given)

    assert found.status == "unknown"
    assert words in " ".join(found.reasons)


def test_a_failure_says_what_to_start_the_container_with() -> None:
    hung = said(pair(A, B, "hang", evidence=["copy"]), pair(B, A, "skipped"), shared_memory=MUCH)

    lines = preflight_lines([prove(GRANTED, again(GRANTED, shared_memory=MUCH), hung)], 200)

    assert "-e NCCL_P2P_DISABLE=1" in [line.strip() for line in lines]
    assert "In a container of docker." in " ".join(lines)


def test_a_host_that_cannot_be_queried_itself_is_not_entered() -> None:
    found = prove(again(REFUSED, gpus=[], pairs=[], needs_reboot=True))

    assert found.needs_reboot
    assert found.container is not None


@pytest.mark.parametrize(
    ("output", "words", "fix"),
    [
        ("", "neither a running docker nor podman", ""),
        (f"{ASKED}Error: No such container: x\nrunning web\nrunning db\n", "no such", "web, db"),
        (f"{ASKED}permission denied while connecting\n", "docker: permission denied", ""),
        (found_line(state="exited"), "the container does not run: exited", "docker start vllm"),
        (found_line() + found_line(engine="podman"), "both docker and podman", "by its id"),
        ("engine docker\nfound docker login evil;id running /x y\n", "no such container", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_entered_is_a_usage_error(output: str, words: str, fix: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        find_container(FakeHost([answer(output)]), "vllm", "rig")

    assert fix in raised.value.fix


@pytest.mark.parametrize(
    "word", ["", "-v", "--privileged", "a b", "a;b", "$(id)", "a/b", "ä", "a\n"]
)
def test_a_word_that_is_no_name_goes_to_no_host(word: str) -> None:
    with pytest.raises(UsageError, match="not a name or id of a container"):
        check_name(word)


ENGINE: Final = """#!/bin/sh
echo "$(basename "$0") $*" >>"$LOG"
case $1 in
    inspect)
        [ "$7" = vllm ] || {{ echo "Error: no such container $7" >&2; exit 1; }}
        echo "{} running /vllm image" ;;
    ps) echo web ;;
esac
"""


@pytest.mark.parametrize("name", SHELLS)
def test_the_search_asks_each_engine_and_passes_the_name_as_one_argument(
    name: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    for engine in ("docker", "podman"):
        program = tmp_path / engine
        program.write_text(ENGINE.format(ID))
        program.chmod(0o755)
    (tmp_path / "sudo").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "sudo").chmod(0o755)
    (tmp_path / "pidof").write_text('#!/bin/sh\n[ -z "$NO_DAEMON" ]\n')
    (tmp_path / "pidof").chmod(0o755)
    text = inside._FIND.replace("/run/docker.pid", str(tmp_path / "none"))

    def find(word: str, **more: str) -> list[str]:
        return subprocess.run(
            [*shell(name), "-c", text, "rigops", word],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log), **more},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()

    assert find("vllm")[:2] == ["engine docker", f"found docker login {ID} running /vllm image"]
    absent = find("web")
    assert "answer docker: Error: no such container web" in absent
    assert "running web" in absent
    assert log.read_text().splitlines()[0].endswith(" -- vllm")
    log.unlink()
    assert "engine docker" not in find("vllm", NO_DAEMON="1")  # asking would start it
    assert "docker" not in log.read_text()


def test_the_search_is_portable() -> None:
    assert_clean_shell(inside._FIND)
