from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rigops.converge import reboot as module
from rigops.converge.reboot import order_only, reboot
from rigops.errors import RigopsError
from rigops.hostside.packing import pack
from rigops.probe.script import PATH
from rigops.transport import (
    Connection,
    HostKeyPolicy,
    Privilege,
    Result,
    ScriptResult,
    Target,
    TransportError,
)
from tests.unit import programs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from rigops.transport.connection import Execution

TARGET = Target(name="rig", hostname="rig")
SUDO = Privilege("password", ("sudo", "-k", "-S", "-p", ""), b"secret\n")
ROOT = Privilege("root")
BLOCK = b'a(ssssuu) 1 "shutdown" "APT" "APT is installing packages" "block" 0 12\n'
DELAY = BLOCK.replace(b'"block"', b'"delay"')


@dataclass
class Rig(Connection):
    """One boot of a host: what it says its boot is, and how it takes an order."""

    boot: bytes = b"one"
    locks: bytes = b""
    ordered: ScriptResult | TransportError | None = None
    lost_when_settling: bool = False
    settled: bool = False
    closed: bool = False
    orders: list[tuple[Privilege | None, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__("rig", "root@rig:22")

    def run(self, argv: Sequence[str], **_: Any) -> Result:
        if "is-system-running" in " ".join(argv):
            self.settled = True
            if self.lost_when_settling:
                raise TransportError("lost", "rig: cut", host="rig")
        return Result(exit_code=0, stdout=self.boot + b"\n" + self.locks, stderr=b"")

    def run_script(
        self,
        script: str | Iterable[bytes],
        *,
        privilege: Privilege | None = None,
        **_: Any,
    ) -> ScriptResult:
        assert isinstance(script, str)
        self.orders.append((privilege, script))
        if isinstance(self.ordered, TransportError):
            raise self.ordered
        return self.ordered or said(0)

    def _execute(self, execution: Execution, deadline_s: float) -> int:
        raise AssertionError

    def close(self) -> None:
        self.closed = True


def said(code: int, stderr: bytes = b"") -> ScriptResult:
    return ScriptResult(
        exit_code=code, stdout=b"", stderr=stderr, started=True, complete=True, login_noise=b"",
        login_seconds=0,
    )  # fmt: skip


def lost(kind: str = "refused") -> TransportError:
    return TransportError(kind, f"rig: {kind}", host="rig")  # type: ignore[arg-type]  # any word


@pytest.fixture(autouse=True)
def _own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """In which nothing but pauses takes any."""
    now = 1000.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))


def answering(monkeypatch: pytest.MonkeyPatch, *answers: Rig | TransportError) -> list[float]:
    """What each try meets, the last for ever; the deadlines that they were given."""
    left: Iterator[Rig | TransportError] = iter(answers)
    deadlines: list[float] = []

    def connect(_: Target, *, deadline_s: float, host_keys: object) -> Connection:
        assert host_keys == HostKeyPolicy()
        deadlines.append(deadline_s)
        answer = next(left, answers[-1])
        if isinstance(answer, TransportError):
            raise answer
        return answer

    monkeypatch.setattr(module, "connect", connect)
    return deadlines


def again(rig: Rig, *, deadline_s: float = 5, **options: Any) -> Connection:
    options.setdefault("privilege", ROOT)
    return reboot(rig, TARGET, deadline_s=deadline_s, waiting=lambda _: None, **options)


def test_it_waits_for_another_boot_and_not_only_for_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, same, new = Rig(), Rig(), Rig(boot=b"two")
    answering(monkeypatch, same, lost(), lost("auth"), new)

    assert again(first) is new
    assert first.closed
    assert same.closed
    assert not new.closed
    assert new.settled


def test_a_host_that_goes_down_again_while_it_settles_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    second, third = Rig(boot=b"two", lost_when_settling=True), Rig(boot=b"three")
    answering(monkeypatch, second, lost(), third)

    assert again(Rig()) is third
    assert second.closed


