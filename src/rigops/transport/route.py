"""From a target to the servers on the way there, by OpenSSH's own configuration."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from rigops.dataclass import dataclass
from rigops.errors import RigopsError, usage_error
from rigops.transport.clock import Clock
from rigops.transport.errors import clean, timed_out
from rigops.transport.target import Target

Settings = dict[str, list[str]]

_DEFAULT_KEYS: Final = ("id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
_MOST_JUMPS: Final = 8
_SSH_PORT: Final = 22
_OFF: Final = ("", "none", "no", "false")
# All that a `Server` is made of.
_OPTIONS: Final = (
    "HostName",
    "User",
    "Port",
    "IdentityFile",
    "IdentitiesOnly",
    "IdentityAgent",
    "CertificateFile",
    "PKCS11Provider",
    "PubkeyAuthentication",
    "GSSAPIAuthentication",
    "ProxyJump",
    "ProxyCommand",
    "HostKeyAlias",
    "UserKnownHostsFile",
    "GlobalKnownHostsFile",
    "KnownHostsCommand",
    "RevokedHostKeys",
    "HashKnownHosts",
    "AddressFamily",
    "BindAddress",
    "BindInterface",
)
_NO_HOST: Final = "rigops-compares-with.invalid"


@dataclass(frozen=True, kw_only=True)
class Server:
    """One SSH server: where it is, how it is known, and what may be used to log in."""

    name: str
    alias: str
    hostname: str
    port: int
    user: str
    identities: tuple[Path, ...] = ()
    only_identities: bool = False
    agent_socket: str | None = None
    key_password: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    publickey: bool = True
    gssapi: bool = False
    known_as: str = ""
    known_hosts: tuple[Path, ...] = ()
    hash_known_hosts: bool = False
    forward_agent: bool = False
    family: str = "any"
    bind_address: str | None = None
    only_openssh: str = ""
    config_file: str | None = None
    options: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        host = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{self.user}@{host}:{self.port}"

    @property
    def who(self) -> str:
        return self.where if self.name in self.where else f"{self.name} ({self.where})"

    @property
    def lookup(self) -> str:
        """The name it has in known_hosts files."""
        if self.known_as:
            return self.known_as
        return self.lookup_of(self.hostname)

    def lookup_of(self, name: str) -> str:
        """The same for another name of this host."""
        host = name.lower()
        return host if self.port == _SSH_PORT else f"[{host}]:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Route:
    """The servers in order; the last one is the target."""

    servers: tuple[Server, ...]

    @property
    def end(self) -> Server:
        return self.servers[-1]

    @property
    def only_openssh(self) -> str:
        """A feature that paramiko lacks here, or nothing."""
        return next((server.only_openssh for server in self.servers if server.only_openssh), "")


def home() -> Path:
    """The one that OpenSSH uses, which ignores $HOME."""
    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def ssh_program() -> str | None:
    return shutil.which("ssh")


def resolve(target: Target, clock: Clock) -> Route:
    return Route(servers=tuple(_servers(target, clock, depth=0)))


def _servers(target: Target, clock: Clock, depth: int) -> list[Server]:
    settings = read_settings(target, clock)
    server = make_server(target, settings)
    jumps = _first(settings, "proxyjump")
    if jumps.lower() in _OFF or server.only_openssh.startswith("ProxyCommand"):
        return [server]
    if depth >= _MOST_JUMPS:
        raise usage_error(
            message=f"{target.name}: ProxyJump is circular",
            fix="correct ProxyJump in the ssh configuration",
            host=target.name,
        )
    before: list[Server] = []
    for number, word in enumerate(jumps.split(",")):
        hop = _jump_target(word.strip(), target)
        # Like ssh -J: the first jump may have a jump of its own, the others follow the chain.
        before += (
            _servers(hop, clock, depth + 1)
            if number == 0
            else [make_server(hop, read_settings(hop, clock))]
        )
    return [*before, server]


def _jump_target(word: str, target: Target) -> Target:
    hop = Target.parse(word.removeprefix("ssh://").rstrip("/"))
    return Target(
        name=hop.alias,
        port=hop.port,
        user=hop.user,
        config_file=target.config_file,
        known_hosts_file=target.known_hosts_file,
        allow_agent=target.allow_agent,
        look_for_keys=target.look_for_keys,
    )


def config_arguments(target: Target) -> list[str]:
    """Options of ssh for what the user gave with the target."""
    words = []
    if target.config_file:
        words += ["-F", str(Path(target.config_file).expanduser())]
    if target.port:
        words += ["-p", str(target.port)]
    if target.user:
        words += ["-l", target.user]
    return words


def read_settings(target: Target, clock: Clock) -> Settings:
    program = ssh_program()
    if target.config_file and not Path(target.config_file).expanduser().is_file():
        raise usage_error(
            message=f"{target.name}: no ssh configuration {target.config_file}",
            fix="correct ssh_config_file",
            host=target.name,
            file=target.config_file,
        )
    if not program:
        return read_settings_without_program(target)
    alias = target.alias.encode(errors="surrogateescape")  # also in a locale of ASCII alone
    try:
        answer = subprocess.run(
            [program, "-G", *config_arguments(target), "--", alias],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=clock.wait(),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise timed_out(
            target.name, target.name, "reading the ssh configuration (ssh -G)", clock.allowed
        ) from error
    if answer.returncode:
        raise _bad_config(target, clean(answer.stderr))
    return parse_settings(answer.stdout.decode(errors="surrogateescape"))


def options_of_alias(target: Target, clock: Clock) -> Settings:
    """By ssh_config(5) option: those that the configuration has for this alias, and not for all."""
    of_alias = read_settings(target, clock)
    of_all = read_settings(replace(target, hostname=_NO_HOST), clock)
    of_all["hostname"] = [target.alias]
    return {
        one: [_with_alias(value, target.alias) for value in of_alias[key]]
        for one in _OPTIONS
        if (key := one.lower()) in of_alias and of_alias[key] != of_all.get(key)
    }


def _with_alias(value: str, alias: str) -> str:
    """%n would be another name where these options go to."""
    return re.sub(
        r"%(.)", lambda found: alias.replace("%", "%%") if found[1] == "n" else found[0], value
    )


def parse_settings(text: str) -> Settings:
    settings: Settings = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if key:
            settings.setdefault(key.lower(), []).append(value.strip())
    return settings


def read_settings_without_program(target: Target) -> Settings:
    # Only where OpenSSH is not installed; and with what `without_invoke` left out.
    import rigops.transport.without_invoke  # noqa: F401, PLC0415 - which hides it for a moment

    import invoke  # noqa: PLC0415 - needed here alone  # isort: skip
    from paramiko import config as of_paramiko  # noqa: PLC0415 - needed here alone
    from paramiko.ssh_exception import SSHException  # noqa: PLC0415 - needed here alone

    of_paramiko.invoke = invoke  # type: ignore[attr-defined]  # a module's name

    files = (
        [Path(target.config_file).expanduser()]
        if target.config_file
        else [home() / ".ssh/config", Path("/etc/ssh/ssh_config")]
    )
    config = of_paramiko.SSHConfig()
    try:
        for file in files:
            if file.is_file():
                with file.open(encoding="utf-8", errors="replace") as stream:
                    config.parse(stream)
        found: Mapping[str, Any] = config.lookup(target.alias)
    except (OSError, SSHException, ImportError, ValueError) as error:
        raise _bad_config(target, clean(str(error))) from error
    settings: Settings = {
        key: value if isinstance(value, list) else [str(value)] for key, value in found.items()
    }
    if target.port:
        settings["port"] = [str(target.port)]
    if target.user:
        settings["user"] = [target.user]
    return settings


def _bad_config(target: Target, reason: str) -> RigopsError:
    return usage_error(
        message=f"{target.name}: the ssh configuration cannot be used: {reason}",
        fix=f"run: ssh -G {target.alias}",
        host=target.name,
        file=target.config_file,
    )


def _first(settings: Settings, key: str, default: str = "") -> str:
    return settings.get(key, [default])[0]


def _is_on(settings: Settings, key: str, *, default: bool = False) -> bool:
    value = _first(settings, key).lower()
    return value not in _OFF if value else default


def make_server(target: Target, settings: Settings) -> Server:
    user = _first(settings, "user") or pwd.getpwuid(os.getuid()).pw_name
    hostname = _first(settings, "hostname") or target.alias
    port = int(_first(settings, "port") or _SSH_PORT)
    alias = _first(settings, "hostkeyalias")
    tokens = {
        "%": "%",
        "d": str(home()),
        "h": hostname,
        "i": str(os.getuid()),
        "n": target.alias,
        "p": str(port),
        "r": user,
        "u": pwd.getpwuid(os.getuid()).pw_name,
        "k": alias or target.alias,
    }
    return Server(
        name=target.name,
        alias=target.alias,
        hostname=hostname,
        port=port,
        user=user,
        identities=_identities(target, settings, tokens),
        only_identities=bool(target.key) or _is_on(settings, "identitiesonly"),
        agent_socket=_agent_socket(target, settings, tokens),
        key_password=target.key_password,
        password=target.password,
        publickey=_is_on(settings, "pubkeyauthentication", default=True),
        gssapi=_is_on(settings, "gssapiauthentication"),
        known_as="" if alias.lower() == "none" else alias,
        known_hosts=_known_hosts(target, settings, tokens),
        hash_known_hosts=_is_on(settings, "hashknownhosts"),
        forward_agent=target.forward_agent,
        family=_first(settings, "addressfamily", "any").lower(),
        bind_address=_first(settings, "bindaddress") or None,
        only_openssh=_only_openssh(settings),
        config_file=target.config_file,
        options=tuple(_program_options(target)),
    )


def _expand(text: str, tokens: Mapping[str, str]) -> Path:
    text = re.sub(r"%(.)", lambda found: tokens.get(found[1], found[0]), text.strip('"'))
    text = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), text)
    return home() / text[2:] if text.startswith("~/") else Path(text).expanduser()


def _identities(target: Target, settings: Settings, tokens: Mapping[str, str]) -> tuple[Path, ...]:
    if target.key:
        return (Path(target.key).expanduser(),)
    usual = [home() / ".ssh" / name for name in _DEFAULT_KEYS]
    named = [
        _expand(text, tokens) for text in settings.get("identityfile", []) if text.lower() != "none"
    ]
    chosen = named if "identityfile" in settings else usual
    if not target.look_for_keys:
        chosen = [path for path in chosen if path not in usual]
    return tuple(dict.fromkeys(chosen))


def _agent_socket(target: Target, settings: Settings, tokens: Mapping[str, str]) -> str | None:
    named = _first(settings, "identityagent", "SSH_AUTH_SOCK")
    if not target.allow_agent or named.lower() == "none":
        return None
    if named == "SSH_AUTH_SOCK":
        return os.environ.get(named) or None
    if named.startswith("$") and not named.startswith("${"):
        return os.environ.get(named[1:]) or None
    return str(_expand(named, tokens))


def _known_hosts(target: Target, settings: Settings, tokens: Mapping[str, str]) -> tuple[Path, ...]:
    def files(key: str, default: str) -> list[Path]:
        return [
            _expand(word, tokens)
            for word in _first(settings, key, default).split()
            if word.lower() not in ("none", "/dev/null")
        ]

    user = files("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
    if target.known_hosts_file:
        user = [Path(target.known_hosts_file).expanduser()]
    shared = files("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
    return tuple(user + shared)


def _only_openssh(settings: Settings) -> str:
    for key, name in (
        ("proxycommand", "ProxyCommand"),
        ("certificatefile", "CertificateFile"),
        ("pkcs11provider", "PKCS11Provider"),
        ("knownhostscommand", "KnownHostsCommand"),
        ("revokedhostkeys", "RevokedHostKeys"),
        ("bindinterface", "BindInterface"),
    ):
        if _is_on(settings, key):
            return f"{name} in the ssh configuration"
    return ""


def _program_options(target: Target) -> list[str]:
    """The same settings, for the ssh program."""
    words = config_arguments(target)
    if target.key:
        words += ["-o", f"IdentityFile={_quoted(target.key)}", "-o", "IdentitiesOnly=yes"]
    if target.known_hosts_file:
        words += ["-o", f"UserKnownHostsFile={_quoted(target.known_hosts_file)}"]
    if not target.allow_agent:
        words += ["-o", "IdentityAgent=none"]
    # Never by the configuration alone: root of the host could use the keys meanwhile.
    return [*words, "-o", f"ForwardAgent={'yes' if target.forward_agent else 'no'}"]


def _quoted(path: str) -> str:
    """Quoted for ssh's own reader, where a percent sign starts a token."""
    text = str(Path(path).expanduser()).replace("%", "%%")
    return f'"{text}"' if any(character.isspace() for character in text) else text
