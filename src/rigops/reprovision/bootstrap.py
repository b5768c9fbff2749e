"""Stage bootstrap: a login by key with root and python3, on a host that may have none of them.

Runs after the host key is trusted: a password goes to the server with exactly that key, or nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Final, Protocol

from rigops.capture.document import Capture, User
from rigops.dataclass import dataclass
from rigops.errors import RigopsError, rigops_error
from rigops.transport import (
    Connection,
    HostKeyPolicy,
    Privilege,
    Target,
    TransportError,
    connect,
    with_password,
)
from rigops.transport.errors import clean
from rigops.transport.privilege import AS_LOGIN, WITHOUT_PASSWORD
from rigops.transport.public_keys import login_key

ROOT: Final = "root"

_LOOK_S: Final = 30.0
_INSTALL_S: Final = 900.0
_ATTEMPTS: Final = 3
_USER: Final = re.compile(r"[a-z_][a-z0-9_.-]*")

LOOK: Final = """
PATH=$PATH:/usr/sbin:/usr/bin:/sbin:/bin
id -un
echo "machine-$(cat /etc/machine-id)"
[ "$(id -u)" = 0 ] && echo is-root
command -v python3 >/dev/null && echo has-python
for program; do command -v "$program" >/dev/null || echo "lacks-$program"; done
sudo -n -- sh -c : </dev/null >/dev/null 2>&1 && echo has-sudo
:
"""

# Each step only where it is not so yet. The sudo rule is in force only once visudo has read it.
INSTALL: Final = r"""
set -eu
export PATH="$PATH:/usr/sbin:/usr/bin:/sbin:/bin" LC_ALL=C DEBIAN_FRONTEND=noninteractive
user=$1 uid=$2 gid=$3 home=$4 shell=$5 groups=$6 key=$7 rule=$8
did() { echo "did $*"; }
missing=
command -v python3 >/dev/null || missing=python3
[ -z "$rule" ] || command -v sudo >/dev/null || missing="$missing sudo"
shift 8
for program; do command -v "${program%:*}" >/dev/null || missing="$missing ${program#*:}"; done
if [ -n "$missing" ]; then
    command -v apt-get >/dev/null || { echo "no apt-get; missing: $missing" >&2; exit 21; }
    install="apt-get -q -y install --no-install-recommends $missing"
    # shellcheck disable=SC2086 # it is several words
    $install </dev/null >&2 || { apt-get -q update >&2 && $install </dev/null >&2; } || exit 22
    did "installed $missing"
fi
# A reboot leaves locks of whom it cut off, and another process may have that number by now.
for file in passwd shadow group gshadow subuid subgid; do
    lock=/etc/$file.lock
    [ ! -e "$lock" ] || grep -qsE '^(user|group|gpasswd|passwd|ch|vi|new)' \
        "/proc/$(tr -cd 0-9 <"$lock")/comm" || rm -f "$lock"
done
# useradd writes passwd, then shadow: a user that it was interrupted in between is made again.
if [ "$user" != root ] && [ -e /etc/shadow ] && grep -qs "^$user:" /etc/passwd &&
    ! grep -qs "^$user:" /etc/shadow; then
    userdel -f "$user" >&2
fi
if ! getent passwd "$user" >/dev/null; then
    set --
    [ -z "$uid" ] || getent passwd "$uid" >/dev/null || set -- --uid "$uid"
    if getent group "$user" >/dev/null; then
        set -- "$@" --gid "$user"
    elif [ -n "$gid" ] && ! getent group "$gid" >/dev/null; then
        groupadd --gid "$gid" "$user"
        set -- "$@" --gid "$user"
    fi
    [ -z "$home" ] || set -- "$@" --home-dir "$home"
    [ -x "$shell" ] || shell=/bin/sh
    useradd --create-home --shell "$shell" "$@" "$user"
    did "created the user $user ($(id -u "$user"))"
fi
home=$(getent passwd "$user" | cut -d : -f 6)
# useradd makes it last: where it was cut off, it is absent, or still root's and empty.
if [ "$user" != root ] &&
    { [ ! -d "$home" ] || { [ -O "$home" ] && [ -z "$(ls -A "$home")" ]; }; }; then
    install -d -o "$user" -g "$(id -g "$user")" -m 0700 "$home"
    # With their own times: newer than the backup they would count as data.
    [ ! -d /etc/skel ] || runuser -u "$user" -- cp -Rp /etc/skel/. "$home/"
    did "created $home"
fi
member=" $(id -nG "$user") "
for group in $groups; do
    case $member in *" $group "*) continue ;; esac
    getent group "$group" >/dev/null || continue
    gpasswd -a "$user" "$group" >&2
    did "added $user to $group"