@pytest.mark.parametrize("kind", ["lost", "timeout"])
def test_a_cut_right_after_the_order_counts_as_going_down(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    new = Rig(boot=b"two")
    answering(monkeypatch, new)

    assert again(Rig(ordered=lost(kind))) is new


@pytest.mark.parametrize("code", [-1, 143])
def test_so_does_a_session_that_the_shutdown_ended(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    new = Rig(boot=b"two")
    answering(monkeypatch, new)

    assert again(Rig(ordered=said(code))) is new


@pytest.mark.parametrize("kind", ["key_changed", "key_unknown"])
def test_another_host_key_is_refused_at_once(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    tries = answering(monkeypatch, lost(), lost(kind), Rig(boot=b"two"))

    with pytest.raises(TransportError, match=kind):
        again(Rig())
    assert len(tries) == 2


def test_at_the_deadline_it_says_what_was_seen_last(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = answering(monkeypatch, lost("timeout"))

    with pytest.raises(RigopsError) as caught:
        again(Rig(), deadline_s=12)
    (problem,) = caught.value.problems
    assert problem.host == "rig"
    assert "rig: it did not come back within 12 s" in problem.message
    assert "rig: timeout" in problem.message
    assert "reboot_timeout" in problem.fix
    assert tries == [10, 10, *range(10, 0, -1)]


def test_a_host_that_never_went_down_is_told_from_one_that_never_came_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(monkeypatch, Rig())

    with pytest.raises(RigopsError, match="it still answered as before"):
        again(Rig(), deadline_s=3)


def test_a_lock_that_blocks_is_named_and_nothing_is_ordered() -> None:
    rig = Rig(locks=BLOCK)

    with pytest.raises(RigopsError) as caught:
        again(rig)
    (problem,) = caught.value.problems
    assert "APT (12) asks not to shut down: APT is installing packages" in problem.message
    assert "wait for its end" in problem.fix
    assert not rig.orders
    assert not rig.closed


def test_a_lock_that_delays_is_no_hindrance(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Rig(boot=b"two")
    answering(monkeypatch, new)

    assert again(Rig(locks=DELAY)) is new


def test_a_refusal_is_told_in_the_hosts_own_words() -> None:
    rig = Rig(ordered=said(1, b'Operation inhibited by "APT" (PID 12 "apt", user root).\n'))

    with pytest.raises(
        RigopsError, match='rig: it refused to reboot: Operation inhibited by "APT"'
    ):
        again(rig)
    assert not rig.closed


def test_the_password_goes_before_the_script_and_into_no_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    answering(monkeypatch, Rig(boot=b"two"))
    again(rig, privilege=SUDO)

    ((privilege, script),) = rig.orders
    assert privilege is SUDO
    assert "secret" not in script


def test_the_last_resort_is_armed_in_the_exec_of_the_order_and_passes_locks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(locks=BLOCK)
    answering(monkeypatch, Rig(boot=b"two"))
    again(rig, last_resort_s=90)

    ((_, script),) = rig.orders
    assert pack("last_resort").text in script
    assert "arm 90 " in script
    assert "order -i" in script


def test_without_consent_nothing_is_armed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    answering(monkeypatch, Rig(boot=b"two"))
    again(rig)

    ((_, script),) = rig.orders
    assert "last-resort" not in script
    assert "-i" not in script.split()


def test_this_machine_is_only_told_and_a_lock_holds_for_it_too() -> None:
    rig = Rig()
    order_only(rig, SUDO)

    ((privilege, script),) = rig.orders
    assert privilege is SUDO
    assert "--on-active=5s" in script
    assert not rig.closed
    with pytest.raises(RigopsError, match="APT"):
        order_only(Rig(locks=BLOCK), ROOT)
    with pytest.raises(RigopsError, match="refused to reboot: no"):
        order_only(Rig(ordered=said(1, b"no")), ROOT)


# ---- the script, where every program that it may find is the test's

HARMLESS = ("cat", "mkdir", "rm")


@dataclass(frozen=True)
class Machine:
    root: Path
    shell: str

    def __post_init__(self) -> None:
        for folder in ("run/systemd/system", "bin"):
            (self.root / folder).mkdir(parents=True)
        for name in HARMLESS:
            programs.put_program(self.root / "bin" / name, f'exec {shutil.which(name)} "$@"')
        self.systemctl("")

    def systemctl(self, answer: str) -> None:
        programs.put_program(
            self.root / "bin/systemctl", f'echo "$*" >>"{self.root}/done"\n{answer}'
        )

    @property
    def done(self) -> list[str]:
        return (self.root / "done").read_text().splitlines()

    @property
    def files(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.root))
            for path in (self.root / "run").rglob("*")
            if path.is_file()
        )

    def order(self, last_resort_s: float | None) -> subprocess.CompletedProcess[str]:
        script = module._order_script(last_resort_s)
        head = f"PATH={PATH}\n"
        assert script.count(head) == 1  # or it would reboot the machine that tests it
        script = script.replace(head, f"PATH={self.root}/bin\n")
        script = script.replace("/run/", f"{self.root}/run/")
        return subprocess.run(
            [*programs.shell(self.shell), "-s"], input=script, capture_output=True, text=True,
            check=False, timeout=60, env={"PATH": f"{self.root}/bin"},
        )  # fmt: skip


@pytest.fixture(params=programs.SHELLS)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path / "host", request.param)


UNIT = "rigops-last-resort.service"
ARMED = ["run/rigops/last-resort", f"run/systemd/system/{UNIT}"]


def test_armed_and_then_ordered(machine: Machine) -> None:
    done = machine.order(90)

    assert (done.returncode, done.stderr) == (0, "")
    assert machine.done == [f"stop {UNIT}", f"start {UNIT}", "reboot -i"]
    assert machine.files == ARMED
    program, unit = ((machine.root / name).read_text() for name in ARMED)
    folder = f"{machine.root}/run/"
    assert program == pack("last_resort").text.replace("/run/", folder)
    assert f"@/bin/sh @rigops-last-resort {folder}rigops/last-resort 90\n" in unit
    assert "DefaultDependencies=no" in unit


def test_a_refused_order_disarms(machine: Machine) -> None:
    machine.systemctl('case $1 in reboot) echo "inhibited by APT" >&2; exit 1;; esac')
    done = machine.order(90)

    assert done.returncode == 1
    assert done.stderr == "inhibited by APT\n"
    assert machine.done[-1] == f"--quiet stop {UNIT}"
    assert machine.files == []


def test_nothing_is_ordered_if_the_last_resort_could_not_be_armed(machine: Machine) -> None:
    machine.systemctl('case $1 in start) echo "no such unit" >&2; exit 5;; esac')
    done = machine.order(90)

    assert done.returncode == 1
    assert "no such unit" in done.stderr
    assert not [line for line in machine.done if line.startswith("reboot")]
    assert machine.files == []


def test_a_reboot_that_somebody_has_ordered_already_is_as_good(machine: Machine) -> None:
    machine.systemctl("echo 'Action reboot already in progress, refusing' >&2; exit 1")
    done = machine.order(None)

    assert (done.returncode, machine.done) == (0, ["reboot"])


def test_a_script_that_arrives_in_part_does_nothing(machine: Machine) -> None:
    script = module._order_script(90)
    cut = script[: script.rindex("rigops_reboot")]
    done = subprocess.run(
        [*programs.shell(machine.shell), "-s"], input=cut, capture_output=True, text=True,
        check=False, env={"PATH": f"{machine.root}/bin"},
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (machine.root / "done").exists()


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize(
    "script",
    [module._order_script(90), module._ORDER_LATER, module._SETTLED_SCRIPT],
    ids=["order", "later", "settled"],
)
def test_shellcheck_has_nothing_to_say(script: str) -> None:
    # What is meant: an option or nothing.
    done = subprocess.run(
        ["shellcheck", "--shell=sh", "--exclude=SC2086", "-"],
        input=script, text=True, capture_output=True, check=False,
    )  # fmt: skip

    assert done.stdout == ""
