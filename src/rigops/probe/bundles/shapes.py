"""Texts recognized by shape alone: addresses, identifiers, logins, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

from rigops.probe.bundles import names
from rigops.probe.bundles.pseudonyms import Pseudonyms, is_pseudonym

_PUBLIC: Final = (
    "debian.org", "ubuntu.com", "canonical.com", "launchpad.net", "launchpadcontent.net",
    "archlinux.org", "fedoraproject.org", "redhat.com", "rockylinux.org", "almalinux.org",
    "opensuse.org", "suse.com", "nixos.org", "linuxmint.com", "system76.com", "proxmox.com",
    "nvidia.com", "nvidia.github.io", "docker.com", "kernel.org", "freedesktop.org", "gnu.org",
    "systemd.io",
)  # fmt: skip
# Public by what they are for, and the same on every machine.
_PUBLIC_UUIDS: Final = frozenset(
    {
        "8be4df61-93ca-11d2-aa0d-00e098032b8c",  # EFI variables
        "d719b2cb-3d3a-4596-a3bc-dad00e67656f",  # Secure Boot's keys
        "605dab50-e046-4300-abb6-3dd810dd8b23",  # shim's keys
        "c12a7328-f81f-11d2-ba4b-00a0c93ec93b",  # EFI system partition
        "0fc63daf-8483-4772-8e79-3d69d8477de4",  # Linux partition
        "4f68bce3-e8cd-4db1-96e7-fbcaf984b709",  # Linux root partition
        "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f",  # Linux swap
    }
)
_PACKAGES: Final = frozenset({"packages", "package-holds", "package-history", "dkms"})
_UNITS: Final = (
    ".service", ".socket", ".timer", ".target", ".slice", ".scope", ".mount", ".device", ".swap",
    ".path",
)  # fmt: skip

# Secrets that must not leave a host at all. The probe hides them there; people who collect by hand
# may not.
_WORDS: Final = (
    r"(?i:passw|passphrase|secret|token|credential|cifspass|(?:api|access|private|preshared)_?key|psk)"
    r"[A-Za-z0-9_.-]{0,80}"
)
_SHORT: Final = r"(?<![A-Za-z0-9])(?i:[A-Za-z0-9]{0,40}pw|pwd|pass|pat|auth|bearer)"
_SECRET: Final = rf"(?:{_WORDS}|{_SHORT}|(?i:(?<!sig)[_.-]key))[\"']?"
_OPTION: Final = (
    r"--?(?i:[a-z0-9-]{0,40}(?:password|passwd|passphrase|pass|token|secret|key|bearer))"
)
_QUOTED: Final = r"\"(?:[^\"\\\n]|\\.)*\""
_BARE: Final = r"'[^'\n]*'|[^\s\"'{\[][^\s\"]*"
_MIXED: Final = (
    r"(?!GPU-|MIG-)(?=[A-Za-z_+-]{0,255}[0-9])(?=[0-9A-Z_+-]{0,255}[a-z])"
    r"(?=[0-9a-z_+-]{0,255}[A-Z])[A-Za-z0-9_+-]{24,255}={0,2}"
)
_MORE: Final = r"(?:\n[ \t][^\]\n]{0,512}){0,64}"  # of a list: indented, as no line of a log is
_OF_A_KEY: Final = r"(?:\n[ \t]{0,8}[A-Za-z0-9+/]{1,100}={0,2}[ \t]{0,8}(?=\n(?!\ue000)|\Z))"
_SHAPE: Final = (
    r"(?:gh[opsur]_|github_pat_|glpat-|hf_|sk-|xox[abeprs]-|A[KS]IA|AIza|pypi-Ag"
    r"|npm_(?=[A-Za-z0-9]{20}))"
)
# In a unit's Environment= a whole assignment is in quotes.
_VARIABLE: Final = (
    rf"(?:[A-Za-z0-9_]{{0,80}}{_WORDS}|(?:[A-Za-z0-9_]{{0,80}}_)?"
    r"(?i:[A-Za-z0-9]{0,40}pw|pwd|pass|pat|auth|bearer|key))="
)
_LOGIN: Final = r"(?:-[uU]|--(?:proxy-)?user)"
_HASH: Final = (  # of a password: crypt's and argon2's
    r"\$(?:y|gy|7|[156]|2[abxy]|argon2(?:id|i|d))\$(?:[A-Za-z0-9./=,+-]{1,64}\$){0,3}"
    r"[A-Za-z0-9./+]{20,128}"
)
_HIDDEN: Final = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (rf"(-----BEGIN[A-Z ]{{0,40}}PRIVATE KEY-----)[^\n]*{_OF_A_KEY}*", r"\1***"),
        (r"(://|iscsi:)[^/@\s\"]{1,512}@", r"\1***@"),
        (rf"((?:(?<=Environment=)|(?<=[ \t]))\"{_VARIABLE})(?:[^\"\\\n]|\\.)*", r"\1***"),
        (rf"({_SECRET}[ \t]{{0,8}}:[ \t]{{0,8}}){_QUOTED}", r'\1"***"'),
        (rf"({_SECRET}[ \t]{{0,8}}[:=][ \t]{{0,8}})\[[^\]\n]{{0,4096}}{_MORE}", r"\1[***"),
        (rf"({_SECRET}[ \t]{{0,8}}:[ \t]{{0,8}})(?:{_BARE})", r"\1***"),
        (rf"({_SECRET}(?:=|[ \t]{{1,8}}=[ \t]{{1,8}}))(?:{_QUOTED}|{_BARE})", r"\1***"),
        (r"\b(password|password_pbkdf2)[ \t](?=[ \t]*\S)[^\n]*", r"\1 ***"),
        (r"(\buser(?:name)?=[^,%\s]{0,255})%[^,\s]*", r"\1%***"),
        (rf"(?m)((?:^|(?<=\s)){_OPTION}[ \t]{{1,8}})(?:{_QUOTED}|{_BARE})", r"\1***"),
        (
            r"(\b(?:sshpass|mysql|mariadb|mongo|ldap|login)[^|\n]{0,512}[ \t]-p[ \t]{0,8})[^\s]+",
            r"\1***",
        ),
        (r"(\bipmitool[^|\n]{0,512}[ \t]-P[ \t]{0,8})[^\s]+", r"\1***"),
        (
            rf"(\bcurl[^|\n]{{0,512}}[ \t]{_LOGIN}[ \t=]{{0,8}}[^:\s]{{1,128}}:)[^\s\"']+",
            r"\1***",
        ),
        (_HASH, "***"),
        (r"(?i)\b(authorization[\"']?:[ \t]{0,8}[\"']?)[^\"'\r\n]+", r"\1***"),
        (r"(?i)\b(bearer[ \t]{1,8})[a-z0-9][^\"'\s]{7,}", r"\1***"),
        # By their own marks: access tokens of the usual services, and signed web tokens.
        (rf"(?<![A-Za-z0-9]){_SHAPE}[A-Za-z0-9_-]{{16,255}}", "***"),
        (r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,2000}", "***"),
        # Whatever it is called: capitals, small letters and digits without a blank.
        (rf"(?<!UUID)(=[\"']?|:[ \t]{{0,8}}[\"']){_MIXED}", r"\1***"),
    )
)

_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,20}://)(?P<login>[^/@\s\"']{1,128}@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]+)(?P<port>:[0-9]{1,5})?"
    r"(?P<path>/[^\s\"'<>),;|\]}]*)?"
)
_AT_HOST: Final = re.compile(
    r"(?<![\w.@/+-])(?P<user>[A-Za-z_][A-Za-z0-9_.+-]{0,31})@"
    r"(?P<host>[A-Za-z][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,62})*"
    r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3})(?![\w@])"
    r"(?P<path>:[^\s\"':]+)?"
)
_UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|[0-9a-f]{32})"
    r"(?![0-9A-Za-z])"
)
_HARDWARE: Final = re.compile(
    r"(?<![0-9A-Za-z:.-])(?:[0-9A-Fa-f]{2}(?:(?::[0-9A-Fa-f]{2}){5,19}|(?:-[0-9A-Fa-f]{2}){5,19}))"
    r"(?![0-9A-Za-z:-])|(?<=\benx)[0-9a-f]{12}\b"
)
_WORLD_WIDE: Final = re.compile(
    r"(?<=\bwwn-0x)[0-9a-f]{16,32}|(?<=\beui\.)[0-9a-f]{16,32}|(?<=\bnaa\.)[0-9a-f]{16,32}"
    r"|(?<=WWN Device Id: )[0-9a-f ]{16,24}|(?<=IEEE EUI-64: )[0-9a-f ]{16,24}"
)
_SHORT_ID: Final = re.compile(
    r"(?:(?<=UUID=)|(?<=UUID=\")|(?<=by-uuid/)|(?<=by-partuuid/))[0-9A-Za-z][0-9A-Za-z-]{3,38}"
    r"(?![0-9A-Za-z:-])"
)
_IPV6: Final = re.compile(r"(?<![\w:.-])[0-9A-Fa-f]{1,4}:[0-9A-Fa-f:]{2,38}(?![\w:]|\.[0-9])")
_IPV4: Final = re.compile(r"(?<![\w.+-])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w+~]|[.-][0-9A-Za-z])")
_A_VERSION_FOLLOWS: Final = re.compile(
    r"(?:version|revision|release|firmware|bios|\brev|\bfw|\bv)[\"')]?[ \t:=]*\Z", re.IGNORECASE
)
_BEFORE: Final = 24
_GROUPS_OF_AN_IPV6: Final = 8


def without_secrets(text: str) -> str:
    """Line for line, so that a line of the original is known by its number."""
    for shape, instead in _HIDDEN:
        text = shape.sub(partial(_hidden, instead), text)
    return text


def _hidden(instead: str, found: re.Match[str]) -> str:
    return found.expand(instead) + "\n***" * found[0].count("\n")


def users_in(text: str) -> Iterator[str]:
    """The users of USER@HOST."""
    for found in _AT_HOST.finditer(text):
        if not found["host"].endswith(_UNITS) and not _is_public(found["host"]):
            yield found["user"]


class Shapes:
    def __init__(self, names: Pseudonyms) -> None:
        self._names = names

    def replaced(self, text: str, section: str) -> str:
        text = _URL.sub(self._url, text)
        text = _AT_HOST.sub(self._at_host, text)
        text = _UUID.sub(
            lambda found: (
                found[0] if found[0].lower() in _PUBLIC_UUIDS else self._names.uuid(found[0])
            ),
            text,
        )
        text = _HARDWARE.sub(lambda found: self._names.hardware(found[0]), text)
        text = _WORLD_WIDE.sub(lambda found: self._names.short(found[0]), text)
        text = _SHORT_ID.sub(
            lambda found: found[0] if _UUID.fullmatch(found[0]) else self._names.short(found[0]),
            text,
        )
        text = _IPV6.sub(self._ipv6, text)
        return text if section in _PACKAGES else _IPV4.sub(self._ipv4, text)

    def _url(self, found: re.Match[str]) -> str:
        host = found["host"]
        if _is_public(host):
            return found[0]
        login = "***@" if found["login"] else ""
        path = found["path"] or ""
        if len(path) > 1 and not is_pseudonym(path[1:]):
            path = "/" + self._names.word("path", path[1:])
        return found["scheme"] + login + self._machine(host) + (found["port"] or "") + path

    def _machine(self, host: str) -> str:
        if host.startswith("["):
            return f"[{_IPV6.sub(self._ipv6, host[1:-1])}]"
        if _IPV4.fullmatch(host):
            return _IPV4.sub(self._ipv4, host)
        return self._names.word("host", host) if names.is_name("host", host) else host

    def _at_host(self, found: re.Match[str]) -> str:
        user, host, path = found["user"], found["host"], found["path"] or ""
        if host.endswith(_UNITS) or _is_public(host):
            return found[0]
        if names.is_name("user", user):
            user = self._names.word("user", user)
        is_port = path[1:].isdigit() and len(path) <= len(":65535")
        if path and not is_port and not is_pseudonym(path[1:]):
            path = ":" + self._names.word("path", path[1:])
        return f"{user}@{self._machine(host)}{path}"

    def _ipv6(self, found: re.Match[str]) -> str:
        value = found[0]
        tail = ":" if value.endswith(":") and not value.endswith("::") else ""
        groups = [one for one in value.split(":") if one]
        if "::" not in value and len(groups) < _GROUPS_OF_AN_IPV6:
            return value
        try:
            IPv6Address(value.removesuffix(tail))
        except AddressValueError:
            return value
        return self._names.address(value.removesuffix(tail)) + tail

    def _ipv4(self, found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - _BEFORE) : found.start()]
        if _A_VERSION_FOLLOWS.search(before):
            return found[0]
        try:
            IPv4Address(found[0])
        except AddressValueError:
            return found[0]
        return self._names.address(found[0])


def _is_public(host: str) -> bool:
    return any(host == one or host.endswith(f".{one}") for one in _PUBLIC)