done
if [ -n "$key" ]; then
    # As the user, whose folder it is.
    place='umask 077; cd && mkdir -p .ssh && { [ ! -s .ssh/authorized_keys ] ||
        [ -z "$(tail -c 1 .ssh/authorized_keys)" ] || echo >>.ssh/authorized_keys; }
        set -f; set -- $1
        grep -qsF "$2" .ssh/authorized_keys || { echo "$*" >>.ssh/authorized_keys && echo new; }'
    [ -z "$(runuser -u "$user" -- env HOME="$home" \
        sh -c "$place" sh "$key")" ] || did "allowed the public key for $user"
fi
if [ -n "$rule" ] && ! runuser -u "$user" -- sudo -n -- sh -c : </dev/null >/dev/null 2>&1; then
    umask 077
    mkdir -p /etc/sudoers.d
    rm -f /etc/sudoers.d/.rigops.* # of one that was cut off
    new=$(mktemp /etc/sudoers.d/.rigops.XXXXXX) # sudo reads no name with a dot
    trap 'rm -f "$new"' EXIT
    printf '# By rigops reprovision.\n%s ALL=(ALL:ALL) NOPASSWD: ALL\n' "$user" >"$new"
    chmod 0440 "$new"
    visudo -cqf "$new" >&2 || exit 23
    mv -f "$new" "/etc/sudoers.d/$rule"
    visudo -cq >&2 || { rm -f "/etc/sudoers.d/$rule"; exit 23; }
    did "allowed sudo without a password for $user"
