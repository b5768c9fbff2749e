"""Whether the login becomes root, and by what: the password of sudo is tried before it is used."""

from __future__ import annotations

import secrets
from typing import Final

from rigops.transport.connection import Connection
from rigops.transport.errors import TransportError, clean
from rigops.transport.privilege import ASKED, Privilege
from rigops.transport.result import ScriptResult

_TRY_S: Final = 60

# The form in which every command runs later, since sudo may allow one program and not another.
_TRY_WITHOUT: Final = (
    "PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin; "
    'if [ "$(id -u)" = 0 ]; then echo is root; '
    'elif sudo -n -- sh -c "$0" rigops true </dev/null >/dev/null 2>&1; then echo is free; '
    "elif command -v sudo >/dev/null; then echo is asked; else echo is without sudo; fi"
)


def with_password(connection: Connection, password: str) -> Privilege:
    """The password is used only where neither root nor `sudo -n` does it, and sent only once."""
    tried = connection.run(["sh", "-c", _TRY_WITHOUT, 'exec "$@"'], deadline_s=_TRY_S)
    found = tried.stdout.decode("utf-8", "replace").split("\n")
    if "is root" in found:
        return Privilege("root")
    if "is free" in found:
        return Privilege("free", ("sudo", "-n", "--"))
    if "is without sudo" in found:
        raise _failed(connection, "sudo is not installed", _AS_ROOT)
    if "is asked" not in found:
        said = clean(tried.stderr) or "nothing"
        raise TransportError(
            "auth",
            f"{connection.name}: its login shell ran no command; output: {said}",
            host=connection.name,
            fix="see that the login gets an ordinary shell",
        )
    if "\n" in password or "\0" in password:
        message = "a sudo password has only one line"
        raise _failed(connection, message, "type it as sudo itself would take it")
    argv = ("sudo", "-k", "-S")
    secret = password.encode("utf-8", "surrogateescape")
    marker = secrets.token_hex(16)
    answer = connection.run_script(
        marker,
        argv=("cat",),
        privilege=Privilege("password", ("env", "LC_ALL=C", *argv), secret),
        deadline_s=_TRY_S,
    )
    if answer.started and answer.stdout == marker.encode():
        return Privilege("password", argv, secret)
    raise _failed(connection, *_why(answer))


_AS_ROOT: Final = "log in as root (doctor runs with --no-root too)"
_NO_RIGHTS: Final = (
    b"not in the sudoers", b"not allowed", b"may not run sudo", b"I'm afraid I can't do that",
)  # fmt: skip
_WRONG: Final = (
    b"incorrect password", b"incorrect authentication", b"Authentication failed", b"try again",
    b"no password was provided",
)  # fmt: skip
_NO_TERMINAL: Final = (
    b"must have a tty", b"no tty present", b"a terminal is required", b"requiretty",
)  # fmt: skip


def _why(answer: ScriptResult) -> tuple[str, str]:
    """The reason why sudo did not run a program, and the fix."""
    if answer.started:
        said = clean(answer.stderr) or "no output"
        return f"sudo gives a shell that runs no program ({said})", "log in as root"
    words = answer.login_noise
    asked = ASKED.findall(words)
    lines = [line for line in words.splitlines() if line.startswith((b"sudo:", b"sudo-rs:"))]
    said = clean(b" ".join(line for line in lines if b"unable to resolve host" not in line))
    said = said or clean(words) or "no output"
    if any(word in words for word in _NO_RIGHTS):
        return (
            "sudo does not allow this user a shell",
            f"add the user to the group sudo (or wheel), or {_AS_ROOT}",
        )
    if any(word in words for word in _NO_TERMINAL):
        return (
            "sudo asks for a terminal",
            f"remove requiretty from its sudoers file, or {_AS_ROOT}",
        )
    if any(word in words for word in _WRONG):
        user = clean(asked[0]) if asked else "the user that logs in"
        return "sudo refused the password", f"type the password of {user}"
    if len(asked) > 1:
        return (
            "sudo asks for more than a password",
            "log in as root, or allow this user sudo without a password",
        )
    return f"sudo failed: {said}", "make `sudo sh -c true` work on the host"


def _failed(connection: Connection, message: str, fix: str) -> TransportError:
    return TransportError("sudo", f"{connection.name}: {message}", host=connection.name, fix=fix)
