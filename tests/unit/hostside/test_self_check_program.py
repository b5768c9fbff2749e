"""The self-check of a host: what it finds, what it tells and when, and what it writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from rigops.concerns.monitoring.checking.findings import (
    Found,
    exposition,
    merged,
    news,
    parse_answer,
    parse_entries,
)
from rigops.hostside.packing import pack
from rigops.preflight.found import HostFound, PairFound
from rigops.preflight.headline import NO_P2P
from rigops.preflight.results import begun, failure
from tests.unit.hostside.exposition import parse
from tests.unit.hostside.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STATE: Final = "var/lib/rigops"
CARD: Final = "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-3d5bdb46-1111-5b0e-bf7a-4b3f2a1b0c0d)"
SMI: Final = "bin/nvidia-smi"


@dataclass
class Rig:
    root: Path

    def __post_init__(self) -> None:
        self.write("proc/uptime", "90000.00 1.00")
        self.write("proc/driver/nvidia/version", "")
        self.write(f"{STATE}/owned.json", json.dumps({"schema": "rigops.owned/1", "files": []}))
        self.program(
            "usr/local/libexec/rigops/notify", f'{{ echo "== $*"; cat; }} >>{self.told_file}'
        )
        self.declare()

    @property
    def told_file(self) -> Path:
        return self.root / "reported"

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def program(self, path: str, text: str) -> str:
        file = self.write(path, f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return str(file)

    def declare(self, *lines: str) -> None:
        self.write(
            "etc/rigops/self_check", "# Made by rigops\n" + "".join(f"{one}\n" for one in lines)
        )

    def concern(self, name: str, text: str) -> str:
        """Its line of the settings."""
        return f"check {name} {self.program(f'bin/{name}', text)}"

    def run(self, *words: str, **limits: float) -> subprocess.CompletedProcess[str]:
        """The packed program, with these limits; what it starts is found in bin first."""
        text = pack("self_check").text
        for name, value in {"PAUSE_S": 0.02, **limits}.items():
            text, found = re.subn(
                rf"(?m)^{name}: Final = [0-9.]+", f"{name}: Final = {value}", text
            )
            assert found == 1
        text, found = re.subn('"/usr/local/sbin:', f'"{self.root}/bin:/usr/local/sbin:', text)
        assert found == 1
        self.write("self_check", text)
        return subprocess.run(
            [sys.executable, "-I", str(self.root / "self_check"), *words, str(self.root)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def rows(self, code: int = 0, **limits: float) -> list[list[str]]:
        done = self.run(**limits)
        assert (done.returncode, done.stderr) == (code, "")
        return [re.split(" {2,}", line, maxsplit=3) for line in done.stdout.splitlines()]

    def of(self, name: str, code: int = 0, **limits: float) -> list[list[str]]:
        return [row for row in self.rows(code, **limits) if row[1] == name]

    def report(self, **limits: float) -> list[str]:
        """What was told: its first words and text."""
        self.told_file.unlink(missing_ok=True)
        done = self.run("report", **limits)
        assert (done.returncode, done.stderr) == (0, "")
        told = self.told_file.read_text().replace(f" {self.root}\n", "\n")
        return told.split("== ")[1:]

    @property
    def record(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads((self.root / STATE / "self_check.json").read_text())
        return found

    def owns(self, path: str, content: str = "ours\n", mode: str = "0644") -> Path:
        file = self.write(path, content)
        file.chmod(int(mode, 8))
        entry = {"path": f"/{path}", "digest": sha256(content.encode()).hexdigest(), "mode": mode}
        self.write(f"{STATE}/owned.json", json.dumps({"files": [entry]}))
        return file


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def finding(status: str, name: str = "pwr.limit", subject: str = "gpu 0000:0a:00.0") -> str:
    return f"printf 'finding\\t{status}\\t{name}\\t{subject}\\tit is {status}\\n'"


def running(program: str) -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            if program in path.read_text(errors="replace"):
                yield path.parent.name


def found(status: str, name: str = "pwr.limit", source: str = "tuning") -> Found:
    return Found(status, name, "host", "it is so", source)


def test_by_hand_it_prints_a_list_and_writes_and_tells_nothing(rig: Rig) -> None:
    rig.declare(rig.concern("tuning", finding("warn")))
    before = sorted(rig.root.rglob("*"))

    assert ["warn", "pwr.limit", "gpu 0000:0a:00.0", "it is warn"] in rig.rows()
    assert {path.name for path in set(rig.root.rglob("*")) - set(before)} == {"self_check"}


A: Final = "GPU-3d5bdb46-1111-5b0e-bf7a-4b3f2a1b0c0d"
B: Final = "GPU-3d5bdb46-2222-5b0e-bf7a-4b3f2a1b0c0d"


def printed(*lines: str) -> str:
    """As gpu_tuning prints them, with tabs for each space here; _ is an empty word."""
    text = "\n".join(("metric gpu_settings 1", *lines)).replace("_ ", " ").replace(" ", "\t")
    return f"cat <<'END'\n{text}\nEND"


def drift(rig: Rig) -> float | None:
    (rig.root / "textfiles").mkdir(exist_ok=True)
    assert rig.run("metrics").returncode == 0
    samples = parse((rig.root / "textfiles/rigops.prom").read_text())
    return samples.get("rigops_limit_drift", {}).get(())


def test_values_of_cards_are_judged_here_and_counted(rig: Rig) -> None:
    text = printed(
        f"setting {A} 0000:0a:00.0 power 285 285.00 250.00 ",
        f"setting {B} 0000:42:00.0 power 285 350.00 350.00 ",
        f"setting {B} 0000:42:00.0 graphics 210,1410 _ 1425 ",
        f"was_set {B} 0000:42:00.0 graphics 210,1410 -",
        f"was_set {B} 0000:42:00.0 memory 405,5001 -",
    )
    rig.declare("metrics /textfiles", rig.concern("gpu_tuning", text))

    assert rig.of("pwr.limit") == [
        ["warn", "pwr.limit", "gpu 0000:42:00.0", "power limit is 350 W, declared 285 W"],
        [
            "ok",
            "pwr.limit",
            "gpu 0000:0a:00.0",
            "power limit: the card itself keeps 250 W in force, below the 285 W that are requested",
        ],
    ]
    assert rig.of("clk.app") == [
        ["warn", "clk.app", "gpu 0000:42:00.0",
         "memory clocks are 405,5001 MHz by rigops, and no longer declared"],
    ]  # fmt: skip
    assert drift(rig) == 2


def test_what_the_thermal_guard_has_lowered_is_no_drift(rig: Rig) -> None:
    cards = [
        {"uuid": B, "address": "0000:42:00.0", "why": "", "watts": None},
        {"uuid": A, "address": "0000:0a:00.0", "why": "it is at 90 °C", "watts": 228.0},
    ]
    rig.write("run/rigops/thermal_guard.json", json.dumps({"cards": cards}))
    text = printed(
        f"setting {A} 0000:0a:00.0 power 285 228.00 228.00 ",
        f"setting {B} 0000:42:00.0 power 285 228.00 228.00 ",
    )
    rig.declare("metrics /textfiles", rig.concern("gpu_tuning", text))

    drifted, held = rig.of("pwr.limit")
    assert held[3] == "power limit: the thermal guard has lowered it to 228 W: it is at 90 °C"
    assert drifted[:3] == ["warn", "pwr.limit", "gpu 0000:42:00.0"]
    assert drift(rig) == 1


def test_a_card_that_does_not_answer_is_unknown_once(rig: Rig) -> None:
    text = printed(
        f"setting {A} _ persistence 1 _ _ lost",
        f"setting {A} _ power 285 _ _ lost",
        f"was_set {A} 0000:0a:00.0 power 285 350.00",
    )
    rig.declare("metrics /textfiles", rig.concern("gpu_tuning", text))

    assert [row for row in rig.rows(3) if row[0] == "unknown"] == [
        ["unknown", "drv.persist", f"gpu {A}", "persistence: lost"]
    ]
    assert rig.of("pwr.limit", 3) == []


def test_a_setting_that_the_card_does_not_report_is_unknown(rig: Rig) -> None:
    text = printed(f"setting {A} 0000:0a:00.0 persistence 1 _ _ ")
    rig.declare("metrics /textfiles", rig.concern("gpu_tuning", text))

    assert rig.of("drv.persist", 3) == [
        ["unknown", "drv.persist", "gpu 0000:0a:00.0", "persistence: the card does not report it"]
    ]


def test_of_a_driver_that_hangs_nothing_is_left_over_and_no_drift_is_counted(rig: Rig) -> None:
    text = printed(f"was_set {A} 0000:0a:00.0 power 285 350.00")
    hangs = "printf 'finding\\tunknown\\tdrv.hang\\thost\\tit hangs\\n'"
    rig.declare("metrics /textfiles", rig.concern("gpu_tuning", f"{text}\n{hangs}"))

    assert rig.of("pwr.limit", 3) == []
    assert rig.of("drv.hang", 3) == [["unknown", "drv.hang", "host", "it hangs"]]
    assert drift(rig) is None


def test_values_of_a_program_that_does_not_say_how_many_are_not_understood(rig: Rig) -> None:
    text = f"{finding('ok')}; printf 'setting\\tx\\n'"
    rig.declare(rig.concern("other", text))

    (row,) = rig.of("rigops.selfcheck", 3)
    assert row[2:] == ["other", "output of its check: setting x"]


@pytest.mark.parametrize(
    "line",
    [f"setting {A}", f"setting {A} x fan 1 1 1 ", f"setting {A} x power 285 1.2.3 _ ", "was_set x"],
)
def test_values_that_nobody_understands_are_unknown(rig: Rig, line: str) -> None:
    rig.declare(rig.concern("gpu_tuning", printed(line)))

    (row,) = rig.of("rigops.selfcheck", 3)
    assert row[2] == "gpu_tuning"
    assert "its check printed no values" in row[3]


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("warn", 0), ("fail", 1), ("unknown", 3)])
def test_it_ends_as_doctor_does(rig: Rig, status: str, code: int) -> None:
    rig.declare(rig.concern("tuning", finding(status)))
    assert rig.run().returncode == code


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("exit 0", "output of its check: it printed nothing"),
        ("echo 'Segmentation fault'", "output of its check: Segmentation fault"),
        ("printf 'finding\\tgreat\\tx\\ty\\tz\\n'", "output of its check: finding great x y z"),
    ],
)
def test_a_check_that_says_nothing_of_use_is_unknown(rig: Rig, text: str, says: str) -> None:
    rig.declare(rig.concern("tuning", text), rig.concern("other", finding("ok")))

    rows = rig.rows(3)
    assert ["unknown", "rigops.selfcheck", "tuning", says] in rows
    assert ["ok", "pwr.limit", "gpu 0000:0a:00.0", "it is ok"] in rows


def test_a_check_that_hangs_is_unknown_and_costs_its_deadline_and_no_other_check(rig: Rig) -> None:
    hangs_with_a_child = "(sleep 600; :) & sleep 600"
    rig.declare(rig.concern("tuning", hangs_with_a_child), "check other /nowhere/other")

    other, hangs = rig.of("rigops.selfcheck", 3, COMMAND_S=0.6)
    assert hangs[2:] == ["tuning", "no answer in 1 s"]
    assert other[2:] == ["other", "/nowhere/other is not there; rigops apply installs its own"]
    until(lambda: not list(running(f"{rig.root}/bin/tuning")))


def test_what_still_hangs_is_not_started_again(rig: Rig) -> None:
    """A process of its session that nobody can end, as one in the kernel is."""
    rig.declare(rig.concern("tuning", f"echo >>{rig.root}/starts; {finding('ok')}"))
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stuck:
        session = f"{stuck.pid} (nvidia (smi) S 1 {stuck.pid} {stuck.pid} 0 -1"
        rig.write(f"proc/{stuck.pid}/stat", session)
        rig.write("run/rigops/self_check.json", json.dumps({"tuning": stuck.pid}))
        (row,) = rig.of("rigops.selfcheck", 3)
        stuck.kill()

    assert row[3] == "not run again: an earlier call of it hangs in the kernel"
    assert not (rig.root / "starts").exists()
    (rig.root / f"proc/{stuck.pid}/stat").unlink()
    assert rig.of("pwr.limit")[0][0] == "ok"
    assert not (rig.root / "run/rigops/self_check.json").exists()


@pytest.mark.parametrize(
    ("output", "status", "says"),
    [
        (f"{CARD}\n{CARD}", "ok", "2 of 2 declared cards answer"),
        (
            f"Unable to determine the device handle for GPU0: GPU is lost.\n{CARD}",
            "fail",
            (
                "1 of 2 declared cards answer: Unable to determine the device handle for GPU0: GPU "
                "is lost."
            ),
        ),
        ("No devices were found", "fail", "0 of 2 declared cards answer: No devices were found"),
    ],
)
def test_cards_are_counted_against_the_declaration(
    rig: Rig, output: str, status: str, says: str
) -> None:
    rig.program(SMI, f"cat <<END\n{output}\nEND")
    rig.declare("gpus 2")
    assert rig.of("gpu.count", int(status == "fail")) == [[status, "gpu.count", "host", says]]


def test_a_card_count_by_a_driver_that_hangs_is_unknown(rig: Rig) -> None:
    rig.program(SMI, "exec sleep 600")
    rig.declare("gpus 2")
    (row,) = rig.of("gpu.count", 3, CARDS_S=0.6)
    assert (row[0], row[3]) == ("unknown", "nvidia-smi: no answer in 1 s")


def test_without_a_declaration_as_many_cards_as_were_proven_are_expected(rig: Rig) -> None:
    assert rig.of("gpu.count") == []

    rig.program(SMI, f"echo '{CARD}'")
    proven = {"at": "2026-11-20T10:00:00Z", "level": "L1", "gpus": [{}, {}]}
    rig.write(f"{STATE}/proven.json", json.dumps(proven))
    assert rig.of("gpu.count", 1)[0][3] == "1 of 2 proven cards answer"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("rm {}", "the file is gone"),
        ("echo theirs >{}", "its content was changed"),
        ("chmod 600 {}", "its mode is 0600, rigops wrote 0644"),
        ("ln -sf /etc/passwd {}", "it is no regular file"),
    ],
)
def test_an_owned_file_that_somebody_changed_is_a_warning(rig: Rig, change: str, says: str) -> None:
    if os.getuid() != 0:
        pytest.skip("no root: its owner would differ")
    file = rig.owns("etc/modprobe.d/rigops.conf")
    assert rig.of("rigops.files")[0][0] == "ok"

    subprocess.run(["sh", "-c", change.format(file)], check=True, capture_output=True)
    assert rig.of("rigops.files") == [["warn", "rigops.files", "/etc/modprobe.d/rigops.conf", says]]


def test_an_owned_file_whose_update_was_cut_off_is_as_rigops_wrote_it(rig: Rig) -> None:
    if os.getuid() != 0:
        pytest.skip("no root: its owner would differ")
    rig.owns("etc/modprobe.d/rigops.conf")
    record = json.loads((rig.root / f"{STATE}/owned.json").read_text())
    (entry,) = record["files"]
    entry |= {"digest": "0" * 64, "replaces": entry["digest"]}
    rig.write(f"{STATE}/owned.json", json.dumps(record))

    assert rig.of("rigops.files")[0][0] == "ok"


@pytest.mark.parametrize("text", ["{", "[]", '{"files": [{}]}', '{"files": 3}', "\0"])
def test_a_record_that_cannot_be_read_is_unknown(rig: Rig, text: str) -> None:
    rig.write(f"{STATE}/owned.json", text)
    (row,) = rig.of("rigops.selfcheck", 3)
    assert row[2] == "rigops.files"


def at(seconds_ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds_ago))


@pytest.mark.parametrize(
    ("outcome", "ago_s", "status"),
    [("reboot_owed", 600, "warn"), ("reboot_owed", 200_000, "ok"), ("changed", 600, "ok")],
)
def test_a_reboot_that_the_last_apply_of_this_boot_left_is_pending(
    rig: Rig, outcome: str, ago_s: float, status: str
) -> None:
    run = {"command": "apply", "outcome": outcome, "at": at(ago_s)}
    others = (
        {"command": "preflight", "outcome": "ok", "at": at(1)},
        {"command": "apply", "outcome": "begun", "at": at(1)},
    )
    lines = "".join(f"{one}\n" for one in ("torn{", *map(json.dumps, (run, *others))))
    rig.write(f"{STATE}/journal.jsonl", lines)
    assert rig.of("drv.reboot_pending")[0][0] == status


def test_a_reboot_that_the_distribution_asks_for_is_pending(rig: Rig) -> None:
    rig.write("run/reboot-required", "")
    (row,) = rig.of("drv.reboot_pending")
    assert (row[0], row[3]) == ("warn", "a reboot is pending: the distribution asks for it")


def test_a_proof_is_told_with_its_age_and_a_failed_one_is_a_failure(rig: Rig) -> None:
    assert rig.of("p2p.proof") == []
    proven: dict[str, Any] = {"at": at(3 * 86400 + 60), "level": "L1", "gpus": []}
    rig.write(f"{STATE}/proven.json", json.dumps(proven))
    (row,) = rig.of("p2p.proof")
    assert row[0] == "ok"
    assert "(3 days ago), level L1" in row[3]

    proven["pairs"] = [{"verdict": "not_granted"}] * 2
    rig.write(f"{STATE}/proven.json", json.dumps(proven))
    (row,) = rig.of("p2p.proof")
    assert row[3].startswith("nothing to prove: ")
    assert row[3].endswith("no pair has peer access")

    failed = {"at": "2026-11-20T10:00:00Z"}
    rig.write(f"{STATE}/failed_proof.json", json.dumps(failed))
    (row,) = rig.of("p2p.proof", 1)
    assert row[3] == "the preflight of 2026-11-20 failed or was interrupted"

    rig.declare("p2p skip")
    assert rig.of("p2p.proof") == []


def test_the_notice_of_a_failed_proof_says_what_failed_and_what_to_declare(rig: Rig) -> None:
    pairs = (PairFound("a", "b", "wrong_data", "L1", evidence=("4 KiB: 3 of 3 wrong",)),)
    found = HostFound(host="rig", status="fail", pairs=pairs)
    record = failure(found, "2026-11-20T10:00:00Z", {})
    assert record is not None
    rig.write(f"{STATE}/failed_proof.json", record.to_json())

    _, told, _ = rig.report()

    assert NO_P2P in begun(pairs, "2026-11-20T10:00:00Z", {}).to_json().replace("\\", "")
    assert told.startswith(
        "fail: p2p.proof, host: the preflight of 2026-11-20 failed: wrong data on 1 of 1 pairs "
        '(L1, 4 KiB); do not train with P2P: declare "nccl": {"NCCL_P2P_DISABLE": "1"}\n'
    )


def test_a_problem_is_told_once_and_its_end_once_with_start_and_end_for_the_dead_man(
    rig: Rig,
) -> None:
    rig.declare(rig.concern("tuning", finding("fail")))
    ping, told, last = rig.report()
    assert ping == "ping start\n"
    assert told.startswith("fail: pwr.limit, gpu 0000:0a:00.0: it is fail\nNew:\nfail  pwr.limit")
    assert last.startswith("ping fail\nfail  ")

    assert [one.split("\n")[0] for one in rig.report()] == ["ping start", "ping fail"]

    rig.declare(rig.concern("tuning", finding("ok")))
    _, told, last = rig.report()
    assert told.startswith("good well again: pwr.limit, gpu 0000:0a:00.0\nGone:\n")
    assert last.startswith("ping success\n")
    assert [one.split("\n")[0] for one in rig.report()] == ["ping start", "ping success"]


def test_while_an_apply_works_the_daily_check_waits_and_the_textfile_stays(rig: Rig) -> None:
    rig.declare(f"metrics {rig.write('srv/x', '').parent.relative_to(rig.root)}")
    rig.write(f"{STATE}/lock.json", json.dumps({"pid": 77}))
    rig.write("proc/77/stat", "")

    began = time.monotonic()
    assert len(rig.report(WORK_S=0.3)) == 2  # it does not wait for ever
    assert time.monotonic() - began > 0.3
    assert rig.run("metrics").returncode == 0
    assert not (rig.root / "srv/rigops.prom").exists()

    (rig.root / "proc/77/stat").unlink()
    (rig.root / "proc/77").rmdir()
    assert rig.run("metrics").returncode == 0
    assert (rig.root / "srv/rigops.prom").exists()


def test_what_reached_nobody_is_told_again(rig: Rig) -> None:
    rig.declare(rig.concern("tuning", finding("fail")))
    program = "usr/local/libexec/rigops/notify"
    works = (rig.root / program).read_text()
    rig.program(program, f'{{ echo "== $*"; cat; }} >>{rig.told_file}; exit 1')
    assert len(rig.report()) == 3
    assert rig.record["reported"] == []

    rig.program(program, works.removeprefix("#!/bin/sh\n"))
    assert len(rig.report()) == 3
    assert len(rig.report()) == 2


def test_without_anybody_to_tell_it_is_recorded_all_the_same(rig: Rig) -> None:
    (rig.root / "usr/local/libexec/rigops/notify").unlink()
    rig.declare(rig.concern("tuning", finding("warn")))
    assert rig.run("report").returncode == 0

    assert rig.record["schema"] == "rigops.self_check/1"
    assert rig.record["status"] == "warn"
    assert rig.record["at"].endswith("Z")
    (one,) = [one for one in rig.record["findings"] if one["id"] == "pwr.limit"]
    assert one["source"] == "tuning"


def test_what_is_unknown_is_no_success(rig: Rig) -> None:
    rig.declare("check tuning /nowhere/tuning")
    *_, last = rig.report()
    assert last.startswith("ping fail\n")


def test_a_source_that_does_not_answer_says_neither_that_a_problem_is_gone_nor_that_it_is_new() -> (
    None
):
    fail, hangs = found("fail"), Found("unknown", "rigops.selfcheck", "tuning", "", "tuning")
    told = news({}, [fail], ()).reported
    during = news(told, [hangs], {"tuning"})
    assert (during.new, during.gone) == ((hangs,), ())

    after = news(during.reported, [fail], ())
    assert (after.new, after.gone) == ((), (hangs,))
    assert news(after.reported, [], ()).gone == (fail,)


@pytest.mark.parametrize(
    ("before", "after", "is_new", "is_gone"),
    [
        ("warn", "fail", True, False),
        ("fail", "warn", False, False),
        ("fail", "unknown", False, False),
        ("unknown", "fail", True, False),
        ("fail", "ok", False, True),
    ],
)
def test_only_what_gets_worse_is_new(
    before: str, after: str, *, is_new: bool, is_gone: bool
) -> None:
    told = news({}, [found(before)], ()).reported
    then = news(told, [found(after)], ())
    assert (bool(then.new), bool(then.gone)) == (is_new, is_gone)


def test_a_failure_that_could_not_be_judged_for_a_day_is_not_told_again() -> None:
    told = news({}, [found("fail")], ()).reported
    doubted = news(told, [found("unknown")], {"tuning"})
    assert not news(doubted.reported, [found("fail")], ())


def test_what_was_told_is_read_back_from_its_record() -> None:
    told = news({}, [found("fail"), found("warn", "clk.app")], ()).reported
    assert parse_entries([one.as_json() for one in told.values()]) == told


def test_findings_of_one_id_and_subject_are_one_with_the_gravest_status() -> None:
    (one,) = merged([found("ok"), found("warn"), found("unknown")])
    assert one.status == "unknown"


def test_lines_are_data() -> None:
    line = "finding\tfail\tx.y\tgpu \x1b[31m\ta\u202eb\rc\td\n"
    answer = parse_answer("tuning", line.replace("\r", " ") + "metric\tdrift\tnan\nmetric\tn\t2\n")

    assert answer.findings[0].subject == "gpu [31m"
    assert answer.findings[0].summary == "a b c d"
    assert answer.metrics == {"n": 2.0}
    assert not answer.is_whole


def test_metrics_are_written_for_node_exporter_and_replaced_at_once(rig: Rig) -> None:
    folder = rig.root / "textfiles"
    folder.mkdir()
    text = f"{finding('warn')}; printf 'metric\\tlimit_drift\\t1\\n'"
    rig.declare(
        "metrics /textfiles",
        rig.concern("tuning", text),
        rig.concern("odd", finding("ok", subject='a"b\\\\c')),
    )
    rig.run("report")
    nodes = set()
    for _ in range(2):
        done = rig.run("metrics")
        assert (done.returncode, done.stderr) == (0, "")
        (file,) = folder.iterdir()
        nodes.add(file.stat().st_ino)

    assert len(nodes) == 2
    (file,) = folder.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("rigops.prom", 0o644)
    samples = parse(file.read_text())
    findings = {tuple(value for _, value in labels) for labels in samples["rigops_finding"]}
    assert ("pwr.limit", "gpu 0000:0a:00.0", "warn") in findings
    assert ("pwr.limit", 'a"b\\c', "ok") in findings
    assert samples["rigops_limit_drift"] == {(): 1.0}
    assert samples["rigops_reboot_owed"] == {(): 0.0}
    assert samples["rigops_self_check_problems"] == {(): 1.0}
    ((_, stamp),) = samples["rigops_self_check_timestamp_seconds"].items()
    assert abs(stamp - time.time()) < 600
    record = json.loads((rig.root / STATE / "metrics.json").read_text())
    assert record == {"schema": "rigops.metrics/1", "textfile": "/textfiles/rigops.prom"}


def test_a_folder_that_is_gone_fails_and_is_not_made(rig: Rig) -> None:
    rig.declare("metrics /textfiles")

    done = rig.run("metrics")

    assert done.returncode != 0
    assert done.stderr.endswith("rigops.prom cannot be written: No such file or directory\n")
    assert not (rig.root / "textfiles").exists()


def test_what_the_user_of_the_folder_puts_there_is_neither_followed_nor_in_the_way(
    rig: Rig,
) -> None:
    folder, victim = rig.root / "textfiles", rig.write("victim", "as it was")
    (folder / ".rigops.prom.tmp").mkdir(parents=True)
    (folder / "rigops.prom").symlink_to(victim)
    rig.declare("metrics /textfiles")

    assert rig.run("metrics").returncode == 0

    assert victim.read_text() == "as it was"
    assert (folder / "rigops.prom").lstat().st_size > 0
    assert not (folder / "rigops.prom").is_symlink()


def test_a_folder_in_the_place_of_the_textfile_is_said_and_nothing_is_left(rig: Rig) -> None:
    (rig.root / "textfiles/rigops.prom").mkdir(parents=True)
    rig.declare("metrics /textfiles")

    done = rig.run("metrics")

    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert done.stderr.endswith("rigops.prom cannot be written: Is a directory\n")
    assert [one.name for one in (rig.root / "textfiles").iterdir()] == ["rigops.prom"]


def test_a_name_that_two_concerns_report_and_every_character_of_a_label_are_valid() -> None:
    odd = "".join(map(chr, range(32, 1000)))
    text = exposition([Found("ok", "a.b", odd, "", "x")], {"rigops_n": 1e12, "finding": 2, "n": 3})

    samples = parse(text)
    (labels,) = samples["rigops_finding"]
    assert dict(labels)["subject"] == odd
    assert samples["rigops_n"] == {(): 3.0}


@pytest.mark.parametrize("word", ["tell", "-h"])
def test_another_word_is_refused(rig: Rig, word: str) -> None:
    done = rig.run(word)
    assert (done.returncode, done.stderr) == (2, "usage: self_check [report | metrics]\n")


def test_without_its_settings_it_says_so(rig: Rig) -> None:
    (rig.root / "etc/rigops/self_check").unlink()
    done = rig.run()
    assert done.returncode == 3
    assert "/etc/rigops/self_check cannot be read" in done.stderr