fi
"""
_FAILED: Final = {
    21: ("programs are missing, and there is no apt-get", "install them by hand"),
    22: (
        "programs are missing, and could not be installed",
        "give the host a network and sources of packages, or install them by hand",
    ),
    23: ("visudo refuses the rule for sudo", "see visudo -c there"),
}


class AskPassword(Protocol):
    def __call__(self, login: str, *, again: bool) -> str | None:
        """The password of a login such as me@rig; None: there is none. `again`: it was wrong."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """Whom rigops logs in as. `uid` to `groups`: as captured, where it does not exist yet."""

    name: str
    uid: int | None = None
    gid: int | None = None
    home: str = ""
    shell: str = "/bin/bash"
    groups: tuple[str, ...] = ()

    @classmethod
    def from_capture(cls, name: str, capture: Capture) -> Account:
        found: User | None = next((one for one in capture.users if one.name == name), None)
        if found is None:
            return cls(name=name)
        return cls(
            name=name,
            uid=found.uid,
            gid=found.gid,
            home=found.home,
            shell=found.shell,
            groups=tuple(one for one in found.groups if one != name),
        )


@dataclass(frozen=True)
class _Look:
    user: str
    is_root: bool
    has_python: bool
    has_sudo: bool
    lacks: tuple[str, ...] = ()
    machine_id: str = ""

    @property
    def has_root(self) -> bool:
        return self.is_root or self.has_sudo


class Bootstrap:
    """`sudo_password`: given by a person, who then wants no sudo without one.

    `programs`: what else has to be there, with the package of each.

    `prefers_password`: no key is tried before one was installed.

    `machine_id`: of the host, after the run.
    """

    def __init__(
        self,
        target: Target,
        capture: Capture,
        login: str,
        *,
        ask: AskPassword,
        programs: Mapping[str, str] | None = None,
        prefers_password: bool = False,
        sudo_password: str | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._target = target
        self._account = Account.from_capture(login, capture)
        self._ask = ask
        self._programs = programs or {}
        self._prefers_password = prefers_password
        self._sudo_password = sudo_password
        self._tell = tell
        self.machine_id = ""

    def run(self) -> list[str]:
        """The steps done; none where a login by key has root and python3 already."""
        with ExitStack() as stack:
            mine = self._by_key(self._target)
            if mine is not None:
                stack.enter_context(mine)
                found = _look(mine, self._programs)
                self.machine_id = found.machine_id
                if self._is_complete(found):
                    return []
            connection, privilege = self._root(mine, stack)
            self._tell("bootstrap: installing the login")
            done = self.install(connection, privilege)
        self._verify()
        return done

    def _is_complete(self, found: _Look) -> bool:
        has_root = found.has_root or self._sudo_password is not None
        return found.has_python and has_root and not found.lacks

    def _root(self, mine: Connection | None, stack: ExitStack) -> tuple[Connection, Privilege]:
        """The login that may change the host: itself, root, or either by a password."""
        if mine is not None and _look(mine).has_root:
            return mine, WITHOUT_PASSWORD
        if mine is not None and self._sudo_password is not None:
            return mine, with_password(mine, self._sudo_password)
        as_root = replace(self._target, user=ROOT)
        if self._account.name != ROOT and (root := self._by_key(as_root)) is not None:
            return stack.enter_context(root), AS_LOGIN
        if self._account.name != ROOT and mine is None:
            opened = self._by_password(self._target, self._account.name)
            if opened is not None:
                connection, password = opened
                stack.enter_context(connection)
                privilege = _privilege(connection, password)
                if privilege is not None:
                    return connection, privilege
        opened = self._by_password(as_root, ROOT)
        if opened is None:
            raise self._no_way_in()
        return stack.enter_context(opened[0]), AS_LOGIN

    def _by_key(self, target: Target) -> Connection | None:
        if self._prefers_password:
            return None
        try:
            return connect(target, host_keys=HostKeyPolicy())
        except TransportError as error:
            if error.kind != "auth":
                raise
            return None

    def _by_password(self, target: Target, user: str) -> tuple[Connection, str] | None:
        for attempt in range(_ATTEMPTS):
            password = self._ask(f"{user}@{self._target.name}", again=attempt > 0)
            if not password:
                return None
            try:
                # Servers count every key that is offered, and hang up after six.
                given = replace(target, password=password, allow_agent=False, look_for_keys=False)
                return connect(given, host_keys=HostKeyPolicy()), password
            except TransportError as error:
                if error.kind != "auth":
                    raise
        return None

    def _no_way_in(self) -> RigopsError:
        return TransportError(
            "auth",
            f"{self._target.name}: neither a key nor a password opens {self._account.name} or root",
            host=self._target.name,
            fix="run it at a terminal, or with --ask-password; a new system may allow root's "
            "password only at its console (PermitRootLogin in sshd_config)",
        )

    def install(self, connection: Connection, privilege: Privilege) -> list[str]:
        """The steps still to do. After a restore too, which may bring older files of the login."""
        account = self._account
        if not _USER.fullmatch(account.name):
            raise _failed(account.name, "no name that useradd accepts", "create the user by hand")
        wants_rule = account.name != ROOT and self._sudo_password is None
        words = (
            account.name,
            str(account.uid or ""),
            str(account.gid or ""),
            account.home,
            account.shell,
            " ".join(account.groups),
            login_key(self._target) or "",
            f"rigops-{account.name.replace('.', '_')}" if wants_rule else "",
            *(f"{program}:{package}" for program, package in self._programs.items()),
        )
        answer = connection.run(
            ["sh", "-c", INSTALL, "rigops", *words], privilege=privilege, deadline_s=_INSTALL_S
        )
        if answer.exit_code != 0:
            what, fix = _FAILED.get(answer.exit_code, ("the login could not be installed", ""))
            said = clean(answer.stderr[-2000:])
            raise _failed(connection.name, f"{what}: {said}" if said else what, fix)
        lines = answer.stdout.decode(errors="replace").splitlines()
        return [line.removeprefix("did ") for line in lines if line.startswith("did ")]

    def _verify(self) -> None:
        """By the way that every later command takes."""
        with connect(self._target, host_keys=HostKeyPolicy()) as connection:
            found = _look(connection, self._programs)
            self.machine_id = found.machine_id
            if not self._is_complete(found):
                lacks = [] if found.has_root else ["sudo without a password"]
                lacks += [] if found.has_python else ["python3"]
                raise _failed(
                    connection.name,
                    f"still missing for {found.user}: {', '.join((*lacks, *found.lacks))}",
                    "see sudo -l and the PATH there",
                )


def _look(connection: Connection, programs: Iterable[str] = ()) -> _Look:
    answer = connection.run(["sh", "-c", LOOK, "rigops", *programs], deadline_s=_LOOK_S)
    user, *flags = answer.stdout.decode(errors="replace").split() or [""]

    def named(kind: str) -> tuple[str, ...]:
        return tuple(one.removeprefix(kind) for one in flags if one.startswith(kind))

    return _Look(
        user,
        "is-root" in flags,
        "has-python" in flags,
        "has-sudo" in flags,
        named("lacks-"),
        next(iter(named("machine-")), ""),
    )


def _privilege(connection: Connection, password: str) -> Privilege | None:
    """Root by sudo with the login's own password; None: sudo is missing, or refuses it."""
    try:
        return with_password(connection, password)
    except TransportError as error:
        if error.kind not in {"auth", "sudo"}:
            raise
        return None


def _failed(host: str, message: str, fix: str) -> RigopsError:
    return rigops_error(message=message, host=host, fix=fix)
