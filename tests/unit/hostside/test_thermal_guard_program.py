"""The packed program, with an nvidia-smi and a systemctl of the test's own."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.concerns.thermal_guard import record
from rigops.hostside.packing import pack
from rigops.hostside.shared.work_under_way import work_under_way
from rigops.rendering import render
from tests.unit.hostside.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

UUID: Final = "GPU-3d5bdb46-1111-5b0e-bf7a-4b3f2a1b0c0d"
ADDRESS: Final = "0000:0a:00.0"
FIXED_PATH: Final = '"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"'
QUICKER: Final = {"\nTICK_S = 0.25\n": "\nTICK_S = 0.02\n", "max(2.0, hold_s)": "hold_s"}
# `celsius` and `limit` are files; `hangs` and `fails` are what it does instead.
NVIDIA_SMI: Final = r"""
root=@ROOT@
echo "$*" >>"$root/calls"
[ ! -e "$root/hangs" ] || exec sleep 60
[ ! -e "$root/fails" ] || { cat "$root/fails"; exit 9; }
case $* in
    *-pl*) for watts; do :; done; printf '%.2f\n' "$watts" >"$root/limit" ;;
    *tlimit*) echo 'Field "temperature.gpu.tlimit" is not a valid field to query.'; exit 2 ;;
    --query-compute-apps*) [ ! -e "$root/job" ] || echo "@UUID@, $(cat "$root/job")" ;;
    *) echo "00000000:0A:00.0, @UUID@, $(cat "$root/celsius"), N/A, 300.00, $(cat "$root/limit"), 100.00, 350.00" ;;
