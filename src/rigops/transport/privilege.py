"""How commands become root on a host: decided once, when it has been reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from rigops.transport.errors import TransportError, clean

if TYPE_CHECKING:
    from rigops.transport.connection import Connection

_DEADLINE_S: Final = 30

# Here and not by trying a whole script: each line of it would count as one more wrong password.
_TRY: Final = (
    'PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin; [ "$(id -u)" != 0 ] || { echo is root; exit; }; '
    "command -v sudo >/dev/null || { echo is without sudo; exit; }; "
    "if sudo -n true </dev/null >/dev/null 2>&1; then echo is free; exit; fi; "
    "if LC_ALL=C sudo -k -S -p '' true; then echo is allowed; fi"
)


@dataclass(frozen=True)
class Privilege:
    """`argv` goes before a command, `preamble` before its input. The password is in no argv."""

    kind: Literal["root", "free", "password"]
    argv: tuple[str, ...] = ()
    preamble: bytes = field(default=b"", repr=False)


def with_password(connection: Connection, password: str) -> Privilege:
    """The password is used only where neither root nor `sudo -n` does it."""
    line = password.encode() + b"\n"
    answer = connection.run(["sh", "-c", _TRY], stdin=line, deadline_s=_DEADLINE_S)
    said = answer.stdout.decode("utf-8", "replace").split("\n")
    if "is root" in said:
        return Privilege("root")
    if "is free" in said:
        return Privilege("free", ("sudo", "-n"))
    if "is allowed" in said:
        return Privilege("password", ("sudo", "-k", "-S", "-p", ""), line)
    raise _refusal(connection.name, answer.stderr, has_sudo="is without sudo" not in said)


def _refusal(host: str, said: bytes, *, has_sudo: bool) -> TransportError:
    if not has_sudo:
        message, fix = "there is no sudo here", "log in as root, or use --no-root"
    elif b"not in the sudoers" in said or b"not allowed" in said:
        message = "sudo does not allow this user anything"
        fix = "add the user to the group sudo (or wheel) there, log in as root, or use --no-root"
    elif b"incorrect password" in said or b"no password was provided" in said:
        message = "sudo did not take the password"
        fix = "type it again; it is the password of the user that logs in there"
    else:
        message = f"sudo did not work: {clean(said)}"
        fix = "see that `sudo true` works there"
    return TransportError("sudo", f"{host}: {message}", host=host, fix=fix)
