"""The conversation with sudo, held with stand-ins for it that behave badly."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from rigops.transport import (
    LOCAL,
    HostKeyPolicy,
    Privilege,
    TransportError,
    connect,
    with_password,
)
from rigops.transport.result import Result, ScriptResult

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rigops.transport import Connection

SECRET = b"touch ran"
# Each gets `-p PROMPT -- sh -c …`, and says in the file `lines` what it has read.
_ASK = 'printf %s "$2" >&2; read -r word; echo "$word" >>lines; '
ONCE = _ASK + '[ "$word" = "touch ran" ] || exit 1; shift 3; exec "$@"'
TWICE = _ASK + "echo Sorry >&2; " + _ASK + "exit 1"
NEVER = 'shift 3; exec "$@"'
LEAVES_IT = 'printf %s "$2" >&2; shift 3; exec "$@"'
GREEDY = 'printf %s "$2" >&2; dd bs=8192 count=1 >>lines 2>/dev/null; shift 3; exec "$@"'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.chdir(tmp_path)
    with connect(LOCAL, host_keys=HostKeyPolicy()) as connection:
        yield connection


def sudo(program: str) -> Privilege:
    return Privilege("password", ("sh", "-c", program, "sudo"), SECRET)


@pytest.mark.parametrize("program", [ONCE, NEVER, LEAVES_IT, GREEDY])
def test_a_command_gets_all_of_its_input_and_none_of_the_password(
    here: Connection, tmp_path: Path, program: str
) -> None:
    script = "cat lines; echo end; echo oops >&2; exit 3\n"
    (tmp_path / "lines").touch()

    done = here.run_script(script, privilege=sudo(program), deadline_s=60)
    given = here.run(["cat"], stdin=script.encode(), privilege=sudo(program), deadline_s=60)

    read = (done.stdout.removesuffix(b"end\n"), done.stderr, done.exit_code)
    assert read in {(b"", b"oops\n", 3), (SECRET + b"\n", b"oops\n", 3)}
    assert done.complete
    assert (given.stdout.decode(), given.stderr) == (script, b"")
    assert not (tmp_path / "ran").exists()


def test_a_sudo_that_does_not_ask_never_sees_the_password(here: Connection) -> None:
    eats = "cat >lines & " + NEVER

    here.run(["true"], stdin=b"input", privilege=sudo(eats), deadline_s=60)

    with open("lines") as lines:  # noqa: PTH123 - the text of a program
        assert "touch" not in lines.read()


def test_a_password_is_sent_once_and_a_refusal_ends_at_once(
    here: Connection, tmp_path: Path
) -> None:
    done = here.run(["cat"], stdin=b"input", privilege=sudo(TWICE), deadline_s=60)

    assert done.exit_code == 1
    assert (tmp_path / "lines").read_text().split("\n") == ["touch ran", "", ""]
    assert done.stderr.count(b"sudo asked for the password of %p\n") == 2


def test_the_password_is_in_no_word_and_no_representation() -> None:
    privilege = Privilege("password", ("sudo", "-k", "-S"), SECRET)

    assert "touch" not in repr(privilege)
    assert "touch" not in " ".join(privilege.command("true", "token", ["cat"]))


class Refusing:
    """A host whose sudo asks, and then says this."""

    name = "rig"

    def __init__(self, noise: bytes) -> None:
        self._noise = noise

    def run(self, *_: object, **__: object) -> Result:
        return Result(exit_code=0, stdout=b"is asked\n", stderr=b"")

    def run_script(self, *_: object, **__: object) -> ScriptResult:
        return ScriptResult(
            exit_code=1,
            stdout=b"",
            stderr=b"",
            started=False,
            complete=True,
            login_noise=self._noise,
            login_seconds=0.1,
        )


@pytest.mark.parametrize(
    "noise", [b"rolf is not in the sudoers file.", b"sudo: sorry, you must have a tty to run sudo"]
)
def test_what_only_doctor_has_is_not_advised_as_if_every_command_had_it(noise: bytes) -> None:
    with pytest.raises(TransportError) as refused:
        with_password(cast("Connection", Refusing(noise)), "secret")

    fix = refused.value.problems[0].fix
    assert "log in as root (doctor runs with --no-root too)" in fix