esac
"""  # noqa: E501 - a program
STATE: Final = "run/rigops/thermal_guard.json"


class Host:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        self.tool("nvidia-smi", NVIDIA_SMI.replace("@ROOT@", str(root)).replace("@UUID@", UUID))
        self.tool("systemctl", f'echo "$*" >>"{root}/systemctl"')
        for name in ("false", "sleep", "cat", "timeout"):
            self.tool(name, f'exec {shutil.which(name)} "$@"')
        text = pack("thermal_guard").text
        for there, instead in {FIXED_PATH: repr(str(self.bin)), **QUICKER}.items():
            assert text.count(there) == 1
            text = text.replace(there, instead)
        self.program = root / "thermal_guard"
        self.program.write_text(text)
        self.write("proc/driver/nvidia/version", "NVRM version: 535\n")
        self.write("celsius", "60")
        self.write("limit", "350.00")
        self.settings()

    def settings(self, action: str = "lower-power", loss: str = "lower-power") -> None:
        text = f"# Made by rigops\ngpu 83\nhold 0.1\naction {action}\nsensor-loss {loss}\n"
        self.write("etc/rigops/thermal_guard", text)

    def tool(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def write(self, path: str, text: str) -> None:
        """At once, since somebody may read it just now."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        new = self.root / "new"
        new.write_text(text)
        new.replace(file)

    def text(self, path: str) -> str:
        file = self.root / path
        return file.read_text() if file.exists() else ""

    def words(self, *arguments: str) -> list[str]:
        return [sys.executable, "-I", str(self.program), "--system", str(self.root), *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*arguments), capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )

    @contextmanager
    def serving(self, **environment: str) -> Iterator[subprocess.Popen[str]]:
        with (self.root / "journal").open("a") as journal:
            process = subprocess.Popen(
                self.words("run"),
                stdout=journal,
                stderr=journal,
                text=True,
                env={**os.environ, **environment},
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0, self.text("journal")

    def state(self) -> dict[str, Any]:
        text = self.text(STATE)
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def waits_for(self, condition: Callable[[], object]) -> None:
        until(condition, lambda: self.text("journal") + str(self.state()))

    def comes_to(self, step: str) -> None:
        self.waits_for(lambda: self.state().get("step") == step)

    def is_lowered(self) -> None:
        """To the least, so that no further call is under way when the guard is ended."""
        self.write("celsius", "90")
        with self.serving():
            self.waits_for(lambda: self.text("limit") == "100.00\n")

    @contextmanager
    def heard(self) -> Iterator[Callable[[int], list[bytes]]]:
        """While it is served, the next of its messages to systemd."""
        door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        place = str(self.root / "notify")
        door.bind(place)
        door.settimeout(PATIENCE_S)
        with self.serving(NOTIFY_SOCKET=place), closing(door):
            yield lambda count: [door.recv(100) for _ in range(count)]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_it_is_a_program_for_python_3_8_that_says_who_made_it() -> None:
    text = pack("thermal_guard").text

    ast.parse(text, feature_version=(3, 8))
    assert text.startswith("#!/usr/bin/python3 -I\n# Made by rigops ")


def test_a_hot_card_is_lowered_and_its_record_is_what_rigops_reads(host: Host) -> None:
    with host.serving():
        host.waits_for(lambda: host.state().get("has_answered"))
        host.write("celsius", "90")
        host.waits_for(lambda: f"-i {UUID} -pl 300" in host.text("calls"))
        host.comes_to("lower-power")
        assert record.parse(host.text(STATE)).step == "lower-power"
        held = record.lowered({record.PATH: json.dumps(host.state())})
        assert held[UUID] is not None
        assert (held[ADDRESS].watts_before, held[UUID].uuid) == (350.0, UUID)
        assert (host.root / STATE).stat().st_mode & 0o777 == 0o644

        host.write("celsius", "60")
        host.waits_for(lambda: host.text("limit") == "350.00\n")
        host.comes_to("none")


def test_a_driver_that_knows_no_margin_is_a_lost_sensor_and_the_rest_is_watched(host: Host) -> None:
    host.write(
        "etc/rigops/thermal_guard",
        "gpu 83\nmargin 5\nhold 0.1\naction stop-jobs\nsensor-loss notify\n",
    )
    with host.serving():
        host.comes_to("notify")
        assert "left to its T.Limit cannot be read" in host.state()["why"]
        host.write("celsius", "90")
        host.waits_for(lambda: f"-i {UUID} -pl 300" in host.text("calls"))


def test_systemd_hears_that_it_is_ready_and_that_it_lives(host: Host) -> None:
    host.write("hangs", "")
    with host.heard() as heard:
        assert heard(12) == [b"READY=1", *[b"WATCHDOG=1"] * 11]

    assert host.text("calls").count("--query-gpu") == 1


def test_the_driver_is_not_called_while_its_module_is_not_loaded(host: Host) -> None:
    (host.root / "proc/driver/nvidia/version").unlink()
    with host.heard() as heard:
        heard(50)

    assert "the NVIDIA driver is not loaded" in host.text("journal")
    assert host.text("calls") == ""
    assert host.state()["step"] == "none"


def test_a_driver_that_goes_is_a_lost_sensor_and_a_restarted_guard_knows(host: Host) -> None:
    with host.serving():
        host.waits_for(lambda: host.state().get("has_answered"))
    host.write("fails", "Failed to initialize NVML: Driver/library version mismatch\n")
    with host.serving():
        host.comes_to("lower-power")

    assert "Driver/library version mismatch" in host.state()["why"]
    assert host.text("systemctl") == ""


def test_at_the_declared_end_the_host_is_powered_off_once_a_hold(host: Host) -> None:
    host.settings(action="poweroff")
    host.write("celsius", "95")
    with host.serving():
        host.comes_to("poweroff")
        host.waits_for(lambda: host.text("systemctl"))

    assert set(host.text("systemctl").splitlines()) == {"poweroff -i"}


def test_jobs_are_asked_to_end_and_killed_later(host: Host) -> None:
    host.settings(action="stop-jobs")
    goes_on = "import signal, time; signal.signal(15, 1); print(flush=True); time.sleep(600)"
    job = subprocess.Popen([sys.executable, "-c", goes_on], stdout=subprocess.PIPE)
    try:
        assert job.stdout
        assert job.stdout.readline()
        host.write("job", str(job.pid))
        host.write("celsius", "95")
        with host.serving():
            assert job.wait(PATIENCE_S) == -signal.SIGKILL
    finally:
        job.kill()
        job.communicate()
    assert "TERM to python" in host.text("journal")
    assert "KILL to python" in host.text("journal")


def test_somebody_is_told_of_each_step_with_the_text_on_stdin(host: Host) -> None:
    host.write(
        "usr/local/libexec/rigops/notify",
        f'#!/bin/sh\necho "$1" >>{host.root}/told\ncat >>{host.root}/told\n',
    )
    (host.root / "usr/local/libexec/rigops/notify").chmod(0o755)
    host.write("celsius", "90")
    with host.serving():
        host.waits_for(lambda: "lower-power" in host.text("told"))

    first, second, *_ = host.text("told").splitlines()
    text = f"GPU {ADDRESS}: it is at 90 °C, above 83 °C: step notify"
    assert (first, second) == (f"thermal guard: notify: {text}", text)


def test_damaged_records_stop_nothing(host: Host) -> None:
    host.write(STATE, '{"schema": "rigops.thermal_guard/1", "cards": [1')
    host.write("run/rigops/thermal_guard.request", "[]")
    host.write("var/lib/rigops/thermal_guard.json", '{"cards": {"GPU": 1}}')
    host.write("var/lib/rigops/failed_proof.json", '{"pairs": [1, {"verdict": 2}]}')
    host.write("var/lib/rigops/lock.json", '{"pid": "1"}')
    with host.serving():
        host.waits_for(lambda: "has_answered" in host.text(STATE))
        host.waits_for(lambda: host.state()["has_answered"])


@pytest.mark.parametrize(
    ("path", "text", "age_s", "suspended"),
    [
        ("lock.json", '{"pid": 77}', 0, True),
        ("lock.json", '{"pid": 78}', 0, False),  # it is gone
        ("lock.json", '{"pid": 77}', 3600, False),
        ("failed_proof.json", '{"pairs": [{"verdict": "begun"}]}', 0, True),
        ("failed_proof.json", '{"pairs": [{"verdict": "hang"}]}', 0, False),
        ("failed_proof.json", '{"pairs": [{"verdict": "begun"}]}', 3600, False),
    ],
)
def test_a_run_of_rigops_suspends_it_for_a_while(
    tmp_path: Path, path: str, text: str, age_s: int, *, suspended: bool
) -> None:
    (tmp_path / "proc/77").mkdir(parents=True)
    file = tmp_path / "var/lib/rigops" / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    then = time.time() - age_s
    os.utime(file, (then, then))

    assert bool(work_under_way(tmp_path)) == suspended


def test_while_it_is_suspended_its_record_says_so(host: Host) -> None:
    host.write("var/lib/rigops/lock.json", '{"pid": 77}')
    (host.root / "proc/77").mkdir()
    with host.serving():
        host.waits_for(lambda: host.state().get("has_answered"))

    assert host.state()["suspended"] == "a run of rigops changes the host"


def test_only_one_guard_runs(host: Host) -> None:
    with host.serving():
        host.waits_for(lambda: host.state().get("has_answered"))
        second = host.run("run")

    assert (second.returncode, second.stdout) == (1, "another thermal_guard runs already\n")


def test_settings_that_are_damaged_end_it_with_the_fix(host: Host) -> None:
    host.write("etc/rigops/thermal_guard", "gpu hot\n")
    done = host.run("run")

    assert done.returncode == 1
    assert "etc/rigops/thermal_guard cannot be read" in done.stderr
    assert "fix: rigops apply" in done.stderr


def test_a_step_beyond_the_last_one_allowed_is_refused(host: Host) -> None:
    done = host.run("request", "--step", "stop-jobs", "--why", "low battery")

    assert done.returncode == 2
    assert 'step stop-jobs is beyond "thermal_action": "lower-power"' in done.stdout
    assert host.text("run/rigops/thermal_guard.request") == ""


def test_the_words_of_others_are_one_line_without_control_characters(host: Host) -> None:
    with host.serving():
        host.waits_for(lambda: host.state().get("has_answered"))
        done = host.run(
            "request", "--step", "notify", "--why", "on\x1b[2J\nbattery\x07" + "x" * 999
        )
        assert (done.returncode, done.stdout) == (0, "step notify: taken\n")

    assert host.state()["why"].startswith("on [2J battery xxx")
    assert len(host.state()["why"]) == 400


def test_undo_gives_back_what_was_lowered_and_leaves_nothing(host: Host) -> None:
    host.is_lowered()
    assert host.run("undo").returncode == 0

    assert host.text("limit") == "350.00\n"
    assert list((host.root / "run/rigops").iterdir()) == []
    host.write("calls", "")
    assert host.run("undo").returncode == 0
    assert host.text("calls") == ""


def test_what_cannot_be_given_back_is_named_and_stays_recorded(host: Host) -> None:
    host.is_lowered()
    host.write("fails", "Failed to initialize NVML: Driver/library version mismatch\n")
    done = host.run("undo")
    assert done.returncode == 1
    assert f"GPU {ADDRESS}: its power limit of 350 W is not back: Failed" in done.stdout

    (host.root / "fails").unlink()
    assert host.run("undo").returncode == 0
    assert host.text("limit") == "350.00\n"


def test_the_command_tells_a_person_what_the_guard_does(host: Host) -> None:
    command = host.root / "rigops-guard"
    command.write_text(render("rigops-guard.j2", program=shlex.join(host.words())))

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", str(command), *words], capture_output=True, text=True, check=False
        )

    assert "does not run" in (stopped := ask()).stdout
    assert "rigops-guard status" in ask("--help").stdout
    assert stopped.returncode == 1
    with host.serving():
        host.waits_for(lambda: host.state().get("cards"))
        calm = ask("status")
        host.write("celsius", "90")
        host.comes_to("lower-power")
        host.waits_for(lambda: host.state()["cards"][0]["watts"])
        hot, document = ask(), json.loads(ask("status", "--json").stdout)

    assert (calm.returncode, hot.returncode) == (0, 0)
    assert calm.stdout.splitlines() == [
        "the thermal guard runs, and no card is too hot",
        "settings: gpu 83, hold 0.1, action lower-power, sensor-loss lower-power",
        f"GPU {ADDRESS}: step none",
    ]
    assert f"GPU {ADDRESS}: step lower-power, power limit " in hot.stdout
    assert (document["status"], document["step"]) == ("warn", "lower-power")
    (host.root / "etc/rigops/thermal_guard").unlink()
    assert ask().returncode == 3


def test_the_check_of_a_guard_that_does_not_run_fails(host: Host) -> None:
    fix = "fix: systemctl status rigops-thermal-guard"
    assert host.run("check").stdout == (
        f"finding\tfail\ttmp.guard\thost\tthe thermal guard does not run. {fix}\n"
        "metric\tguard_step\t0\n"
    )
    (host.root / "etc/rigops/thermal_guard").unlink()
    assert host.run("check").stdout.startswith("finding\tunknown\ttmp.guard\thost\t")


@pytest.mark.parametrize(("age_s", "status"), [(0, "ok"), (89, "ok"), (91, "fail")])
def test_a_guard_that_runs_and_writes_nothing_hangs(host: Host, age_s: int, status: str) -> None:
    """As doctor judges it."""
    host.write(STATE, json.dumps({"step": "none", "uptime_s": 1000.0}))
    host.write("proc/uptime", f"{1000 + age_s}.00 1.00\n")
    with (host.root / "run/rigops/thermal_guard.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = host.run("check").stdout

    assert said.startswith(f"finding\t{status}\ttmp.guard\thost\t")
