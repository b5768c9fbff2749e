"""Which host to reach, and with what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from rigops.dataclass import dataclass
from rigops.errors import UsageError, usage_error
from rigops.transport.errors import clean

_PORTS: Final = range(1, 65536)
_PORT: Final = "a number from 1 to 65535"
_DIGITS: Final = re.compile(r"[0-9]{1,5}")
_MOST_BITS: Final = 64
# What OpenSSH itself accepts as a host name, less what a shell or an option parser could misread.
_NOT_HOST: Final = r"\s\x00-\x1f\x7f'\"`$\\;&<>|(){}@,"
_HOST: Final = re.compile(rf"[^{_NOT_HOST}-][^{_NOT_HOST}]*")
_USER: Final = re.compile(r"[^\s\x00-\x1f\x7f'\"`$;&<>|(){}-][^\x00-\x1f\x7f'\"`$;&<>|(){}]*")
_ACCEPTED: Final = "NAME, USER@HOST, USER@HOST:PORT or USER@[IPV6]:PORT"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A host as the user named it; what is None is left to the ssh configuration.

    `name` is an ssh alias unless there is a `hostname`.
    """

    name: str
    hostname: str | None = None
    port: int | None = None
    user: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    config_file: str | None = None
    known_hosts_file: str | None = None
    forward_agent: bool = False
    allow_agent: bool = True
    look_for_keys: bool = True
    local: bool = False

    def __post_init__(self) -> None:
        if self.local:
            return
        if not _HOST.fullmatch(self.alias):
            raise _bad(self.name, "is not a host name", self.alias)
        if self.user is not None and not _USER.fullmatch(self.user):
            raise _bad(self.name, "is not a user name", self.user)
        if self.port is not None and self.port not in _PORTS:
            raise _bad(self.name, "is not a port", str(self.port), _PORT)

    @property
    def alias(self) -> str:
        """The name to look up in the ssh configuration."""
        return self.hostname or self.name

    @staticmethod
    def parse(text: str) -> Target:
        """From `user@host:port` or an ssh alias; `@local` is this machine."""
        if text == "@local":
            return LOCAL
        user, at, rest = text.rpartition("@")
        if at and not user:
            raise _bad(text, "is not a host", text)
        host, port = _split_port(text, rest)
        return Target(name=text, hostname=host, user=user or None, port=port)

    @staticmethod
    def from_host_data(name: str, data: Mapping[str, object]) -> Target:
        """From the `ssh_…` host data that pyinfra's ssh connector reads."""
        if name == "@local":
            return LOCAL
        return Target(
            name=name.removeprefix("@ssh/"),
            hostname=_text(name, data, "ssh_hostname"),
            port=_port(name, data.get("ssh_port"), "ssh_port"),
            user=_text(name, data, "ssh_user"),
            key=_text(name, data, "ssh_key"),
            key_password=_text(name, data, "ssh_key_password", secret=True),
            password=_text(name, data, "ssh_password", secret=True),
            config_file=_text(name, data, "ssh_config_file"),
            known_hosts_file=_text(name, data, "ssh_known_hosts_file"),
            forward_agent=_flag(name, data, "ssh_forward_agent", default=False),
            allow_agent=_flag(name, data, "ssh_allow_agent", default=True),
            look_for_keys=_flag(name, data, "ssh_look_for_keys", default=True),
        )


LOCAL: Final = Target(name="@local", local=True)


def _bad(host: str, what: str, given: str, accepted: str = _ACCEPTED) -> UsageError:
    return usage_error(message=f"{given!r} {what}", accepted=accepted, host=host, value=given)


def _split_port(text: str, rest: str) -> tuple[str, int | None]:
    if rest.startswith("["):
        host, bracket, tail = rest[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise _bad(text, "has unbalanced brackets", rest)
        return host, _port(text, tail[1:] or None)
    if rest.count(":") == 1:
        host, _, port = rest.partition(":")
        return host, _port(text, port)
    return rest, None  # no port, or a bare IPv6 address


def _port(name: str, value: object, key: str = "") -> int | None:
    if value is None:
        return None
    number = value
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        number = int(value)
    if isinstance(number, int) and not isinstance(number, bool) and number in _PORTS:
        return number
    is_giant = isinstance(value, int) and value.bit_length() > _MOST_BITS  # str() refuses some
    given = "a number of many digits" if is_giant else clean(repr(value), 40)
    raise usage_error(
        message=f"{given} is not a port", accepted=_PORT, host=name, key=key or None, value=given
    )


def _text(name: str, data: Mapping[str, object], key: str, *, secret: bool = False) -> str | None:
    value = data.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if hasattr(value, "__fspath__"):
        return str(value)
    given = type(value).__name__ if secret else repr(value)
    raise usage_error(message=f"not a string: {given}", accepted="a string", host=name, key=key)


def _flag(name: str, data: Mapping[str, object], key: str, *, default: bool) -> bool:
    value = data.get(key)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise usage_error(
        message=f"not True or False: {value!r}", accepted="True or False", host=name, key=key
    )
