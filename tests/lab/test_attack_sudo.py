"""What every kind of sudo makes of commands and of the password: a row each.

The password is itself a command that would leave a file, so whatever takes it for one is seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rigops.transport import TransportError, connect, with_password
from tests.lab import accounts
from tests.lab.connecting import KNOWN_ONLY
from tests.lab.sshd import until
from tests.shards import ATTACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rigops.transport import Connection, Privilege
    from tests.lab.accounts import Accounts

pytestmark = pytest.mark.shard(ATTACK)

PASSWORD = 'touch /srv/ran; echo p%w\' "$HOME" \\\\ ü'
ROOTS = "touch /srv/ran; echo of-root"
ASKS = "rig ALL=(ALL:ALL) ALL"
WRONG = ("sudo refused the password", "type the password of rig")
NO_RIGHTS = ("sudo does not allow this user a shell", "group sudo")
RS = "ln -s /usr/bin/sudo-rs /usr/local/bin/sudo"


@dataclass(frozen=True)
class Row:
    """`works`: the kind of privilege, or what the error and its fix contain."""

    sudoers: str
    works: str | tuple[str, str]
    typed: str = PASSWORD
    setup: str = ""  # of the machine, and what it undoes
    undo: str = ""


def with_rs(row: Row) -> Row:
    return Row(
        row.sudoers,
        row.works,
        row.typed,
        f"{RS}; {row.setup}",
        f"rm -f /usr/local/bin/sudo; {row.undo}",
    )


BOTH = {
    "no password at all": Row("rig ALL=(ALL) NOPASSWD: ALL", "free"),
    "a shell without one": Row(f"{ASKS}\nrig ALL=(ALL) NOPASSWD: /bin/sh, /usr/bin/sh", "free"),
    "only true without one": Row(f"{ASKS}\nrig ALL=(ALL) NOPASSWD: /usr/bin/true", "password"),
    "only sh without one": Row("rig ALL=(ALL) NOPASSWD: /bin/sh, /usr/bin/sh", "free"),
    "a password": Row(ASKS, "password"),
    "a wrong password": Row(ASKS, WRONG, "touch /srv/ran; echo wrong"),
    "an empty password": Row(ASKS, WRONG, ""),
    "two lines for a password": Row(ASKS, ("only one line", "type it"), f"{PASSWORD}\n{PASSWORD}"),
    "no rights": Row("", NO_RIGHTS),
    "rights to true alone": Row("rig ALL=(ALL) /usr/bin/true", NO_RIGHTS),
    "the password of root": Row(f"Defaults targetpw\n{ASKS}", "password", ROOTS),
    "the user's instead of root's": Row(
        f"Defaults targetpw\n{ASKS}", ("sudo refused the password", "type the password of root")
    ),
    "a pty": Row(f"Defaults use_pty\n{ASKS}", "password"),
    "no pty": Row(f"Defaults !use_pty\n{ASKS}", "password"),
    "a locked account": Row(
        ASKS, ("sudo failed: ", "make `sudo sh -c true` work"), PASSWORD,
        "chage --expiredate 1 rig", "chage --expiredate -1 rig",
    ),
    "sudo without its rights": Row(
        ASKS, ("sudo failed: ", "make `sudo sh -c true` work"), PASSWORD,
        'chmod u-s "$(readlink -f "$(command -v sudo)")"',
        'chmod u+s /usr/bin/sudo "$(readlink -f /usr/bin/sudo-rs)"',
    ),
}  # fmt: skip
CLASSIC = {
    "a shell with some arguments without one": Row(
        f"{ASKS}\nrig ALL=(ALL) NOPASSWD: /bin/sh -c echo *, /usr/bin/sh -c echo *", "password"
    ),
    "a terminal is required": Row(
        f"Defaults requiretty\n{ASKS}", ("sudo asks for a terminal", "remove requiretty")
    ),
    "input is logged": Row(f"Defaults log_input, log_output, !compress_io\n{ASKS}", "password"),
    "input is logged where none is asked": Row(
        "Defaults log_input, !compress_io\nrig ALL=(ALL) NOPASSWD: ALL", "free"
    ),
    "a lecture each time": Row(f"Defaults lecture=always\n{ASKS}", "password"),
    "a lecture and a wrong password": Row(
        f"Defaults lecture=always\n{ASKS}", WRONG, "touch /srv/ran; echo wrong"
    ),
    "a prompt of its own": Row(
        f'Defaults passprompt="Secret, please: ", !passprompt_override\n{ASKS}', "password"
    ),
    "insults": Row(f"Defaults insults\n{ASKS}", WRONG, "touch /srv/ran; echo wrong"),
    "words of its own for a wrong password": Row(
        f'Defaults badpass_message="Nope."\n{ASKS}', WRONG, "touch /srv/ran; echo wrong"
    ),
    "one try only": Row(f"Defaults passwd_tries=1\n{ASKS}", WRONG, "touch /srv/ran; echo wrong"),
    "no programs below the shell": Row(
        "rig ALL=(ALL) NOEXEC: ALL", ("a shell that runs no program", "log in as root")
    ),
    "no sudo": Row(
        ASKS, ("sudo is not installed", "log in as root"), PASSWORD,
        "mv /usr/bin/sudo /usr/bin/sudo.away", "mv /usr/bin/sudo.away /usr/bin/sudo",
    ),
    "a broken sudoers file": Row(f"{ASKS}\n)(", "password"),
}  # fmt: skip
ROWS = {
    **{f"sudo: {name}": row for name, row in (BOTH | CLASSIC).items()},
    **{f"sudo-rs: {name}": with_rs(row) for name, row in BOTH.items()},
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    with accounts.running(tmp_path_factory.mktemp("accounts")) as running:
        running.inside(f"chpasswd <<'END'\nrig:{PASSWORD}\nroot:{ROOTS}\nEND\n")
        yield running


@pytest.fixture
def connection(here: Accounts) -> Iterator[Connection]:
    with connect(here.lab.target(), host_keys=KNOWN_ONLY) as connection:
        yield connection


@pytest.fixture(params=list(ROWS.values()), ids=list(ROWS))
def row(here: Accounts, request: pytest.FixtureRequest) -> Iterator[Row]:
    row: Row = request.param
    here.inside(f"{row.setup}\ncat >/etc/sudoers.d/rig <<'END'\n{row.sudoers}\nEND")
    yield row
    here.inside(f"{row.undo}\nrm -rf /etc/sudoers.d/rig /srv/ran /var/log/sudo-io")


def test_root_runs_what_it_is_given_and_nothing_of_the_password(
    here: Accounts, connection: Connection, row: Row
) -> None:
    if isinstance(row.works, str):
        privilege = with_password(connection, row.typed)
        assert privilege.kind == row.works
        everything_arrives(connection, privilege)
    else:
        with pytest.raises(TransportError) as refused:
            with_password(connection, row.typed)
        (problem,) = refused.value.problems
        assert refused.value.kind == "sudo"
        assert row.works[0] in problem.message
        assert row.works[1] in problem.fix
        assert "ran" not in f"{problem.message} {problem.fix}"
    assert here.inside("ls /srv") == ""
    assert here.inside("grep -rlae srv/ran /var/log || true") == ""


def everything_arrives(connection: Connection, privilege: Privilege) -> None:
    """Also the head of what is longer than any buffer."""
    lines = "".join(f"line {number} of many\n" for number in range(2_000))
    given = connection.run(["cat"], stdin=lines.encode(), privilege=privilege, deadline_s=60)
    assert given.stdout.decode() == lines
    assert given.stderr == b""
    script = "id -u\n" + "# a comment that is long enough\n" * 2000 + "echo end; echo oops >&2\n"
    done = connection.run_script(script, privilege=privilege, deadline_s=60)
    assert (done.stdout, done.stderr, done.exit_code) == (b"0\nend\n", b"oops\n", 0)
    assert done.complete
    beats = "read -r line; echo got $line; echo ready; cat >/dev/null; echo over"
    held = connection.hold(
        ["sh", "-c", beats], stdin=b"first\n", privilege=privilege, ready=b"ready", deadline_s=60
    )
    assert held.lines == ("got first", "ready")
    held.release()
    until(lambda: held.ended is not None, "its end")
    assert held.ended == 0


def test_what_hangs_as_root_is_ended_with_the_password(
    here: Accounts, connection: Connection
) -> None:
    here.inside(f"echo '{ASKS}' >/etc/sudoers.d/rig")
    privilege = with_password(connection, PASSWORD)

    with pytest.raises(TransportError) as late:
        connection.run(["sleep", "4711"], privilege=privilege, deadline_s=5)

    assert late.value.kind == "timeout"
    until(lambda: here.inside("pgrep -f 'sleep [4]711' || true") == "", "its end there")
